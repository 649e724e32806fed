//! The bounded wait for others that hold the file.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};
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

/// What a test does in a pause.
#[cfg(test)]
pub(crate) type Meanwhile = Box<dyn FnOnce()>;

/// What one request may still wait, for whatever it waits. Pauses are counted, and no clock is read.
pub(crate) struct Patience {
    left: Cell<Duration>,
    /// What happens in a pause.
    #[cfg(test)]
    pub(crate) meanwhile: Cell<Option<Meanwhile>>,
}

impl Patience {
    pub(crate) fn new(left: Duration) -> Self {
        Self {
            left: Cell::new(left),
            #[cfg(test)]
            meanwhile: Cell::default(),
        }
    }

    /// Tries until nobody is in the way, or nothing is left. SQLite's own waiting is not used: its pauses grow to 100 ms, and it does not wait
    /// in every case.
    pub(crate) fn patiently<T>(&self, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut longest = FIRST;
        loop {
            match attempt() {
                Err(error) if is_busy(&error) && self.pause(&mut longest) => {}
                outcome => return outcome,
            }
        }
    }

    /// Locks, unless others of this process hold it until nothing is left.
    pub(crate) fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        let mut longest = FIRST;
        loop {
            match mutex.try_lock() {
                Ok(guard) => return Some(guard),
                // Whoever panicked has changed it wholly or not at all.
                Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
                Err(TryLockError::WouldBlock) if self.pause(&mut longest) => {}
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    /// Pauses; `false` where nothing is left.
    fn pause(&self, longest: &mut Duration) -> bool {
        let left = self.left.get();
        if left.is_zero() {
            return false;
        }
        // Random, so that those who wait do not come back at once.
        let random = (SystemEnvironment.random() % 1024) as u32;
        let pause = (*longest / 2 + *longest * random / 2048).max(Duration::from_micros(50)).min(left);
        #[cfg(test)]
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        thread::sleep(pause);
        self.left.set(left - pause);
        *longest = (*longest * 2).min(LONGEST);
        true
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
        let taken = Patience::new(Duration::from_secs(30)).patiently(|| {
            tries += 1;
            if tries < 8 { Err(busy()) } else { Ok(tries) }
        });
        assert_eq!(taken.unwrap(), 8);
        let mut tries = 0;
        let given_up = Patience::new(Duration::from_millis(40)).patiently::<()>(|| {
            tries += 1;
            Err(busy())
        });
        assert!(is_busy(&given_up.unwrap_err()) && (4..1_000).contains(&tries), "{tries}");
    }

    #[test]
    fn what_one_step_has_waited_the_next_ones_cannot() {
        let patience = Patience::new(Duration::from_millis(20));
        let held = Mutex::new(());
        let guard = held.lock().unwrap();
        assert!(patience.lock(&held).is_none());
        let mut tries = 0;
        let mut step = || {
            patience.patiently::<()>(|| {
                tries += 1;
                Err(busy())
            })
        };
        assert!(step().is_err() && step().is_err());
        assert_eq!(tries, 2, "each tries once and waits no more");
        drop(guard);
        assert!(patience.lock(&held).is_some());
    }

    #[test]
    fn other_failures_do_not_wait() {
        let mut tries = 0;
        let failed = Patience::new(Duration::from_secs(30)).patiently::<()>(|| {
            tries += 1;
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None))
        });
        assert!(failed.is_err() && tries == 1);
    }
}
