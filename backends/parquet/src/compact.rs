//! Compaction: small files next to each other become one, and the lists are laid out anew. Rows and their order stay.

use arrow_array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use headwater_core::Result;
use headwater_core::json::sha256;
use headwater_core::store::{Pin, Rows, Scan, Staged};

use crate::ParquetStore;
use crate::store::of;
use crate::version::{DataFile, MAX_RECENT, Version, extend};
use crate::write::{Target, write};

/// A file of this part of `file_bytes` or more is not worth writing again.
const ENOUGH: u64 = 4;
/// Runs written at once.
const RUNS: usize = 2;

impl ParquetStore {
    /// Requests: every file of a run once, 1 for each new file, 1 for each 32 files the table has afterwards.
    pub(crate) async fn compact(&self, target: &Target, pin: &Pin, version: &Version) -> Result<Staged> {
        let before = self.files(pin).await?;
        let number = before.len();
        let runs = self.runs(before);
        let content = sha256(b"optimize");
        let least = runs.iter().map(Vec::len).sum::<usize>().div_ceil(MAX_RECENT).max(1);
        if runs.iter().all(|run| run.len() == 1) && 1 + version.references().count() <= least {
            return Ok(of(pin, version, 0, content));
        }
        let written = runs.into_iter().map(|run| async move {
            if run.len() == 1 {
                return Ok(run);
            }
            let _turn = self.turn().await?;
            let files = run.into_iter().map(|file| self.rows(version, file, &Scan::default())).collect::<Result<Vec<_>>>()?;
            let batches = futures::stream::iter(files).flatten().map(|batch: Result<RecordBatch>| batch);
            let mut written = write(target, &version.schema, Rows { schema: version.schema.clone(), batches: batches.boxed() }).await?;
            if let Some((path, bytes)) = written.waiting.take() {
                self.objects.create(&path, bytes).await?;
            }
            Ok::<_, headwater_core::Error>(written.files)
        });
        let files: Vec<Vec<DataFile>> = futures::stream::iter(written.collect::<Vec<_>>()).buffered(RUNS).try_collect().await?;
        let files = files.concat();
        // Encoding decides sizes: what became no fewer objects was not worth a commit.
        if files.len() >= number && 1 + version.references().count() <= least {
            return Ok(of(pin, version, 0, content));
        }
        let empty = Version::empty(version.schema.clone());
        let new = self.publish(None, extend((None, &empty), &files, || target.fresh("version.json"))?).await?;
        Ok(of(&new.pin, &new.version, 0, content))
    }

    /// The files in order, those that are to become one file together. A run of one stays as it is.
    fn runs(&self, files: Vec<DataFile>) -> Vec<Vec<DataFile>> {
        let full = self.settings.file_bytes;
        let mut runs: Vec<Vec<DataFile>> = Vec::new();
        let mut open = 0;
        for file in files {
            let small = file.size < full / ENOUGH;
            match runs.last_mut() {
                Some(run) if small && open > 0 && open + file.size <= full => {
                    open += file.size;
                    run.push(file);
                }
                _ => {
                    open = if small { file.size } else { 0 };
                    runs.push(vec![file]);
                }
            }
        }
        runs
    }
}
