//! The requests a data store makes for its objects, with what their failures mean for objects that a pin reaches.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::error::{Error, ErrorKind, Result};
use crate::json::sha256;
use crate::store::Object;

/// Attempts to write an object that the store refuses as existing while it does not exist.
const CREATES: u32 = 4;
/// The pause after the first of them; each later one is four times as long.
const PAUSE: Duration = Duration::from_millis(10);

/// The object store, by keys below the data root.
///
/// Objects are immutable and their names fresh, so every call may be repeated; dropping one leaves an unreferenced object at most.
#[derive(Clone, Debug)]
pub struct Objects(pub Arc<dyn ObjectStore>);

/// An object that something names, with its recorded size.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its key.
    pub path: &'a str,
    /// Its size in bytes.
    pub size: u64,
}

impl Named<'_> {
    /// The error for an object that is not what it should be.
    pub fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        Error::corrupt(self.path, format!("{what}; run `headwater verify --data`"))
    }

    /// The key. A path only a damaged object holds is `Corrupt`.
    pub fn key(&self) -> Result<Path> {
        match Path::parse(self.path) {
            Ok(key) if key.as_ref() == self.path && self.path.starts_with("data/") => Ok(key),
            _ => Err(self.corrupt("the object's name is no name of a table's object")),
        }
    }

    /// Compares the size, before a body is read: a wrong object may be of any size.
    pub fn check_size(&self, actual: u64) -> Result<()> {
        if actual == self.size {
            return Ok(());
        }
        Err(self.corrupt(format!("the object has {actual} bytes instead of {}", self.size)))
    }

    /// What a failed read of it means: what is missing is `Corrupt`, because something names it.
    pub fn failed(&self, error: object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } => self.corrupt("the object is missing").because(error),
            error => Error::from(error).at("object", self.path),
        }
    }
}

impl Objects {
    /// Every object below the data root. 1 request per page of the listing.
    pub async fn list(&self) -> Result<Vec<Object>> {
        let objects = self.0.list(Some(&Path::from("data"))).map_ok(|meta| Object { path: meta.location.to_string(), size: meta.size });
        objects.try_collect().await.map_err(|error: object_store::Error| Error::from(error).during("list"))
    }

    /// Deletes objects. One that is not there is no error; `InvalidInput`, and nothing is deleted, where one is not below the data root.
    pub async fn reclaim(&self, paths: Vec<String>) -> Result<()> {
        let outside = |path| Error::invalid("only objects below data/ can be reclaimed").at("object", path);
        let keys = paths.iter().map(|path| Named { path, size: 0 }.key().map_err(|_| outside(path))).collect::<Result<Vec<_>>>()?;
        let mut deleted = self.0.delete_stream(futures::stream::iter(keys.into_iter().map(Ok)).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(Error::from(error).during("reclaim")),
            }
        }
        Ok(())
    }

    /// Writes a new object whole. 1 request; where the store gave no answer, 1 or 2 more.
    ///
    /// Names are fresh, so an object that exists already can only be this one, written by an attempt whose reply was lost; it is read back
    /// to be sure. Where nothing is there, the store refused because another attempt was still under way: sent again, 2 requests each time.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<()> {
        let key = Named { path, size: bytes.len() as u64 }.key()?;
        for attempt in 1..=CREATES {
            let options = PutOptions { mode: PutMode::Create, ..Default::default() };
            let refused = match self.0.put_opts(&key, PutPayload::from(bytes.clone()), options).await {
                Ok(_) => return Ok(()),
                Err(error @ object_store::Error::AlreadyExists { .. }) => error,
                Err(error) => match Error::from(error).at("object", path) {
                    // Clients do not repeat a create whose connection broke. Under a fresh name it is safe to.
                    silent if attempt == 1 && silent.kind() == ErrorKind::Unavailable => continue,
                    error => return Err(error),
                },
            };
            match self.is(&key, &bytes).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Error::from(refused).at("object", path)),
                // What is under way takes its time.
                Err(object_store::Error::NotFound { .. }) => tokio::time::sleep(PAUSE * 4_u32.pow(attempt)).await,
                Err(error) => return Err(Error::from(error).at("object", path)),
            }
        }
        let problem = format!("the store refused a new object {CREATES} times as one that exists, and it does not; try again");
        Err(Error::new(ErrorKind::Unavailable, problem).at("object", path))
    }

    async fn is(&self, key: &Path, bytes: &Bytes) -> object_store::Result<bool> {
        let result = self.0.get_opts(key, GetOptions::default()).await?;
        // Before the body is read: another object may be of any size.
        Ok(result.meta.size == bytes.len() as u64 && result.bytes().await? == bytes)
    }

    /// Reads an object whole and checks its size. 1 request.
    pub async fn whole(&self, named: Named<'_>) -> Result<Bytes> {
        let key = named.key()?;
        let result = self.0.get_opts(&key, GetOptions::default()).await.map_err(|error| named.failed(error))?;
        // Before the body is read: a wrong object may be of any size.
        named.check_size(result.meta.size)?;
        let bytes = result.bytes().await.map_err(|error| named.failed(error))?;
        named.check_size(bytes.len() as u64)?;
        Ok(bytes)
    }

    /// [`Objects::whole`], also checking the SHA-256 digest (hex).
    pub async fn verified(&self, named: Named<'_>, digest: &str) -> Result<Bytes> {
        let bytes = self.whole(named).await?;
        if sha256(&bytes) == digest {
            return Ok(bytes);
        }
        Err(named.corrupt("the object's bytes do not match its recorded digest"))
    }

    /// Reads one range and checks the object's size. 1 request; 1 more to tell the cause of a failure.
    pub async fn range(&self, named: Named<'_>, range: Range<u64>) -> Result<Bytes> {
        let key = named.key()?;
        let length = range.end - range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..Default::default() };
        let read = async {
            let result = self.0.get_opts(&key, options).await?;
            let size = result.meta.size;
            Ok((size, result.bytes().await?))
        };
        let (size, bytes) = match read.await {
            Ok(read) => read,
            Err(error) => return Err(self.explain(named, error).await),
        };
        named.check_size(size)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(named.corrupt("the object is shorter than its recorded size")) }
    }

    /// Reads ranges, near ones together.
    pub async fn ranges(&self, named: Named<'_>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let key = named.key()?;
        let parts = match self.0.get_ranges(&key, ranges).await {
            Ok(parts) => parts,
            Err(error) => return Err(self.explain(named, error).await),
        };
        let fits =
            parts.len() == ranges.len() && parts.iter().zip(ranges).all(|(part, range)| part.len() as u64 == range.end - range.start);
        if fits { Ok(parts) } else { Err(named.corrupt("the object is shorter than its recorded size")) }
    }

    /// What is wrong with an object that could not be read. Stores report a range outside an object in ways of their own: the size tells
    /// damage from a passing failure. 1 request.
    pub async fn explain(&self, named: Named<'_>, error: object_store::Error) -> Error {
        let error = named.failed(error);
        if error.kind() == ErrorKind::Unavailable
            && let Ok(key) = named.key()
            && let Ok(meta) = self.0.head(&key).await
            && let Err(wrong) = named.check_size(meta.size)
        {
            return wrong.because(error);
        }
        error
    }
}
