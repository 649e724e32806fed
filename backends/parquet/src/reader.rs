//! Reads one data file as Parquet's asynchronous reader asks for it: the file whole if it is small, else its end and then ranges.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use headwater_core::{Error, Result};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::settings::Settings;
use crate::version::DataFile;
use headwater_core::objects::{Named, Objects};

/// A data file whose end (or whole) is in memory.
#[derive(Debug)]
pub(crate) struct FileReader {
    objects: Objects,
    file: Arc<DataFile>,
    /// The file's bytes from `held_from` to its end.
    held: Bytes,
    held_from: u64,
}

impl DataFile {
    pub(crate) fn named(&self) -> Named<'_> {
        Named { path: &self.path, size: self.size }
    }
}

impl FileReader {
    /// 1 request. A small file's digest is checked; of a larger one only the size, because its bytes are never all read.
    pub(crate) async fn open(objects: Objects, file: Arc<DataFile>, settings: &Settings) -> Result<Self> {
        if file.size <= settings.whole_bytes {
            let held = objects.verified(file.named(), &file.digest).await?;
            return Ok(Self { objects, file, held, held_from: 0 });
        }
        let held_from = file.size.saturating_sub(settings.footer_bytes);
        let held = objects.range(file.named(), held_from..file.size).await?;
        Ok(Self { objects, file, held, held_from })
    }

    fn held(&self, range: &Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start.checked_sub(self.held_from)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.held_from)?).ok()?;
        Some(self.held.slice(start..end))
    }

    async fn read(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        // Ranges come from the file's own footer.
        if ranges.iter().any(|range| range.start > range.end || range.end > self.file.size) {
            return Err(self.file.named().corrupt("the data file's footer points outside the file"));
        }
        let mut parts: Vec<Option<Bytes>> = ranges.iter().map(|range| self.held(range)).collect();
        let missing: Vec<Range<u64>> =
            ranges.iter().zip(&parts).filter(|(_, part)| part.is_none()).map(|(range, _)| range.clone()).collect();
        if !missing.is_empty() {
            let mut fetched = self.objects.ranges(self.file.named(), &missing).await?.into_iter();
            for part in parts.iter_mut().filter(|part| part.is_none()) {
                *part = fetched.next();
            }
        }
        Ok(parts.into_iter().flatten().collect())
    }
}

impl AsyncFileReader for FileReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move { Ok(self.read(vec![range]).await.map_err(into_parquet)?.pop().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        async move { self.read(ranges).await.map_err(into_parquet) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let mut reader = ParquetMetaDataReader::new().with_prefetch_hint(Some(self.held.len()));
            if let Some(options) = options {
                reader = reader
                    .with_metadata_options(Some(options.metadata_options().clone()))
                    .with_column_index_policy(options.column_index_policy())
                    .with_offset_index_policy(options.offset_index_policy());
            }
            let size = self.file.size;
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}

/// Carries our error through Parquet's.
pub(crate) fn into_parquet(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Ours again, if it was; otherwise the file cannot be decoded.
pub(crate) fn from_parquet(file: &DataFile, error: ParquetError) -> Error {
    use arrow_schema::ArrowError;
    let undecodable = |source: Box<dyn std::error::Error + Send + Sync>| match source.downcast::<Error>() {
        Ok(ours) => *ours,
        Err(source) => file.named().corrupt("the data file cannot be decoded").because(source),
    };
    match error {
        ParquetError::External(source) => match source.downcast::<ArrowError>() {
            Ok(arrow) => match *arrow {
                ArrowError::ExternalError(source) => undecodable(source),
                arrow => undecodable(Box::new(arrow)),
            },
            Err(source) => undecodable(source),
        },
        error => undecodable(Box::new(error)),
    }
}
