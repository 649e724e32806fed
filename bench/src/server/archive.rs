//! The RustFS binary from its archive beside the checkout: checked against its sum, and unpacked once for all processes.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::product::cache;
use crate::client::hex;
use crate::{Error, Result};

const ARCHIVE: &str = "rustfs-1.0.1-x86_64-linux-gnu.xz";

/// The unpacked binary, if the archive is in a `shared/bin` beside the checkout or beside one of the folders above it.
pub(super) fn rustfs() -> Result<Option<PathBuf>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    match above.map(|folder| folder.join("shared/bin").join(ARCHIVE)).find(|archive| archive.is_file()) {
        Some(archive) => unpacked(&archive, &cache()?).map(Some),
        None => Ok(None),
    }
}

fn unpacked(archive: &Path, cache: &Path) -> Result<PathBuf> {
    let expected = stated_sum(archive)?;
    // The name holds the sum, so that another archive is never taken for this one.
    let binary = cache.join(format!("rustfs-{}", expected.get(..16).unwrap_or(&expected)));
    if binary.is_file() {
        return Ok(binary);
    }
    let actual = sum(archive)?;
    if actual != expected {
        return Err(Error::Checksum { path: archive.to_owned(), expected, actual });
    }
    std::fs::create_dir_all(cache).map_err(Error::io(format!("creating {}", cache.display())))?;
    let writing = || Error::io(format!("unpacking {}", archive.display()));
    // Processes that unpack at once each write a file of their own; the last rename wins, and all files are the same.
    let unpacking = NamedTempFile::new_in(cache).map_err(writing())?;
    let output = unpacking.as_file().try_clone().map_err(writing())?;
    let input = File::open(archive).map_err(writing())?;
    let done = Command::new("xz").args(["--decompress", "--stdout"]).stdin(input).stdout(output).stderr(Stdio::piped()).output();
    let done = done.map_err(Error::io("running xz, which unpacks RustFS (Debian package xz-utils)"))?;
    if !done.status.success() {
        let output = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(Error::Command { command: format!("xz --decompress {}", archive.display()), output });
    }
    unpacking.as_file().set_permissions(std::fs::Permissions::from_mode(0o755)).map_err(writing())?;
    // Closed for writing before the name appears: the kernel does not run a file that is open for writing.
    unpacking.into_temp_path().persist(&binary).map_err(|error| writing()(error.error))?;
    Ok(binary)
}

/// The sum that the file `SHA256SUMS` beside the archive states for it.
fn stated_sum(archive: &Path) -> Result<String> {
    let sums = archive.with_file_name("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).map_err(Error::io(format!("reading {}", sums.display())))?;
    let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let stated = lines.find(|(_, file)| file.trim_start().trim_start_matches('*') == name);
    match stated {
        Some((sum, _)) => Ok(sum.to_ascii_lowercase()),
        None => {
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no line for it");
            Err(Error::Io { what: format!("finding the sum of {name} in {}", sums.display()), source })
        }
    }
}

fn sum(path: &Path) -> Result<String> {
    let reading = || Error::io(format!("reading {}", path.display()));
    let mut file = File::open(path).map_err(reading())?;
    let mut digest = Sha256::new();
    std::io::copy(&mut file, &mut digest).map_err(reading())?;
    Ok(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const BINARY: &str = "#!/bin/sh\necho rustfs 1.0.1\n";

    fn packed(directory: &Path) -> PathBuf {
        let plain = directory.join(ARCHIVE.trim_end_matches(".xz"));
        std::fs::write(&plain, BINARY).expect("written");
        assert!(Command::new("xz").arg(&plain).status().expect("xz").success());
        directory.join(ARCHIVE)
    }

    fn state(archive: &Path, sum: &str) {
        std::fs::write(archive.with_file_name("SHA256SUMS"), format!("{sum}  {ARCHIVE}\n")).expect("written");
    }

    #[test]
    fn many_at_once_unpack_one_whole_binary() {
        let (source, cache) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let archive = packed(source.path());
        state(&archive, &sum(&archive).expect("a sum"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let binary = unpacked(&archive, cache.path()).expect("unpacked");
                    let mode = binary.metadata().expect("a file").permissions().mode();
                    assert_eq!((std::fs::read_to_string(&binary).expect("a file").as_str(), mode & 0o777), (BINARY, 0o755));
                });
            }
        });
        assert_eq!(std::fs::read_dir(cache.path()).expect("a directory").count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_wrong_or_missing_sum_is_refused() {
        let (source, cache) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let archive = packed(source.path());
        state(&archive, &"0".repeat(64));
        assert!(matches!(unpacked(&archive, cache.path()), Err(Error::Checksum { .. })));
        std::fs::write(archive.with_file_name("SHA256SUMS"), "").expect("written");
        assert!(matches!(unpacked(&archive, cache.path()), Err(Error::Io { .. })));
        assert_eq!(std::fs::read_dir(cache.path()).expect("a directory").count(), 0);
    }
}
