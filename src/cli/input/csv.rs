//! CSV: a header, then records. Columns are matched with a table's by name; without a table, each gets the narrowest type that holds all its
//! values. An empty field is null, a quoted empty one is an empty text where the column is text.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use headwater::schema::check_schema;
use headwater::{Error, Result};

use super::cell::Kinds;
use super::column::Column;
use super::file::{InputFile, Text};
use super::infer::Guess;
use super::records::{Fault, Record, Records};
use super::{BATCH_BYTES, BATCH_ROWS, Batches, Format, Source, misfit};
use crate::cli::progress::Progress;

/// A CSV file whose header was read.
#[derive(Debug)]
pub(super) struct Csv {
    file: InputFile,
    nulls: Arc<[String]>,
    schema: SchemaRef,
    inferred: Option<u64>,
}

impl Csv {
    pub(super) fn open(file: InputFile, nulls: Arc<[String]>, target: Option<&Schema>, progress: &Progress) -> Result<Self> {
        let mut records = Records::new(file.open_text(Format::Csv, progress)?);
        let names = header(&file, &mut records)?;
        let (schema, inferred) = match target {
            Some(target) => (typed(&file, &names, target)?, None),
            None => {
                let (schema, rows) = infer(&file, records, &names, &nulls)?;
                (schema, Some(rows))
            }
        };
        Ok(Self { file, nulls, schema, inferred })
    }
}

impl Source for Csv {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Inference has read every value: there is nothing left that could fail.
    fn checked_rows(&self) -> Option<u64> {
        self.inferred
    }

    fn batches(&self, progress: &Progress) -> Result<Batches> {
        let mut records = Records::new(self.file.open_text(Format::Csv, progress)?);
        header(&self.file, &mut records)?;
        let columns = self.schema.fields().iter().map(|field| Column::of_text(field)).collect::<Result<Vec<_>>>()?;
        let texts = columns.iter().map(Column::is_text).collect();
        Ok(Box::new(Reader {
            file: self.file.clone(),
            nulls: self.nulls.clone(),
            schema: self.schema.clone(),
            records,
            columns,
            texts,
            done: false,
        }))
    }
}

/// The column names.
fn header(file: &InputFile, records: &mut Records<Text>) -> Result<Vec<String>> {
    let names: Vec<String> = match records.next().map_err(|fault| explain(file, fault))? {
        Some(record) => record.fields().map(|(name, _)| name.to_owned()).collect(),
        None => return Err(file.error("the file is empty; a CSV file begins with the column names")),
    };
    for (i, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(file.error(format!("column {} of the header has no name; name it", i + 1)).at("line", 1));
        }
        if let Some(first) = names[..i].iter().position(|other| other == name) {
            let message = format!("columns {} and {} of the header are both named {name:?}; rename one", first + 1, i + 1);
            return Err(file.error(message).at("line", 1).at("column", name));
        }
    }
    if names.len() == 1 {
        records.keep_empty_lines();
    }
    Ok(names)
}

/// The table's types for the file's columns.
fn typed(file: &InputFile, names: &[String], target: &Schema) -> Result<SchemaRef> {
    let known = || target.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = names.iter().find(|name| target.field_with_name(name).is_err()) {
        let message =
            format!("the table has no column {name:?} (it has {}); add it with `table add-column`, or leave it out of the file", known());
        return Err(file.error(message).at("line", 1).at("column", name));
    }
    if let Some(missing) = target.fields().iter().find(|field| !field.is_nullable() && !names.contains(field.name())) {
        let message = format!("the file has no column {:?}, which may not be null in the table; add it to the file", missing.name());
        return Err(file.error(message).at("line", 1).at("column", missing.name()));
    }
    // A null in a column that may not be null is refused here, where its line is known.
    let fields: Vec<Field> = names.iter().filter_map(|name| target.field_with_name(name).ok()).map(plain).collect();
    for field in &fields {
        Column::of_text(field).map_err(|error| error.at("file", file.shown()))?;
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn plain(field: &Field) -> Field {
    Field::new(field.name(), field.data_type().clone(), field.is_nullable())
}

fn infer(file: &InputFile, mut records: Records<Text>, names: &[String], nulls: &[String]) -> Result<(SchemaRef, u64)> {
    let mut guesses = vec![Guess::default(); names.len()];
    let mut rows = 0;
    while let Some(record) = records.next().map_err(|fault| explain(file, fault))? {
        check_width(file, &record, names.len())?;
        for ((text, _), guess) in record.fields().zip(&mut guesses) {
            if !text.is_empty() && !is_null(nulls, text) {
                guess.see(text, Kinds::ALL);
            }
        }
        rows += 1;
    }
    let fields: Vec<Field> = names.iter().zip(&guesses).map(|(name, guess)| Field::new(name, guess.data_type(), true)).collect();
    let schema = Schema::new(fields);
    check_schema(&schema).map_err(|error| error.at("file", file.shown()))?;
    Ok((Arc::new(schema), rows))
}

fn is_null(nulls: &[String], text: &str) -> bool {
    nulls.iter().any(|null| null == text)
}

fn check_width(file: &InputFile, record: &Record<'_>, width: usize) -> Result<()> {
    if record.len() == width {
        return Ok(());
    }
    let (has, fields) = (record.len(), if record.len() == 1 { "field" } else { "fields" });
    let message = format!("the row has {has} {fields} and the header {width}; correct the row, and quote a field that contains a comma");
    Err(file.error(message).at("line", record.line))
}

fn explain(file: &InputFile, fault: Fault) -> Error {
    match fault {
        Fault::Io(source) => file.failed(source),
        Fault::NotUtf8 => file.not_utf8(),
        Fault::OpenQuote(line) => {
            file.error("a quoted field is never closed; close it, or double a quote that is part of it").at("line", line)
        }
        Fault::AfterQuote(line) => {
            file.error("text follows the closing quote of a field; double a quote that is part of the field").at("line", line)
        }
    }
}

struct Reader {
    file: InputFile,
    nulls: Arc<[String]>,
    schema: SchemaRef,
    records: Records<Text>,
    columns: Vec<Column>,
    /// Which columns are text.
    texts: Vec<bool>,
    done: bool,
}

impl Reader {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(record) = self.records.next().map_err(|fault| explain(&self.file, fault))? else {
                self.done = true;
                break;
            };
            check_width(&self.file, &record, self.columns.len())?;
            for (i, ((text, quoted), column)) in record.fields().zip(&mut self.columns).enumerate() {
                let empty = text.is_empty() && !(quoted && self.texts.get(i) == Some(&true));
                let value = if empty || is_null(&self.nulls, text) { None } else { Some(text) };
                column
                    .push_text(value)
                    .map_err(|found| misfit(&self.file, Format::Csv, record.line, self.schema.field(i).name(), found))?;
            }
            rows += 1;
            bytes += record.size();
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        batch.map(Some).map_err(|source| self.file.error("the rows do not fit together").because(source))
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let batch = self.batch().transpose();
        self.done |= !matches!(batch, Some(Ok(_)));
        batch
    }
}
