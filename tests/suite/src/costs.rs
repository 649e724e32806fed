//! What operations cost, counted in requests, stages and bytes, at growing depths. Nothing is timed.

use std::sync::Arc;

use headwater_conformance::tap::{Request, Tap, render, stages};
use headwater_core::head::{Event, Head, Segment};
use headwater_core::verify::Depth;
use headwater_core::{At, Branch, Catalog, ErrorKind, TransactOptions};

use crate::lake::Lake;
use crate::rows::{create, read, row};
use headwater_conformance::shape::Shape;

const DEPTHS: [u64; 4] = [20, 80, 320, 1_280];
const WIDTH: usize = 10;
/// Journal tail of a head, at most.
const TAIL_BYTES: usize = 32 << 10;
/// What one inline table adds to a head, at most: names here are short, identities, digests and paths have one length each.
const TABLE_BYTES: usize = 640;
/// Everything else in a head, eight segment pointers included.
const ENVELOPE_BYTES: usize = 3 << 10;
const HEAD_BYTES: usize = TAIL_BYTES + WIDTH * TABLE_BYTES + ENVELOPE_BYTES;

/// One process's handle on the catalog, and all it has asked for.
struct Process {
    branch: Branch,
    tap: Arc<Tap>,
}

impl Process {
    async fn start(lake: &Lake) -> Self {
        let (branch, tap) = lake.open().await;
        Self { branch, tap }
    }

    /// Appends one row to each of some tables, in one commit. Returns its requests.
    async fn append(&self, tables: &[usize], number: u64) -> Vec<Request> {
        self.tap.clear();
        self.write(tables, number).await;
        self.taken()
    }

    /// The same, and its round trips.
    async fn append_in_rounds(&self, lake: &Lake, tables: &[usize], number: u64) -> (Vec<Request>, usize) {
        self.tap.clear();
        self.tap.in_rounds(self.write(tables, number), lake.kind.threads).await;
        let requests = self.taken();
        let round_trips = stages(&requests);
        (requests, round_trips)
    }

    async fn write(&self, tables: &[usize], number: u64) {
        let appended = self.branch.transact(|tx| async move {
            for table in tables {
                let table = tx.table(&key(*table)).await?;
                tx.append(&table, row(1, number as i64)).await?;
            }
            Ok(())
        });
        assert_eq!(appended.await.unwrap().tables.len(), tables.len());
    }

    /// The requests since the tap was cleared. No operation here may list.
    fn taken(&self) -> Vec<Request> {
        let requests = self.tap.requests();
        assert!(!requests.is_empty(), "nothing was counted");
        assert!(!requests.iter().any(|request| request.verb.starts_with("LIST")), "a list:\n{}", render(&requests));
        requests
    }
}

fn key(table: usize) -> String {
    format!("t{table}")
}

fn count(requests: &[Request], verb: &str) -> usize {
    requests.iter().filter(|request| request.verb == verb).count()
}

/// What was measured at one depth.
#[derive(Debug)]
struct Measured {
    depth: u64,
    /// Shape of the head when its tail holds [`PHASE`] appends to one table each.
    phase: (u64, Shape),
    fold_requests: usize,
    fold_bytes: usize,
}

const PHASE: usize = 19;

/// Text of any length is refused, or goes elsewhere: what every reader reads stays small.
pub async fn no_message_makes_a_head_large(lake: &Lake) {
    let process = Process::start(lake).await;
    create(&process.branch, &(0..WIDTH).map(key).collect::<Vec<_>>()).await;
    for length in [1 << 10, 1 << 15, 1 << 20] {
        let options = TransactOptions { message: Some("\u{1}".repeat(length)), ..TransactOptions::default() };
        let committed = process.branch.transact_with(options, |tx| async move {
            let table = tx.table("t0").await?;
            tx.append(&table, row(1, 1)).await
        });
        match committed.await {
            Ok(commit) => assert!(commit.published),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}"),
        }
        let bytes = lake.head().await.len();
        assert!(bytes <= HEAD_BYTES, "a message of {length} bytes makes a head of {bytes}");
    }
}

/// Every cost of a head, at growing depths.
pub async fn costs_do_not_grow_with_depth(lake: &Lake) {
    let process = Process::start(lake).await;
    create(&process.branch, &(0..WIDTH).map(key).collect::<Vec<_>>()).await;
    let mut measured = Vec::new();
    for depth in DEPTHS {
        loop {
            let seq = process.branch.snapshot_at_open().await.unwrap().seq();
            assert!(seq <= depth, "the measurements at the depth before went beyond {depth}");
            if seq == depth {
                break;
            }
            process.append(&[seq as usize % WIDTH], seq).await;
        }
        let head_bytes = lookup(lake, &process).await;
        let (fold_requests, fold_bytes) = fold(lake).await;
        warm_appends(lake, &process, depth).await;
        let phase = at_phase(lake, &process).await;
        println!(
            "{} depth {depth}: head {head_bytes} B, at equal phase (seq {}) {} B, fold of the journal {fold_requests} requests {fold_bytes} B",
            lake.name, phase.0, phase.1.bytes
        );
        measured.push(Measured { depth, phase, fold_requests, fold_bytes });
    }
    for two in measured.windows(2) {
        let (less, more) = (&two[0], &two[1]);
        // The head does not know how deep it is, but for the digits of its counters.
        assert_eq!(less.phase.1.without_numbers, more.phase.1.without_numbers, "{less:?}\n{more:?}");
        for (path, fewer) in &less.phase.1.counters {
            let grown = more.phase.1.counters[path].len().abs_diff(fewer.len());
            assert!(grown <= 8, "the counter {path} takes {grown} more bytes at {} than at {}", more.depth, less.depth);
        }
        // The control: this meter does see growth where there is some.
        let segments = (more.depth - less.depth) as usize / 32;
        assert!(more.fold_requests + 1 >= less.fold_requests + segments && segments > 0, "{less:?}\n{more:?}");
        assert!(more.fold_bytes > less.fold_bytes + 8_192 * segments, "{less:?}\n{more:?}");
    }
    println!("{} counters of a head: {}", lake.name, measured[3].phase.1.names());
    every_phase(lake, &process).await;
    old_points(lake).await;
    lost_swap(lake).await;
    every_row(lake).await;
    assert!(catalog(lake).await.verify(Depth::Metadata).await.unwrap().ok());
}

async fn catalog(lake: &Lake) -> Catalog {
    Catalog::open(lake.parts(&Tap::new())).await.unwrap()
}

/// Looking up what is current: 1 read of the head, without a body when nothing changed; cold, 2 requests in 1 round trip.
async fn lookup(lake: &Lake, warm: &Process) -> usize {
    let bytes = lake.head().await.len();
    assert!(bytes <= HEAD_BYTES, "the head has {bytes} bytes");

    warm.tap.clear();
    let current = warm.branch.snapshot().await.unwrap();
    let requests = warm.taken();
    assert!(count(&requests, "GET head") == 1 && requests.len() == 1 && requests[0].received == 0, "{}", render(&requests));

    let tap = Tap::new();
    let catalog = Catalog::open(lake.parts(&tap)).await.unwrap();
    let cold = Process { branch: catalog.branch("main").unwrap(), tap };
    let opened = cold.branch.snapshot_at_open().await.unwrap();
    assert_eq!((opened.seq(), opened.commit(), opened.tables().len()), (current.seq(), current.commit(), WIDTH));
    let requests = cold.taken();
    assert!(requests.len() <= 2 && stages(&requests) == 1 && count(&requests, "GET head") == 1, "{}", render(&requests));

    // A head another process moved comes whole, in the same one request.
    warm.append(&[0], current.seq()).await;
    cold.tap.clear();
    let moved = cold.branch.snapshot().await.unwrap();
    let requests = cold.taken();
    assert_eq!(moved.seq(), current.seq() + 1);
    assert!(requests.len() == 1 && requests[0].received == lake.head().await.len(), "{}", render(&requests));
    bytes
}

/// A warm append to 3 tables: 7 requests in 2 round trips, and exactly one more, in the same 2, when the tail spills.
async fn warm_appends(lake: &Lake, process: &Process, depth: u64) {
    let mut spills = 0;
    let mut plain = 0;
    while spills == 0 || plain < 2 {
        let (requests, round_trips) = process.append_in_rounds(lake, &[1, 4, 7], depth).await;
        let spilled = count(&requests, "CREATE record");
        let costs = (count(&requests, "PUT"), count(&requests, "SWAP head"), requests.len());
        assert_eq!(costs, (6, 1, 7 + spilled), "an append to 3 tables at depth {depth}:\n{}", render(&requests));
        assert!(spilled <= 1 && round_trips == 2, "{}", render(&requests));
        spills += spilled;
        plain += 1 - spilled;
        assert!(plain <= 32, "the tail never spills");
    }
}

/// Walks to the next head whose tail is `PHASE` appends to one table each.
async fn at_phase(lake: &Lake, process: &Process) -> (u64, Shape) {
    let mut alike = 0;
    for step in 0..100 {
        let requests = process.append(&[step % WIDTH], 0).await;
        let spilled = count(&requests, "CREATE record") == 1;
        alike = if spilled {
            1
        } else if alike > 0 {
            alike + 1
        } else {
            0
        };
        if alike == PHASE {
            let head: Head = serde_json::from_slice(&lake.head().await).unwrap();
            assert_eq!(head.tail.len(), PHASE);
            return (head.seq, Shape::of(&lake.head().await));
        }
    }
    panic!("the tail never spills");
}

/// The head's size after every single commit while the tail fills and spills twice, by number of entries and by bytes.
async fn every_phase(lake: &Lake, process: &Process) {
    let (mut largest, mut longest, mut spills) = (0, 0, 0);
    for step in 0..2 * 33 * 2 {
        let tables: &[usize] = if step < 66 { &[step % WIDTH] } else { &[2, 5, 8] };
        let requests = process.append(tables, step as u64).await;
        spills += count(&requests, "CREATE record");
        let bytes = lake.head().await;
        let head: Head = serde_json::from_slice(&bytes).unwrap();
        let tail = serde_json::to_vec(&head.tail).unwrap().len();
        assert!(tail <= TAIL_BYTES, "a tail of {tail} bytes in {} entries at seq {}", head.tail.len(), head.seq);
        assert!(bytes.len() <= HEAD_BYTES, "a head of {} bytes at seq {}", bytes.len(), head.seq);
        (largest, longest) = (largest.max(bytes.len()), longest.max(head.tail.len()));
    }
    assert!(spills >= 4 && longest == 32, "{spills} spills, at most {longest} entries");
    println!("{} head over all phases: at most {largest} B of {HEAD_BYTES} B allowed, {spills} spills", lake.name);
}

/// One old point of history costs O(log n) reads, from a cold start: 2 to open, a search of 3 reads per level of pointers, and the
/// checkpoint before the found piece.
async fn old_points(lake: &Lake) {
    let head: Head = serde_json::from_slice(&lake.head().await).unwrap();
    let segments = head.segments[0].number + 1;
    let bound = 2 + 1 + 3 * (segments as f64).log(4.0).ceil() as usize;
    let reader = Process::start(lake).await;
    let log = reader.branch.snapshot_at_open().await.unwrap().log(usize::MAX).await.unwrap();
    assert_eq!(log.len() as u64, head.seq);
    let mut sample: Vec<u64> = (1..=head.seq).step_by(97).chain([1, 2, head.seq - 1, head.seq]).collect();
    sample.extend(boundaries(lake, &head).await);
    let mut most = [0; 4];
    for seq in sample {
        let entry = &log[(head.seq - seq) as usize].entry;
        assert_eq!(entry.seq, seq);
        for (i, worst) in most.iter_mut().enumerate() {
            let tap = Tap::new();
            let cold = Catalog::open(lake.parts(&tap)).await.unwrap().branch("main").unwrap();
            let now = cold.snapshot_at_open().await.unwrap();
            match i {
                0 => {
                    let found = now.log_before(seq + 1, 1).await.unwrap();
                    assert_eq!((found.len(), &found[0].entry), (1, entry));
                }
                1 => assert_eq!(now.at(At::Seq(seq)).await.unwrap().commit(), Some(entry.commit)),
                2 => assert_eq!(now.at(At::Commit(entry.commit)).await.unwrap().seq(), seq),
                _ => {
                    let then = now.at(At::Time(entry.time)).await.unwrap();
                    assert!(then.seq() >= seq && then.time_ms() == entry.time);
                }
            }
            let requests = Process { branch: cold, tap }.taken();
            let what = POINTS[i];
            assert!(requests.len() <= bound, "{what} of {seq} among {segments} segments, {bound} allowed:\n{}", render(&requests));
            *worst = requests.len().max(*worst);
        }
    }
    println!("{} one old point among {segments} segments, open included: {POINTS:?} {most:?} requests, {bound} allowed", lake.name);
}

const POINTS: [&str; 4] = ["log", "at(seq)", "at(commit)", "at(time)"];

/// The first or the last seq of every segment, by turns.
async fn boundaries(lake: &Lake, head: &Head) -> Vec<u64> {
    let mut found = Vec::new();
    let mut next = head.segments.first().cloned();
    while let Some(pointer) = next {
        let record = lake.authority.read_record(&pointer.key(&head.branch, head.incarnation)).await.unwrap();
        let segment: Segment = serde_json::from_slice(&record.unwrap().0).unwrap();
        let ends = [segment.entries.first().unwrap().seq, segment.entries.last().unwrap().seq];
        found.push(ends[pointer.number as usize % 2]);
        next = segment.segments.first().cloned();
    }
    found
}

/// A swap lost to a writer of another table: 2 more requests, one after the other.
async fn lost_swap(lake: &Lake) {
    let (ours, theirs) = (Process::start(lake).await, Process::start(lake).await);
    ours.append(&[0, 1, 2], 0).await;
    theirs.append(&[9], 1).await;
    // Both have a tail with room for the entries to come, so that no spill is counted here.
    let head: Head = serde_json::from_slice(&lake.head().await).unwrap();
    for _ in head.tail.len()..=32 {
        let requests = theirs.append(&[9], 2).await;
        if count(&requests, "CREATE record") == 1 {
            break;
        }
    }
    let behind = ours.append(&[0, 1, 2], 3).await;
    assert_eq!(count(&behind, "SWAP head"), 2, "no swap was lost:\n{}", render(&behind));
    theirs.append(&[9], 4).await;
    let (lost, round_trips) = ours.append_in_rounds(lake, &[0, 1, 2], 5).await;
    assert_eq!((count(&lost, "PUT"), count(&lost, "SWAP head"), count(&lost, "GET head")), (6, 2, 1), "{}", render(&lost));
    assert_eq!((lost.len(), round_trips), (9, 4), "{}", render(&lost));
}

/// What was measured is a catalog that works: each append of one row is there.
async fn every_row(lake: &Lake) {
    let snapshot = catalog(lake).await.branch("main").unwrap().snapshot().await.unwrap();
    let log = snapshot.log(usize::MAX).await.unwrap();
    for head in snapshot.tables() {
        let written = |event: &&Event| matches!(event, Event::Written { table_id, .. } if *table_id == head.table_id);
        let appends = log.iter().flat_map(|entry| &entry.body.events).filter(written).count();
        assert_eq!(read(&snapshot, head.key.as_str()).await.unwrap().len(), appends);
    }
}

/// The negative control: what is current, found by folding the whole journal. Returns requests and bytes.
async fn fold(lake: &Lake) -> (usize, usize) {
    let reader = Process::start(lake).await;
    let snapshot = reader.branch.snapshot_at_open().await.unwrap();
    let mut log = snapshot.log(usize::MAX).await.unwrap();
    log.reverse();
    let mut pins = std::collections::BTreeMap::new();
    for event in log.iter().flat_map(|entry| &entry.body.events) {
        match event {
            Event::Registered { table_id, pin, .. } | Event::Written { table_id, pin, .. } => pins.insert(*table_id, pin.clone()),
            other => panic!("unexpected: {other:?}"),
        };
    }
    let current: std::collections::BTreeMap<_, _> = snapshot.tables().map(|head| (head.table_id, head.pin.clone())).collect();
    assert_eq!(pins, current);
    let requests = reader.taken();
    (requests.len(), requests.iter().map(|request| request.received).sum())
}
