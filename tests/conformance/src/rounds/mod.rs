//! Round trips, exactly: requests are held until their client can only wait, then let go together.
//!
//! What waits for another request begins when that one has ended, so the longest chain of such requests never has a round trip too few. It may
//! have one too many on a busy machine, where what waits for nothing comes late. Held, all that can come is there first: everything under way
//! is held, the client's runtime has had some turns for what it still has to do, and its other threads sleep.

mod threads;

use std::time::Duration;

use self::threads::resting;

/// How long the client's runtime, which is the caller's, is left to do what it can.
const TURN: Duration = Duration::from_millis(1);
/// Turns in which nothing more may come before what is held is let go.
const QUIET: usize = 4;
/// Turns after which whatever is held is let go: a client that goes on without its requests must not stand still.
const PATIENCE: usize = 5_000;

/// Requests of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// That are held.
    pub held: usize,
    /// That have begun and not ended, as the client knows.
    pub under_way: usize,
}

/// Does something on a runtime of one thread, with its time enabled, whose requests somebody holds, and lets go of all of them whenever nothing
/// more can come. Returns how often: at least as often as it has round trips. `threads` are the names of the other threads it works on, at most
/// 15 characters each, all that the kernel keeps of a name.
///
/// # Errors
///
/// What `release` answers with; the work is given up then.
pub async fn in_rounds<T, E>(
    work: impl Future<Output = T>,
    threads: &[&str],
    holds: impl Fn() -> Holds,
    release: impl AsyncFn() -> Result<(), E>,
) -> Result<(T, usize), E> {
    let mut work = std::pin::pin!(work);
    let (mut rounds, mut quiet, mut turns, mut before) = (0, 0, 0, 0);
    loop {
        if let Ok(done) = tokio::time::timeout(TURN, &mut work).await {
            return Ok((done, rounds));
        }
        let Holds { held, under_way } = holds();
        let waits = held > 0 && held == under_way && held == before && resting(threads);
        turns = if held > 0 { turns + 1 } else { 0 };
        quiet = if waits { quiet + 1 } else { 0 };
        before = held;
        if quiet >= QUIET || turns >= PATIENCE {
            rounds += 1;
            (quiet, turns, before) = (0, 0, 0);
            release().await?;
        }
    }
}
