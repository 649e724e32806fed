//! The aligned table that people read: the first rows, and how many there are in all.

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Schema;

use super::target::{Target, style};
use super::zone::printable;
use super::{Extent, Sink, failed};
use crate::cli::failure::Failure;
use crate::cli::render::{Grid, count};

/// Shows rows up to a number of them, and counts the rest.
pub(super) struct People {
    grid: Grid,
    extent: Extent,
    shown: usize,
    seen: u64,
    target: Target,
}

impl People {
    /// An empty table.
    pub(super) fn new(schema: &Schema, extent: Extent, target: Target) -> Self {
        let style = match target {
            Target::Stdout(_) => style(),
            Target::File(_) => Default::default(),
        };
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        let numbers = schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
        Self { grid: Grid::with(style, names, numbers), extent, shown: 0, seen: 0, target }
    }
}

impl Sink for People {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.seen += batch.num_rows() as u64;
        let rows = batch.num_rows().min(self.extent.shown - self.shown);
        if rows == 0 {
            return Ok(());
        }
        let batch = printable(&batch.slice(0, rows))?;
        let options = FormatOptions::new().with_null("null");
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        for row in 0..rows {
            let cell = |(formatter, column): (&ArrayFormatter<'_>, &arrow_array::ArrayRef)| {
                let null = column.logical_nulls().is_some_and(|nulls| nulls.is_null(row));
                if null { None } else { Some(formatter.value(row).to_string()) }
            };
            self.grid.row(formatters.iter().zip(batch.columns()).map(cell));
        }
        self.shown += rows;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        let total = self.extent.total.unwrap_or(self.seen);
        let mut text = self.grid.render();
        text.push_str(&count(total, "row"));
        if (self.shown as u64) < total {
            text.push_str(&format!(" in all, {} shown", self.shown));
        }
        text.push('\n');
        self.target.text(&text)?;
        self.target.complete()
    }
}
