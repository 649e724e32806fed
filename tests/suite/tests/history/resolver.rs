//! A resolver of uncertain swaps that stands in for the library's, with a rule that can be broken: where it looks for the token.

use headwater_core::authority::{ControlAuthority, HeadRead};
use headwater_core::head::Head;
use headwater_core::ids::Token;
use headwater_core::json::decode;
use headwater_core::{Catalog, Commit, Error, ErrorKind, Result};

/// Where the token is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Wherever it can be.
    Journal,
    /// Among the entries the head still holds: the bug.
    Tail,
}

/// Finds out what became of a swap whose outcome the library, with no attempt of its own left, does not know.
pub(crate) async fn resolve<F>(
    lookup: Lookup,
    authority: &dyn ControlAuthority,
    catalog: &Catalog,
    token: &Token,
    told: Result<Commit>,
    again: impl Fn() -> F,
) -> Result<Commit>
where
    F: Future<Output = Result<Commit>>,
{
    let branch = catalog.branch("main")?;
    // The swap expected the head that this process knew.
    let expected = branch.snapshot_at_open().await?.rev();
    for _ in 0..8 {
        let Ok(HeadRead::Found(body, _)) = authority.read_head(branch.name(), None).await else { continue };
        let head: Head = decode(branch.name().as_str(), &body)?;
        let mut there = head.tail.iter().any(|entry| entry.token == *token);
        if lookup == Lookup::Journal {
            let journal = async { branch.snapshot().await?.log(usize::MAX).await };
            let Ok(entries) = journal.await else { continue };
            there = entries.iter().any(|entry| entry.entry.token == *token);
        }
        if there {
            // There: the same request learns its place, or at least nothing that is not true.
            return again().await.or(told);
        }
        if Some(head.rev) > expected {
            return Err(Error::new(ErrorKind::Conflict, "another head is there and the token is not in it"));
        }
        // Nothing has moved: what is sent again can land only once. Whatever comes of it, the first may still land.
        match again().await {
            Ok(commit) => return Ok(commit),
            Err(error) if error.kind() == ErrorKind::PublishUnknown => {}
            Err(_) => return told,
        }
    }
    told
}
