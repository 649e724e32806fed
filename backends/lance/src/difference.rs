//! Where two versions differ: fragments they do not share, and rows of shared ones that one of them has deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use headwater_core::objects::Named;
use headwater_core::store::{Difference, Partition, Scan};
use headwater_core::{Error, Result};
use lance::dataset::fragment::FileFragment;
use lance_table::format::Fragment;

use crate::engine::Engine;
use crate::scan::Plan;
use crate::version::Version;
use crate::view::View;

/// Deleted rows read in one go.
const BATCH_ROWS: usize = 8_192;

/// No request before a partition is opened.
pub(crate) fn between(engine: &Arc<Engine>, before: &Arc<Version>, after: &Arc<Version>) -> Result<Difference> {
    Ok(Difference { removed: lacking(engine, before, after)?, added: lacking(engine, after, before)? })
}

/// The rows of `own` that `other` does not have.
fn lacking(engine: &Arc<Engine>, own: &Arc<Version>, other: &Arc<Version>) -> Result<Vec<Partition>> {
    let theirs: BTreeMap<u64, &Fragment> = other.dataset.fragments().iter().map(|fragment| (fragment.id, fragment)).collect();
    let (mut whole, mut thinned) = (BTreeSet::new(), Vec::new());
    for fragment in own.dataset.fragments().iter() {
        match theirs.get(&fragment.id) {
            Some(same) if *same == fragment => {}
            Some(same) if same.files == fragment.files && same.physical_rows == fragment.physical_rows => thinned.push(fragment.id),
            _ => drop(whole.insert(fragment.id)),
        }
    }
    let plan = || Plan::new(engine.clone(), own.clone(), &Scan::default());
    let mut partitions = plan()?.partitions_of(|fragment| whole.contains(&fragment.id));
    let plan = Arc::new(plan()?);
    for id in thinned {
        let deleted = Deleted { engine: engine.clone(), plan: plan.clone(), own: own.clone(), other: other.clone(), id };
        let open = Box::new(move || deleted.clone().rows());
        partitions.push(Partition { schema: own.schema.clone(), rows: None, open });
    }
    Ok(partitions)
}

/// The rows of a shared fragment that another version has deleted.
#[derive(Clone)]
struct Deleted {
    engine: Arc<Engine>,
    plan: Arc<Plan>,
    own: Arc<Version>,
    other: Arc<Version>,
    id: u64,
}

impl Deleted {
    /// Requests: 1 for each of the two lists of deleted rows, and those Lance needs of the pages that hold the rows; none for what is cached.
    fn rows(self) -> BoxStream<'static, Result<RecordBatch>> {
        let path = self.own.pin.path.clone();
        let undecodable = move || Named { path: &path, size: 0 }.corrupt("the data file cannot be decoded");
        let opened = futures::stream::once(async move { self.open().await }).try_flatten();
        // The decoder may panic on bytes no writer wrote.
        AssertUnwindSafe(opened).catch_unwind().map(move |item| item.unwrap_or_else(|_| Err(undecodable()))).boxed()
    }

    async fn open(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let (fragment, view) = self.fragment(&self.own)?;
        let gone = deleted(self.fragment(&self.other)?, &self.other).await?;
        let missing = deleted((fragment.clone(), view.clone()), &self.own).await?;
        // Rows are taken by their place among those that are there.
        let place = |row: u32| missing.binary_search(&row).err().map(|before| row - before as u32);
        let places: Vec<u32> = gone.into_iter().filter_map(place).collect();
        let columns = self.own.dataset.schema().clone();
        let chunks: Vec<Vec<u32>> = places.chunks(BATCH_ROWS).map(<[u32]>::to_vec).collect();
        let batches = futures::stream::iter(chunks).then(move |chunk| {
            let (fragment, view, columns, own, plan) =
                (fragment.clone(), view.clone(), columns.clone(), self.own.clone(), self.plan.clone());
            async move {
                let taken = Box::pin(fragment.take(&chunk, &columns)).await;
                plan.fit(&taken.map_err(|error| failed(&view, &own, error))?)
            }
            .boxed()
        });
        Ok(batches.boxed())
    }

    fn fragment(&self, version: &Version) -> Result<(FileFragment, Arc<View>)> {
        let view = Arc::new(View::reading(&self.engine.shared, version.reachable.clone()));
        version.lend(&view);
        let dataset = self.engine.through(&version.dataset, view.clone());
        let fragment = dataset.get_fragment(self.id as usize);
        let lost = || Error::corrupt(&version.pin.path, "the version lacks one of its fragments; run `headwater verify --data`");
        Ok((fragment.ok_or_else(lost)?, view))
    }
}

/// The fragment's deleted rows by their place in its files, sorted.
async fn deleted((fragment, view): (FileFragment, Arc<View>), version: &Version) -> Result<Vec<u32>> {
    let listed = fragment.get_deletion_vector().await.map_err(|error| failed(&view, version, error))?;
    let mut rows: Vec<u32> = listed.iter().flat_map(|listed| listed.as_ref().clone()).collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Without a failed request, the bytes were read, and make no sense.
fn failed(view: &View, version: &Version, error: lance::Error) -> Error {
    view.failure().unwrap_or_else(|| Named { path: &version.pin.path, size: 0 }.corrupt("the data file cannot be decoded").because(error))
}
