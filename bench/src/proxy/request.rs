//! One request as it went over the wire, and what a list of them says: how many of each verb, and how many followed each other.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

/// What a request asks for. Object stores price these apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads an object, or a range of one.
    Get,
    /// Reads an object's metadata.
    Head,
    /// Writes an object whole.
    Put,
    /// Copies an object.
    Copy,
    /// Deletes an object.
    Delete,
    /// Deletes many objects.
    DeleteMany,
    /// Lists objects, versions, uploads, parts or buckets: each page is a request of its own.
    List,
    /// Starts a multipart upload.
    CreateMultipart,
    /// Uploads a part.
    UploadPart,
    /// Completes a multipart upload.
    CompleteMultipart,
    /// Aborts a multipart upload.
    AbortMultipart,
    /// Creates, deletes, finds or configures a bucket.
    Bucket,
    /// Sends any other POST.
    Post,
    /// Anything else, such as an object's tags.
    Other,
}

impl Verb {
    /// Its name, as the rendered list shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Copy => "COPY",
            Self::Delete => "DELETE",
            Self::DeleteMany => "DELETE-MANY",
            Self::List => "LIST",
            Self::CreateMultipart => "MULTIPART-CREATE",
            Self::UploadPart => "MULTIPART-PART",
            Self::CompleteMultipart => "MULTIPART-COMPLETE",
            Self::AbortMultipart => "MULTIPART-ABORT",
            Self::Bucket => "BUCKET",
            Self::Post => "POST",
            Self::Other => "OTHER",
        }
    }

    fn of(method: &Method, has_key: bool, query: &Query<'_>, headers: &HeaderMap) -> Self {
        let has = |name| query.get(name).is_some();
        let listing =
            ["list-type", "prefix", "delimiter", "marker", "max-keys", "start-after", "continuation-token", "versions", "uploads"];
        // `x-id` only names the operation; some SDKs send it.
        let plain = query.0.iter().all(|(name, _)| *name == "x-id" || name.starts_with("response-") || *name == "versionId");
        match (method, has_key) {
            (&Method::GET, true) if has("uploadId") => Self::List,
            (&Method::GET, true) if plain || has("partNumber") => Self::Get,
            (&Method::GET, false) if plain || listing.into_iter().any(has) => Self::List,
            (&Method::HEAD, true) => Self::Head,
            (&Method::PUT, true) if has("partNumber") => Self::UploadPart,
            (&Method::PUT, true) if plain && headers.contains_key("x-amz-copy-source") => Self::Copy,
            (&Method::PUT, true) if plain => Self::Put,
            (&Method::DELETE, true) if has("uploadId") => Self::AbortMultipart,
            (&Method::DELETE, true) if plain => Self::Delete,
            (&Method::POST, true) if has("uploads") => Self::CreateMultipart,
            (&Method::POST, true) if has("uploadId") => Self::CompleteMultipart,
            (&Method::POST, false) if has("delete") => Self::DeleteMany,
            (&Method::POST, _) => Self::Post,
            (_, false) => Self::Bucket,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One request, as the client sent it and was answered.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number, from 1, in the order in which requests began. [`Proxy::clear`](super::Proxy::clear) does not reset it.
    pub number: u64,
    /// What it asked for.
    pub verb: Verb,
    /// The bucket.
    pub bucket: String,
    /// The object's key, decoded; of a list, its prefix.
    pub key: String,
    /// The keys that a [`Verb::DeleteMany`] names; empty for any other verb.
    pub keys: Vec<String>,
    /// The query, as sent.
    pub query: String,
    /// The headers that make it conditional, such as `if-match`, with their values.
    pub conditions: Vec<(String, String)>,
    /// The byte range it asked for, as sent.
    pub range: Option<String>,
    /// The status the client was answered with. `None` if no answer was sent (yet).
    pub status: Option<u16>,
    /// The statuses the server answered with, one for each time it was forwarded: empty if it never reached the server.
    pub forwarded: Vec<u16>,
    /// Bytes of the body the client sent.
    pub sent: usize,
    /// Bytes of the body the client was sent.
    pub received: usize,
    /// When it began (its head had arrived) and ended (its answer was on the way, or its connection was closed), in ticks of the proxy's
    /// own counter: two requests overlap if their intervals do. The end is the largest number while it is under way.
    pub span: Range<u64>,
    /// The faults injected into it.
    pub faults: Vec<String>,
}

impl Request {
    /// A request that begins: its number and the tick are the recorder's own, the rest stands in its head.
    pub fn new(number: u64, start: u64, head: &Parts) -> Self {
        let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let path = head.uri.path().trim_start_matches('/');
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let verb = Verb::of(&head.method, !key.is_empty(), &query, &head.headers);
        let key = if verb == Verb::List && key.is_empty() { query.get("prefix").unwrap_or_default() } else { key };
        let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let conditional = |name: &str| name.starts_with("if-") || name.starts_with("x-amz-copy-source-if-");
        let conditions = head.headers.iter().filter(|(name, _)| conditional(name.as_str()));
        Self {
            number,
            verb,
            bucket: decode(bucket),
            key: decode(key),
            keys: Vec::new(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            conditions: conditions.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
            range: head.headers.get("range").map(text),
            status: None,
            forwarded: Vec::new(),
            sent: 0,
            received: 0,
            span: start..u64::MAX,
            faults: Vec::new(),
        }
    }

    /// The value of a header that makes it conditional.
    pub fn condition(&self, name: &str) -> Option<&str> {
        self.conditions.iter().find(|(condition, _)| condition.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn take_body(&mut self, body: &[u8]) {
        self.sent = body.len();
        if self.verb == Verb::DeleteMany {
            let text = String::from_utf8_lossy(body);
            let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
            self.keys = keys.map(|(key, _)| unescape(key)).collect();
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.span;
        let end = if end == u64::MAX { "…".to_owned() } else { end.to_string() };
        let status = self.status.map_or_else(|| "---".to_owned(), |status| status.to_string());
        write!(f, "{start:>5}..{end:<5} {:18} {status} {} (sent {}, received {})", self.verb, self.key, self.sent, self.received)?;
        for (name, value) in &self.conditions {
            write!(f, " {name}: {value}")?;
        }
        if let Some(range) = &self.range {
            write!(f, " range: {range}")?;
        }
        if !self.query.is_empty() {
            write!(f, " ?{}", self.query)?;
        }
        if self.forwarded != self.status.as_slice() {
            write!(f, " server: {:?}", self.forwarded)?;
        }
        for fault in &self.faults {
            write!(f, " [{fault}]")?;
        }
        Ok(())
    }
}

/// The parameters of a query, not decoded.
struct Query<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Query<'a> {
    fn parse(text: &'a str) -> Self {
        let parameters = text.split('&').filter(|parameter| !parameter.is_empty());
        Self(parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, ""))).collect())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(parameter, _)| *parameter == name).map(|(_, value)| *value)
    }
}

fn unescape(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.into_iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

/// How many requests of each verb there are. A [`Verb::DeleteMany`] counts once for each key it names.
pub fn counts(requests: &[Request]) -> BTreeMap<Verb, usize> {
    requests.iter().fold(BTreeMap::new(), |mut counts, request| {
        *counts.entry(request.verb).or_default() += if request.verb == Verb::DeleteMany { request.keys.len() } else { 1 };
        counts
    })
}

/// The number of disjoint stages: the longest chain of requests each of which began after the one before had ended. It is the number of
/// sequential round trips, if each request takes longer than its client needs to send those that it does not wait for: inject a delay
/// ([`Fault::DelayRequest`](super::Fault::DelayRequest)) into all requests to make sure of it.
pub fn stages(requests: &[Request]) -> usize {
    let mut by_end: Vec<&Request> = requests.iter().collect();
    by_end.sort_by_key(|request| request.span.end);
    let (mut count, mut last) = (0, 0);
    for request in by_end {
        if request.span.start > last {
            count += 1;
            last = request.span.end;
        }
    }
    count
}

/// Requests in a form fit for a failing assertion.
pub fn render(requests: &[Request]) -> String {
    requests.iter().map(|request| format!("  {request}\n")).collect()
}
