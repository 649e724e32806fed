//! Encodes rows into data files with bounded memory.
//!
//! Held at once: one chunk of rows, one row group in progress, the encoded bytes not yet sent (at most the buffer limit and one row
//! group), and the parts under way.

use std::io;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use headwater_core::ids::Mint;
use headwater_core::json::{hex, sha256};
use headwater_core::schema::schema_hash;
use headwater_core::store::{Rows, TableRef};
use headwater_core::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use sha2::{Digest, Sha256};

use crate::chunk::Chunks;
use crate::settings::Settings;
use crate::stats::{self, NanColumns};
use crate::upload::Upload;
use crate::version::DataFile;
use headwater_core::objects::Objects;

/// Where files go, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) objects: Objects,
    pub(crate) mint: Mint,
    pub(crate) settings: Settings,
    pub(crate) table: TableRef,
}

impl Target {
    /// A path nobody else uses.
    pub(crate) fn fresh(&self, ending: &str) -> String {
        format!("{}/{}.{ending}", self.table.folder(), self.mint.name())
    }
}

/// The files of some rows, in order.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) files: Vec<DataFile>,
    /// The last file's path and bytes, if it was small enough to wait for the version object.
    pub(crate) waiting: Option<(String, Bytes)>,
}

impl Written {
    pub(crate) fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Tells these rows from others: the files' bytes depend on rows, order and schema only.
    pub(crate) fn content(&self, schema: &SchemaRef) -> String {
        let mut parts = vec![schema_hash(schema)];
        parts.extend(self.files.iter().map(|file| file.digest.clone()));
        sha256(parts.join("\n").as_bytes())
    }
}

/// Writes rows of the table's schema. On an error, uploads under way are aborted; objects written stay behind, unreferenced.
pub(crate) async fn write(target: &Target, schema: &SchemaRef, rows: Rows) -> Result<Written> {
    if schema_hash(&rows.schema) != schema_hash(schema) {
        return Err(Error::invalid(format!("the rows have the columns {}, the table has {}", summary(&rows.schema), summary(schema))));
    }
    let mut writer = Writer { target, schema: schema.clone(), file: None, written: Written::default() };
    match writer.drive(rows).await {
        Ok(()) => Ok(writer.written),
        Err(error) => {
            if let Some(upload) = writer.file.and_then(|file| file.upload) {
                upload.abort().await;
            }
            Err(error)
        }
    }
}

fn summary(schema: &SchemaRef) -> String {
    let columns = schema.fields().iter().map(|field| {
        let null = if field.is_nullable() { "" } else { " not null" };
        format!("{} {}{null}", field.name(), field.data_type())
    });
    columns.collect::<Vec<_>>().join(", ")
}

struct Writer<'a> {
    target: &'a Target,
    schema: SchemaRef,
    file: Option<OpenFile>,
    written: Written,
}

struct OpenFile {
    path: String,
    encoder: ArrowWriter<Encoded>,
    upload: Option<Upload>,
    nan: NanColumns,
    rows: u64,
}

impl Writer<'_> {
    async fn drive(&mut self, mut rows: Rows) -> Result<()> {
        let misfit = |source| Error::invalid("a batch does not have the table's schema").because(source);
        let mut chunks = Chunks::new(self.schema.clone());
        while let Some(batch) = rows.batches.next().await {
            let (_, columns, _) = batch?.into_parts();
            let mut batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(misfit)?;
            while batch.num_rows() > 0 {
                if let Some(chunk) = chunks.take(&mut batch).map_err(misfit)? {
                    self.chunk(&chunk).await?;
                }
            }
        }
        if let Some(chunk) = chunks.finish().map_err(misfit)? {
            self.chunk(&chunk).await?;
        }
        self.finish_file().await
    }

    async fn chunk(&mut self, chunk: &RecordBatch) -> Result<()> {
        // A file that waited for the version object turns out not to be the last one.
        if let Some((path, bytes)) = self.written.waiting.take() {
            self.target.objects.create(&path, bytes).await?;
        }
        let settings = &self.target.settings;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenFile {
                path: self.target.fresh("parquet"),
                encoder: ArrowWriter::try_new(Encoded::default(), self.schema.clone(), Some(properties(settings)?))
                    .map_err(cannot_encode)?,
                upload: None,
                nan: NanColumns::default(),
                rows: 0,
            }),
        };
        file.nan.note(chunk);
        file.rows += chunk.num_rows() as u64;
        file.encoder.write(chunk).map_err(cannot_encode)?;
        // Dictionaries and the like can take much more memory than the bytes they will encode to.
        let full = settings.row_group_bytes;
        if file.encoder.in_progress_size() >= full || file.encoder.memory_size() >= full.saturating_mul(2) {
            file.encoder.flush().map_err(cannot_encode)?;
        }
        file.send(self.target, false).await?;
        let encoded = file.encoder.bytes_written().saturating_add(file.encoder.in_progress_size());
        if encoded as u64 >= settings.file_bytes {
            self.finish_file().await?;
        }
        // Encoding takes a while and may never wait: let uploads and cancellation have their turn.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn finish_file(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let metadata = file.encoder.finish().map_err(cannot_encode)?;
        file.send(self.target, true).await?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let encoded = std::mem::take(file.encoder.inner_mut());
        match file.upload.take() {
            Some(upload) => upload.complete().await?,
            None => self.written.waiting = Some((file.path.clone(), encoded.buffer.freeze())),
        }
        self.written.files.push(DataFile {
            size: encoded.length,
            rows: file.rows,
            row_groups: u32::try_from(metadata.num_row_groups()).unwrap_or(u32::MAX),
            digest: hex(&encoded.digest.finalize()),
            statistics: stats::of_file(&self.schema, &metadata, &file.nan),
            path: file.path,
        });
        Ok(())
    }
}

impl OpenFile {
    /// Sends whole parts, or all that is left, once there is more than the buffer may hold.
    async fn send(&mut self, target: &Target, all: bool) -> Result<()> {
        let settings = &target.settings;
        if self.upload.is_none() && self.encoder.inner().buffer.len() > settings.buffer_bytes {
            self.upload = Some(Upload::start(&target.objects, &self.path, settings.parts_in_flight).await?);
        }
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let buffer = &mut self.encoder.inner_mut().buffer;
        while buffer.len() >= settings.part_bytes || (all && !buffer.is_empty()) {
            let part = buffer.split_to(buffer.len().min(settings.part_bytes)).freeze();
            upload.part(part).await?;
        }
        Ok(())
    }
}

/// Encoded bytes not yet sent, and the digest of all so far.
#[derive(Debug, Default)]
struct Encoded {
    buffer: BytesMut,
    digest: Sha256,
    length: u64,
}

impl io::Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn properties(settings: &Settings) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(1).map_err(cannot_encode)?;
    Ok(WriterProperties::builder()
        .set_created_by("headwater version 1".into())
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(settings.row_group_rows))
        .build())
}

fn cannot_encode(source: ParquetError) -> Error {
    Error::invalid("the rows cannot be encoded as Parquet").because(source)
}
