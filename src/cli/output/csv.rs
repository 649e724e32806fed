//! CSV that `load` reads back to the same values: null is an empty field, an empty text a quoted one.

use std::fmt::Write as _;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Schema};
use headwater::Error;

use super::target::Target;
use super::zone::printable;
use super::{Sink, failed};
use crate::cli::failure::Failure;
use crate::cli::schema_text::type_name;

/// Writes CSV.
pub(super) struct CsvWriter {
    target: Target,
    lines: String,
}

impl CsvWriter {
    /// Writes the header.
    pub(super) fn new(schema: &Schema, target: Target) -> Result<Self, Failure> {
        if let Some(field) = schema.fields().iter().find(|field| is_nested(field.data_type())) {
            let message =
                format!("a CSV field cannot hold a {}; use another format, or leave the column out", type_name(field.data_type()));
            return Err(Error::invalid(message).at("column", field.name()).into());
        }
        let mut writer = Self { target, lines: String::new() };
        for (i, field) in schema.fields().iter().enumerate() {
            writer.field(i, Some(field.name()));
        }
        writer.lines.push('\n');
        writer.pass_on()?;
        Ok(writer)
    }

    fn field(&mut self, index: usize, text: Option<&str>) {
        if index > 0 {
            self.lines.push(',');
        }
        match text {
            None => {}
            Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
                self.lines.push('"');
                self.lines.push_str(&text.replace('"', "\"\""));
                self.lines.push('"');
            }
            Some(text) => self.lines.push_str(text),
        }
    }

    fn pass_on(&mut self) -> Result<(), Failure> {
        self.target.text(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested() || matches!(data_type, DataType::Dictionary(_, values) if values.is_nested())
}

impl Sink for CsvWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let batch = printable(batch)?;
        let options = FormatOptions::new().with_display_error(false);
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (i, (formatter, nulls)) in formatters.iter().zip(&nulls).enumerate() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    self.field(i, None);
                } else {
                    text.clear();
                    write!(text, "{}", formatter.value(row)).map_err(|_| unprintable(&batch, i))?;
                    self.field(i, Some(&text));
                }
            }
            self.lines.push('\n');
        }
        self.pass_on()
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.target.complete()
    }
}

fn unprintable(batch: &RecordBatch, column: usize) -> Failure {
    Error::invalid("a value has no text").at("column", batch.schema_ref().field(column).name()).into()
}
