//! What can happen to a request on the wire, and how a request is found again in another run.

use std::fmt;

use headwater_bench::proxy::{Answer, Fault, Injected, Landing, Proxy, Request, Rule, S3Error, Verb};

pub(crate) const HEAD: &str = "/heads/main.json";

/// Kinds of keys. The requests of one kind follow each other in every run, and those to the head and to the catalog record whatever their verb.
const KINDS: [(&str, bool); 7] = [
    (HEAD, true),
    ("/records/catalog/", true),
    ("/records/segment/", false),
    ("/records/tombstones/", false),
    (".parquet", false),
    (".version.json", false),
    ("", false),
];

/// One request of an operation: the `nth` of its kind, and of its verb where that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) verb: Verb,
    kind: &'static str,
    any_verb: bool,
    nth: usize,
}

impl Site {
    /// Where the requests of a run are found in others.
    pub(crate) fn all(requests: &[Request]) -> Vec<Self> {
        let mut sites: Vec<Self> = Vec::new();
        for request in requests {
            let (kind, any_verb) = *KINDS.iter().find(|(kind, _)| request.key.contains(kind)).unwrap();
            let verb = request.verb;
            let known = verb == Verb::List || (!kind.is_empty() && matches!(verb, Verb::Get | Verb::Put));
            assert!(known, "no fault is chosen for {request}");
            let before = sites.iter().filter(|site| site.kind == kind && (any_verb || site.verb == verb)).count();
            sites.push(Self { verb, kind, any_verb, nth: before + 1 });
        }
        sites
    }

    pub(crate) fn is_head(&self) -> bool {
        self.kind == HEAD
    }

    /// Whether it is a write of a table's object: object_store sends those, and repeats what was answered with a 5xx, not what was not answered.
    pub(crate) fn is_data_put(&self) -> bool {
        self.verb == Verb::Put && self.kind.starts_with('.')
    }

    /// Whether it comes after that one, of the same kind.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.kind == other.kind && self.nth > other.nth
    }

    /// What can happen to it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = Wire> {
        WIRE.into_iter().filter(|wire| wire.fits(self))
    }

    pub(crate) fn rule(&self, fault: Fault) -> Rule {
        let rule = Rule::new(fault).key_contains(self.kind).nth(self.nth);
        if self.any_verb { rule } else { rule.verb(self.verb) }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb, self.kind, self.nth)
    }
}

/// What happens to a request, and to those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wire {
    /// The reply is lost; the request landed.
    ReplyLost,
    /// The request is lost.
    RequestLost,
    /// It lands when the next one of its kind has been answered.
    LandsAfterNext,
    /// It lands when all is over.
    LandsAtTheEnd,
    /// Answered; a second copy lands when the next one of its kind has been answered.
    LandsAgainAfterNext,
    /// Answered; a second copy lands when all is over.
    LandsAgainAtTheEnd,
    /// Two copies land, and the first is answered.
    FirstOfTwo,
    /// Two copies land, and the second is answered: its own duplicate's 412.
    SecondOfTwo,
    /// 409, and nothing landed.
    Conflict409,
    /// 503, and nothing landed.
    Busy503,
    /// It landed, and the answer is 503.
    LandsWith503,
    /// 503 to this request and the two that follow.
    Storm503,
    /// 500, and nothing landed.
    Failed500,
    /// It landed, and the answer is 500.
    LandsWith500,
    /// The body breaks off.
    BodyCut,
    /// The reply is lost, and what follows is told that the clocks differ.
    ReplyLostThenSkewed,
    /// The request is lost, and what follows is told that the clocks differ.
    RequestLostThenSkewed,
    /// It landed, the answer is 503, and what follows is told that the clocks differ.
    LandsWith503ThenSkewed,
}

pub(crate) const WIRE: [Wire; 18] = [
    Wire::ReplyLost,
    Wire::RequestLost,
    Wire::LandsAfterNext,
    Wire::LandsAtTheEnd,
    Wire::LandsAgainAfterNext,
    Wire::LandsAgainAtTheEnd,
    Wire::FirstOfTwo,
    Wire::SecondOfTwo,
    Wire::Conflict409,
    Wire::Busy503,
    Wire::LandsWith503,
    Wire::Storm503,
    Wire::Failed500,
    Wire::LandsWith500,
    Wire::BodyCut,
    Wire::ReplyLostThenSkewed,
    Wire::RequestLostThenSkewed,
    Wire::LandsWith503ThenSkewed,
];

impl Wire {
    /// A read has no second or late effect, and no server answers it with 409; only a read has a body to break off.
    fn fits(self, site: &Site) -> bool {
        let read = [Self::ReplyLost, Self::RequestLost, Self::Busy503, Self::Storm503, Self::Failed500, Self::ReplyLostThenSkewed];
        match self {
            Self::BodyCut => site.verb != Verb::Put,
            // Nothing follows of its own.
            Self::ReplyLostThenSkewed | Self::RequestLostThenSkewed if site.is_data_put() => false,
            _ => site.verb == Verb::Put || read.contains(&self),
        }
    }

    pub(crate) fn is_skewed(self) -> bool {
        matches!(self, Self::ReplyLostThenSkewed | Self::RequestLostThenSkewed | Self::LandsWith503ThenSkewed)
    }

    /// Whether other requests are hit, too: those that follow.
    pub(crate) fn needs_another(self) -> bool {
        self.is_skewed() || self == Self::Storm503
    }

    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::ReplyLost | Self::ReplyLostThenSkewed => Fault::DropReply,
            Self::RequestLost | Self::RequestLostThenSkewed => Fault::DropRequest,
            Self::LandsAfterNext => Fault::LandLate(Landing::AfterNext),
            Self::LandsAtTheEnd => Fault::LandLate(Landing::OnRelease),
            Self::LandsAgainAfterNext => Fault::LandAgain(Landing::AfterNext),
            Self::LandsAgainAtTheEnd => Fault::LandAgain(Landing::OnRelease),
            Self::FirstOfTwo => Fault::Duplicate(Answer::First),
            Self::SecondOfTwo => Fault::Duplicate(Answer::Second),
            Self::Conflict409 => Fault::Reject(S3Error::CONDITIONAL_CONFLICT),
            Self::Busy503 | Self::Storm503 => Fault::Reject(S3Error::SLOW_DOWN),
            Self::LandsWith503 | Self::LandsWith503ThenSkewed => Fault::Override(S3Error::SLOW_DOWN),
            Self::Failed500 => Fault::Reject(S3Error::INTERNAL),
            Self::LandsWith500 => Fault::Override(S3Error::INTERNAL),
            Self::BodyCut => Fault::CutReply(1),
        }
    }
}

/// Rules in force, and how often each is to fire.
#[derive(Debug, Default)]
pub(crate) struct Planned(Vec<(Injected, usize)>);

impl Planned {
    pub(crate) fn at(proxy: &Proxy, site: &Site, wire: Wire) -> Self {
        let mut planned = Self::default();
        let first = planned.add(proxy, site.rule(wire.fault()), 1);
        match wire {
            Wire::Storm503 => {
                planned.add(proxy, Rule::new(wire.fault()).after(&first).first(2), 2);
            }
            _ if wire.is_skewed() => {
                planned.add(proxy, Rule::new(Fault::Reject(S3Error::TIME_TOO_SKEWED)).after(&first).first(1), 1);
            }
            _ => {}
        }
        planned
    }

    /// Puts a rule in force that is to fire so often, or more where it has no bound.
    pub(crate) fn add(&mut self, proxy: &Proxy, rule: Rule, times: usize) -> Injected {
        let injected = proxy.inject(rule);
        self.0.push((injected.clone(), times));
        injected
    }

    pub(crate) fn fired(&self) -> usize {
        self.0.iter().map(|(injected, _)| injected.fired()).sum()
    }

    pub(crate) fn all_fired(&self) -> bool {
        self.0.iter().all(|(injected, times)| injected.fired() >= *times)
    }

    /// Lets land what is held back.
    pub(crate) async fn release(&self) {
        for (injected, _) in &self.0 {
            injected.release().await.unwrap();
        }
    }
}
