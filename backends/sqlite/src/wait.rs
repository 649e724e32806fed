//! The bounded wait for other processes that hold the file.

use std::thread;
use std::time::Duration;

use headwater_core::ids::{Environment, SystemEnvironment};
use rusqlite::ErrorCode;

/// The first pause, at most; each is twice as long as the one before.
const FIRST: Duration = Duration::from_micros(250);
/// No pause is longer: a commit holds the file for about an fsync.
const LONGEST: Duration = Duration::from_millis(16);

/// Whether another process is in the way.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked, ErrorCode::FileLockingProtocolFailed];
    error.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// Tries until nobody is in the way, or this long was waited in all. SQLite's own waiting is not used: its pauses grow to 100 ms, and it does
/// not wait in every case.
pub(crate) fn patiently<T>(bound: Duration, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let (mut pause, mut waited) = (FIRST, Duration::ZERO);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && waited < bound => {
                // Random, so that those who wait do not come back at once.
                let random = (SystemEnvironment.random() % 1024) as u32;
                let slept = (pause / 2 + pause * random / 2048).max(Duration::from_micros(50));
                thread::sleep(slept);
                waited += slept;
                pause = (pause * 2).min(LONGEST);
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
    }

    #[test]
    fn what_is_free_in_time_is_taken_and_the_wait_ends() {
        let mut tries = 0;
        let taken = patiently(Duration::from_secs(30), || {
            tries += 1;
            if tries < 8 { Err(busy()) } else { Ok(tries) }
        });
        assert_eq!(taken.unwrap(), 8);
        let mut tries = 0;
        let given_up = patiently::<()>(Duration::from_millis(40), || {
            tries += 1;
            Err(busy())
        });
        assert!(is_busy(&given_up.unwrap_err()) && (4..1_000).contains(&tries), "{tries}");
    }

    #[test]
    fn other_failures_do_not_wait() {
        let mut tries = 0;
        let failed = patiently::<()>(Duration::from_secs(30), || {
            tries += 1;
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None))
        });
        assert!(failed.is_err() && tries == 1);
    }
}
