//! What goes on, for a person: one line for each place that works, on a terminal; else a line for each group that is done.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use headwater_gate::{News, Place};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    /// None where nobody looks at a terminal.
    lines: Option<Vec<(&'static str, ProgressBar)>>,
}

impl Progress {
    pub(crate) fn start(places: &[Place]) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { lines: None };
        }
        let all = MultiProgress::new();
        let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line = |place: &Place| {
            let line = all.add(ProgressBar::new_spinner().with_style(style.clone()));
            line.enable_steady_tick(Duration::from_millis(120));
            (place.authority(), line)
        };
        Self { lines: Some(places.iter().map(line).collect()) }
    }

    pub(crate) fn told(&self) -> Arc<dyn Fn(News) + Send + Sync> {
        let lines = self.lines.clone();
        Arc::new(move |news| match (&lines, news) {
            (Some(lines), News::Begun(what)) => {
                if let Some((_, line)) = lines.iter().find(|(authority, _)| what.starts_with(authority)) {
                    line.set_message(what);
                }
            }
            (None, News::Done(what)) => eprintln!("{what}"),
            _ => {}
        })
    }

    pub(crate) fn end(&self) {
        self.lines.iter().flatten().for_each(|(_, line)| line.finish_and_clear());
    }
}
