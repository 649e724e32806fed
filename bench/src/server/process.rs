//! A server's process: ready when it says so, and gone, with its data, when its owner is gone.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use tempfile::TempDir;

use super::product::{Launch, Product};
use super::wait;
use crate::client::exchange;
use crate::{Error, Result};

/// How often readiness is asked for, and how long between: a minute in all, for a machine under load.
const POLLS: usize = 1200;
const BETWEEN: Duration = Duration::from_millis(50);

/// Reads a process id, then waits: for a line, which dismisses it, or for the end of its input, which only the end of the owner's process
/// brings (a static is never dropped, and SIGKILL runs no code). Then it kills the server and removes the data.
const WATCH: &str = r#"read -r pid || exit 0; read -r dismissed || { kill -9 "$pid"; rm -rf "$1"; }"#;

#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    watch: Child,
    to_watch: Option<ChildStdin>,
    _directory: TempDir,
}

impl Process {
    /// Starts a server with empty data, and waits until it is ready.
    pub(super) fn start(product: Product, binary: &Path, name: &str) -> Result<(Self, SocketAddr)> {
        let directory = tempfile::Builder::new().prefix("headwater-s3-").tempdir().map_err(Error::io("making a folder for the server"))?;
        let log = directory.path().join("log");
        let output = std::fs::File::create(&log).map_err(Error::io("making the server's log"))?;
        let errors = output.try_clone().map_err(Error::io("making the server's log"))?;
        std::fs::create_dir(directory.path().join("data")).map_err(Error::io("making the server's data folder"))?;
        let Launch { mut command, address, ready } = product.launch(binary, directory.path())?;

        // Both run in groups of their own: Ctrl-C ends the tests, and the watch then ends the server.
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "sh"]).arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut watch = watch.process_group(0).spawn().map_err(Error::io("starting the server's watch"))?;
        let to_watch = watch.stdin.take();
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let server = match command.spawn() {
            Ok(server) => server,
            Err(error) => {
                drop(to_watch);
                let _ = watch.wait();
                return Err(Error::io(format!("starting {}", binary.display()))(error));
            }
        };
        let mut process = Self { server, watch, to_watch, _directory: directory };
        let pid = process.server.id();
        process.tell_watch(&format!("{pid}\n")).map_err(Error::io("telling the watch which server"))?;

        match process.until_ready(address, ready) {
            Ok(()) => Ok((process, address)),
            Err(what) => {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                let tail = log.len().saturating_sub(2000);
                let log = log.char_indices().find(|(index, _)| *index >= tail).map_or("", |(index, _)| &log[index..]);
                Err(Error::NotReady { server: name.to_owned(), what, log: log.to_owned() })
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    fn until_ready(&mut self, address: SocketAddr, path: &str) -> Result<(), &'static str> {
        for _ in 0..POLLS {
            if !matches!(self.server.try_wait(), Ok(None)) {
                return Err("ended while it was starting");
            }
            if wait(status(address, path)).is_ok_and(|status| status == 200) {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        Err("did not get ready")
    }

    fn tell_watch(&mut self, line: &str) -> std::io::Result<()> {
        self.to_watch.as_mut().map_or(Ok(()), |watch| watch.write_all(line.as_bytes()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.server.kill();
        // The watch is dismissed while the server is not yet waited for: until then its id belongs to nobody else.
        let _ = self.tell_watch("dismissed\n");
        drop(self.to_watch.take());
        let _ = self.watch.wait();
        let _ = self.server.wait();
    }
}

async fn status(address: SocketAddr, path: &str) -> Result<u16> {
    let request = hyper::Request::get(path).header("host", address.to_string()).body(Empty::<Bytes>::new());
    let request = request.map_err(Error::connection(path))?;
    Ok(exchange(address, request).await.map_err(Error::connection(path))?.status().as_u16())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_named_with_its_log() {
        let directory = tempfile::tempdir().expect("a directory");
        let binary = directory.path().join("server");
        std::fs::write(&binary, "#!/bin/sh\necho the disk is full >&2\nexit 1\n").expect("written");
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).expect("made executable");
        let error = Process::start(Product::RustFs, &binary, "Server 1.0").expect_err("no server").to_string();
        for part in ["Server 1.0", "ended while it was starting", "the disk is full"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }

    #[test]
    fn a_missing_binary_is_named() {
        let error = Process::start(Product::SeaweedFs, Path::new("no/such/weed"), "Server 1.0").expect_err("no server");
        assert!(error.to_string().contains("no/such/weed"), "{error}");
    }
}
