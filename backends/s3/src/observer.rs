//! What a meter sees of the wire where no proxy can stand in between: a request is signed for its host, so only the client itself can count.

use std::fmt;
use std::sync::Arc;

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};

/// Sees every request of one authority and its object store as it leaves the client: each attempt of a retry, each page of a list, each part
/// of an upload is one. Called on the client's own tasks, so it should be quick.
pub trait Observer: Send + Sync + fmt::Debug {
    /// A request is about to be sent. Returns the number that [`Observer::ended`] will name.
    fn begun(&self, request: &Sent<'_>) -> u64;

    /// The head of its answer has come, or none will be waited for (`None`). Called once for each request.
    fn ended(&self, number: u64, answer: Option<Answered>);
}

/// A request as it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its URI, encoded.
    pub uri: &'a str,
    /// Bytes of its body, as far as they are known before it is read.
    pub bytes: u64,
}

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// Bytes of its body, as announced; 0 where it announces none.
    pub bytes: u64,
}

/// One request under observation.
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    number: u64,
    /// An answer to HEAD announces the length of a body it does not have.
    bodiless: bool,
    answer: Option<Answered>,
}

impl Watch {
    pub(crate) fn begin(observer: Arc<dyn Observer>, request: &HttpRequest) -> Self {
        let bytes = request.body().content_length().unwrap_or(0);
        let number = observer.begun(&Sent { method: request.method(), uri: request.uri(), bytes });
        Self { observer, number, bodiless: request.method() == "HEAD", answer: None }
    }

    pub(crate) fn answered(mut self, answer: &HttpResponse) {
        let status = answer.status().as_u16();
        let announced = answer.headers().get("content-length").and_then(|length| length.parse().ok());
        let bytes = if self.bodiless || status == 304 { 0 } else { announced.unwrap_or(0) };
        self.answer = Some(Answered { status, bytes });
    }
}

/// A request whose future is dropped ends, too.
impl Drop for Watch {
    fn drop(&mut self) {
        self.observer.ended(self.number, self.answer.take());
    }
}
