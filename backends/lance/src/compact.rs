//! Compaction: small fragments next to each other, and those that lack many rows, are written anew. Rows and their order stay, and indices
//! know all of them afterwards.

use std::sync::Arc;

use headwater_core::edit::runs;
use headwater_core::json::sha256;
use headwater_core::store::{Rows, Staged};
use headwater_core::{Error, ErrorKind, Result};
use lance::dataset::transaction::{Operation, RewriteGroup};
use lance_table::format::Fragment;

use crate::LanceStore;
use crate::scan::Read;
use crate::stage::{Base, FILE_BYTES, FILE_ROWS, Stage};
use crate::store::staged;
use crate::version::Version;

/// A fragment that lacks one of so many rows is worth writing again.
const WORN: usize = 10;

impl LanceStore {
    /// Requests: every data file of a run once and a scan of the indexed columns, then 1 for each new file and 1 for the manifest.
    pub(crate) async fn compact(&self, version: Arc<Version>) -> Result<Staged> {
        let content = sha256(b"optimize");
        let runs = runs(version.dataset.fragments().to_vec(), FILE_BYTES as u64, weight);
        let runs: Vec<_> = runs.into_iter().filter(|run| run.len() > 1 || run.iter().any(worn)).collect();
        let behind = version.indices.iter().any(|index| !version.is_covered_by(index));
        if runs.is_empty() && !behind {
            return Ok(staged(&version, 0, content));
        }
        let mut stage = Stage::new(&self.engine, Base::of(&version));
        let (mut groups, mut files) = (Vec::new(), Vec::new());
        for old_fragments in runs {
            let columns = version.dataset.schema().clone();
            let read = Read { columns, fragments: Some(old_fragments.clone()), filter: None, limit: None, addresses: false };
            let written = stage.write(Rows { schema: version.schema.clone(), batches: read.start(&self.engine, &version) }).await?;
            if written.rows != old_fragments.iter().map(rows).sum::<u64>() {
                let error = Error::new(
                    ErrorKind::Corrupt,
                    "the data files do not hold the rows the manifest counts; run `headwater verify --data`",
                );
                return Err(error.at("object", &version.pin.path));
            }
            // Encoding decides sizes. What became more objects was not worth it.
            let Some(spare) = old_fragments.len().checked_sub(written.fragments.len()) else { continue };
            let mut new_fragments = written.fragments;
            // Fragments are in the order of their numbers, so the new ones take those of the old.
            new_fragments.iter_mut().zip(&old_fragments[spare..]).for_each(|(new, old)| new.id = old.id);
            groups.push(RewriteGroup { old_fragments, new_fragments });
            files.extend(written.files);
        }
        if groups.is_empty() && !behind {
            return Ok(staged(&version, 0, content));
        }
        let renumbered = !groups.is_empty();
        if renumbered {
            if !version.indices.is_empty() {
                // They name rows by fragments, and a number is to be another one's.
                stage.drop_indices().await?;
            }
            let rewrite = Operation::Rewrite { groups, rewritten_indices: Vec::new(), frag_reuse_index: None };
            stage.apply(rewrite, &files).await?;
        }
        for index in version.indices.iter().filter(|index| renumbered || !version.is_covered_by(index)) {
            if let Some(column) = version.indexed(index) {
                stage.index(column).await?;
            }
        }
        Ok(staged(&self.know(stage.publish().await?), 0, content))
    }
}

/// In bytes; a row weighs at least what is left for it in a file of as many rows as a file may have.
fn weight(fragment: &Fragment) -> u64 {
    let bytes: u64 = fragment.files.iter().filter_map(|file| file.file_size_bytes.get()).map(|size| size.get()).sum();
    bytes.max(rows(fragment) * (FILE_BYTES / FILE_ROWS) as u64)
}

fn rows(fragment: &Fragment) -> u64 {
    fragment.num_rows().unwrap_or_default() as u64
}

fn worn(fragment: &Fragment) -> bool {
    let gone = fragment.deletion_file.as_ref().and_then(|deletion| deletion.num_deleted_rows).unwrap_or_default();
    gone > 0 && gone * WORN >= fragment.physical_rows.unwrap_or_default()
}
