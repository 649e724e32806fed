//! The transitions of a table head: every event in every state, through the one function that applies events and through transactions.

use headwater_core::head::{Event, Heads, TableHead, TableState};
use headwater_core::ids::{CommitId, Incarnation, Mint, SystemEnvironment, TableId};
use headwater_core::name::{BranchName, TableKey};
use headwater_core::store::Pin;
use headwater_core::{ErrorKind, Result};

use super::{append, create, drop_table, refused, rename};
use crate::lab::{Lab, main};
use crate::rows::schema;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Live,
    Tombstoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Register,
    Write,
    HandOver,
    Rename,
    Drop,
    Recreate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The same identity is in this state now.
    To(State),
    /// Another identity is live under the name; this one stays as it was.
    Another,
    Refused(ErrorKind),
    /// No operation of this build makes the event.
    NoOperation,
}

use Kind::*;
use Outcome::*;
use State::*;

/// State, event, what `Heads::apply` makes of it, what a transaction does.
///
/// `apply` sees live tables only: that an identity is free, or tombstoned, is for the read set (and rule 16) to say.
const CELLS: [(State, Kind, Outcome, Outcome); 18] = [
    (Absent, Register, To(Live), To(Live)),
    (Absent, Write, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Absent, HandOver, Refused(ErrorKind::Corrupt), NoOperation),
    (Absent, Rename, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Absent, Drop, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Absent, Recreate, To(Live), Refused(ErrorKind::NotFound)),
    (Live, Register, Refused(ErrorKind::AlreadyExists), Refused(ErrorKind::AlreadyExists)),
    (Live, Write, To(Live), To(Live)),
    (Live, HandOver, To(Live), NoOperation),
    (Live, Rename, To(Live), To(Live)),
    (Live, Drop, To(Tombstoned), To(Tombstoned)),
    (Live, Recreate, Refused(ErrorKind::AlreadyExists), Refused(ErrorKind::NotFound)),
    (Tombstoned, Register, To(Live), Another),
    (Tombstoned, Write, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Tombstoned, HandOver, Refused(ErrorKind::Corrupt), NoOperation),
    (Tombstoned, Rename, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Tombstoned, Drop, Refused(ErrorKind::Corrupt), Refused(ErrorKind::NotFound)),
    (Tombstoned, Recreate, To(Live), To(Live)),
];

fn mint() -> Mint {
    Mint::new(std::sync::Arc::new(SystemEnvironment))
}

fn key(name: &str) -> TableKey {
    name.parse().unwrap()
}

fn branch(name: &str) -> BranchName {
    name.parse().unwrap()
}

fn pin(name: &str) -> Pin {
    Pin { path: format!("data/{name}"), size: 1, id: format!("sha256:{name}") }
}

/// One identity and its lives.
struct Subject {
    id: TableId,
    life: Incarnation,
    next_life: Incarnation,
}

impl Subject {
    fn new() -> Self {
        let life = || Incarnation(mint().ulid());
        Self { id: TableId(mint().ulid()), life: life(), next_life: life() }
    }

    fn event(&self, kind: Kind) -> Event {
        let (table_id, incarnation_id, schema_hash) = (self.id, self.life, "schema".to_owned());
        let (rows, properties) = (7, std::collections::BTreeMap::new());
        match kind {
            Register => Event::Registered { table_id, incarnation_id, key: key("t"), pin: pin("1"), rows, schema_hash, properties },
            Write => Event::Written { table_id, incarnation_id, pin: pin("2"), rows: 9, schema_hash },
            HandOver => Event::HandedOver { table_id, incarnation_id, owner: branch("other") },
            Rename => Event::Renamed { table_id, incarnation_id, from: key("t"), to: key("u") },
            Drop => Event::Dropped { table_id, incarnation_id, key: key("t") },
            Recreate => Event::Recreated {
                table_id,
                previous: self.life,
                incarnation_id: self.next_life,
                key: key("t"),
                pin: pin("3"),
                rows,
                schema_hash,
                properties,
            },
        }
    }

    fn heads(&self, state: State) -> Heads {
        let mut heads = Heads::default();
        let events: &[Kind] = match state {
            Absent => &[],
            Live => &[Register],
            Tombstoned => &[Register, Drop],
        };
        for kind in events {
            apply(&mut heads, &self.event(*kind)).unwrap();
        }
        heads
    }
}

fn apply(heads: &mut Heads, event: &Event) -> Result<Option<TableHead>> {
    heads.apply(event, CommitId(mint().ulid()), &branch("main"))
}

pub(super) async fn every_event_in_every_state_by_apply(lab: &Lab) {
    lab.create().await;
    for (state, kind, outcome, _) in CELLS {
        let subject = Subject::new();
        let before = subject.heads(state);
        let mut heads = before.clone();
        let applied = apply(&mut heads, &subject.event(kind));
        match outcome {
            Refused(expected) => {
                refused(applied, expected);
                assert_eq!(heads, before, "{state:?} {kind:?}: what is refused changes nothing");
                continue;
            }
            To(Live) => assert!(applied.unwrap().is_none(), "{state:?} {kind:?}"),
            To(Tombstoned) => {
                let tombstone = applied.unwrap().expect("a drop leaves a tombstone");
                assert_eq!((tombstone.state, tombstone.table_id), (TableState::Tombstoned, subject.id));
                assert_eq!((tombstone.pin, tombstone.incarnation_id), (pin("1"), subject.life), "a tombstone keeps the last version");
                assert!(heads.is_empty());
                continue;
            }
            To(Absent) | Another | NoOperation => unreachable!("no cell says so"),
        }
        let old = before.by_id(subject.id);
        let new = heads.by_id(subject.id).expect("it is live");
        assert_eq!((heads.len(), new.state), (1, TableState::Live));
        let expected = match kind {
            Register => (key("t"), subject.life, pin("1"), 7, branch("main")),
            Write => (key("t"), subject.life, pin("2"), 9, branch("main")),
            HandOver => (key("t"), subject.life, pin("1"), 7, branch("other")),
            Rename => (key("u"), subject.life, pin("1"), 7, branch("main")),
            Recreate => (key("t"), subject.next_life, pin("3"), 7, branch("main")),
            Drop => unreachable!("a drop leaves nothing live"),
        };
        let found = (new.key.clone(), new.incarnation_id, new.pin.clone(), new.rows, new.owner.clone());
        assert_eq!(found, expected, "{state:?} {kind:?}");
        if let Some(old) = old {
            assert_ne!(old.token().unwrap(), new.token().unwrap(), "{kind:?}: every transition changes the token");
        }
    }
}

pub(super) async fn every_event_in_every_state_by_transact(lab: &Lab) {
    let mut executed = 0;
    for (state, kind, _, outcome) in CELLS {
        if outcome == NoOperation {
            continue;
        }
        executed += 1;
        let branch = main(&lab.create().await);
        if state != Absent {
            create(&branch, "t", 0..3).await;
        }
        let before = branch.snapshot().await.unwrap();
        let subject = before.tables().next().cloned();
        if state == Tombstoned {
            drop_table(&branch, "t").await.unwrap();
        }
        // A process that has seen nothing of this makes the transition.
        let other = lab.main().await;
        let seq = other.snapshot().await.unwrap().seq();
        let done = match kind {
            Register => other.transact(|tx| async move { tx.create_table("t", schema()).await.map(drop) }).await,
            Write => append(&other, "t", 3..5).await,
            Rename => rename(&other, "t", "u").await,
            Drop => drop_table(&other, "t").await,
            Recreate => other.transact(|tx| async move { tx.recreate_table("t", None).await.map(drop) }).await,
            HandOver => unreachable!("no operation makes it"),
        };
        let after = lab.main().await.snapshot().await.unwrap();
        let tombstones = after.tombstones().await.unwrap();
        let cell = format!("{state:?} {kind:?}");
        if let Refused(expected) = outcome {
            refused(done, expected);
            assert_eq!(after.seq(), seq, "{cell}: what is refused is not in the journal");
            continue;
        }
        assert_eq!(done.unwrap().seq, seq + 1, "{cell}");
        let live: Vec<TableId> = after.tables().map(|head| head.table_id).collect();
        let dead: Vec<TableId> = tombstones.iter().map(|head| head.table_id).collect();
        match (outcome, subject) {
            (To(Live), Some(subject)) => assert!(live == [subject.table_id] && dead.is_empty(), "{cell}"),
            (To(Live), None) => assert!(live.len() == 1 && dead.is_empty(), "{cell}"),
            (To(Tombstoned), Some(subject)) => assert!(live.is_empty() && dead == [subject.table_id], "{cell}"),
            (Another, Some(subject)) => {
                assert!(live.len() == 1 && live[0] != subject.table_id && dead == [subject.table_id], "{cell}");
            }
            other => unreachable!("no cell says so: {other:?}"),
        }
        lab.check().await;
    }
    assert_eq!(executed, CELLS.len() - 3, "handing over is the only event without an operation");
}

pub(super) async fn events_of_another_life_or_name_change_nothing(lab: &Lab) {
    lab.create().await;
    let (subject, neighbour) = (Subject::new(), Subject::new());
    let mut heads = subject.heads(Live);
    let named = |name: &str, of: &Subject| match of.event(Register) {
        Event::Registered { table_id, incarnation_id, pin, rows, schema_hash, properties, .. } => {
            Event::Registered { table_id, incarnation_id, key: key(name), pin, rows, schema_hash, properties }
        }
        other => other,
    };
    apply(&mut heads, &named("neighbour", &neighbour)).unwrap();
    let before = heads.clone();
    let (table_id, stale, life) = (subject.id, subject.next_life, subject.life);
    let schema_hash = || "schema".to_owned();
    let free = Subject::new();
    let recreate = |incarnation_id, name: &str| Event::Recreated {
        table_id: free.id,
        previous: free.life,
        incarnation_id,
        key: key(name),
        pin: pin("4"),
        rows: 0,
        schema_hash: schema_hash(),
        properties: std::collections::BTreeMap::new(),
    };
    let cells = [
        (ErrorKind::Corrupt, Event::Written { table_id, incarnation_id: stale, pin: pin("2"), rows: 1, schema_hash: schema_hash() }),
        (ErrorKind::Corrupt, Event::HandedOver { table_id, incarnation_id: stale, owner: branch("other") }),
        (ErrorKind::Corrupt, Event::Renamed { table_id, incarnation_id: stale, from: key("t"), to: key("u") }),
        (ErrorKind::Corrupt, Event::Renamed { table_id, incarnation_id: life, from: key("not its name"), to: key("u") }),
        (ErrorKind::AlreadyExists, Event::Renamed { table_id, incarnation_id: life, from: key("t"), to: key("neighbour") }),
        (ErrorKind::Corrupt, Event::Dropped { table_id, incarnation_id: stale, key: key("t") }),
        (ErrorKind::Corrupt, Event::Dropped { table_id, incarnation_id: life, key: key("not its name") }),
        (ErrorKind::AlreadyExists, named("t", &free)),
        (ErrorKind::AlreadyExists, recreate(free.next_life, "t")),
        (ErrorKind::Corrupt, recreate(free.life, "u")),
    ];
    for (kind, event) in cells {
        let error = apply(&mut heads, &event).expect_err("this is no transition");
        assert_eq!(error.kind(), kind, "{event:?}: {error:?}");
        assert_eq!(heads, before, "{event:?}: what is refused changes nothing");
    }
    // The same name in another case is another name.
    apply(&mut heads, &named("T", &free)).unwrap();
}
