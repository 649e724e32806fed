//! Uploads in parts, as Lance begins them for everything larger than 5 MiB.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use headwater_core::Error;
use headwater_core::json::hex;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use sha2::{Digest, Sha256};

use crate::sealed::Sealed;
use crate::view::{File, State, lock, put_result};

/// A large object that is no data file: it is held whole, like a small one.
#[derive(Debug)]
pub(crate) struct Collected {
    location: Path,
    buffer: BytesMut,
    state: Arc<Mutex<State>>,
}

impl Collected {
    pub(crate) fn new(location: Path, state: Arc<Mutex<State>>) -> Self {
        Self { location, buffer: BytesMut::new(), state }
    }
}

#[async_trait]
impl MultipartUpload for Collected {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        for bytes in &data {
            self.buffer.extend_from_slice(bytes);
        }
        async { Ok(()) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let bytes: Bytes = std::mem::take(&mut self.buffer).freeze();
        lock(&self.state).hold(self.location.clone(), bytes);
        Ok(put_result())
    }

    async fn abort(&mut self) -> Result<()> {
        self.buffer.clear();
        Ok(())
    }
}

/// A large object of the new version on its way to the store, under the key Lance gave it. Lance hands over the parts in order.
pub(crate) struct Streamed {
    location: Path,
    upload: Box<dyn MultipartUpload>,
    digest: Sha256,
    size: u64,
    state: Arc<Mutex<State>>,
}

impl Streamed {
    pub(crate) fn new(location: Path, upload: Box<dyn MultipartUpload>, state: Arc<Mutex<State>>) -> Self {
        Self { location, upload, digest: Sha256::new(), size: 0, state }
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("location", &self.location).field("size", &self.size).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Streamed {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        for bytes in &data {
            self.digest.update(bytes);
        }
        self.size += data.content_length() as u64;
        let (sent, state, location) = (self.upload.put_part(data), self.state.clone(), self.location.clone());
        async move { sent.await.map_err(|error| lock(&state).fail(Error::from(error).at("object", location))) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.upload.complete().await;
        let result = completed.map_err(|error| lock(&self.state).fail(Error::from(error).at("object", &self.location)))?;
        let sealed = Sealed { size: self.size, digest: hex(&std::mem::take(&mut self.digest).finalize()) };
        lock(&self.state).file(self.location.clone(), File { path: self.location.clone(), sealed, bytes: None });
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
