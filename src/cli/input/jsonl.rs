//! JSON Lines: one object a line. Keys are matched with a table's columns; without a table, each column gets the narrowest type that holds
//! all its values. A key that is absent is null.

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::schema::check_schema;
use headwater::{Error, Result};
use serde_json::value::RawValue;

use super::cell::Kinds;
use super::column::Column;
use super::file::{InputFile, Text};
use super::infer::Guess;
use super::json::{Kind, elements, kind, members, text_of};
use super::{BATCH_BYTES, BATCH_ROWS, Batches, Format, Source, misfit};
use crate::cli::progress::Progress;

/// A JSON Lines file whose schema is known.
#[derive(Debug)]
pub(super) struct JsonLines {
    file: InputFile,
    schema: SchemaRef,
    inferred: Option<u64>,
}

impl JsonLines {
    pub(super) fn open(file: InputFile, target: Option<&Schema>, progress: &Progress) -> Result<Self> {
        let (schema, inferred) = match target {
            Some(target) => {
                for field in target.fields() {
                    Column::of_json(field).map_err(|error| error.at("file", file.shown()))?;
                }
                (Arc::new(target.clone().with_metadata(HashMap::new())), None)
            }
            None => {
                let (schema, rows) = infer(&file, progress)?;
                (schema, Some(rows))
            }
        };
        Ok(Self { file, schema, inferred })
    }
}

impl Source for JsonLines {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Inference has read every value: there is nothing left that could fail.
    fn checked_rows(&self) -> Option<u64> {
        self.inferred
    }

    fn batches(&self, progress: &Progress) -> Result<Batches> {
        let lines = Lines::open(&self.file, progress)?;
        let columns = self.schema.fields().iter().map(|field| Column::of_json(field)).collect::<Result<Vec<_>>>()?;
        let index = self.schema.fields().iter().enumerate().map(|(i, field)| (field.name().clone(), i)).collect();
        Ok(Box::new(Reader { file: self.file.clone(), schema: self.schema.clone(), lines, columns, index, done: false }))
    }
}

/// The lines that hold anything, each with its number.
struct Lines {
    file: InputFile,
    text: Text,
    bytes: Vec<u8>,
    number: u64,
}

type Members<'a> = Vec<(String, &'a RawValue)>;

impl Lines {
    fn open(file: &InputFile, progress: &Progress) -> Result<Self> {
        Ok(Self { file: file.clone(), text: file.open_text(Format::JsonLines, progress)?, bytes: Vec::new(), number: 0 })
    }

    /// The next object, its size and its line.
    fn next(&mut self) -> Result<Option<(Members<'_>, usize, u64)>> {
        loop {
            self.bytes.clear();
            let read = self.text.read_until(b'\n', &mut self.bytes).map_err(|source| self.file.failed(source))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !self.bytes.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        let line = std::str::from_utf8(&self.bytes).map_err(|_| self.file.not_utf8())?;
        let members = members(line).map_err(|source| not_an_object(&self.file, self.number, &source))?;
        Ok(Some((members, line.len(), self.number)))
    }
}

fn not_an_object(file: &InputFile, line: u64, source: &serde_json::Error) -> Error {
    let text = source.to_string();
    // The parser saw one line only, and would call it line 1.
    let what = text.split(" at line 1 column ").next().unwrap_or(&text);
    let character = if source.column() > 0 { format!(" (at character {})", source.column()) } else { String::new() };
    file.error(format!("the line is not a JSON object with distinct keys: {what}{character}; correct it")).at("line", line)
}

/// What the values of a column are, at every level.
#[derive(Debug)]
enum Shape {
    /// Only null so far.
    Nothing,
    Scalar(Guess),
    List(Box<Shape>),
    Struct(Vec<(String, Shape)>),
}

/// Two values of a column that no type holds.
struct Mixed(&'static str);

impl Shape {
    fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "null",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "an array",
            Self::Struct(_) => "an object",
        }
    }

    fn see(&mut self, json: &RawValue) -> Result<(), Mixed> {
        let seen = kind(json);
        if matches!(self, Self::Nothing) {
            *self = match seen {
                Kind::Null => return Ok(()),
                Kind::Array => Self::List(Box::new(Self::Nothing)),
                Kind::Object => Self::Struct(Vec::new()),
                Kind::Boolean | Kind::Number | Kind::Text => Self::Scalar(Guess::default()),
            };
        }
        let before = self.name();
        match (self, seen) {
            (_, Kind::Null) => Ok(()),
            (Self::Scalar(guess), Kind::Boolean | Kind::Number | Kind::Text) => {
                let allowed = if seen == Kind::Text { Kinds::QUOTED } else { Kinds::ALL };
                guess.see(&text_of(json).unwrap_or_default(), allowed);
                Ok(())
            }
            (Self::List(item), Kind::Array) => elements(json).unwrap_or_default().into_iter().try_for_each(|json| item.see(json)),
            (Self::Struct(fields), Kind::Object) => {
                for (name, json) in members(json.get()).map_err(|_| Mixed("an object with doubled keys"))? {
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, shape)) => shape.see(json)?,
                        None => {
                            let mut shape = Self::Nothing;
                            shape.see(json)?;
                            fields.push((name, shape));
                        }
                    }
                }
                Ok(())
            }
            _ => Err(Mixed(before)),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Nothing => DataType::Utf8,
            Self::Scalar(guess) => guess.data_type(),
            Self::List(item) => DataType::List(Field::new_list_field(item.data_type(), true).into()),
            Self::Struct(fields) => {
                DataType::Struct(fields.iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect())
            }
        }
    }

    /// Whether there is an object that never has a key: no type holds it.
    fn has_empty_struct(&self) -> bool {
        match self {
            Self::Nothing | Self::Scalar(_) => false,
            Self::List(item) => item.has_empty_struct(),
            Self::Struct(fields) => fields.is_empty() || fields.iter().any(|(_, shape)| shape.has_empty_struct()),
        }
    }
}

fn infer(file: &InputFile, progress: &Progress) -> Result<(SchemaRef, u64)> {
    let mut lines = Lines::open(file, progress)?;
    let (mut columns, mut index) = (Vec::<(String, Shape)>::new(), HashMap::<String, usize>::new());
    let mut rows = 0;
    while let Some((members, _, line)) = lines.next()? {
        for (name, json) in members {
            if name.trim().is_empty() {
                return Err(file.error("a key is empty; name every column").at("line", line));
            }
            let i = *index.entry(name.clone()).or_insert_with(|| {
                columns.push((name.clone(), Shape::Nothing));
                columns.len() - 1
            });
            if let Some((_, shape)) = columns.get_mut(i) {
                shape.see(json).map_err(|Mixed(before)| {
                    let shown: String = json.get().chars().take(80).collect();
                    let message = format!("{shown} does not go with {before} in an earlier line; give the column values of one kind");
                    file.error(message).at("line", line).at("column", &name)
                })?;
            }
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(file.error("the file has no JSON object, so that nothing names the columns; write one object a line"));
    }
    if let Some((name, _)) = columns.iter().find(|(_, shape)| shape.has_empty_struct()) {
        return Err(file.error("an object in this column never has a key; leave the column out").at("column", name));
    }
    let schema = Schema::new(columns.iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect::<Vec<_>>());
    check_schema(&schema).map_err(|error| error.at("file", file.shown()))?;
    Ok((Arc::new(schema), rows))
}

struct Reader {
    file: InputFile,
    schema: SchemaRef,
    lines: Lines,
    columns: Vec<Column>,
    index: HashMap<String, usize>,
    done: bool,
}

impl Reader {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some((members, size, line)) = self.lines.next()? else {
                self.done = true;
                break;
            };
            let mut values: Vec<Option<&RawValue>> = vec![None; self.columns.len()];
            for (name, json) in members {
                match self.index.get(&name).and_then(|i| values.get_mut(*i)) {
                    Some(value) => *value = Some(json),
                    None => {
                        let known = self.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
                        let message = format!(
                            "the table has no column {name:?} (it has {known}); add it with `table add-column`, or leave the key out"
                        );
                        return Err(self.file.error(message).at("line", line).at("column", name));
                    }
                }
            }
            for (i, (value, column)) in values.into_iter().zip(&mut self.columns).enumerate() {
                let pushed = match value {
                    Some(json) => column.push_json(json),
                    None => column.push_null(),
                };
                pushed.map_err(|found| misfit(&self.file, Format::JsonLines, line, self.schema.field(i).name(), found))?;
            }
            rows += 1;
            bytes += size;
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
