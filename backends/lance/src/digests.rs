//! Digests of data files that are too large to be named by them: kept in the manifest's configuration, which Lance hands on from version to
//! version.

use std::collections::{BTreeSet, HashMap};

use lance_table::format::Manifest;

use crate::sealed::Sealed;
use crate::view::File;

/// Before the file's name; the value is the digest, SHA-256 in hex.
const KEY: &str = "headwater.sha256.";

/// Adds the digests of new files, and drops those of files that are gone.
pub(crate) fn record(manifest: &mut Manifest, streamed: &[File]) {
    manifest.config.extend(streamed.iter().map(|file| (format!("{KEY}{}", file.name), file.sealed.digest.clone())));
    if !manifest.config.keys().any(|key| key.starts_with(KEY)) {
        return;
    }
    let live: BTreeSet<&str> = manifest.fragments.iter().flat_map(|fragment| &fragment.files).map(|file| file.path.as_str()).collect();
    manifest.config.retain(|key, _| key.strip_prefix(KEY).is_none_or(|name| live.contains(name)));
}

/// The digest of a data file, by its name or as it was recorded.
pub(crate) fn digest(config: &HashMap<String, String>, name: &str) -> Option<String> {
    Sealed::parse(name).map(|sealed| sealed.digest).or_else(|| config.get(&format!("{KEY}{name}")).cloned())
}
