//! Every rule, broken: real evidence is changed so that just one rule is broken, and its predicate, and no other, must say so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use headwater_adapters as _;
use headwater_conformance::fixture::Memory;
use headwater_conformance::invariants::{Checked, Evidence, RULES, check_all};
use headwater_conformance::lab::{Lab, main};
use headwater_conformance::rows::{numbered, schema};
use headwater_core::head::{Event, Head, StoredBody, TAIL_BYTES, TAIL_ENTRIES};
use headwater_core::ids::{CommitId, Incarnation, Mint, SystemEnvironment, Token};
use headwater_core::registry::Registry;
use headwater_core::{Branch, Error, TransactOptions, Transaction};
use headwater_parquet as _;

fn token(name: &str) -> Token {
    name.parse().unwrap()
}

async fn told(lab: &Lab, branch: &Branch, name: &str, fails: bool) {
    let options = TransactOptions { token: Some(token(name)), ..TransactOptions::default() };
    let outcome = branch.transact_with(options, |tx| async move {
        tx.append(&tx.table("t").await?, numbered(0..1)).await?;
        if fails { Err(Error::invalid("no")) } else { Ok(()) }
    });
    lab.recorder().told(&token(name), &outcome.await);
}

/// A history with everything the rules speak of in it.
async fn real_evidence() -> Evidence {
    let mut expected = vec![("backend", "memory"), ("store", "parquet")];
    expected.extend(headwater_adapters::EXPECTED);
    let lab = Lab::new(Memory::default(), Registry::seal(&expected, &[]).unwrap(), "parquet");
    let branch = main(&lab.create().await);
    async fn create(tx: Transaction) -> headwater_core::Result<()> {
        for key in ["t", "u", "v"] {
            let table = tx.create_table(key, schema()).await?;
            tx.append(&table, numbered(0..3)).await?;
        }
        Ok(())
    }
    branch.transact(create).await.unwrap();
    lab.recorder().see(&branch.snapshot().await.unwrap()).await.unwrap();
    for i in 0..TAIL_ENTRIES as i64 {
        branch.transact(|tx| async move { tx.append(&tx.table("u").await?, numbered(i..i + 1)).await }).await.unwrap();
    }
    branch.transact(|tx| async move { tx.rename_table(&tx.table("u").await?, "w").await }).await.unwrap();
    for key in ["v", "w"] {
        branch.transact(|tx| async move { tx.drop_table(&tx.table(key).await?).await }).await.unwrap();
    }
    branch.transact(|tx| async move { tx.recreate_table("v", None).await.map(drop) }).await.unwrap();
    let long = branch.transact(|tx| async move {
        for i in 0..TAIL_BYTES / 80 {
            tx.find(&format!("{i:080}")).await?;
        }
        tx.append(&tx.table("t").await?, numbered(5..6)).await
    });
    long.await.unwrap();
    told(&lab, &branch, "acknowledged", false).await;
    told(&lab, &branch, "refused", true).await;
    let evidence = lab.evidence().await;
    assert!(!evidence.segments.is_empty() && !evidence.bodies.is_empty() && !evidence.views.is_empty());
    evidence
}

/// The last head of `main`.
fn last(evidence: &mut Evidence) -> &mut Head {
    &mut evidence.history.values_mut().next().unwrap().last_mut().unwrap().head
}

/// Every head of `main`.
fn heads(evidence: &mut Evidence) -> Vec<&mut Head> {
    evidence.history.values_mut().next().unwrap().iter_mut().map(|written| &mut written.head).collect()
}

/// Changes an entry wherever it stands: in every tail and segment.
fn entry(evidence: &mut Evidence, seq: u64, change: impl Fn(&mut headwater_core::head::Entry)) {
    let mut changed = 0;
    for written in evidence.history.values_mut().flatten() {
        written.head.tail.iter_mut().filter(|entry| entry.seq == seq).for_each(|entry| {
            change(entry);
            changed += 1;
        });
    }
    for segment in evidence.segments.values_mut() {
        segment.entries.iter_mut().filter(|entry| entry.seq == seq).for_each(&change);
    }
    assert!(changed > 0, "there is no seq {seq}");
}

fn event(entry: &mut headwater_core::head::Entry) -> &mut Event {
    match &mut entry.body {
        StoredBody::Inline(body) => &mut body.events[0],
        StoredBody::Record(_) => panic!("the entry has a body record"),
    }
}

fn fresh() -> Incarnation {
    Incarnation(Mint::new(std::sync::Arc::new(SystemEnvironment)).ulid())
}

const SPILLED: u64 = 5;

/// A rule, what is done to it, and how.
type Mutation = (u8, &'static str, fn(&mut Evidence));

const MUTATIONS: &[Mutation] = &[
    (1, "a head written twice", |evidence| {
        let history = evidence.history.values_mut().next().unwrap();
        history[1].bytes = history[0].bytes.clone();
    }),
    (1, "a record written twice", |evidence| {
        let bodies = evidence.records.values_mut().next().unwrap();
        bodies.push(bodies[0].clone());
    }),
    (2, "an entry that changed later", |evidence| {
        let mut heads = heads(evidence);
        let at = heads.iter().position(|head| head.tail.len() > 3).unwrap();
        heads[at].tail[1].actor = "somebody else".to_owned();
    }),
    (2, "an entry that was lost", |evidence| {
        let mut heads = heads(evidence);
        let at = heads.len() - 1;
        heads[at].tail[0].message = Some("not what it was".to_owned());
    }),
    (3, "a checkpoint that is not the fold", |evidence| {
        let segment = evidence.segments.values_mut().next().unwrap();
        segment.checkpoint.tombstones.count += 1;
    }),
    (3, "a row count the journal does not give", |evidence| {
        // In all heads behind one point, so that no single swap shows it.
        entry(evidence, SPILLED, |entry| {
            if let Event::Written { rows, .. } = event(entry) {
                *rows += 1;
            }
        });
    }),
    (4, "a token that stands twice", |evidence| {
        let taken = last(evidence).tail[0].token.clone();
        entry(evidence, 3, |entry| entry.token = taken.clone());
    }),
    (5, "an acknowledged commit that is nowhere", |evidence| {
        evidence.acknowledged.insert(token("lost"));
    }),
    (5, "a refused commit that is there", |evidence| {
        let there = last(evidence).tail[0].token.clone();
        evidence.refused.insert(there);
    }),
    (6, "a swap that changes a table it does not name", |evidence| {
        evidence.last_swap_changes_another_table();
    }),
    (7, "a read set that did not hold", |evidence| {
        entry(evidence, SPILLED, |entry| {
            if let StoredBody::Inline(body) = &mut entry.body {
                body.reads.schema = Some("another schema".to_owned());
            }
        });
    }),
    (7, "a read set that lacks the written table", |evidence| {
        entry(evidence, SPILLED, |entry| {
            if let StoredBody::Inline(body) = &mut entry.body {
                body.reads.tables.clear();
            }
        });
    }),
    (8, "an object that is missing", |evidence| {
        let path = evidence.reached[0].object.path.clone();
        evidence.objects.remove(&path).unwrap();
    }),
    (8, "an object that was changed", |evidence| {
        let path = evidence.reached.iter().find(|reached| reached.digest.is_some()).unwrap().object.path.clone();
        evidence.objects.get_mut(&path).unwrap().digest = "another".to_owned();
    }),
    (8, "a record that is missing", |evidence| {
        let key = evidence.referenced.keys().next().unwrap().clone();
        evidence.control.remove(&key).unwrap();
    }),
    (8, "a record that was changed", |evidence| {
        let key = evidence.referenced.keys().next().unwrap().clone();
        evidence.control.get_mut(&key).unwrap().digest = "another".to_owned();
    }),
    (11, "a rev that was left out", |evidence| last(evidence).rev += 1),
    (11, "a gc epoch that goes back", |evidence| heads(evidence)[3].gc_epoch = 7),
    (11, "a floor that goes back", |evidence| heads(evidence)[3].floor = 2),
    (11, "a time that goes back", |evidence| heads(evidence)[3].time = u64::MAX),
    (14, "an entry of another epoch", |evidence| entry(evidence, SPILLED, |entry| entry.epoch = 4)),
    (16, "a recreate of an identity that was never dropped", |evidence| {
        // What the event says of the life before is all that changes.
        let previous = fresh();
        evidence.each_entry(|entry| {
            if let StoredBody::Inline(body) = &mut entry.body
                && let Event::Recreated { previous: was, .. } = &mut body.events[0]
            {
                *was = previous;
            }
        });
    }),
    (16, "a tombstone that is missing", |evidence| {
        evidence.tombstones.values_mut().next().unwrap().pop().unwrap();
    }),
    (16, "a tombstone that stands twice", |evidence| {
        let tombstones = evidence.tombstones.values_mut().next().unwrap();
        tombstones.push(tombstones[0].clone());
    }),
    (17, "a head that a read did not find", |evidence| {
        evidence.absences.insert("main".parse().unwrap());
    }),
    (17, "a head that is gone", |evidence| {
        evidence.now.values_mut().for_each(|now| *now = None);
    }),
    (17, "a head that is an older one", |evidence| {
        let old = evidence.history.values().next().unwrap()[1].bytes.clone();
        evidence.now.values_mut().for_each(|now| *now = Some(old.clone()));
    }),
    (18, "a head that grew with its history", |evidence| {
        let written = &mut evidence.history.values_mut().next().unwrap()[2];
        written.bytes = vec![b' '; 2 * TAIL_BYTES].into();
    }),
    (22, "a state with other rows", |evidence| evidence.views[0].again = Ok(Some("other rows".to_owned()))),
    (22, "a state that cannot be read", |evidence| evidence.views[0].again = Err("damaged".to_owned())),
];

/// Mutations that need more than one line.
trait Break {
    fn each_entry(&mut self, change: impl FnMut(&mut headwater_core::head::Entry));
    fn last_swap_changes_another_table(&mut self);
}

impl Break for Evidence {
    fn each_entry(&mut self, mut change: impl FnMut(&mut headwater_core::head::Entry)) {
        self.history.values_mut().flatten().flat_map(|written| &mut written.head.tail).for_each(&mut change);
        self.segments.values_mut().flat_map(|segment| &mut segment.entries).for_each(change);
    }

    /// The last swap also hands over a table, in the head alone.
    fn last_swap_changes_another_table(&mut self) {
        let head = last(self);
        let named: BTreeSet<_> = head.tail.last_mut().map(|entry| event(entry).table_id()).into_iter().collect();
        let table = head.tables.iter().find(|table| !named.contains(&table.table_id)).unwrap().clone();
        let event = Event::HandedOver { table_id: table.table_id, incarnation_id: table.incarnation_id, owner: "other".parse().unwrap() };
        let commit = CommitId(fresh().0);
        head.tables.apply(&event, commit, &"main".parse().unwrap()).unwrap();
    }
}

/// Rules that say the same thing of the same change: a swap cannot change a table it does not name without the fold's noticing.
fn implied(rule: u8) -> &'static [u8] {
    match rule {
        // What the fold gives is what the read sets of later commits were compared with.
        3 => &[7],
        6 => &[3],
        _ => &[],
    }
}

#[tokio::test]
async fn every_rule_has_a_mutation_that_breaks_it_alone() {
    let real = real_evidence().await;
    assert_eq!(check_all(&real), []);
    let mut broken = BTreeSet::new();
    for (rule, what, mutate) in MUTATIONS {
        let mut evidence = real.clone();
        mutate(&mut evidence);
        let found = check_all(&evidence);
        let violated: BTreeSet<u8> = found.iter().map(|violation| violation.rule).collect();
        assert!(violated.contains(rule), "rule {rule}, {what}: found only {found:?}");
        let others: Vec<_> = violated.iter().filter(|other| *other != rule && !implied(*rule).contains(other)).collect();
        assert!(others.is_empty(), "rule {rule}, {what}: also {found:?}");
        assert!(found[0].to_string().contains(&format!("rule {}", found[0].rule)));
        broken.insert(*rule);
    }
    let checked: BTreeSet<u8> = RULES.iter().filter(|rule| matches!(rule.checked, Checked::Here(_))).map(|rule| rule.number).collect();
    assert_eq!(broken, checked, "every predicate has a mutation");
    assert!(RULES.iter().zip(1..).all(|(rule, number)| rule.number == number), "the rules are numbered from 1");
    println!("{} mutations of {} rules", MUTATIONS.len(), checked.len());
}
