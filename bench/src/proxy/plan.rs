//! What the rules that match one request make of it.

use std::sync::Arc;
use std::time::Duration;

use super::rule::{Answer, Fault, S3Error};
use super::{Active, Landing};

/// What happens to one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delay_request: Duration,
    pub(super) delay_reply: Duration,
    pub(super) strip: Vec<&'static str>,
    pub(super) delivery: Option<Delivery>,
    pub(super) reply: Option<Reply>,
    pub(super) edits: Vec<Edit>,
    /// The rules whose late requests land when the server has answered this one.
    pub(super) lands: Vec<Arc<Active>>,
}

/// How the server gets a request, if not once and at once.
#[derive(Debug)]
pub(super) enum Delivery {
    Never,
    Cut(usize),
    Twice(Answer),
    Late(Arc<Active>),
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
    /// Adds what one rule injects.
    pub(super) fn add(&mut self, rule: &Arc<Active>) {
        match &rule.rule.fault {
            Fault::DelayRequest(delay) => self.delay_request += *delay,
            Fault::DelayReply(delay) => self.delay_reply += *delay,
            Fault::DropRequest => self.decide(Some(Delivery::Never), Some(Reply::Nothing)),
            Fault::DropReply => self.decide(None, Some(Reply::Nothing)),
            Fault::LandLate(Landing::OnRelease | Landing::AfterNext) => {
                self.decide(Some(Delivery::Late(rule.clone())), Some(Reply::Nothing));
            }
            Fault::Duplicate(answer) => self.decide(Some(Delivery::Twice(*answer)), None),
            Fault::Reject(error) => self.decide(Some(Delivery::Never), Some(Reply::Error(*error))),
            Fault::Override(error) => self.decide(None, Some(Reply::Error(*error))),
            Fault::CutReply(length) => self.decide(None, Some(Reply::Cut(*length))),
            Fault::CutRequest(length) => self.decide(Some(Delivery::Cut(*length)), Some(Reply::Nothing)),
            Fault::StripRequestHeader(name) => self.strip.push(name),
            Fault::StripReplyHeader(name) => self.edits.push(Edit::Strip(name)),
            Fault::SetReplyHeader(name, value) => self.edits.push(Edit::Set(name, value.clone())),
            Fault::WeakETag => self.edits.push(Edit::WeakETag),
        }
    }

    fn decide(&mut self, delivery: Option<Delivery>, reply: Option<Reply>) {
        self.delivery = self.delivery.take().or(delivery);
        self.reply = self.reply.take().or(reply);
    }
}
