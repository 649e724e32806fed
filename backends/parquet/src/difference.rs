//! Two versions without what they share: lists that both name are not read, and files in both are left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::try_join;
use futures::{StreamExt, TryStreamExt};
use headwater_core::Result;
use headwater_core::store::{Difference, Partition, Pin, Scan};

use crate::ParquetStore;
use crate::scan::Plan;
use crate::version::{Counts, DataFile, Reference, Version};

/// One of the two versions, as lists of files, as far as they are known.
struct Side {
    version: Arc<Version>,
    /// What is to be taken apart still: all that this reaches comes before `lists`.
    older: Option<Reference>,
    /// Lists in row order.
    lists: Vec<Reference>,
}

impl Side {
    async fn open(store: &ParquetStore, pin: &Pin) -> Result<Self> {
        let version = store.version(pin).await?;
        let older = Some(Reference { pin: pin.clone(), holds: version.total });
        Ok(Self { version, older, lists: Vec::new() })
    }

    fn older_files(&self) -> u64 {
        self.older.as_ref().map_or(0, |older| older.holds.files)
    }

    /// Takes `older` apart: into its lists, its own among them, and what is older still.
    async fn descend(&mut self, store: &ParquetStore) -> Result<()> {
        let Some(older) = self.older.take() else { return Ok(()) };
        let version = store.follow(&older, &self.version, |version| Some(version.total)).await?;
        let own = Reference { holds: Counts::of(&version.recent).unwrap_or_default(), pin: older.pin };
        self.lists = version.sealed.iter().cloned().chain([own]).chain(self.lists.drain(..)).collect();
        self.older = version.older.clone();
        Ok(())
    }

    /// The files of the lists that the other side does not name.
    async fn files(&self, store: &ParquetStore, shared: &BTreeSet<Pin>) -> Result<Vec<DataFile>> {
        let lists = self.lists.iter().filter(|list| !shared.contains(&list.pin));
        let lists = lists.map(|list| store.follow(list, &self.version, |version| Counts::of(&version.recent)));
        let lists = futures::stream::iter(lists.collect::<Vec<_>>()).buffered(store.settings.parallel_reads);
        let lists: Vec<Arc<Version>> = lists.try_collect().await?;
        Ok(lists.iter().flat_map(|list| list.recent.iter().cloned()).collect())
    }

    /// The partitions of these files without those in the other side's.
    fn scan(&self, store: &ParquetStore, files: &[DataFile], other: &[DataFile]) -> Result<Vec<Partition>> {
        let identity = |file: &DataFile| (file.path.clone(), file.digest.clone());
        let other: BTreeSet<_> = other.iter().map(identity).collect();
        let own = files.iter().filter(|file| !other.contains(&identity(file))).cloned().collect();
        let version = self.version.schema.clone();
        Plan::new(store.objects.clone(), store.settings.clone(), version, &Scan::default())?.partitions(own)
    }
}

impl ParquetStore {
    /// Requests: the two version objects, and of the lists they refer to those that one names and the other does not; none for what is
    /// cached.
    pub(crate) async fn differing(&self, before: &Pin, after: &Pin) -> Result<Difference> {
        let (mut old, mut new) = try_join(Side::open(self, before), Side::open(self, after)).await?;
        while old.older.is_some() || new.older.is_some() {
            if old.older.as_ref().map(|older| &older.pin) == new.older.as_ref().map(|older| &older.pin) {
                break;
            }
            // One may be what the other reaches: that has no more files.
            let taken = if old.older_files() > new.older_files() || new.older.is_none() { &mut old } else { &mut new };
            taken.descend(self).await?;
        }
        let pins = |side: &Side| side.lists.iter().map(|list| list.pin.clone()).collect::<BTreeSet<_>>();
        let shared: BTreeSet<Pin> = pins(&old).intersection(&pins(&new)).cloned().collect();
        let (was, is) = try_join(old.files(self, &shared), new.files(self, &shared)).await?;
        Ok(Difference { removed: old.scan(self, &was, &is)?, added: new.scan(self, &is, &was)? })
    }
}
