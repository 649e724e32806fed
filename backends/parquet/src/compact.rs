//! Compaction: small files next to each other become one, and the lists are laid out anew. Rows and their order stay.

use arrow_array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use headwater_core::Result;
use headwater_core::edit::runs;
use headwater_core::json::sha256;
use headwater_core::store::{Rows, Scan, Staged};

use crate::mutate::Changing;
use crate::store::of;
use crate::version::{DataFile, MAX_RECENT, Version, extend};
use crate::write::write;

/// Runs written at once.
const RUNS: usize = 2;

impl Changing<'_> {
    /// Requests: every file of a run once, 1 for each new file, 1 for each 32 files the table has afterwards.
    pub(crate) async fn compact(&self) -> Result<Staged> {
        let before = self.store.files(self.pin).await?;
        let number = before.len();
        let runs = runs(before, self.store.settings.file_bytes, |file| file.size);
        let content = sha256(b"optimize");
        let least = runs.iter().map(Vec::len).sum::<usize>().div_ceil(MAX_RECENT).max(1);
        if runs.iter().all(|run| run.len() == 1) && self.version.references().count() < least {
            return Ok(of(self.pin, &self.version, 0, content));
        }
        let written = runs.into_iter().map(|run| async move {
            if run.len() == 1 {
                return Ok(run);
            }
            let _turn = self.store.turn().await?;
            let files = run.into_iter().map(|file| self.rows(file, &Scan::default())).collect::<Result<Vec<_>>>()?;
            let batches = futures::stream::iter(files).flatten().map(|batch: Result<RecordBatch>| batch);
            let mut written =
                write(&self.target, &self.version.schema, Rows { schema: self.version.schema.clone(), batches: batches.boxed() }).await?;
            if let Some((path, bytes)) = written.waiting.take() {
                self.store.objects.create(&path, bytes).await?;
            }
            Ok::<_, headwater_core::Error>(written.files)
        });
        let files: Vec<Vec<DataFile>> = futures::stream::iter(written.collect::<Vec<_>>()).buffered(RUNS).try_collect().await?;
        let files = files.concat();
        // Encoding decides sizes: what became no fewer objects was not worth a commit.
        if files.len() >= number && self.version.references().count() < least {
            return Ok(of(self.pin, &self.version, 0, content));
        }
        let empty = Version::empty(self.version.schema.clone());
        let new = self.store.publish(None, extend((None, &empty), &files, || self.target.fresh("version.json"))?).await?;
        Ok(of(&new.pin, &new.version, 0, content))
    }
}
