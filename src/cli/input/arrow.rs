//! Arrow IPC, in its file and its stream form.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use headwater::{Error, Result};

use super::file::InputFile;
use super::fit::Fit;
use super::guard::guarded;
use super::{Batches, Source};
use crate::cli::progress::{Counted, Progress};

const MAGIC: [u8; 6] = *b"ARROW1";
/// Stands before the length of a message's metadata.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// An Arrow file whose schema was read.
#[derive(Debug)]
pub(super) struct Arrow {
    file: InputFile,
    fit: Fit,
}

impl Arrow {
    pub(super) fn open(file: InputFile, target: Option<&Schema>) -> Result<Self> {
        let framed = file.open().and_then(|opened| frames(opened, file.size()).map_err(|source| damaged(&file, source)))?;
        if let Err(what) = framed {
            return Err(file.error(format!("the file is not a whole Arrow IPC file or stream: {what}; write it again")));
        }
        let decoder = Decoder::open(&file, &Progress::hidden())?;
        let fit = Fit::new(&file, &decoder.schema(), target)?;
        Ok(Self { file, fit })
    }
}

fn damaged(file: &InputFile, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    file.error("the file is not a whole Arrow IPC file or stream; write it again").because(source)
}

/// Whether every message lies inside the file, and a stream has its end marker. The readers take lengths as they stand, and the end of the
/// file for the end of a stream, so that one cut between two messages would read as a shorter one.
fn frames(mut file: File, size: u64) -> io::Result<Result<(), &'static str>> {
    let mut start = [0; MAGIC.len()];
    if size < start.len() as u64 {
        return Ok(Err("it is too short"));
    }
    file.read_exact(&mut start)?;
    file.rewind()?;
    if start == MAGIC { blocks(file, size) } else { messages(BufReader::new(file), size) }
}

fn blocks(mut file: File, size: u64) -> io::Result<Result<(), &'static str>> {
    const TAIL: u64 = 10;
    let mut tail = [0; TAIL as usize];
    if size < TAIL {
        return Ok(Err("it is too short"));
    }
    file.seek(SeekFrom::Start(size - TAIL))?;
    file.read_exact(&mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    let length = u32::from_le_bytes([a, b, c, d]);
    let Some(start) = (size - TAIL).checked_sub(u64::from(length)).filter(|_| magic == MAGIC) else {
        return Ok(Err("its footer is missing, so it is cut short"));
    };
    file.seek(SeekFrom::Start(start))?;
    let mut footer = vec![0; length as usize];
    file.read_exact(&mut footer)?;
    let Ok(footer) = root_as_footer(&footer) else { return Ok(Err("its footer is damaged")) };
    let inside = |block: &Block| {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = parts.iter().try_fold(0_u64, |end, part| end.checked_add(u64::try_from(*part).ok()?));
        end.is_some_and(|end| end <= start)
    };
    let mut all = footer.recordBatches().into_iter().flatten().chain(footer.dictionaries().into_iter().flatten());
    Ok(if all.all(inside) { Ok(()) } else { Err("its footer names bytes that are not there") })
}

fn messages(mut file: BufReader<File>, size: u64) -> io::Result<Result<(), &'static str>> {
    const CUT: &str = "it has no end marker, so it is cut short";
    let mut left = size;
    loop {
        let mut length = [0; 4];
        let mut word = |left: &mut u64| -> io::Result<Option<[u8; 4]>> {
            let Some(rest) = left.checked_sub(4) else { return Ok(None) };
            *left = rest;
            file.read_exact(&mut length)?;
            Ok(Some(length))
        };
        let mut length = word(&mut left)?;
        if length == Some(CONTINUATION) {
            length = word(&mut left)?;
        }
        let Some(length) = length.map(u32::from_le_bytes) else { return Ok(Err(CUT)) };
        if length == 0 {
            return Ok(Ok(()));
        }
        let Some(rest) = left.checked_sub(u64::from(length)) else { return Ok(Err("it is cut short, or no Arrow stream")) };
        let mut metadata = vec![0; length as usize];
        file.read_exact(&mut metadata)?;
        let Ok(message) = root_as_message(&metadata) else { return Ok(Err("a message is damaged")) };
        let body = message.bodyLength();
        match u64::try_from(body).ok().and_then(|body| rest.checked_sub(body)) {
            Some(rest) => left = rest,
            None => return Ok(Err("it is cut short, or damaged")),
        }
        file.seek_relative(body)?;
    }
}

type Input = BufReader<Counted<File>>;

enum Decoder {
    File(Box<FileReader<Input>>),
    Stream(Box<StreamReader<Input>>),
}

impl Decoder {
    fn open(file: &InputFile, progress: &Progress) -> Result<Self> {
        let mut inner = file.open()?;
        let mut start = [0; MAGIC.len()];
        inner.read_exact(&mut start).and_then(|()| inner.rewind()).map_err(|source| file.failed(source))?;
        let input = BufReader::new(Counted { inner, progress: progress.clone() });
        let opened = guarded(|| {
            Ok(if start == MAGIC {
                Self::File(Box::new(FileReader::try_new(input, None)?))
            } else {
                Self::Stream(Box::new(StreamReader::try_new(input, None)?))
            })
        });
        opened.map_err(|panicked| damaged(file, panicked))?.map_err(|source: ArrowError| damaged(file, source))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::File(reader) => reader.schema(),
            Self::Stream(reader) => reader.schema(),
        }
    }

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self {
            Self::File(reader) => reader.next(),
            Self::Stream(reader) => reader.next(),
        }
    }
}

impl Source for Arrow {
    fn schema(&self) -> &SchemaRef {
        self.fit.schema()
    }

    fn checked_rows(&self) -> Option<u64> {
        None
    }

    fn batches(&self, progress: &Progress) -> Result<Batches> {
        let decoder = Decoder::open(&self.file, progress)?;
        Ok(Box::new(Reader { file: self.file.clone(), fit: self.fit.clone(), decoder: Some(decoder), read: 0 }))
    }
}

struct Reader {
    file: InputFile,
    fit: Fit,
    /// Gone after an error.
    decoder: Option<Decoder>,
    /// Rows read so far.
    read: u64,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut decoder = self.decoder.take()?;
        let batch = match guarded(|| decoder.next()) {
            Ok(None) => return None,
            Ok(Some(Ok(batch))) => batch,
            Ok(Some(Err(source))) => return Some(Err(damaged(&self.file, source))),
            Err(panicked) => return Some(Err(damaged(&self.file, panicked))),
        };
        self.decoder = Some(decoder);
        let fitted = self.fit.apply(&self.file, &batch, self.read);
        self.read += batch.num_rows() as u64;
        Some(fitted)
    }
}
