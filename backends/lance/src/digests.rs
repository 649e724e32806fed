//! Size and digest of objects whose names do not say them: large data files, deletions, indices. Kept in the manifest's configuration, which
//! Lance hands on from version to version.

use std::collections::{BTreeSet, HashMap};

use lance_table::format::{IndexMetadata, Manifest};
use lance_table::io::deletion::relative_deletion_file_path;

use crate::sealed::Sealed;

/// Before the object's key below the table's folder; the value is `<size> <digest>`, the digest SHA-256 in hex.
const KEY: &str = "headwater.object.";

/// Adds new objects, and drops those that the version does not reach.
pub(crate) fn record(manifest: &mut Manifest, indices: &[IndexMetadata], new: &[(String, Sealed)]) {
    manifest.config.extend(new.iter().map(|(key, sealed)| (format!("{KEY}{key}"), format!("{} {}", sealed.size, sealed.digest))));
    if !manifest.config.keys().any(|key| key.starts_with(KEY)) {
        return;
    }
    let files = manifest.fragments.iter().flat_map(|fragment| &fragment.files).map(|file| data(&file.path));
    let deletions = manifest.fragments.iter().filter_map(|fragment| {
        let deletion = fragment.deletion_file.as_ref()?;
        Some(relative_deletion_file_path(fragment.id, deletion))
    });
    let live: BTreeSet<String> = files.chain(deletions).chain(indices.iter().flat_map(index_files).map(|(key, _)| key)).collect();
    manifest.config.retain(|key, _| key.strip_prefix(KEY).is_none_or(|key| live.contains(key)));
}

/// What was recorded of an object.
pub(crate) fn recorded(config: &HashMap<String, String>, key: &str) -> Option<Sealed> {
    let (size, digest) = config.get(&format!("{KEY}{key}"))?.split_once(' ')?;
    Some(Sealed { size: size.parse().ok()?, digest: digest.to_owned() })
}

/// The key of a data file below its table's folder.
pub(crate) fn data(name: &str) -> String {
    format!("data/{name}")
}

/// The keys of an index's files below its table's folder, and their sizes.
pub(crate) fn index_files(index: &IndexMetadata) -> impl Iterator<Item = (String, u64)> + '_ {
    let files = index.files.iter().flatten();
    files.map(|file| (format!("_indices/{}/{}", index.uuid, file.path), file.size_bytes))
}
