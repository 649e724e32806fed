//! What the rules that match one request make of it.

use std::sync::Arc;
use std::time::Duration;

use super::Active;
use super::rule::{Answer, Fault, S3Error};

/// What happens to one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delay_request: Duration,
    pub(super) delay_reply: Duration,
    pub(super) strip: Vec<&'static str>,
    pub(super) delivery: Option<Delivery>,
    pub(super) reply: Option<Reply>,
    pub(super) edits: Vec<Edit>,
    /// The rules that make it wait until they are released.
    pub(super) waits: Vec<Arc<Active>>,
    /// The rules whose late requests land when the server has answered this one.
    pub(super) lands: Vec<Arc<Active>>,
}

/// How the server gets a request.
#[derive(Debug)]
pub(super) enum Delivery {
    Once,
    Never,
    Cut(usize),
    Twice(Answer),
    Late(Arc<Active>),
    Again(Arc<Active>),
}

/// What the client gets, if not the server's answer.
#[derive(Debug)]
pub(super) enum Reply {
    Nothing,
    Error(S3Error),
    Cut(usize),
}

/// A change of the answer's headers.
#[derive(Debug)]
pub(super) enum Edit {
    Strip(&'static str),
    Set(&'static str, String),
    WeakETag,
}

impl Plan {
    /// Adds what one rule injects; `false` where earlier rules leave nothing of it to decide.
    pub(super) fn add(&mut self, rule: &Arc<Active>) -> bool {
        match &rule.rule.fault {
            Fault::DelayRequest(delay) => self.delay_request += *delay,
            Fault::DelayReply(delay) => self.delay_reply += *delay,
            Fault::Hold => self.waits.push(rule.clone()),
            Fault::StripRequestHeader(name) => self.strip.push(name),
            Fault::StripReplyHeader(name) => self.edits.push(Edit::Strip(name)),
            Fault::SetReplyHeader(name, value) => self.edits.push(Edit::Set(name, value.clone())),
            Fault::WeakETag => self.edits.push(Edit::WeakETag),
            Fault::DropRequest => return self.decide(Delivery::Never, Some(Reply::Nothing)),
            Fault::DropReply => return self.decide(Delivery::Once, Some(Reply::Nothing)),
            Fault::LandLate(_) => return self.decide(Delivery::Late(rule.clone()), Some(Reply::Nothing)),
            Fault::Duplicate(answer) => return self.decide(Delivery::Twice(*answer), None),
            Fault::LandAgain(_) => return self.decide(Delivery::Again(rule.clone()), None),
            Fault::Reject(error) => return self.decide(Delivery::Never, Some(Reply::Error(*error))),
            Fault::Override(error) => return self.decide(Delivery::Once, Some(Reply::Error(*error))),
            Fault::CutReply(length) => return self.decide(Delivery::Once, Some(Reply::Cut(*length))),
            Fault::CutRequest(length) => return self.decide(Delivery::Cut(*length), Some(Reply::Nothing)),
        }
        true
    }

    /// A fault of the reply alone decides, too, that the server gets the request: a later rule cannot take that back.
    fn decide(&mut self, delivery: Delivery, reply: Option<Reply>) -> bool {
        let open = self.delivery.is_none() || (self.reply.is_none() && reply.is_some());
        self.delivery.get_or_insert(delivery);
        self.reply = self.reply.take().or(reply);
        open
    }
}
