//! Small aligned tables, and text that a terminal shows as it is.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// How wide a cell may get on a terminal.
const WIDEST: usize = 60;

/// What may be done for the eye.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Escape sequences are understood.
    pub(crate) color: bool,
    /// Long cells are cut: nobody but a person reads this.
    pub(crate) cut: bool,
}

/// A table of text, a header above it.
#[derive(Debug)]
pub(crate) struct Grid {
    style: Style,
    header: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Vec<Option<String>>>,
}

impl Grid {
    /// A table with these columns; a name that begins with `>` is aligned to the right.
    pub(crate) fn new(style: Style, columns: &[&str]) -> Self {
        let right = columns.iter().map(|name| name.starts_with('>')).collect();
        Self::with(style, columns.iter().map(|name| name.trim_start_matches('>').to_owned()).collect(), right)
    }

    /// A table with these columns, and which of them are aligned to the right.
    pub(crate) fn with(style: Style, header: Vec<String>, right: Vec<bool>) -> Self {
        let header = header.into_iter().map(|name| visible(&name).into_owned()).collect();
        Self { style, header, right, rows: Vec::new() }
    }

    /// Adds a row; `None` is null.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        let shown = |text: String| {
            let text = visible(&text).into_owned();
            if self.style.cut { cut(text) } else { text }
        };
        self.rows.push(cells.into_iter().map(|cell| cell.map(shown)).collect());
    }

    /// Adds a row of text.
    pub(crate) fn texts<const N: usize>(&mut self, cells: [String; N]) {
        self.row(cells.into_iter().map(Some));
    }

    /// The table, every line ended.
    pub(crate) fn render(&self) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|name| name.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.as_deref().unwrap_or("null").width());
            }
        }
        let mut out = String::new();
        self.line(&mut out, &widths, self.header.iter().map(|name| (name.as_str(), false)));
        let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        self.line(&mut out, &widths, rules.iter().map(|rule| (rule.as_str(), false)));
        for row in &self.rows {
            self.line(&mut out, &widths, row.iter().map(|cell| (cell.as_deref().unwrap_or("null"), cell.is_none())));
        }
        out
    }

    fn line<'a>(&self, out: &mut String, widths: &[usize], cells: impl Iterator<Item = (&'a str, bool)>) {
        let start = out.len();
        for (i, ((text, null), width)) in cells.zip(widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(text.width()));
            let shown = if null && self.style.color { Cow::Owned(format!("\u{1b}[2m{text}\u{1b}[0m")) } else { Cow::Borrowed(text) };
            if i > 0 {
                out.push_str("  ");
            }
            if self.right.get(i) == Some(&true) {
                out.push_str(&padding);
                out.push_str(&shown);
            } else {
                out.push_str(&shown);
                out.push_str(&padding);
            }
        }
        let end = out.trim_end_matches(' ').len().max(start);
        out.truncate(end);
        out.push('\n');
    }
}

/// The text with control characters escaped, so that a value neither breaks a line nor commands the terminal.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

fn cut(text: String) -> String {
    if text.width() <= WIDEST {
        return text;
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if short.width() >= WIDEST {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// RFC 3339 in UTC, with milliseconds.
pub(crate) fn time(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    at.map_or_else(|| format!("{ms} ms after 1970"), |at| at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

/// A count with its noun.
pub(crate) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_the_script() {
        let mut grid = Grid::new(Style::default(), &["name", ">rows"]);
        grid.texts(["größe".into(), "7".into()]);
        grid.texts(["日本".into(), "12345".into()]);
        grid.row([None, Some("1".into())]);
        let expected = "name    rows\n─────  ─────\ngröße      7\n日本   12345\nnull       1\n";
        assert_eq!(grid.render(), expected);
    }

    #[test]
    fn no_value_commands_the_terminal() {
        assert_eq!(visible("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        let style = Style { color: true, cut: true };
        let mut grid = Grid::new(style, &["c"]);
        grid.texts(["x".repeat(100)]);
        grid.row([None]);
        let rendered = grid.render();
        assert!(rendered.contains('…') && rendered.contains("\u{1b}[2mnull\u{1b}[0m"), "{rendered}");
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
    }
}
