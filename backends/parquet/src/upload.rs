//! A multipart upload in parts of one size, a few under way at once, aborted unless it completes.

use bytes::Bytes;
use headwater_core::{Error, ErrorKind, Result};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use headwater_core::objects::{Named, Objects};

/// An upload under a fresh name. Nobody sees the object before [`Upload::complete`] returns.
///
/// Dropping it before then aborts it in a task of its own.
#[derive(Debug)]
pub(crate) struct Upload {
    path: String,
    /// `None` once completed or aborted.
    inner: Option<Box<dyn MultipartUpload>>,
    parts: JoinSet<object_store::Result<()>>,
    in_flight: usize,
    /// Parts are sent by tasks of their own, so that they go on while the next is encoded.
    runtime: Handle,
}

impl Upload {
    /// 1 request. `Unsupported` outside a tokio runtime.
    pub(crate) async fn start(objects: &Objects, path: &str, in_flight: usize) -> Result<Self> {
        let key = Named { path, size: 0 }.key()?;
        let runtime = Handle::try_current()
            .map_err(|source| Error::new(ErrorKind::Unsupported, "large uploads need a tokio runtime").because(source))?;
        let inner = objects.0.put_multipart(&key).await.map_err(|error| Error::from(error).at("object", path))?;
        Ok(Self { path: path.to_owned(), inner: Some(inner), parts: JoinSet::new(), in_flight, runtime })
    }

    /// Sends the next part, 1 request, after waiting until few enough are under way.
    pub(crate) async fn part(&mut self, bytes: Bytes) -> Result<()> {
        while self.parts.len() >= self.in_flight {
            self.join().await?;
        }
        if let Some(inner) = &mut self.inner {
            self.parts.spawn_on(inner.put_part(PutPayload::from(bytes)), &self.runtime);
        }
        Ok(())
    }

    /// Waits for the parts and makes them one object. 1 request.
    pub(crate) async fn complete(mut self) -> Result<()> {
        while !self.parts.is_empty() {
            self.join().await?;
        }
        if let Some(inner) = &mut self.inner {
            inner.complete().await.map_err(|error| Error::from(error).at("object", &self.path))?;
        }
        self.inner = None;
        Ok(())
    }

    async fn join(&mut self) -> Result<()> {
        match self.parts.join_next().await {
            Some(Ok(sent)) => sent.map_err(|error| Error::from(error).at("object", &self.path)),
            Some(Err(source)) => {
                Err(Error::new(ErrorKind::Unavailable, "the upload of a part was stopped").because(source).at("object", &self.path))
            }
            None => Ok(()),
        }
    }

    /// Gives the upload up. 1 request; its failure is only logged, because the parts are unreachable either way.
    pub(crate) async fn abort(mut self) {
        if let Some(inner) = self.inner.take() {
            abort(std::mem::take(&mut self.path), inner, std::mem::take(&mut self.parts)).await;
        }
    }
}

async fn abort(path: String, mut inner: Box<dyn MultipartUpload>, mut parts: JoinSet<object_store::Result<()>>) {
    // A part that lands after the abort would stay.
    parts.shutdown().await;
    if let Err(error) = inner.abort().await {
        tracing::warn!(object = path, %error, "an abandoned upload could not be aborted; its parts stay until vacuum or a lifecycle rule");
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.runtime.spawn(abort(std::mem::take(&mut self.path), inner, std::mem::take(&mut self.parts)));
        }
    }
}
