//! File systems on which SQLite's locks and shared memory do not hold: those of other hosts.

use std::path::Path;

use headwater_core::{Error, ErrorKind, Result};

/// Refuses a folder on a network file system, where it can be told; what cannot be told passes. Nothing is refused outside Linux.
pub(crate) fn refuse(folder: &Path) -> Result<()> {
    #[cfg(target_os = "linux")]
    if let Ok(found) = rustix::fs::statfs(folder)
        && let Some(name) = name(found.f_type as u32)
    {
        let problem = format!("the file would be on {name}, where SQLite's locks do not hold between hosts; choose a path on a local disk");
        return Err(Error::new(ErrorKind::Unsupported, problem).at("path", folder.display()));
    }
    let _ = folder;
    Ok(())
}

/// The network file system of this magic number (statfs(2)). FUSE is among them: what is behind it cannot be told.
#[cfg(any(test, target_os = "linux"))]
fn name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B | 0xFE53_4D42 => "SMB",
        0xFF53_4D42 => "CIFS",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x7375_7245 => "Coda",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        0x564C => "NCP",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_named_and_local_ones_pass() {
        for (magic, expected) in [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0x6573_5546, "FUSE")] {
            assert_eq!(name(magic), Some(expected));
        }
        // ext4, XFS, Btrfs, ZFS, tmpfs, overlay.
        for magic in [0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0x0102_1994, 0x794C_7630] {
            assert_eq!(name(magic), None);
        }
        refuse(tempfile::tempdir().unwrap().path()).unwrap();
    }
}
