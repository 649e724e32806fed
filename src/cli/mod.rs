//! The command: arguments in, exit code out. Everything between is a call of the library.

mod admin;
mod args;
mod changes;
mod condition;
mod failure;
mod input;
mod load;
mod optimize;
mod output;
mod point;
mod progress;
mod read;
mod render;
mod schema_text;
mod show;
#[cfg(feature = "sql")]
mod sql;
mod table;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind as Usage;
use headwater::{Branch, Catalog, Error};

use self::args::{Cli, Command, Common};
use self::failure::Failure;

/// Runs the command.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.common.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => return end(&Failure::Error(Error::invalid("the command cannot start its threads").because(source)), json),
    };
    match runtime.block_on(run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&failure, json),
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let common = cli.common;
    match cli.command {
        Command::Load(args) => load::run(args, common).await,
        Command::Heads(args) => show::heads(&args, &common).await,
        Command::Log(args) => show::log(&args, &common).await,
        Command::Read(args) => read::run(args, &common).await,
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(args, &common).await,
        Command::Changes(args) => changes::run(args, &common).await,
        Command::Diff(args) => changes::diff(&args, &common).await,
        Command::Files(args) => read::files(&args, &common).await,
        Command::Table(args) => table::run(args, &common).await,
        Command::Optimize(args) => optimize::run(args, &common).await,
        Command::Verify(args) => admin::verify(&args, &common).await,
        Command::Adapters => admin::adapters(&common),
        Command::Doctor(args) => admin::doctor(&args, &common).await,
    }
}

/// Help and version are no failures; what is one is told in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), Usage::DisplayHelp | Usage::DisplayVersion) {
        return match output::print(&error.render().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => end(&failure, false),
        };
    }
    let text = error.render().to_string();
    if error.kind() == Usage::DisplayHelpOnMissingArgumentOrSubcommand {
        // Whoever asks for nothing gets to see what there is.
        let _ = std::io::stderr().write_all(text.as_bytes());
        return ExitCode::from(failure::USAGE);
    }
    let text = text.split("\n\nUsage:").next().unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or(text);
    let message = text.trim().trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let json = std::env::args_os().any(|argument| argument == "--json");
    end(&Failure::Usage(format!("{message}; see --help")), json)
}

fn end(failure: &Failure, json: bool) -> ExitCode {
    if let Some(line) = failure.line(json) {
        // If standard error is gone, too, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    ExitCode::from(failure.code())
}

/// Opens a catalog that is there.
async fn open(url: &str, common: &Common) -> headwater::Result<Catalog> {
    builder(url, common).open().await
}

/// Opens a branch of a catalog that is there.
async fn open_branch(url: &str, common: &Common) -> headwater::Result<(Catalog, Branch)> {
    let catalog = open(url, common).await?;
    let branch = catalog.branch(&common.branch)?;
    Ok((catalog, branch))
}

/// Commits carry the user's name.
fn builder(url: &str, common: &Common) -> headwater::Builder {
    let builder = match &common.control {
        Some(control) => headwater::builder(url).control(control),
        None => headwater::builder(url),
    };
    match std::env::var("USER").or_else(|_| std::env::var("USERNAME")) {
        Ok(user) if !user.is_empty() => builder.actor(user),
        _ => builder,
    }
}
