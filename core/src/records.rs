//! Immutable control records: unique names, digests in their pointers, and the settling of uncertain creates.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::authority::{ControlAuthority, Create};
use crate::error::{Error, ErrorKind, Result};
use crate::head::RecordRef;
use crate::json::{decode, sha256};
use crate::name::RecordKey;

/// How often an uncertain create is sent again. The name is unique, so sending it again is harmless.
const ATTEMPTS: usize = 5;

/// Puts a record under a name minted for it. 1 request where nothing goes wrong. An error leaves at most a record nobody refers to.
pub(crate) async fn put_unique(authority: &dyn ControlAuthority, key: RecordKey, body: Vec<u8>) -> Result<RecordRef> {
    let digest = sha256(&body);
    let body = Bytes::from(body);
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match authority.create_record(&key, body.clone()).await? {
            Create::Created => return Ok(RecordRef { key, digest }),
            // An earlier attempt of ours may have landed: only its content tells.
            Create::Exists => match authority.read_record(&key).await? {
                Some((found, _)) if found == body => return Ok(RecordRef { key, digest }),
                _ => return Err(Error::corrupt(key, "another record stands under a name minted for this one")),
            },
            Create::Unknown(cause) => last = Some(cause),
        }
    }
    let error = Error::new(ErrorKind::Unavailable, "a control record could not be written").at("object", key);
    Err(match last {
        Some(cause) => error.because(cause),
        None => error,
    })
}

/// Reads a record through its pointer. 1 request. A record that is missing or has another digest is damage.
pub(crate) async fn read_ref<T: DeserializeOwned>(authority: &dyn ControlAuthority, pointer: &RecordRef) -> Result<T> {
    let Some((body, _)) = authority.read_record(&pointer.key).await? else {
        return Err(Error::corrupt(&pointer.key, "the control record is missing; nothing but Headwater may remove objects here"));
    };
    if sha256(&body) != pointer.digest {
        return Err(Error::corrupt(&pointer.key, "the control record's digest does not match its pointer; it was changed or damaged"));
    }
    decode(pointer.key.as_str(), &body)
}
