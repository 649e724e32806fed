//! Whether a server keeps the promises a catalog stands on. Most S3-compatible ones do; some ignore a precondition without a word, and
//! a commit there would overwrite another one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use headwater_core::authority::{Expected, Finding, HeadRead, Severity, Swap, Tag};
use headwater_core::ids::{Mint, SystemEnvironment};
use headwater_core::{Error, ErrorKind, Result};

use crate::authority::S3Authority;
use crate::connection::Connection;

/// How many writes a race sends at once.
const RACERS: usize = 8;

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// ETags are strong: a weak one (`W/"…"`) does not tell bodies apart.
    StrongTag,
    /// A GET's ETag is the PUT's, byte for byte, and another body has another one.
    SameTag,
    /// `If-None-Match: *` refuses a PUT where an object is, and leaves that as it was.
    CreateOnly,
    /// `If-Match` with the current ETag lets a PUT through.
    IfMatchCurrent,
    /// `If-Match` with another ETag refuses a PUT, and leaves the object as it was.
    IfMatchStale,
    /// `If-Match` on a key without an object creates none.
    IfMatchAbsent,
    /// `If-None-Match` with the current ETag answers a GET with 304, and with the object once it has changed.
    NotModified,
    /// A listing shows what was just put.
    ListAfterPut,
    /// A listing does not show what was just deleted.
    ListAfterDelete,
    /// Of 8 swaps at once from one ETag, exactly one wins.
    SwapRace,
    /// Of 8 creates at once of one key, exactly one wins.
    CreateRace,
}

impl Check {
    /// Every check, in the order of a report: the likeliest cause before what it brings about.
    pub const ALL: [Self; 11] = [
        Self::StrongTag,
        Self::SameTag,
        Self::CreateOnly,
        Self::IfMatchCurrent,
        Self::IfMatchStale,
        Self::IfMatchAbsent,
        Self::NotModified,
        Self::ListAfterPut,
        Self::ListAfterDelete,
        Self::SwapRace,
        Self::CreateRace,
    ];

    /// What the server must do, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateOnly => "create-only PUT (If-None-Match: *)",
            Self::IfMatchCurrent => "PUT with a current If-Match",
            Self::IfMatchStale => "PUT with a stale If-Match",
            Self::IfMatchAbsent => "PUT with If-Match on an absent key",
            Self::SameTag => "the same ETag from PUT and GET",
            Self::StrongTag => "strong ETags",
            Self::NotModified => "304 for GET with If-None-Match",
            Self::ListAfterPut => "listings that show every PUT",
            Self::ListAfterDelete => "listings that show every DELETE",
            Self::SwapRace => "one winner of concurrent If-Match PUTs",
            Self::CreateRace => "one winner of concurrent create-only PUTs",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How one check went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The promise.
    pub check: Check,
    /// Whether it was kept.
    pub passed: bool,
    /// What was seen.
    pub detail: String,
}

/// How a server did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The server: its host and port, and what it calls itself.
    pub server: String,
    /// Every check, in the order of [`Check::ALL`].
    pub outcomes: Vec<Outcome>,
    /// The probe's own objects that could not be removed.
    pub left: Vec<String>,
}

impl ProbeReport {
    /// The report as the trait gives it: each check, and what could not be cleaned up.
    pub fn findings(&self) -> Vec<Finding> {
        let checks = self.outcomes.iter().map(|outcome| {
            let severity = if outcome.passed { Severity::Good } else { Severity::Broken };
            Finding { subject: outcome.check.to_string(), severity, message: format!("{}: {}", self.server, outcome.detail) }
        });
        let left = self.left.iter().map(|key| Finding {
            subject: "clean-up".to_owned(),
            severity: Severity::Warning,
            message: format!("the probe's object {key} could not be removed; delete it by hand"),
        });
        checks.chain(left).collect()
    }

    /// Whether every promise was kept.
    pub fn passed(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.passed)
    }

    /// The error that names the server and the first promise it broke.
    pub fn require(&self) -> Result<()> {
        let Some(broken) = self.outcomes.iter().find(|outcome| !outcome.passed) else { return Ok(()) };
        let message = format!("{} does not keep a promise that commits stand on: {}; use another store", self.server, broken.check);
        Err(Error::new(ErrorKind::PreconditionIgnored, message).during("probe").because(broken.detail.clone()))
    }
}

/// Tries every promise on objects of its own, below `_headwater/probe/` and a fresh name, and removes them again: also when a check fails,
/// when a request does, and when the returned future is dropped (it runs as a task, to its end, while the runtime lives).
///
/// A broken promise is part of the report; an error means that the probe could not be made. 44 requests, at most 11 of them in sequence.
pub async fn probe(authority: &S3Authority) -> Result<ProbeReport> {
    let connection = authority.0.clone();
    let task = tokio::spawn(async move { run(&connection).await });
    let stopped = |source| Error::new(ErrorKind::Unavailable, "the probe was stopped").because(source);
    task.await.map_err(stopped)?.map_err(|error| error.during("probe"))
}

async fn run(connection: &Arc<Connection>) -> Result<ProbeReport> {
    let unique = Mint::new(Arc::new(SystemEnvironment)).name();
    let probe = Probe { connection, prefix: connection.layout.probe(&unique) };
    let checked = probe.all().await;
    let left = probe.clean().await;
    for key in &left {
        tracing::warn!(object = key, "an object of the probe could not be removed; delete it by hand");
    }
    let resolved = connection.resolved().await?;
    let host = resolved.bucket.authority();
    let server = match resolved.http.server() {
        Some(name) => format!("{host} ({name})"),
        None => host.to_owned(),
    };
    Ok(ProbeReport { server, outcomes: checked?, left })
}

struct Probe<'a> {
    connection: &'a Connection,
    prefix: String,
}

const KEYS: [&str; 4] = ["swaps", "absent", "swap-race", "create-race"];

impl Probe<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn all(&self) -> Result<Vec<Outcome>> {
        // All run to their end, also beside one that fails: what is still under way could land behind the cleaning.
        let (sequence, absent, listings, swaps, creates) =
            futures::join!(self.sequence(), self.absent(), self.listings(), self.swap_race(), self.create_race());
        let mut outcomes = sequence?;
        outcomes.extend(listings?);
        outcomes.extend([absent?, swaps?, creates?]);
        outcomes.sort_by_key(|outcome| outcome.check);
        Ok(outcomes)
    }

    /// One object through its life: created, created again, read, swapped, swapped by a stale tag.
    async fn sequence(&self) -> Result<Vec<Outcome>> {
        let key = &self.key("swaps");
        let first = self.put_new(key, "1").await?;
        let (_, read) = self.read(key).await?;
        let again = self.put(key, Expected::Absent, "again").await?;
        let (body, before) = self.read(key).await?;
        let mut outcomes = vec![outcome(
            Check::CreateOnly,
            refused(&again) && body == "1",
            format!("a second one was {}, and the object is {}", said(&again), if body == "1" { "as before" } else { "another" }),
        )];

        let current = self.put(key, Expected::Tag(&before), "2").await?;
        let (second, second_read) = self.read(key).await?;
        let now = format!("it was {}, and the object is {}", said(&current), if second == "2" { "the new one" } else { "not the new one" });
        let current = match current {
            Swap::Swapped(tag) => Some(tag),
            _ => None,
        };
        outcomes.push(outcome(Check::IfMatchCurrent, current.is_some() && second == "2", now));

        // Read before the stale swap, which a careless server lets through.
        let unchanged = self.connection.get(key, Some(&second_read)).await?;
        let changed = self.connection.get(key, Some(&read)).await?;
        outcomes.push(outcome(
            Check::NotModified,
            matches!((&unchanged, &changed), (HeadRead::Unchanged, HeadRead::Found(..))),
            format!("with the current ETag it was {}, with an old one {}", seen(&unchanged), seen(&changed)),
        ));

        let stale = self.put(key, Expected::Tag(&read), "stale").await?;
        let (body, _) = self.read(key).await?;
        outcomes.push(outcome(
            Check::IfMatchStale,
            refused(&stale) && body == second && read != second_read,
            format!("it was {}, and the object is {}", said(&stale), if body == second { "as before" } else { "another" }),
        ));

        let tags = [Some(&first), Some(&read), current.as_ref(), Some(&second_read)];
        let shown = tags.iter().map(|tag| tag.map_or("none", |tag| tag.as_str())).collect::<Vec<_>>().join(", ");
        let same = first == read && current.as_ref() == Some(&second_read) && read != second_read;
        outcomes.push(outcome(Check::SameTag, same, format!("PUT, GET, PUT, GET gave {shown}")));
        let weak = tags.iter().flatten().any(|tag| tag.as_str().starts_with("W/"));
        outcomes.push(outcome(Check::StrongTag, !weak, format!("the ETags were {shown}")));
        Ok(outcomes)
    }

    async fn absent(&self) -> Result<Outcome> {
        let key = &self.key("absent");
        let tag = Tag::new("\"d41d8cd98f00b204e9800998ecf8427e\"");
        let swap = self.put(key, Expected::Tag(&tag), "created").await?;
        let there = self.connection.get(key, None).await?;
        let passed = refused(&swap) && matches!(there, HeadRead::Absent);
        Ok(outcome(Check::IfMatchAbsent, passed, format!("it was {}, and the object is {}", said(&swap), seen(&there))))
    }

    async fn listings(&self) -> Result<[Outcome; 2]> {
        let keys: Vec<String> = (0..3).map(|n| self.listed(n)).collect();
        for key in &keys {
            self.put_new(key, "listed").await?;
        }
        let shown = self.connection.list(&self.prefix).await?;
        let missing = keys.iter().filter(|key| !shown.contains(key)).count();
        self.connection.delete(&keys[0]).await?;
        let after = self.connection.list(&self.prefix).await?;
        let gone = !after.contains(&keys[0]);
        Ok([
            outcome(Check::ListAfterPut, missing == 0, format!("{missing} of {} new objects were missing", keys.len())),
            outcome(Check::ListAfterDelete, gone, format!("the deleted object was {}", if gone { "gone" } else { "still listed" })),
        ])
    }

    fn listed(&self, n: usize) -> String {
        self.key(&format!("listed-{n}"))
    }

    async fn swap_race(&self) -> Result<Outcome> {
        let key = &self.key("swap-race");
        let tag = self.put_new(key, "start").await?;
        self.race(Check::SwapRace, key, Expected::Tag(&tag)).await
    }

    async fn create_race(&self) -> Result<Outcome> {
        self.race(Check::CreateRace, &self.key("create-race"), Expected::Absent).await
    }

    /// Writers that had no answer may have won; then nobody else may have.
    async fn race(&self, check: Check, key: &str, expected: Expected<'_>) -> Result<Outcome> {
        let bodies: Vec<String> = (0..RACERS).map(|n| format!("racer {n}")).collect();
        let outcomes = join_all(bodies.iter().map(|body| self.put(key, expected, body))).await;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        let there = match self.connection.get(key, None).await? {
            HeadRead::Found(body, _) => String::from_utf8_lossy(&body).into_owned(),
            _ => String::new(),
        };
        let of = |wanted: fn(&Swap) -> bool| -> Vec<&String> {
            bodies.iter().zip(&outcomes).filter(|(_, swap)| wanted(swap)).map(|(body, _)| body).collect()
        };
        let winners = of(|swap| matches!(swap, Swap::Swapped(_)));
        let unknown = of(|swap| matches!(swap, Swap::Unknown(_)));
        let passed = match winners.as_slice() {
            [] => unknown.contains(&&there),
            [winner] => **winner == there,
            _ => false,
        };
        let detail = format!("{} won, {} had no answer, and {there:?} is in place", winners.len(), unknown.len());
        Ok(outcome(check, passed, detail))
    }

    async fn put(&self, key: &str, expected: Expected<'_>, body: &str) -> Result<Swap> {
        self.connection.put(key, expected, Bytes::from(body.to_owned())).await
    }

    /// Puts an object under a name nobody has, whatever that takes: the outcome is not what is checked.
    async fn put_new(&self, key: &str, body: &str) -> Result<Tag> {
        match self.put(key, Expected::Absent, body).await? {
            Swap::Swapped(tag) => Ok(tag),
            Swap::Unknown(cause) => match self.connection.get(key, None).await? {
                HeadRead::Found(_, tag) => Ok(tag),
                _ => Err(cause),
            },
            Swap::Conflict => Err(self.broken("the server refused a create-only PUT of an absent key")),
        }
    }

    async fn read(&self, key: &str) -> Result<(String, Tag)> {
        match self.connection.get(key, None).await? {
            HeadRead::Found(body, tag) => Ok((String::from_utf8_lossy(&body).into_owned(), tag)),
            _ => Err(self.broken("the server does not find an object that was just put")),
        }
    }

    fn broken(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("{what}; use another store")).at("bucket", &self.connection.settings.bucket)
    }

    /// Removes whatever the probe may have made, listed or not, and gives what would not go.
    async fn clean(&self) -> Vec<String> {
        let mut keys: Vec<String> = KEYS.iter().map(|name| self.key(name)).chain((0..3).map(|n| self.listed(n))).collect();
        keys.sort();
        let removed = join_all(keys.iter().map(|key| self.connection.delete(key))).await;
        keys.into_iter().zip(removed).filter(|(_, removed)| removed.is_err()).map(|(key, _)| key).collect()
    }
}

fn outcome(check: Check, passed: bool, detail: String) -> Outcome {
    Outcome { check, passed, detail }
}

/// Whether a write was kept out. One without an answer counts if the object shows that it was.
fn refused(swap: &Swap) -> bool {
    !matches!(swap, Swap::Swapped(_))
}

fn said(swap: &Swap) -> &'static str {
    match swap {
        Swap::Swapped(_) => "accepted",
        Swap::Conflict => "refused",
        Swap::Unknown(_) => "left without an answer",
    }
}

fn seen(read: &HeadRead) -> &'static str {
    match read {
        HeadRead::Absent => "absent",
        HeadRead::Unchanged => "not modified",
        HeadRead::Found(..) => "there",
    }
}
