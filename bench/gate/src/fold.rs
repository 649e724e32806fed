//! A negative control: what is current, found by folding a journal of one object for each commit, as catalogs of format 4 do. Its cost must
//! grow, or the gate does not see growth.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use headwater_conformance::tap::TapObjects;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use super::News;
use super::error::{Error, Result};
use super::operations::Point;
use super::place::Place;

/// Objects read or written at once.
const WINDOW: usize = 32;
/// Tables that commits go to, one each, in turn.
pub(super) const TABLES: usize = 10;

/// One commit: which version of which table it made.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    seq: u64,
    commit: String,
    time: u64,
    actor: String,
    table: String,
    table_id: String,
    rows: u64,
    path: String,
    size: u64,
    digest: String,
}

impl Entry {
    fn new(seq: u64) -> Self {
        let table = seq % TABLES as u64;
        Self {
            seq,
            commit: format!("{seq:026}"),
            time: 1_700_000_000_000 + seq,
            actor: "unknown".to_owned(),
            table: format!("t{table:03}"),
            table_id: format!("{table:026}"),
            rows: seq / TABLES as u64 + 1,
            path: format!("tables/{table:026}/{seq:026}.json"),
            size: 1_000,
            digest: format!("{seq:064x}"),
        }
    }
}

/// Grows a journal, and folds it at each depth.
pub(super) async fn measure(place: &Place, depths: &[u64], told: &(dyn Fn(News) + Sync)) -> Result<Vec<Point>> {
    let meter = place.meter(None).await?;
    let plain = place.open("fold")?.objects;
    let counted: Arc<dyn ObjectStore> = Arc::new(TapObjects::new(place.open_counted("fold", &meter)?.objects, meter.tap.clone()));
    let (mut points, mut written) = (Vec::new(), 0);
    for depth in depths {
        told(News::Begun(format!("the control: a journal of {depth} entries")));
        let writes = (written + 1..=*depth).map(|seq| write(&plain, seq));
        futures::stream::iter(writes).buffer_unordered(WINDOW).try_collect::<()>().await?;
        written = *depth;
        let what = format!("the fold of a journal of {depth} entries");
        let (pins, sample) = meter.measure(&what, fold(&counted)).await?;
        let expected: BTreeMap<String, u64> =
            (depth.saturating_sub(TABLES as u64) + 1..=*depth).map(|seq| (Entry::new(seq).table, seq)).collect();
        if pins != expected {
            return Err(Error::untrusted(&what, format!("it found {pins:?}, not {expected:?}")));
        }
        told(News::Done(format!("the control: {depth} entries, {} requests", sample.data.requests)));
        points.push(Point { depth: *depth, seq: *depth, sample });
    }
    Ok(points)
}

async fn write(objects: &Arc<dyn ObjectStore>, seq: u64) -> Result<()> {
    let entry = Entry::new(seq);
    let body = serde_json::to_vec(&entry).map_err(|error| Error::untrusted("the journal", error.to_string()))?;
    let path = Path::from(format!("journal/{seq:020}.json"));
    objects.put(&path, body.into()).await.map(drop).map_err(Error::objects(format!("writing {path}")))
}

/// The newest commit of each table.
async fn fold(objects: &Arc<dyn ObjectStore>) -> Result<BTreeMap<String, u64>> {
    let listed: Vec<_> = objects.list(Some(&Path::from("journal"))).try_collect().await.map_err(Error::objects("listing the journal"))?;
    let read = async |object: &ObjectMeta| {
        let failed = || Error::objects(format!("reading {}", object.location));
        let bytes = objects.get(&object.location).await.map_err(failed())?.bytes().await.map_err(failed())?;
        serde_json::from_slice::<Entry>(&bytes).map_err(|error| Error::untrusted("the journal", error.to_string()))
    };
    let mut entries: Vec<Entry> = Vec::with_capacity(listed.len());
    // One window after the other, each a round trip.
    for window in listed.chunks(WINDOW) {
        entries.extend(try_join_all(window.iter().map(read)).await?);
    }
    entries.sort_unstable_by_key(|entry| entry.seq);
    Ok(entries.into_iter().map(|entry| (entry.table, entry.seq)).collect())
}
