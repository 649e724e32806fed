//! Ctrl-C, and being asked to terminate: the first ends the measurement and has what it wrote removed, the second ends at once.

use headwater_gate::{Error, Place, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The status of a command that an interrupt has ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Becomes true when the user asks to stop.
pub(crate) fn interrupted(places: &[Place]) -> Result<watch::Receiver<bool>> {
    let (stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::io("waiting for a signal"))?;
    let written: Vec<String> = places.iter().map(Place::written).collect();
    let waiting = move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else { return };
            asked(&mut interrupt, &mut terminate).await;
            eprintln!("headwater-gate: stopping, and removing what it wrote; interrupt again to end at once");
            // Nobody waits any more when the measurement is over.
            let _ = stop.send(true);
            asked(&mut interrupt, &mut terminate).await;
            eprintln!("headwater-gate: ended; remove what is left below {}", written.join(" and below "));
            std::process::exit(INTERRUPTED.into());
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(waiting).map_err(Error::io("waiting for a signal"))?;
    Ok(stopped)
}

async fn asked(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
