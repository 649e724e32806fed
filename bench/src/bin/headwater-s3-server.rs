//! Starts an S3 server for the tests of many processes: prints how to name it in HEADWATER_S3_SERVER, and stops it when its standard input
//! ends or a signal asks it to.
//!
//! With `--counted`, what it names is a proxy before the server, and for each line of standard input it prints the requests since the last
//! one, as one line of JSON: a script in any language can so count what any client asks for.

use std::process::ExitCode;

use headwater_bench::Result;
use headwater_bench::proxy::{Proxy, Request};
use headwater_bench::server::{Product, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: headwater-s3-server [--counted] [rustfs | seaweedfs]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let counted = arguments.first().is_some_and(|first| first == "--counted");
    let product = match arguments.iter().skip(counted.into()).map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["rustfs"] => Some(Product::RustFs),
        ["seaweedfs"] => Some(Product::SeaweedFs),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(product, counted).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headwater-s3-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(product: Option<Product>, counted: bool) -> Result<()> {
    let server = product.map_or_else(Server::start, Server::start_product)?;
    eprintln!("{server}");
    let proxy = if counted { Some(Proxy::before(&server).await?) } else { None };
    println!("{}", server.setting_at(proxy.as_ref().map_or(server.address(), Proxy::addr)));
    until_asked_to_end(proxy.as_ref()).await;
    Ok(())
}

async fn until_asked_to_end(proxy: Option<&Proxy>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else { return };
    let mut asked = BufReader::new(tokio::io::stdin()).lines();
    let end_of_input = async {
        while let Ok(Some(_)) = asked.next_line().await {
            if let Some(proxy) = proxy {
                println!("{}", taken(proxy).await);
            }
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = end_of_input => {}
    }
}

/// What has arrived since the last time, when all of it is answered.
async fn taken(proxy: &Proxy) -> serde_json::Value {
    while !proxy.is_quiet() {
        tokio::task::yield_now().await;
    }
    let requests = proxy.requests();
    proxy.clear();
    let told = |request: &Request| {
        serde_json::json!({
            "verb": request.verb.name(), "key": request.key, "status": request.status, "range": request.range,
            "sent": request.sent, "received": request.received, "begun": request.span.start, "ended": request.span.end,
        })
    };
    requests.iter().map(told).collect()
}
