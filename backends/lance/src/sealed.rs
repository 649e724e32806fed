//! What a data file's name says of its bytes.

use headwater_core::json::sha256;

/// Size and SHA-256 digest of a data file, as its name has them: `<fresh>-<size>-<digest>.lance`. A manifest names its files, so a pin's
/// digest covers those of everything it reaches. Files that were too large to be held until their digest was known have other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) size: u64,
    pub(crate) digest: String,
}

impl Sealed {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len() as u64, digest: sha256(bytes) }
    }

    pub(crate) fn name(&self, fresh: &str) -> String {
        format!("{fresh}-{}-{}.lance", self.size, self.digest)
    }

    /// What a file's name says, if it says so.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".lance")?.rsplitn(3, '-');
        let (digest, size, _) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        hex.then_some(Self { size: size.parse().ok()?, digest: digest.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_name_says_size_and_digest() {
        let sealed = Sealed::of(b"rows");
        assert_eq!(Sealed::parse(&sealed.name("01jd")), Some(sealed.clone()));
        assert_eq!(Sealed::parse(&sealed.name("with-dashes")), Some(sealed));
        // What Lance names a file by itself.
        assert_eq!(Sealed::parse("111011110010100011100011c4b7a94bb4a2a93c7ffd0d67c2.lance"), None);
        assert_eq!(Sealed::parse("a-4-00.lance"), None);
    }
}
