//! Decoders of other projects may panic on a damaged file. Here such a file is an error like any other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// A panic, as an error.
#[derive(Debug)]
pub(super) struct Panicked(String);

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the file is damaged in a way its decoder does not expect ({})", self.0)
    }
}

impl std::error::Error for Panicked {}

/// Runs a step of a decoder. After a panic its state is whatever it is: the caller must not use the decoder again.
pub(super) fn guarded<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    HOOK.call_once(|| {
        let other = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                other(info);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(step));
    GUARDED.set(before);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
        Panicked(text.unwrap_or("no message").to_owned())
    })
}
