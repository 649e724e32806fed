//! Budgets: what each cell may cost at most, and by which law it may change with depth. They are data, reviewed like code: `bench/budgets/`.

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::operations::Cell;

/// How a cost may change with depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Not at all, but for its allowed spread.
    #[default]
    Flat,
    /// With the logarithm of depth: the ceiling has a part for each level of the journal's skip pointers.
    Levels,
    /// With the table's own files, or with who comes first: reported, and held to a ceiling only where there is one.
    Reported,
    /// It must grow: a negative control.
    MustGrow,
}

/// The ceiling of one cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// How it may change.
    #[serde(default)]
    pub law: Law,
    /// The part that is always there; no ceiling at all where it is missing.
    pub fixed: Option<f64>,
    /// The part for each table of the catalog.
    #[serde(default)]
    pub per_table: f64,
    /// The part for each level of skip pointers: the logarithm, to base 4, of the journal's segments.
    #[serde(default)]
    pub per_level: f64,
    /// How far the values of a flat curve may lie apart; 0 where the same work is done at every depth.
    #[serde(default)]
    pub spread: f64,
    /// How far they may lie apart by the digits of counters in a format that the gate does not read, where they may also rise.
    #[serde(default)]
    pub digits: f64,
}

impl Bound {
    /// The ceiling for a catalog of this width at this depth.
    pub fn ceiling(&self, width: usize, seq: u64) -> Option<f64> {
        let segments = (seq / 32).max(1) as f64;
        let levels = (segments.ln() / 4f64.ln()).ceil();
        self.fixed.map(|fixed| fixed + self.per_table * width as f64 + self.per_level * levels)
    }
}

/// The ceilings of one plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plane {
    /// Requests.
    pub requests: Bound,
    /// Bytes of bodies, both ways.
    pub bytes: Bound,
    /// Journal entries and table heads encoded or decoded; none in the data plane.
    #[serde(default)]
    pub entries: Bound,
}

/// The budget of the cells of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The operation.
    pub operation: String,
    /// The access.
    pub access: String,
    /// The tables of the catalog, where it matters.
    pub width: Option<usize>,
    /// The phase, where it matters.
    pub phase: Option<String>,
    /// The layout, where it matters.
    pub layout: Option<String>,
    /// What the ceilings are made of.
    pub why: String,
    /// For heads and records.
    pub control: Plane,
    /// For the tables' objects; nothing may be asked of them where this is missing.
    pub data: Option<Plane>,
    /// For both together.
    pub round_trips: Bound,
}

/// The budgets of one store.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// What is to be known about all of them.
    pub about: String,
    /// The first that matches a cell counts.
    pub budgets: Vec<Budget>,
}

const PARQUET: &str = include_str!("../../budgets/parquet.json");
#[cfg(feature = "lance")]
const LANCE: &str = include_str!("../../budgets/lance.json");

impl Budgets {
    /// The reviewed budgets of a store.
    pub fn of(store: &str) -> Result<Self> {
        let text = match store {
            "parquet" => PARQUET,
            #[cfg(feature = "lance")]
            "lance" => LANCE,
            _ => return Err(Error::Invalid(format!("there are no budgets for the store {store:?}"))),
        };
        Self::parse(text).map_err(|error| Error::Invalid(format!("the budgets of {store}: {error}")))
    }

    /// Reads budgets.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The budget of a cell.
    pub fn find(&self, width: usize, cell: &Cell) -> Option<&Budget> {
        let fits = |wanted: &Option<String>, has: Option<&str>| wanted.as_deref().is_none_or(|wanted| has == Some(wanted));
        self.budgets.iter().find(|budget| {
            budget.operation == cell.operation
                && budget.access == cell.access
                && budget.width.is_none_or(|wanted| wanted == width)
                && fits(&budget.phase, Some(cell.phase.name()))
                && fits(&budget.layout, cell.layout.map(|layout| layout.name()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reviewed_budgets_can_be_read() {
        for store in super::super::plan::STORES {
            assert!(!Budgets::of(store).unwrap().budgets.is_empty());
        }
    }

    #[test]
    fn a_ceiling_grows_with_width_and_levels_only_as_it_says() {
        let bound = Bound { fixed: Some(3.0), per_table: 2.0, per_level: 3.0, ..Bound::default() };
        assert_eq!(bound.ceiling(10, 20), Some(23.0));
        assert_eq!(bound.ceiling(10, 32 * 16), Some(29.0));
        assert_eq!(Bound::default().ceiling(10, 20), None);
    }
}
