//! Requests that block, for backends whose I/O does: each is one task on tokio's blocking pool, or runs in place outside a runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinError;

use crate::error::{Error, ErrorKind, Result};

/// How a request came to no outcome.
#[derive(Debug)]
pub enum Failed {
    /// With an error that settles it.
    Definite(Error),
    /// By a panic: whether it was applied is not known.
    Midway(Error),
}

impl Failed {
    /// Says more about the error.
    #[must_use]
    pub fn map(self, more: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Self::Definite(error) => Self::Definite(more(error)),
            Self::Midway(error) => Self::Midway(more(error)),
        }
    }

    /// The error of a request that may be repeated freely.
    pub fn of_read(self) -> Error {
        let (Self::Definite(error) | Self::Midway(error)) = self;
        error
    }

    /// The outcome of a write: unknown where it broke off.
    pub fn of_write<T>(self, unknown: impl FnOnce(Error) -> T) -> Result<T> {
        match self {
            Self::Definite(error) => Err(error),
            Self::Midway(error) => Ok(unknown(error)),
        }
    }
}

/// Runs a whole request. Cancellation: dropping the future does not stop it. It runs wholly, or, if the runtime shuts down before it begins,
/// not at all.
pub async fn run<T: Send + 'static>(request: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Failed> {
    let Ok(runtime) = Handle::try_current() else { return request().map_err(Failed::Definite) };
    ended(runtime.spawn_blocking(request).await)
}

/// [`run`], for a request that must begin within this time: where no thread takes it up, it never runs, and is `Unavailable`. A runtime must
/// have time enabled.
pub async fn run_within<T: Send + 'static>(patience: Duration, request: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Failed> {
    let Ok(runtime) = Handle::try_current() else { return request().map_err(Failed::Definite) };
    // The thread takes it out, or whoever is out of patience: a task in the pool's queue cannot be ended before it is its turn.
    let request = Arc::new(Mutex::new(Some(request)));
    let waiting = request.clone();
    let mut task = runtime.spawn_blocking(move || match take(&waiting) {
        Some(request) => request(),
        None => Err(never_began()),
    });
    match tokio::time::timeout(patience, &mut task).await {
        Ok(outcome) => ended(outcome),
        Err(_) => match take(&request) {
            Some(_) => Err(Failed::Definite(never_began())),
            None => ended(task.await),
        },
    }
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn never_began() -> Error {
    Error::new(ErrorKind::Unavailable, "no thread was free for the request in time, so it did not run; try again")
}

fn ended<T>(outcome: Result<Result<T>, JoinError>) -> Result<T, Failed> {
    let failed = |problem, cause| Error::new(ErrorKind::Unavailable, problem).because(cause);
    match outcome {
        Ok(outcome) => outcome.map_err(Failed::Definite),
        Err(never_ran) if never_ran.is_cancelled() => {
            Err(Failed::Definite(failed("the runtime shut down before the request ran", never_ran)))
        }
        Err(midway) => Err(Failed::Midway(failed("the request broke off midway", midway))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn a_request_runs_in_place_outside_a_runtime() {
        let here = std::thread::current().id();
        let ran = futures::executor::block_on(run_within(Duration::ZERO, || Ok(std::thread::current().id())));
        assert_eq!(ran.unwrap(), here);
    }

    #[test]
    fn one_that_panics_may_have_been_applied_and_one_that_never_began_was_not() {
        let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let broken = run::<()>(|| panic!("midway")).await.unwrap_err();
            assert!(matches!(broken.of_write(|error| error.kind()), Ok(ErrorKind::Unavailable)));
            let (release, wait) = mpsc::channel::<()>();
            let (ran, runs) = mpsc::channel::<()>();
            let taken = spawn_blocking(move || wait.recv());
            let late = run_within(Duration::from_millis(5), move || ran.send(()).map_err(|_| Error::invalid("nobody looks"))).await;
            assert!(matches!(late.unwrap_err().of_write(|_| ()), Err(error) if error.kind() == ErrorKind::Unavailable));
            release.send(()).unwrap();
            taken.await.unwrap().unwrap();
            spawn_blocking(|| ()).await.unwrap();
            assert!(runs.recv().is_err());
        });
    }
}
