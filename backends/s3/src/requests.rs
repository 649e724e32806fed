//! Requests about one object, or one listing. Everything this backend sends for control goes through here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use bytes::Bytes;
use headwater_core::authority::{Create, Expected, HeadRead, Swap, Tag};
use headwater_core::{Error, ErrorKind, Result};

use crate::connection::{Connection, Resolved};
use crate::failure::{Failure, chain};
use crate::status::{Earlier, Precondition, Verdict, settle};

/// How often a body that breaks off is asked for again. The SDK repeats what fails before the body.
const BODIES: u32 = 3;

/// An ETag in form that no object has.
const NO_VERSION: &str = "\"00000000000000000000000000000000\"";

impl Connection {
    /// Reads an object. 1 request; 304 without a body where `known` is its tag.
    pub(crate) async fn get(&self, key: &str, known: Option<&Tag>) -> Result<HeadRead> {
        let resolved = self.resolved().await?;
        // `*` would match everything, and some servers refuse what is no ETag.
        let known = known.filter(|tag| is_etag(tag));
        let mut broken = None;
        for _ in 0..BODIES {
            let request = resolved.reads.get_object().bucket(&self.settings.bucket).key(key);
            let reply = match request.set_if_none_match(known.map(|tag| tag.as_str().to_owned())).send().await {
                Ok(reply) => reply,
                Err(error) => return self.not_got(key, &error),
            };
            let Some(tag) = reply.e_tag.map(Tag::new).filter(is_etag) else {
                return Err(self.about(Error::new(ErrorKind::Unsupported, "the server gave no ETag that a catalog could swap by"), key));
            };
            match reply.body.collect().await {
                Ok(body) => return Ok(HeadRead::Found(body.into_bytes(), tag)),
                Err(error) => broken = Some(chain(&error)),
            }
        }
        let error = self.about(Error::new(ErrorKind::Unavailable, "the object's body broke off again and again; try later"), key);
        Err(match broken {
            Some(cause) => error.because(cause),
            None => error,
        })
    }

    fn not_got(&self, key: &str, error: &SdkError<GetObjectError>) -> Result<HeadRead> {
        let failure = Failure::new(error, 1);
        match failure.reply() {
            Some((304, _)) => Ok(HeadRead::Unchanged),
            Some((404, None | Some("NoSuchKey" | "NotFound"))) => Ok(HeadRead::Absent),
            _ => Err(failure.into_error(&self.settings.bucket, key)),
        }
    }

    /// Puts an object if it is as expected. 1 request, never sent again.
    pub(crate) async fn put(&self, key: &str, expected: Expected<'_>, body: Bytes) -> Result<Swap> {
        Ok(match self.write(key, expected, body).await? {
            Written::Applied(Some(tag)) => Swap::Swapped(tag),
            // The next swap needs a tag, and only a read can give it.
            Written::Applied(None) => Swap::Unknown(
                self.about(Error::new(ErrorKind::Unavailable, "the write's reply has no ETag; read it back to learn it"), key),
            ),
            Written::Conflict => Swap::Conflict,
            Written::Unknown(cause) => Swap::Unknown(cause),
        })
    }

    /// Puts an object if there is none. 1 request, never sent again.
    pub(crate) async fn create(&self, key: &str, body: Bytes) -> Result<Create> {
        Ok(match self.write(key, Expected::Absent, body).await? {
            Written::Applied(_) => Create::Created,
            Written::Conflict => Create::Exists,
            Written::Unknown(cause) => Create::Unknown(cause),
        })
    }

    async fn write(&self, key: &str, expected: Expected<'_>, body: Bytes) -> Result<Written> {
        let resolved = self.resolved().await?;
        let request = resolved.writes.put_object().bucket(&self.settings.bucket).key(key);
        let request = request.content_type("application/json").content_length(body.len() as i64).body(ByteStream::from(body));
        let (request, precondition) = match expected {
            Expected::Absent => (request.if_none_match("*"), Precondition::Absent),
            Expected::Tag(tag) if is_etag(tag) => (request.if_match(tag.as_str()), Precondition::Matches),
            // No object has it. But it must not be sent: `*` and the empty text would match every object.
            Expected::Tag(_) => (request.if_match(NO_VERSION), Precondition::Matches),
        };
        let sent = Sent::default();
        let error = match request.customize().interceptor(sent.clone()).send().await {
            Ok(reply) => return Ok(Written::Applied(reply.e_tag.map(Tag::new).filter(is_etag))),
            Err(error) => error,
        };
        let failure = Failure::new(&error, sent.times());
        let earlier = if sent.times() > 1 { Earlier::Ambiguous } else { Earlier::None };
        match settle(failure.end(), precondition, earlier) {
            Verdict::Conflict => Ok(Written::Conflict),
            Verdict::Refused(_) => Err(failure.into_error(&self.settings.bucket, key)),
            // A success that the SDK takes for an error has a reply nobody can read.
            Verdict::Unknown | Verdict::Applied => Ok(Written::Unknown(failure.into_unsettled(&self.settings.bucket, key))),
        }
    }

    /// The keys that begin like this. 1 request for each 1,000.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let resolved = self.resolved().await?;
        let (mut keys, mut from) = (Vec::new(), None);
        loop {
            let request = resolved.reads.list_objects_v2().bucket(&self.settings.bucket).prefix(prefix);
            let page = request.set_continuation_token(from.clone()).send().await;
            let page = page.map_err(|error| Failure::new(&error, 1).into_error(&self.settings.bucket, prefix))?;
            keys.extend(page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key));
            if page.is_truncated != Some(true) {
                return Ok(keys);
            }
            // A server that does not go on would be asked for ever, or leave keys out.
            if page.next_continuation_token.is_none() || page.next_continuation_token == from {
                return Err(self.about(Error::new(ErrorKind::Unsupported, "the server cuts its listings and does not go on"), prefix));
            }
            from = page.next_continuation_token;
        }
    }

    /// Removes an object, which need not exist. 1 request.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        let Resolved { reads, .. } = self.resolved().await?;
        let reply = reads.delete_object().bucket(&self.settings.bucket).key(key).send().await;
        match reply.map_err(|error| Failure::new(&error, 1)) {
            Ok(_) => Ok(()),
            Err(failure) => match failure.reply() {
                Some((404, None | Some("NoSuchKey" | "NotFound"))) => Ok(()),
                _ => Err(failure.into_error(&self.settings.bucket, key)),
            },
        }
    }

    fn about(&self, error: Error, key: &str) -> Error {
        error.at("bucket", &self.settings.bucket).at("object", key)
    }
}

/// Whether a tag has the form of an ETag (RFC 9110): quoted, and one, not a list.
fn is_etag(tag: &Tag) -> bool {
    let text = tag.as_str().strip_prefix("W/").unwrap_or(tag.as_str());
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|byte| byte == b'!' || (b'#'..=b'~').contains(&byte)))
}

/// How a conditional write ended.
enum Written {
    Applied(Option<Tag>),
    Conflict,
    Unknown(Error),
}

/// Counts how often a request was handed to the HTTP client: what was not handed over was not sent, and what was handed over twice may
/// have been applied by the first.
#[derive(Clone, Debug, Default)]
struct Sent(Arc<AtomicU32>);

impl Sent {
    fn times(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Intercept for Sent {
    fn name(&self) -> &'static str {
        "Sent"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quoted_text_is_an_etag() {
        for tag in ["\"\"", "\"d41d8cd98f00b204e9800998ecf8427e-2\"", "W/\"x\"", "\"!#~\""] {
            assert!(is_etag(&Tag::new(tag)), "{tag}");
        }
        for tag in ["", "\"", "x", "\"x", "x\"", "w/\"x\"", "\"a b\"", "\"a\"b\"", "\"\u{e9}\"", "*"] {
            assert!(!is_etag(&Tag::new(tag)), "{tag}");
        }
    }
}
