use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use futures::StreamExt;
use headwater::ErrorKind;
use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn reading(nulls: &[&str]) -> Reading {
    let nulls: Vec<String> = nulls.iter().map(|null| (*null).to_owned()).collect();
    Reading { format: None, nulls: nulls.into(), progress: Progress::hidden() }
}

fn rows(input: &Input) -> RecordBatch {
    let rows = input.rows().unwrap();
    let batches: Vec<RecordBatch> =
        futures::executor::block_on(rows.batches.collect::<Vec<_>>()).into_iter().collect::<Result<_>>().unwrap();
    let all = match batches.as_slice() {
        [] => RecordBatch::new_empty(rows.schema.clone()),
        [one] => one.clone(),
        _ => panic!("the files of these tests are one batch each"),
    };
    assert_eq!(all.num_rows() as u64, input.row_count());
    all
}

fn load(name: &str, bytes: impl AsRef<[u8]>, nulls: &[&str], target: Option<&Schema>) -> Result<RecordBatch> {
    let folder = Folder::new();
    let input = Input::check(&folder.file(name, bytes), &reading(nulls), target)?;
    let first = rows(&input);
    assert_eq!(first, rows(&input), "reading again gives the same rows");
    Ok(first)
}

fn types(batch: &RecordBatch) -> Vec<DataType> {
    batch.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

fn refused(name: &str, bytes: impl AsRef<[u8]>, target: Option<&Schema>, parts: &[&str]) {
    let error = load(name, bytes, &[], target).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
    for part in parts.iter().chain(&[name]) {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

fn table(fields: &[(&str, DataType, bool)]) -> Schema {
    Schema::new(fields.iter().map(|(name, data_type, null)| Field::new(*name, data_type.clone(), *null)).collect::<Vec<_>>())
}

#[test]
fn csv_types_and_nulls() {
    let text = "\u{feff}id,zip,x,day,name\r\n1,00123,NA,2012/01/01,\"a, \"\"b\"\"\"\r\n2,45,2.5,2012-01-02,\"\"\r\n3,,,,\r\n";
    let batch = load("t.csv", text, &["NA"], None).unwrap();
    assert_eq!(types(&batch), [DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Date32, DataType::Utf8]);
    assert_eq!(batch.column(2).as_primitive::<Float64Type>(), &[None, Some(2.5), None].into_iter().collect());
    assert_eq!(batch.column(1).as_string::<i32>(), &StringArray::from(vec![Some("00123"), Some("45"), None]));
    assert_eq!(batch.column(4).as_string::<i32>(), &StringArray::from(vec![Some("a, \"b\""), Some(""), None]));
    assert!(batch.schema().fields().iter().all(|field| field.is_nullable()));
}

#[test]
fn csv_goes_into_the_tables_types_by_name() {
    let target = table(&[("a", DataType::Float64, true), ("b", DataType::Utf8, true), ("c", DataType::Int8, true)]);
    let batch = load("t.csv", "b,a\n7,1\n,\n", &[], Some(&target)).unwrap();
    assert_eq!(types(&batch), [DataType::Utf8, DataType::Float64]);
    refused("t.csv", "c\n1\n128\n", Some(&target), &["\"128\"", "TINYINT", "line 3", "column c", "--null"]);
    refused("t.csv", "a,d\n1,2\n", Some(&target), &["\"d\"", "line 1", "a, b, c", "add-column"]);
    let strict = table(&[("a", DataType::Int64, false), ("b", DataType::Int64, true)]);
    refused("t.csv", "a,b\n1,2\n,2\n", Some(&strict), &["null", "line 3", "column a"]);
    refused("t.csv", "b\n1\n", Some(&strict), &["\"a\"", "null"]);
}

#[test]
fn broken_csv_names_the_place() {
    refused("t.csv", "", None, &["empty"]);
    refused("t.csv", "\u{feff}\n\n", None, &["empty", "column names"]);
    refused("t.csv", "a,b\n1,2\n\n1,2,3\n", None, &["line 4", "3 fields", "header 2"]);
    refused("t.csv", "a,b\n1\n", None, &["line 2", "1 field "]);
    refused("t.csv", b"a\nx\ny\xE9z\n", None, &["UTF-8", "line 3", "byte 6", "0xE9"]);
    refused("t.csv", b"a\xE9\n1\n", None, &["UTF-8", "line 1"]);
    refused("t.csv", "a,b,a\n1,2,3\n", None, &["columns 1 and 3", "\"a\"", "rename"]);
    refused("t.csv", "a,,b\n1,2,3\n", None, &["column 2", "no name"]);
    refused("t.csv", "a, ,b\n1,2,3\n", None, &["column 2", "no name"]);
    refused("t.csv", "a,b\n1,\"x\n2,y\n", None, &["line 2", "never closed"]);
    refused("t.csv", "a,b\n1,\"x\"y\n", None, &["line 2", "closing quote"]);
    refused("t.csv", [0x1F, 0x8B, 8, 0], None, &["gzip", "decompress"]);
    refused("t.csv", [0xFF, 0xFE, b'a', 0], None, &["UTF-16"]);
    refused("t.csv", "PAR1....PAR1", None, &["Parquet", "--format"]);
    refused("t.csv.gz", "x", None, &["decompress"]);
    refused("t.xlsx", "x", None, &["\"xlsx\"", "--format"]);
    refused("noextension", "x", None, &["no extension", "--format"]);
}

#[test]
fn a_header_alone_is_a_table_without_rows() {
    for text in ["a,b\n", "a,b", "a,b\r\n"] {
        let batch = load("t.csv", text, &[], None).unwrap();
        assert_eq!((batch.num_rows(), types(&batch)), (0, vec![DataType::Utf8, DataType::Utf8]));
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = Folder::new();
    let missing = Input::check(&folder.0.path().join("no.csv"), &reading(&[]), None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains("no.csv"));
    let directory = Input::check(folder.0.path(), &reading(&[]), None).unwrap_err();
    assert!(directory.to_string().contains("directory"));
}

#[test]
fn a_file_that_changes_after_its_check_is_refused() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "a\n1\n");
    let input = Input::check(&path, &reading(&[]), None).unwrap();
    std::fs::write(&path, "a\n1\n2\n").unwrap();
    assert!(input.rows().unwrap_err().to_string().contains("changed"));
}

#[test]
fn json_lines_types() {
    let text = concat!(
        "{\"id\":1,\"big\":9007199254740993,\"s\":\"12\",\"day\":\"2012-01-01\",\"tags\":[\"x\"],\"o\":{\"k\":1.5}}\n\n",
        "{\"s\":\"a\\u00e9\",\"id\":2,\"extra\":true,\"tags\":null,\"o\":{\"k\":2,\"l\":\"y\"}}"
    );
    let batch = load("t.jsonl", text, &[], None).unwrap();
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "big", "s", "day", "tags", "o", "extra"]);
    let strings = DataType::List(Field::new_list_field(DataType::Utf8, true).into());
    let object = DataType::Struct(vec![Field::new("k", DataType::Float64, true), Field::new("l", DataType::Utf8, true)].into());
    let expected = [DataType::Int64, DataType::Int64, DataType::Utf8, DataType::Date32, strings, object, DataType::Boolean];
    assert_eq!(types(&batch), expected);
    assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 9_007_199_254_740_993);
    assert_eq!(batch.column(2).as_string::<i32>().value(1), "aé");
}

#[test]
fn broken_json_lines_name_the_place() {
    refused("t.jsonl", "{\"a\":1}\n[1]\n", None, &["line 2", "not a JSON object"]);
    refused("t.jsonl", "{\"a\":1}\n{\"a\":1\n", None, &["line 2"]);
    refused("t.jsonl", "{\"a\":1} {\"a\":2}\n", None, &["line 1"]);
    refused("t.jsonl", "{\"a\":1,\"a\":2}\n", None, &["line 1", "\"a\"", "twice"]);
    refused("t.jsonl", "{\"o\":{\"k\":1}}\n{\"o\":{\"k\":1,\"k\":2}}\n", None, &["line 2", "column o"]);
    refused("t.jsonl", "{\"\":1}\n", None, &["line 1", "empty"]);
    refused("t.jsonl", "{\"a\":1}\n{\"a\":{\"b\":1}}\n", None, &["line 2", "column a"]);
    refused("t.jsonl", "\n \n", None, &["no JSON object"]);
    refused("t.jsonl", b"{\"a\":\"\xE9\"}\n", None, &["UTF-8", "line 1", "byte 7"]);
    let target = table(&[("a", DataType::Int64, false), ("l", DataType::List(Field::new_list_field(DataType::Int8, true).into()), true)]);
    refused("t.jsonl", "{\"a\":1.5}\n", Some(&target), &["\"1.5\"", "BIGINT", "line 1", "column a"]);
    refused("t.jsonl", "{\"a\":1}\n{\"b\":1}\n", Some(&target), &["line 2", "\"b\""]);
    refused("t.jsonl", "{\"a\":1}\n{\"l\":[1]}\n", Some(&target), &["line 2", "null", "column a"]);
    refused("t.jsonl", "{\"a\":1,\"l\":[1,300]}\n", Some(&target), &["line 1", "300", "column l[1]"]);
}

fn batch() -> RecordBatch {
    let words: ArrayRef = Arc::new(["x", "y", "x"].into_iter().collect::<DictionaryArray<arrow_array::types::Int32Type>>());
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    RecordBatch::try_from_iter([("word", words), ("n", narrow)]).unwrap()
}

fn parquet_bytes() -> Vec<u8> {
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(Vec::new(), batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file() -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_stream() -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn typed_files_fit_without_changing_a_value() {
    for (name, bytes) in [("t.parquet", parquet_bytes()), ("t.arrow", arrow_file()), ("s.arrow", arrow_stream())] {
        let free = load(name, &bytes, &[], None).unwrap();
        assert_eq!(types(&free), [DataType::Utf8, DataType::Int32], "{name}");
        let target = table(&[("n", DataType::Int64, true), ("word", DataType::LargeUtf8, true)]);
        let fitted = load(name, &bytes, &[], Some(&target)).unwrap();
        assert_eq!(types(&fitted), [DataType::LargeUtf8, DataType::Int64]);
        assert_eq!(fitted.column(1).as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(1), None, Some(3)]));
        let narrow = table(&[("n", DataType::Int16, true), ("word", DataType::Utf8, true)]);
        refused(name, &bytes, Some(&narrow), &["column n", "SMALLINT", "INTEGER"]);
        let strict = table(&[("n", DataType::Int32, false), ("word", DataType::Utf8, true)]);
        refused(name, &bytes, Some(&strict), &["null", "row 2", "column n"]);
        refused(name, &bytes, Some(&table(&[("word", DataType::Utf8, true)])), &["\"n\""]);
    }
}

#[test]
fn a_typed_file_cut_anywhere_is_refused() {
    for (name, bytes) in [("t.parquet", parquet_bytes()), ("t.arrow", arrow_file()), ("s.arrow", arrow_stream())] {
        let folder = Folder::new();
        for length in 1..bytes.len() {
            let path = folder.file(name, &bytes[..length]);
            let checked = Input::check(&path, &reading(&[]), None).map(|input| input.row_count());
            let Err(error) = checked else { panic!("{name} cut at {length} of {} is accepted", bytes.len()) };
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name} cut at {length}");
            assert!(error.to_string().contains(name));
        }
    }
    refused("t.parquet", "a,b\n1,2\n", None, &["Parquet"]);
    refused("t.arrow", "a,b\n1,2\n", None, &["Arrow"]);
}

/// Numbers that follow from the seed, for mutations that can be replayed.
fn numbers(mut seed: u64) -> impl FnMut() -> usize {
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 16) as usize
    }
}

#[test]
fn a_damaged_typed_file_is_an_error_or_reads_and_never_panics() {
    let mut next = numbers(0x5EED);
    for (name, bytes) in [("t.parquet", parquet_bytes()), ("t.arrow", arrow_file()), ("s.arrow", arrow_stream())] {
        let folder = Folder::new();
        let mut refused = 0;
        for _ in 0..500 {
            let mut damaged = bytes.clone();
            let at = next() % bytes.len();
            damaged[at] ^= u8::try_from(next() % 255 + 1).unwrap();
            let path = folder.file(name, &damaged);
            let checked = Input::check(&path, &reading(&[]), None);
            refused += usize::from(checked.is_err_and(|error| error.kind() == ErrorKind::InvalidInput));
        }
        assert!(refused > 50, "{name}: only {refused} of 500 were refused");
    }
}
