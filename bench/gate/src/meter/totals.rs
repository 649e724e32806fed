//! What the counters of one operation can be compared by.

use std::collections::BTreeMap;

use headwater_bench::proxy::{Request, Verb, counts};
use headwater_conformance::tap;

/// What every counter can tell: requests of each kind, a list as one and without what was sent again, bytes written, bytes read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    requests: BTreeMap<&'static str, usize>,
    written: usize,
    read: usize,
}

impl Totals {
    pub(super) fn of_tap(requests: &[tap::Request]) -> Self {
        let mut totals = Self::default();
        for request in requests {
            let kind = match request.verb.split(' ').next().unwrap_or_default() {
                "LIST" => "LIST",
                "SWAP" | "CREATE" => "PUT",
                "PUT" if request.verb != "PUT" => "MULTIPART",
                "GET" => "GET",
                "HEAD" => "HEAD",
                "DELETE" => "DELETE",
                "PUT" => "PUT",
                _ => "OTHER",
            };
            *totals.requests.entry(kind).or_default() += 1;
            totals.written += request.sent;
            totals.read += request.received;
        }
        totals
    }

    pub(super) fn of_wire(requests: &[Request]) -> Self {
        let again: Vec<u64> = retried(requests).iter().map(|request| request.number).collect();
        let seen: Vec<Request> = requests.iter().filter(|request| !is_page(request) && !again.contains(&request.number)).cloned().collect();
        let mut totals = Self::default();
        for (verb, count) in counts(&seen) {
            let kind = match verb {
                Verb::Get => "GET",
                Verb::Head => "HEAD",
                Verb::Put => "PUT",
                Verb::Delete | Verb::DeleteMany => "DELETE",
                Verb::List => "LIST",
                Verb::CreateMultipart | Verb::UploadPart | Verb::CompleteMultipart | Verb::AbortMultipart => "MULTIPART",
                _ => "OTHER",
            };
            *totals.requests.entry(kind).or_default() += count;
        }
        // The tap does not see what an error, a list or an upload's end says.
        let writes = |request: &&Request| matches!(request.verb, Verb::Put | Verb::UploadPart);
        let reads = |request: &&Request| request.verb == Verb::Get && matches!(request.status, Some(200..=299));
        totals.written = seen.iter().filter(writes).map(|request| request.sent).sum();
        totals.read = seen.iter().filter(reads).map(|request| request.received).sum();
        totals
    }
}

/// A list's further page: a tap sees one list, however long, and each page is a request.
pub(super) fn is_page(request: &Request) -> bool {
    request.verb == Verb::List && request.query.contains("continuation-token=")
}

/// Whether a request on the wire is for a head or a record.
pub(super) fn is_control_key(key: &str) -> bool {
    key.starts_with("_headwater/") || key.contains("/_headwater/")
}

/// Requests that failed and that the client sent again, below the tap. A head or a record is never written again there: what became of the
/// first try has to be found out.
pub(super) fn retried(requests: &[Request]) -> Vec<&Request> {
    let failed = |request: &Request| !matches!(request.status, Some(status) if status < 500 && status != 408 && status != 429);
    let same = |one: &Request, other: &Request| {
        (one.verb, &one.key, &one.range, &one.query) == (other.verb, &other.key, &other.range, &other.query)
    };
    let again = |(at, request): &(usize, &Request)| requests[at + 1..].iter().any(|later| same(request, later));
    let settled = |request: &Request| request.verb == Verb::Put && is_control_key(&request.key);
    let all = requests.iter().enumerate().filter(|(_, request)| failed(request) && !settled(request));
    all.filter(again).map(|(_, request)| request).collect()
}
