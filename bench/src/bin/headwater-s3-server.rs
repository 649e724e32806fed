//! Starts an S3 server for the tests of many processes: prints how to name it in HEADWATER_S3_SERVER, and stops it when its standard input
//! ends or a signal asks it to.

use std::process::ExitCode;

use headwater_bench::server::{Product, Server};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: headwater-s3-server [rustfs | seaweedfs]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let started = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Server::start(),
        ["rustfs"] => Server::start_product(Product::RustFs),
        ["seaweedfs"] => Server::start_product(Product::SeaweedFs),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match started {
        Ok(server) => {
            eprintln!("{server}");
            println!("{}", server.setting());
            until_asked_to_end().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("headwater-s3-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_asked_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else { return };
    let (mut input, mut buffer) = (tokio::io::stdin(), [0; 64]);
    let end_of_input = async { while input.read(&mut buffer).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = end_of_input => {}
    }
}
