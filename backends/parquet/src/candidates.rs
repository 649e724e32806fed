//! Which row groups of a file, and which of their pages, may have rows that pass a filter, by the bounds that the file itself keeps.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::Schema;
use headwater_core::Result;
use headwater_core::filter::Filter;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;

use crate::prune::{Bounds, may_match};
use crate::types::{is_float, is_orderable};
use crate::version::DataFile;

/// The rows of a file that a scan must look at.
pub(crate) struct Candidates {
    pub(crate) groups: Vec<usize>,
    /// Of their rows, in order; all of them if `None`.
    pub(crate) rows: Option<RowSelection>,
}

impl Candidates {
    pub(crate) fn all(groups: Range<usize>) -> Self {
        Self { groups: groups.collect(), rows: None }
    }

    /// Leaves out what has no row that can pass.
    pub(crate) fn find(filter: &Filter, file: &DataFile, metadata: &ArrowReaderMetadata, among: Range<usize>) -> Result<Self> {
        let bounds = FileBounds { file, schema: metadata.schema(), metadata: metadata.metadata() };
        let (mut groups, mut rows, mut skips) = (Vec::new(), Vec::new(), false);
        for group in among {
            if !may_match(filter, &|column| Ok(bounds.of_group(column, group)))? {
                continue;
            }
            let selected = bounds.select(filter, group)?;
            if selected.iter().all(|run| run.skip) {
                continue;
            }
            skips |= selected.iter().any(|run| run.skip);
            groups.push(group);
            rows.extend(selected);
        }
        Ok(Self { groups, rows: skips.then(|| rows.into()) })
    }
}

struct FileBounds<'a> {
    file: &'a DataFile,
    schema: &'a Schema,
    metadata: &'a ParquetMetaData,
}

impl<'a> FileBounds<'a> {
    fn converter(&self, column: &'a str) -> Option<StatisticsConverter<'a>> {
        let field = self.schema.field_with_name(column).ok()?;
        // Only the version object knows that there is no NaN.
        let trusted = |statistics: &crate::stats::ColumnStatistics| statistics.column == column && statistics.min.is_some();
        if !is_orderable(field.data_type()) || (is_float(field.data_type()) && !self.file.statistics.iter().any(trusted)) {
            return None;
        }
        let converter = StatisticsConverter::try_new(column, self.schema, self.metadata.file_metadata().schema_descr()).ok()?;
        Some(converter.with_missing_null_counts_as_zero(false))
    }

    fn of_group(&self, column: &str, group: usize) -> Option<Bounds> {
        let group = self.metadata.row_groups().get(group)?;
        let rows = u64::try_from(group.num_rows()).ok()?;
        if self.schema.field_with_name(column).is_err() {
            // The column is younger than the file.
            return Some(Bounds { min: None, max: None, nulls: Some(rows), rows });
        }
        let converter = self.converter(column)?;
        let known = |bound: ArrayRef| (bound.len() == 1 && bound.is_valid(0)).then_some(bound);
        let nulls = converter.row_group_null_counts([group]).ok()?;
        Some(Bounds {
            min: converter.row_group_mins([group]).ok().and_then(known),
            max: converter.row_group_maxes([group]).ok().and_then(known),
            nulls: nulls.iter().next().flatten(),
            rows,
        })
    }

    fn of_pages(&self, column: &'a str, group: usize) -> Option<Pages> {
        let (index, offsets) = (self.metadata.column_index()?, self.metadata.offset_index()?);
        let rows = u64::try_from(self.metadata.row_groups().get(group)?.num_rows()).ok()?;
        let converter = self.converter(column)?;
        let locations = offsets.get(group)?.get(converter.parquet_column_index()?)?.page_locations();
        let firsts: Vec<u64> = locations.iter().map(|page| u64::try_from(page.first_row_index).ok()).collect::<Option<_>>()?;
        let mins = converter.data_page_mins(index, offsets, [&group]).ok()?;
        let maxes = converter.data_page_maxes(index, offsets, [&group]).ok()?;
        let nulls = converter.data_page_null_counts(index, offsets, [&group]).ok()?;
        let ordered = firsts.first() == Some(&0) && firsts.is_sorted_by(|a, b| a < b) && firsts.last() < Some(&rows);
        let whole = [mins.len(), maxes.len(), nulls.len()].iter().all(|len| *len == firsts.len());
        (ordered && whole).then(|| Pages { firsts, rows, mins, maxes, nulls })
    }

    /// The rows of a group by runs that may or cannot pass. The pages of one column begin elsewhere than those of another.
    fn select(&self, filter: &'a Filter, group: usize) -> Result<Vec<RowSelector>> {
        let rows = self.metadata.row_groups().get(group).map_or(0, |group| u64::try_from(group.num_rows()).unwrap_or(0));
        let columns: Vec<(&str, Pages)> =
            filter.columns().into_iter().filter_map(|column| Some((column, self.of_pages(column, group)?))).collect();
        let firsts: BTreeSet<u64> = columns.iter().flat_map(|(_, pages)| pages.firsts.iter().copied()).chain([0]).collect();
        let firsts: Vec<u64> = firsts.into_iter().collect();
        let mut runs = Vec::with_capacity(firsts.len());
        for (at, first) in firsts.iter().enumerate() {
            let known = |column: &str| match columns.iter().find(|(name, _)| *name == column) {
                Some((_, pages)) => Some(pages.at(*first)),
                None => self.of_group(column, group),
            };
            let end = firsts.get(at + 1).copied().unwrap_or(rows);
            let skip = !may_match(filter, &|column| Ok(known(column)))?;
            runs.push(RowSelector { row_count: usize::try_from(end - first).unwrap_or(usize::MAX), skip });
        }
        Ok(runs)
    }
}

/// The pages of a column in one row group.
struct Pages {
    /// The row each begins with; the first is 0.
    firsts: Vec<u64>,
    /// Rows of all.
    rows: u64,
    mins: ArrayRef,
    maxes: ArrayRef,
    nulls: UInt64Array,
}

impl Pages {
    /// The bounds of the page that has this row.
    fn at(&self, row: u64) -> Bounds {
        let page = self.firsts.partition_point(|first| *first <= row).saturating_sub(1);
        let known = |bounds: &ArrayRef| bounds.is_valid(page).then(|| bounds.slice(page, 1));
        let end = self.firsts.get(page + 1).copied().unwrap_or(self.rows);
        Bounds {
            min: known(&self.mins),
            max: known(&self.maxes),
            nulls: self.nulls.is_valid(page).then(|| self.nulls.value(page)),
            rows: end - self.firsts[page],
        }
    }
}
