//! The numbered rules of docs/invariants.md, as predicates over what a catalog's backend really held.
//!
//! A test puts a [`Recorder`] right above the backend, lets catalogs work through it, gathers [`Evidence`] and calls [`check_all`].

mod evidence;
mod journal;
mod recorder;
mod state;

use std::fmt;

pub use evidence::{Evidence, Found, View, Written};
pub use recorder::{Recorder, RecordingAuthority};

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its number in docs/invariants.md.
    pub number: u8,
    /// What holds.
    pub holds: &'static str,
    /// Where that is checked.
    pub checked: Checked,
}

/// Where a rule is checked.
#[derive(Clone, Copy, Debug)]
pub enum Checked {
    /// By this predicate. An error says what breaks the rule.
    Here(fn(&Evidence) -> Result<(), String>),
    /// By a test that needs more than evidence.
    Elsewhere(&'static str),
    /// Not yet: this feature brings what it is about.
    Later(&'static str),
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: u8,
    /// Where it is broken.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} is broken: {}", self.rule, self.what)
    }
}

const fn rule(number: u8, holds: &'static str, checked: Checked) -> Rule {
    Rule { number, holds, checked }
}

/// All rules, by number.
pub const RULES: &[Rule] = &[
    rule(1, "no two successful writes of a register have equal bytes", Checked::Here(state::writes_differ)),
    rule(2, "a journal only grows, without a gap, and its tail begins where its last segment ends", Checked::Here(journal::grows)),
    rule(3, "folding the journal gives the tables of every checkpoint and every head", Checked::Here(journal::folds)),
    rule(4, "a token stands in the journal at most once", Checked::Here(journal::tokens_are_unique)),
    rule(5, "what was acknowledged is in the journal, what was refused is not", Checked::Here(state::outcomes_are_true)),
    rule(6, "a swap changes only tables its new entries name", Checked::Here(journal::swaps_change_what_they_name)),
    rule(7, "a commit's read set is complete and equals the state right before it", Checked::Here(journal::read_sets_hold)),
    rule(8, "whatever a root reaches is there, with the recorded size and digest", Checked::Here(state::everything_reached_is_there)),
    rule(9, "an object is first referenced only under the gc epoch its writer began with", Checked::Later("vacuum")),
    rule(10, "a deleted key is never referenced again", Checked::Later("vacuum")),
    rule(11, "gc epoch, floor, fence epoch, seq, rev and time of a head never go back", Checked::Here(state::counters_are_monotone)),
    rule(12, "no two intents overlap, and no other commit touches an intent's tables", Checked::Later("intents")),
    rule(13, "a registered intent has a live record, and no effect succeeds outside its intent", Checked::Later("intents")),
    rule(14, "an entry carries the fence epoch it was published under", Checked::Here(state::epochs_match)),
    rule(15, "ticks are contiguous and unique, and every visible one is in the journal", Checked::Later("worlds")),
    rule(
        16,
        "an identity lives once per life, comes back only by a recreate, and never vanishes",
        Checked::Here(journal::identities_live_once),
    ),
    rule(17, "a head that was created is never absent again", Checked::Here(state::heads_stay)),
    rule(18, "a head's size depends on the number of its tables alone", Checked::Here(state::heads_are_bounded)),
    rule(19, "a claim has at most one holder", Checked::Later("claims")),
    rule(20, "a catalog stamped with format 5 has no head of another format", Checked::Later("migration")),
    rule(
        21,
        "after a loss of power at any moment, whatever the durable head reaches is durable",
        Checked::Elsewhere("tests/suite/tests/crash.rs, on a simulated disk"),
    ),
    rule(22, "a snapshot read again gives the same rows, or says that it expired", Checked::Here(state::views_are_repeatable)),
];

/// Every rule that does not hold.
pub fn check_all(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    for rule in RULES {
        if let Checked::Here(check) = rule.checked
            && let Err(what) = check(evidence)
        {
            violations.push(Violation { rule: rule.number, what });
        }
    }
    violations
}

/// Panics with every rule that does not hold.
pub fn assert_all(evidence: &Evidence) {
    let violations = check_all(evidence);
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{}", lines.join("\n"));
}
