//! A disk in memory, for tests: it counts requests and primitives, fails or dies at any one of them, and loses power.
//!
//! It keeps what a program sees apart from what is durable. A file's bytes are durable once the file is synced; a directory's names, once
//! the directory is. [`SimDisk::cut`] makes the disk one finds after a loss of power. Between what must be left and what may be left it
//! follows the [`Cut`]: a real disk writes back in any order, so unsynced names may survive without the bytes they name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, Listed, Lock, Verb};

/// What one primitive does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It and every later one fail, and it is not applied: the process died before it.
    DieBefore,
    /// It is applied, but it and every later one fail: the process died after it.
    DieAfter,
    /// It alone fails, with this kind, and is not applied.
    FailBefore(ErrorKind),
    /// It alone fails, with this kind, but is applied.
    FailAfter(ErrorKind),
}

/// What a loss of power leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Synced,
    /// Everything.
    Everything,
    /// All names, but of unsynced bytes nothing: the files are as last synced, or empty.
    Names,
    /// Each name, and each file's bytes, wholly, by half or not at all, by a coin of this seed.
    Mixed(u64),
}

/// The primitives, by the name of their method.
pub type Primitive = &'static str;

#[derive(Clone, Debug)]
enum Node {
    File { bytes: Vec<u8>, durable: Vec<u8> },
    Directory { names: BTreeMap<OsString, usize>, durable: BTreeMap<OsString, usize> },
}

#[derive(Debug, Default)]
struct State {
    nodes: Vec<Node>,
    locked: HashSet<PathBuf>,
    plan: Option<(usize, Fault)>,
    dead: bool,
    ignores_syncs: bool,
    trace: Vec<(Primitive, PathBuf)>,
    requests: Vec<(Verb, PathBuf)>,
}

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<(Mutex<State>, Condvar)>);

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// A disk that holds an empty, durable `/` and nothing else.
    pub fn new() -> Self {
        Self::with(vec![Node::Directory { names: BTreeMap::new(), durable: BTreeMap::new() }])
    }

    fn with(nodes: Vec<Node>) -> Self {
        Self(Arc::new((Mutex::new(State { nodes, ..State::default() }), Condvar::new())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts counting anew, and lets the primitive of this number (from 0, from now) go wrong. Replaces an earlier plan.
    pub fn plan(&self, number: usize, fault: Fault) {
        let mut state = self.state();
        state.trace.clear();
        state.requests.clear();
        state.plan = Some((number, fault));
    }

    /// Starts counting anew, as another process after the death of the first: the plan and all locks are gone; what was written is still
    /// seen, synced or not.
    pub fn revive(&self) {
        let mut state = self.state();
        state.trace.clear();
        state.requests.clear();
        state.plan = None;
        state.dead = false;
        state.locked.clear();
        self.0.1.notify_all();
    }

    /// From now on acknowledges syncs without doing them: the negative control of every test of durability.
    pub fn ignore_syncs(&self) {
        self.state().ignores_syncs = true;
    }

    /// The primitives since the count started, failed ones too.
    pub fn primitives(&self) -> Vec<(Primitive, PathBuf)> {
        self.state().trace.clone()
    }

    /// The authority requests since the count started.
    pub fn requests(&self) -> Vec<(Verb, PathBuf)> {
        self.state().requests.clone()
    }

    /// All paths a program sees, sorted, directories with a slash at the end.
    pub fn paths(&self) -> Vec<String> {
        fn walk(state: &State, node: usize, at: &Path, out: &mut Vec<String>) {
            let Some(Node::Directory { names, .. }) = state.nodes.get(node) else { return };
            for (name, &child) in names {
                let path = at.join(name);
                let slash = if matches!(state.nodes.get(child), Some(Node::Directory { .. })) { "/" } else { "" };
                out.push(format!("{}{slash}", path.display()));
                walk(state, child, &path, out);
            }
        }
        let mut out = Vec::new();
        walk(&self.state(), 0, Path::new("/"), &mut out);
        out.sort();
        out
    }

    /// The disk one finds after the power failed now. This one stays as it is.
    pub fn cut(&self, cut: Cut) -> Self {
        let state = self.state();
        let mut nodes = Vec::new();
        survive(&state.nodes, 0, cut, &mut nodes);
        Self::with(nodes)
    }

    fn step<T>(&self, primitive: Primitive, path: &Path, apply: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        if state.dead {
            return Err(io::Error::other("the simulated process is dead"));
        }
        let number = state.trace.len();
        state.trace.push((primitive, path.to_owned()));
        let fault = state.plan.and_then(|(at, fault)| (at == number).then_some(fault));
        let failed = |kind| io::Error::new(kind, format!("simulated failure of {primitive}"));
        match fault {
            None => apply(&mut state),
            Some(Fault::FailBefore(kind)) => Err(failed(kind)),
            Some(Fault::FailAfter(kind)) => {
                let _lost = apply(&mut state);
                Err(failed(kind))
            }
            Some(Fault::DieBefore) => {
                state.dead = true;
                Err(failed(ErrorKind::Other))
            }
            Some(Fault::DieAfter) => {
                state.dead = true;
                let _lost = apply(&mut state);
                Err(failed(ErrorKind::Other))
            }
        }
    }
}

/// A coin for one node and one name, the same for the same seed.
fn coin(seed: u64, node: usize, salt: u64) -> u64 {
    let mut x = seed ^ (node as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Copies what survives of a node, and returns its new number.
fn survive(old: &[Node], node: usize, cut: Cut, new: &mut Vec<Node>) -> usize {
    let number = new.len();
    match &old[node] {
        Node::File { bytes, durable } => {
            let kept = match cut {
                Cut::Synced | Cut::Names => durable,
                Cut::Everything => bytes,
                Cut::Mixed(_) if bytes == durable => durable,
                Cut::Mixed(seed) => match coin(seed, node, 0) % 3 {
                    0 => durable,
                    1 => bytes,
                    _ => &bytes[..bytes.len() / 2].to_vec(),
                },
            };
            new.push(Node::File { bytes: kept.clone(), durable: kept.clone() });
        }
        Node::Directory { names, durable } => {
            new.push(Node::Directory { names: BTreeMap::new(), durable: BTreeMap::new() });
            let mut kept = BTreeMap::new();
            let all: BTreeSet<&OsString> = names.keys().chain(durable.keys()).collect();
            for (salt, name) in all.into_iter().enumerate() {
                let seen = match cut {
                    Cut::Synced => false,
                    Cut::Everything | Cut::Names => true,
                    Cut::Mixed(seed) => coin(seed, node, salt as u64 + 1).is_multiple_of(2),
                };
                if let Some(&child) = if seen { names.get(name) } else { durable.get(name) } {
                    kept.insert(name.clone(), survive(old, child, cut, new));
                }
            }
            new[number] = Node::Directory { names: kept.clone(), durable: kept };
        }
    }
    number
}

impl State {
    fn find(&self, path: &Path) -> io::Result<usize> {
        let mut at = 0;
        for component in path.components() {
            if let Component::Normal(name) = component {
                at = *self.names(at)?.get(name).ok_or(ErrorKind::NotFound)?;
            }
        }
        Ok(at)
    }

    fn names(&self, node: usize) -> io::Result<&BTreeMap<OsString, usize>> {
        match &self.nodes[node] {
            Node::Directory { names, .. } => Ok(names),
            Node::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn is_directory(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::Directory { .. })
    }

    /// The names of the directory a path stands in, and the path's own name.
    fn place(&mut self, path: &Path) -> io::Result<(&mut BTreeMap<OsString, usize>, OsString)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(ErrorKind::AlreadyExists.into()) };
        let parent = self.find(parent)?;
        match &mut self.nodes[parent] {
            Node::Directory { names, .. } => Ok((names, name.to_owned())),
            Node::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn put_new(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let number = self.nodes.len();
        let (names, name) = self.place(path)?;
        if names.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        names.insert(name, number);
        self.nodes.push(node);
        Ok(())
    }
}

impl Disk for SimDisk {
    fn request(&self, verb: Verb, path: &Path) {
        self.state().requests.push((verb, path.to_owned()));
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.step("read", path, |state| match state.find(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => match &state.nodes[found?] {
                Node::File { bytes, .. } => Ok(Some(bytes.clone())),
                Node::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
            },
        })
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step("write_new", path, |state| state.put_new(path, Node::File { bytes: bytes.to_vec(), durable: Vec::new() }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step("sync_file", path, |state| {
            let (found, ignored) = (state.find(path)?, state.ignores_syncs);
            match &mut state.nodes[found] {
                Node::File { bytes, durable } if !ignored => *durable = bytes.clone(),
                _ => {}
            }
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", from, |state| {
            let moved = state.find(from)?;
            if state.find(to).is_ok_and(|replaced| state.is_directory(replaced)) {
                return Err(ErrorKind::IsADirectory.into());
            }
            let (names, name) = state.place(to)?;
            names.insert(name, moved);
            let (names, name) = state.place(from)?;
            names.remove(&name);
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("hard_link", from, |state| {
            let linked = state.find(from)?;
            let (names, name) = state.place(to)?;
            if names.contains_key(&name) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            names.insert(name, linked);
            Ok(())
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step("create_dir", path, |state| state.put_new(path, Node::Directory { names: BTreeMap::new(), durable: BTreeMap::new() }))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step("sync_dir", path, |state| {
            let (found, ignored) = (state.find(path)?, state.ignores_syncs);
            match &mut state.nodes[found] {
                Node::Directory { names, durable } if !ignored => *durable = names.clone(),
                _ => {}
            }
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        self.step("list", path, |state| {
            let names = state.names(state.find(path)?)?;
            Ok(names.iter().map(|(name, &node)| Listed { name: name.clone(), directory: state.is_directory(node) }).collect())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove", path, |state| {
            if state.is_directory(state.find(path)?) {
                return Err(ErrorKind::IsADirectory.into());
            }
            let (names, name) = state.place(path)?;
            names.remove(&name);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.step("lock", path, |state| {
            if state.find(path).is_err() {
                state.put_new(path, Node::File { bytes: Vec::new(), durable: Vec::new() })?;
            }
            Ok(())
        })?;
        let waited = self.0.1.wait_while(self.state(), |state| state.locked.contains(path) && !state.dead);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.locked.insert(path.to_owned());
        Ok(Box::new(Held { disk: self.clone(), path: path.to_owned() }))
    }
}

/// A lock of a [`SimDisk`].
struct Held {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
        self.disk.0.1.notify_all();
    }
}
