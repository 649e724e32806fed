//! What leaves the S3 client, as its own HTTP connector sees it: the only place to count where requests are signed for a host far away.

use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_bench::proxy::Request;
use headwater_s3::{Answered, Observer, Sent};

/// Records the requests of the clients it is given to.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// The bucket, which is part of the host's name with some servers.
    bucket: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: u64,
    begun: u64,
    under_way: usize,
    requests: Vec<Request>,
}

impl Wire {
    pub(super) fn new(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clear(&self) {
        self.state().requests.clear();
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Requests that are not answered yet.
    pub(super) fn under_way(&self) -> usize {
        self.state().under_way
    }

    /// The path and query, the bucket first, whether or not it stands there.
    fn path_style(&self, uri: &str) -> String {
        let (host, path) = uri.split_once("://").map_or(("", uri), |(_, rest)| rest.split_at(rest.find('/').unwrap_or(rest.len())));
        let hosted = host.strip_prefix(&self.bucket).is_some_and(|rest| rest.starts_with('.'));
        if hosted { format!("/{}{path}", self.bucket) } else { path.to_owned() }
    }
}

impl Observer for Wire {
    fn begun(&self, request: &Sent<'_>) -> u64 {
        let head = hyper::Request::builder().method(request.method).uri(self.path_style(request.uri)).body(());
        let mut state = self.state();
        state.clock += 1;
        state.begun += 1;
        state.under_way += 1;
        let (number, start) = (state.begun, state.clock);
        // What the client can send is a request.
        if let Ok(head) = head {
            let mut recorded = Request::new(number, start, &head.into_parts().0);
            recorded.sent = request.bytes as usize;
            state.requests.push(recorded);
        }
        number
    }

    fn ended(&self, number: u64, answer: Option<Answered>) {
        let mut state = self.state();
        state.clock += 1;
        state.under_way = state.under_way.saturating_sub(1);
        let end = state.clock;
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.number == number) {
            request.span.end = end;
            request.status = answer.map(|answer| answer.status);
            request.forwarded = request.status.into_iter().collect();
            request.received = answer.map_or(0, |answer| answer.bytes as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_in_the_host_is_found_as_one_in_the_path() {
        for uri in ["https://lake.s3.eu-west-1.amazonaws.com/a/b?x=1", "http://127.0.0.1:9000/lake/a/b?x=1"] {
            let wire = Wire::new("lake");
            let number = wire.begun(&Sent { method: "PUT", uri, bytes: 7 });
            assert_eq!(wire.under_way(), 1);
            wire.ended(number, Some(Answered { status: 200, bytes: 0 }));
            let [request] = &wire.requests()[..] else { panic!("one request") };
            assert_eq!((request.bucket.as_str(), request.key.as_str(), request.sent, request.status), ("lake", "a/b", 7, Some(200)));
            assert_eq!(wire.under_way(), 0);
        }
    }
}
