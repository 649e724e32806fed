//! What is measured: which catalogs, how deep, and roughly what that asks of the place.

use std::ops::AddAssign;

/// The data stores of this build that have cells.
pub const STORES: &[&str] = &[
    "parquet",
    #[cfg(feature = "lance")]
    "lance",
];

/// The name of the threads that a store's library computes on, if it does not where it is called.
pub(super) fn threads(store: &str) -> Option<&'static str> {
    (store == "lance").then_some("lance-cpu")
}

/// Journal entries in the head's tail where depths are compared: enough that every table measured was written since the last spill, and room
/// for what is measured.
pub const EQUAL: usize = 16;
/// Tables a commit of several writes.
pub const SEVERAL: usize = 3;
/// Processes at once.
pub const AT_ONCE: usize = 8;

/// How full the head's journal tail is when something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// [`EQUAL`] entries at every depth.
    Equal,
    /// As many as it can hold: the next commit spills.
    Full,
}

impl Phase {
    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Full => "full",
        }
    }
}

/// How a table was treated while it grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Every commit's files lie where it left them.
    AsWritten,
    /// Rows past their time are deleted and the rest is compacted, before each measurement.
    Maintained,
}

impl Layout {
    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsWritten => "as written",
            Self::Maintained => "maintained",
        }
    }
}

/// One catalog to grow and to measure on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The kind of its data store.
    pub store: String,
    /// Its tables.
    pub width: usize,
    /// The layouts that some of its tables have.
    pub layouts: Vec<Layout>,
    /// Commits at which it is measured.
    pub depths: Vec<u64>,
    /// Where in the tail.
    pub phases: Vec<Phase>,
}

/// What one place is asked to carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name: `short`, `long`, or what a test calls its own.
    pub form: String,
    /// The catalogs.
    pub subjects: Vec<Subject>,
    /// Depths of the journal whose fold is a negative control; empty for none.
    pub fold: Vec<u64>,
    /// Depths of the Lance table of heads that is the other one; empty for none, as in builds without Lance. Each commit to it reads once for each
    /// earlier one.
    pub manifest: Vec<u64>,
}

const DEPTHS: [u64; 4] = [20, 80, 320, 1_280];
const DEEP: u64 = 10_000;
#[cfg(feature = "lance")]
const MANIFEST: &[u64] = &[20, 40, 80, 320];
#[cfg(not(feature = "lance"))]
const MANIFEST: &[u64] = &[];

impl Plan {
    /// One catalog of ten tables through all depths, and the narrowest and the widest through some: a few minutes.
    pub fn short(stores: &[String]) -> Self {
        let both = vec![Layout::AsWritten, Layout::Maintained];
        let subjects = stores.iter().flat_map(|store| {
            let subject = |width, layouts: &[Layout], depths: &[u64], phases: &[Phase]| Subject {
                store: store.clone(),
                width,
                layouts: layouts.to_vec(),
                depths: depths.to_vec(),
                phases: phases.to_vec(),
            };
            [
                subject(10, &both, &DEPTHS, &[Phase::Equal, Phase::Full]),
                subject(1, &[Layout::AsWritten], &DEPTHS[..3], &[Phase::Equal]),
                subject(100, &both, &DEPTHS[..3], &[Phase::Equal]),
            ]
        });
        let manifest = MANIFEST.iter().copied().filter(|depth| *depth <= 80).collect();
        Self { form: "short".to_owned(), subjects: subjects.collect(), fold: DEPTHS.to_vec(), manifest }
    }

    /// The whole matrix.
    pub fn long(stores: &[String], deep: bool) -> Self {
        let mut depths = DEPTHS.to_vec();
        depths.extend(deep.then_some(DEEP));
        let layouts = [
            (1, vec![Layout::AsWritten]),
            (1, vec![Layout::Maintained]),
            (10, vec![Layout::AsWritten, Layout::Maintained]),
            (100, vec![Layout::AsWritten, Layout::Maintained]),
        ];
        let of_store = |store: &String| {
            let subject = |(width, layouts): &(usize, Vec<Layout>)| Subject {
                store: store.clone(),
                width: *width,
                layouts: layouts.clone(),
                depths: depths.clone(),
                phases: vec![Phase::Equal, Phase::Full],
            };
            layouts.iter().map(subject).collect::<Vec<_>>()
        };
        let subjects = stores.iter().flat_map(of_store).collect();
        let form = if deep { "long, deep" } else { "long" };
        Self { form: form.to_owned(), subjects, fold: depths, manifest: MANIFEST.to_vec() }
    }

    /// Keeps only catalogs of these widths.
    pub fn narrow(&mut self, widths: &[usize]) {
        self.subjects.retain(|subject| widths.contains(&subject.width));
    }

    /// Keeps only depths up to this one.
    pub fn shallow(&mut self, deepest: u64) {
        self.subjects.iter_mut().map(|subject| &mut subject.depths).chain([&mut self.fold, &mut self.manifest]).for_each(|depths| {
            depths.retain(|depth| *depth <= deepest);
        });
    }

    /// Roughly what it asks of its place.
    pub fn estimate(&self) -> Estimate {
        // What is left is looked for until nothing is.
        let mut estimate = Estimate { lists: 2, ..Estimate::default() };
        for subject in &self.subjects {
            estimate += subject.estimate();
        }
        if let Some(last) = self.fold.last() {
            estimate +=
                Estimate { puts: *last, gets: self.fold.iter().sum(), lists: self.fold.iter().map(|depth| depth / 1_000 + 1).sum() };
            estimate.lists += *last / 1_000;
        }
        if let Some(last) = self.manifest.last() {
            // Kept in two ways; the names of the versions are listed to find the newest.
            estimate += Estimate { puts: 2 * 4 * last, gets: 2 * (last * last / 2 + 20 * last), lists: 3 * last };
        }
        estimate
    }
}

impl Subject {
    /// What it is called in folder names and in progress.
    pub fn name(&self) -> String {
        let layouts: Vec<&str> = self.layouts.iter().map(|layout| if *layout == Layout::AsWritten { "w" } else { "m" }).collect();
        format!("{}-{}-{}", self.store, self.width, layouts.concat())
    }

    /// The tables of one layout that are measured.
    pub fn tables(&self, layout: Layout) -> Vec<usize> {
        let several = SEVERAL.min(self.width);
        let Some(place) = self.layouts.iter().position(|known| *known == layout) else { return Vec::new() };
        (place * several..(place + 1) * several).filter(|table| *table < self.width).collect()
    }

    fn estimate(&self) -> Estimate {
        let deepest = self.depths.last().copied().unwrap_or_default();
        let stops = (self.depths.len() * self.phases.len()) as u64;
        let widest = 2 * self.width as u64;
        // Two objects and a swap for each commit, a segment for each 32; a walk to a phase looks at the head after each of its commits. A
        // new catalog is looked for, and its place probed.
        let puts = widest + 3 * (deepest + 40 * stops) + deepest / 32 + 40 * stops;
        let files: u64 = self.depths.iter().map(|depth| depth / self.width as u64).sum();
        Estimate { puts, gets: 160 * stops + 3 * files * self.phases.len() as u64, lists: deepest * 3 / 1_000 + 4 }
    }
}

/// Requests, roughly, by how object stores price them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Writes.
    pub puts: u64,
    /// Reads.
    pub gets: u64,
    /// Pages of lists, also for cleaning up; deletions cost nothing anywhere.
    pub lists: u64,
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Self) {
        self.puts += other.puts;
        self.gets += other.gets;
        self.lists += other.lists;
    }
}
