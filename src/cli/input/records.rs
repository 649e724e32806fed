//! The records of a CSV file (RFC 4180), strictly: a quote that is never closed, or text behind a closing quote, is an error with its line
//! and not a field that swallows the rest. Tells a quoted field from a plain one, so that an empty text is not a null.

use std::io::{self, BufRead};

/// Reads records from a stream of bytes.
#[derive(Debug)]
pub(super) struct Records<R> {
    reader: R,
    bytes: Vec<u8>,
    fields: Vec<Span>,
    /// The line that comes next.
    line: u64,
    /// A carriage return ended the last record: a line feed behind it belongs to it.
    after_return: bool,
    /// Whether an empty line is a record. It is where there is one column: a null.
    empty_lines: bool,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    end: usize,
    quoted: bool,
}

/// Why there is no record.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    NotUtf8,
    /// A quote opened in this line is never closed.
    OpenQuote(u64),
    /// Text follows a closing quote in this line.
    AfterQuote(u64),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// One record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    text: &'a str,
    fields: &'a [Span],
    /// The line it begins in.
    pub(super) line: u64,
}

impl<'a> Record<'a> {
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Bytes of all its fields.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    /// The text of each field, and whether it was quoted.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a str, bool)> {
        let (text, mut start) = (self.text, 0);
        self.fields.iter().map(move |span| {
            let field = text.get(start..span.end).unwrap_or_default();
            start = span.end;
            (field, span.quoted)
        })
    }
}

enum State {
    Plain,
    Quoted,
    /// Behind a quote inside a quoted field: it closes the field, or is the first half of a doubled one.
    Quote,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, bytes: Vec::new(), fields: Vec::new(), line: 1, after_return: false, empty_lines: false }
    }

    /// Makes empty lines records.
    pub(super) fn keep_empty_lines(&mut self) {
        self.empty_lines = true;
    }

    /// The next record, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Fault> {
        let line = loop {
            let line = self.line + u64::from(self.after_return && self.reader.fill_buf()?.is_empty());
            if !self.read()? {
                return Ok(None);
            }
            let empty = self.bytes.is_empty() && matches!(self.fields.as_slice(), [Span { quoted: false, .. }]);
            if !empty || self.empty_lines {
                break line;
            }
        };
        // Field boundaries stand beside ASCII characters, so that each field of valid text is valid.
        let text = std::str::from_utf8(&self.bytes).map_err(|_| Fault::NotUtf8)?;
        Ok(Some(Record { text, fields: &self.fields, line }))
    }

    /// Reads up to the end of a line outside quotes; false at the end of the file.
    fn read(&mut self) -> Result<bool, Fault> {
        self.bytes.clear();
        self.fields.clear();
        if std::mem::take(&mut self.after_return) && self.reader.fill_buf()?.first() == Some(&b'\n') {
            self.reader.consume(1);
        }
        let (mut state, mut quoted, mut opened) = (State::Plain, false, self.line);
        let mut begun = false;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return match state {
                    State::Quoted => Err(Fault::OpenQuote(opened)),
                    _ if !begun => Ok(false),
                    _ => {
                        self.fields.push(Span { end: self.bytes.len(), quoted });
                        self.line += 1;
                        Ok(true)
                    }
                };
            }
            begun = true;
            let special = |byte: &u8| match state {
                State::Quoted => *byte == b'"',
                State::Plain => matches!(byte, b',' | b'\n' | b'\r' | b'"'),
                State::Quote => true,
            };
            let plain = chunk.iter().position(special).unwrap_or(chunk.len());
            self.bytes.extend_from_slice(&chunk[..plain]);
            if matches!(state, State::Quoted) {
                self.line += chunk[..plain].iter().filter(|byte| **byte == b'\n').count() as u64;
            }
            let Some(&byte) = chunk.get(plain) else {
                self.reader.consume(plain);
                continue;
            };
            self.reader.consume(plain + 1);
            let field_start = self.fields.last().map_or(0, |span| span.end);
            match (&state, byte) {
                (State::Quoted, _) => state = State::Quote,
                (State::Quote, b'"') => {
                    self.bytes.push(b'"');
                    state = State::Quoted;
                }
                (State::Plain, b'"') if self.bytes.len() == field_start => {
                    (state, quoted, opened) = (State::Quoted, true, self.line);
                }
                (State::Plain, b'"') => self.bytes.push(b'"'),
                (_, b',') => {
                    self.fields.push(Span { end: self.bytes.len(), quoted });
                    (state, quoted) = (State::Plain, false);
                }
                (_, b'\n' | b'\r') => {
                    self.fields.push(Span { end: self.bytes.len(), quoted });
                    self.line += 1;
                    self.after_return = byte == b'\r';
                    return Ok(true);
                }
                (State::Quote | State::Plain, _) => return Err(Fault::AfterQuote(self.line)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<(u64, Vec<(String, bool)>)>;

    fn read(text: &[u8], empty_lines: bool) -> Result<Rows, Fault> {
        // A buffer of one byte takes every path across chunks.
        let mut records = Records::new(io::BufReader::with_capacity(1, text));
        records.empty_lines = empty_lines;
        let mut rows = Vec::new();
        while let Some(record) = records.next()? {
            rows.push((record.line, record.fields().map(|(text, quoted)| (text.to_owned(), quoted)).collect()));
        }
        Ok(rows)
    }

    fn texts(text: &str) -> Vec<Vec<String>> {
        read(text.as_bytes(), false).unwrap().into_iter().map(|(_, row)| row.into_iter().map(|(text, _)| text).collect()).collect()
    }

    #[test]
    fn quotes_commas_and_line_ends() {
        assert_eq!(texts("a,b\n1,2\n"), [["a", "b"], ["1", "2"]]);
        assert_eq!(texts("a,b\r\n1,2\r\n"), [["a", "b"], ["1", "2"]]);
        assert_eq!(texts("a,b\r1,2"), [["a", "b"], ["1", "2"]]);
        assert_eq!(texts("\"x, \"\"y\"\"\",\"two\nlines\"\n"), [["x, \"y\"", "two\nlines"]]);
        assert_eq!(texts("5\" pipe,\n,\n"), [["5\" pipe", ""], ["", ""]]);
        assert_eq!(texts("a\n\n\nb\n"), [["a"], ["b"]]);
        assert!(texts("").is_empty());
    }

    #[test]
    fn lines_are_counted_and_quoting_is_told() {
        let rows = read(b"a,b\r\n\"x\ny\",1\n\n\"\",\n", false).unwrap();
        assert_eq!(rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(rows[2].1, [(String::new(), true), (String::new(), false)]);
        assert_eq!(read(b"a\n\n1\n", true).unwrap().len(), 3);
        assert_eq!(read(b"a\r\n1\r\n", true).unwrap().len(), 2);
    }

    #[test]
    fn broken_quotes_and_bytes_are_faults() {
        assert!(matches!(read(b"a\n1\n\"x\n2\n", false), Err(Fault::OpenQuote(3))));
        assert!(matches!(read(b"a\n\"x\"y\n", false), Err(Fault::AfterQuote(2))));
        assert!(matches!(read(b"a\n\xE9\n", false), Err(Fault::NotUtf8)));
    }
}
