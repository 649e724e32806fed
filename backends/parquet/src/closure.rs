//! Walks from a pin to all it reaches: version objects first, then data files, in row order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use headwater_core::store::{Object, Pin, Reached};
use headwater_core::{Error, Result};

use crate::ParquetStore;
use crate::version::{Counts, DataFile, Reference, Version};
use headwater_core::objects::Named;

/// A version object to read for [`ParquetStore::reachable`].
struct Visit {
    pin: Pin,
    part: Part,
    /// What the reference to it says it holds.
    holds: Option<Counts>,
}

/// Which part of a version counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Its own list.
    List,
    /// All it reaches.
    Whole,
}

impl ParquetStore {
    /// The version a pin names: checked against the whole pin before it is parsed. 1 request, or none if it is cached.
    pub(crate) async fn version(&self, pin: &Pin) -> Result<Arc<Version>> {
        if let Some(version) = self.cache.get(pin) {
            return Ok(version);
        }
        let named = Named { path: &pin.path, size: pin.size };
        let Some(digest) = pin.id.strip_prefix("sha256:") else {
            return Err(named.corrupt(format!("the pin's id {:?} is not one of the parquet store", pin.id)));
        };
        let bytes = self.objects.verified(named, digest).await?;
        let version = Arc::new(Version::open(pin, &bytes)?);
        self.cache.put(pin.clone(), version.clone(), pin.size);
        Ok(version)
    }

    /// Every data file a pin reaches, in row order. One request per version object not cached, i.e. about one per 32 data files: those of one stretch of 2,080
    /// files in parallel, one round trip per stretch.
    pub(crate) async fn files(&self, pin: &Pin) -> Result<Vec<DataFile>> {
        let newest = self.version(pin).await?;
        let mut chain = vec![newest.clone()];
        while let Some(older) = chain.last().and_then(|version| version.older.clone()) {
            let version = self.follow(&older, &newest, |version| Some(version.total)).await?;
            chain.push(version);
        }
        let sealed: Vec<&Reference> = chain.iter().rev().flat_map(|version| &version.sealed).collect();
        let lists = sealed.into_iter().map(|reference| self.follow(reference, &newest, |version| Counts::of(&version.recent)));
        let mut lists = futures::stream::iter(lists.collect::<Vec<_>>()).buffered(self.settings.parallel_reads);
        let mut files = Vec::with_capacity(usize::try_from(newest.total.files).unwrap_or(0).min(1 << 16));
        for version in chain.iter().rev() {
            for _ in &version.sealed {
                if let Some(list) = lists.try_next().await? {
                    files.extend_from_slice(&list.recent);
                }
            }
            files.extend_from_slice(&version.recent);
        }
        drop(lists);
        let distinct: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        if distinct.len() != files.len() {
            return Err(Error::corrupt(&pin.path, "the version lists a data file twice; run `headwater verify --data`"));
        }
        Ok(files)
    }

    /// The lists a version refers to one by one, in row order. 1 request for each that is not cached.
    pub(crate) async fn lists(&self, version: &Version) -> Result<Vec<Arc<Version>>> {
        let lists = version.sealed.iter().map(|reference| self.follow(reference, version, |list| Counts::of(&list.recent)));
        futures::stream::iter(lists.collect::<Vec<_>>()).buffered(self.settings.parallel_reads).try_collect().await
    }

    /// Every object these pins reach, each once. One request per distinct version object that is not cached, many in parallel.
    pub(crate) async fn reachable(&self, pins: &[Pin]) -> Result<Vec<Reached>> {
        let mut visited: HashMap<Pin, Part> = HashMap::new();
        let mut reached: BTreeMap<String, Reached> = BTreeMap::new();
        let mut next: Vec<Visit> = pins.iter().map(|pin| Visit { pin: pin.clone(), part: Part::Whole, holds: None }).collect();
        while !next.is_empty() {
            next.retain(|visit| match visited.get(&visit.pin) {
                Some(part) if *part >= visit.part => false,
                _ => visited.insert(visit.pin.clone(), visit.part).is_none_or(|part| part < visit.part),
            });
            let read = std::mem::take(&mut next).into_iter().map(|visit| async {
                let version = self.version(&visit.pin).await?;
                Ok::<_, Error>((visit, version))
            });
            let mut read = futures::stream::iter(read.collect::<Vec<_>>()).buffered(self.settings.parallel_reads);
            while let Some((visit, version)) = read.try_next().await? {
                let holds = match visit.part {
                    Part::List => Counts::of(&version.recent),
                    Part::Whole => Some(version.total),
                };
                if visit.holds.is_some() && visit.holds != holds {
                    return Err(mismatch(&visit.pin));
                }
                let digest = visit.pin.id.strip_prefix("sha256:").map(str::to_owned);
                add(&mut reached, Reached { object: Object { path: visit.pin.path, size: visit.pin.size }, digest, data: false })?;
                for file in &version.recent {
                    let object = Object { path: file.path.clone(), size: file.size };
                    add(&mut reached, Reached { object, digest: Some(file.digest.clone()), data: true })?;
                }
                if visit.part == Part::Whole {
                    let visit =
                        |part| move |reference: &Reference| Visit { pin: reference.pin.clone(), part, holds: Some(reference.holds) };
                    next.extend(version.older.iter().map(visit(Part::Whole)));
                    next.extend(version.sealed.iter().map(visit(Part::List)));
                }
            }
        }
        Ok(reached.into_values().collect())
    }

    /// The version a reference names, which must hold what the reference says and fit the newest schema.
    pub(crate) async fn follow(
        &self,
        reference: &Reference,
        newest: &Version,
        holds: impl Fn(&Version) -> Option<Counts>,
    ) -> Result<Arc<Version>> {
        let version = self.version(&reference.pin).await?;
        let (older, newer) = (version.schema.fields(), newest.schema.fields());
        let fits = older.len() <= newer.len() && older.iter().zip(newer).all(|(older, newer)| older == newer);
        if holds(&version) == Some(reference.holds) && fits {
            return Ok(version);
        }
        Err(mismatch(&reference.pin))
    }
}

fn mismatch(pin: &Pin) -> Error {
    Error::corrupt(&pin.path, "the version object does not hold what a newer one says of it; run `headwater verify --data`")
}

/// Two versions that name one object must agree on it.
fn add(reached: &mut BTreeMap<String, Reached>, object: Reached) -> Result<()> {
    let path = object.object.path.clone();
    match reached.insert(path, object.clone()) {
        Some(other) if other != object => {
            Err(Error::corrupt(&object.object.path, "two versions disagree about the object; run `headwater verify --data`"))
        }
        _ => Ok(()),
    }
}
