//! The names and files of a disk, and the memory they take.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use qd1_engine::clock::wall_ns;

use crate::store::Store;

pub(crate) const BLOCK: u32 = 4096;

pub(crate) enum Kind {
    Dir(BTreeMap<OsString, u64>),
    File(Store),
}

pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Names, for a file.
    pub(crate) links: u32,
    /// References the kernel holds.
    pub(crate) lookups: u64,
    pub(crate) changed_ns: u64,
}

pub(crate) struct Tree {
    pub(crate) nodes: HashMap<u64, Node>,
    pub(crate) next: u64,
    pub(crate) stored: u64,
}

pub(crate) type Answer<T> = Result<T, Errno>;

impl Node {
    pub(crate) fn new(kind: Kind, mode: u32, request: (u32, u32)) -> Self {
        let (uid, gid) = request;
        Self { kind, perm: (mode & 0o7777) as u16, uid, gid, links: 1, lookups: 0, changed_ns: wall_ns() }
    }

    pub(crate) fn attr(&self, ino: u64) -> FileAttr {
        let (kind, size, stored) = match &self.kind {
            Kind::Dir(_) => (FileType::Directory, 0, 0),
            Kind::File(store) => (FileType::RegularFile, store.len(), store.stored()),
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.changed_ns);
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: stored / 512,
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: changed,
            kind,
            perm: self.perm,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }
}

impl Tree {
    pub(crate) fn node(&mut self, ino: INodeNo) -> Answer<&mut Node> {
        self.nodes.get_mut(&ino.0).ok_or(Errno::ENOENT)
    }

    pub(crate) fn dir(&mut self, ino: INodeNo) -> Answer<&mut BTreeMap<OsString, u64>> {
        match &mut self.node(ino)?.kind {
            Kind::Dir(names) => Ok(names),
            Kind::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn file(&mut self, ino: INodeNo) -> Answer<&mut Store> {
        match &mut self.node(ino)?.kind {
            Kind::File(store) => Ok(store),
            Kind::Dir(_) => Err(Errno::EISDIR),
        }
    }

    /// Changes a file's content and keeps count of the memory.
    pub(crate) fn change<T>(&mut self, ino: INodeNo, change: impl FnOnce(&mut Store) -> T) -> Answer<T> {
        let store = self.file(ino)?;
        let before = store.stored();
        let outcome = change(store);
        let after = store.stored();
        self.stored = self.stored - before + after;
        self.node(ino)?.changed_ns = wall_ns();
        Ok(outcome)
    }

    /// The tree of an empty disk.
    pub(crate) fn new(owner: (u32, u32)) -> Self {
        let root = Node { lookups: 1, ..Node::new(Kind::Dir(BTreeMap::new()), 0o755, owner) };
        Self { nodes: HashMap::from([(INodeNo::ROOT.0, root)]), next: INodeNo::ROOT.0 + 1, stored: 0 }
    }

    pub(crate) fn add(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Answer<FileAttr> {
        if self.dir(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let ino = self.next;
        self.next += 1;
        self.dir(parent)?.insert(name.to_owned(), ino);
        let node = Node { lookups: 1, ..node };
        let attr = node.attr(ino);
        self.nodes.insert(ino, node);
        Ok(attr)
    }

    pub(crate) fn remove(&mut self, parent: INodeNo, name: &OsStr, directory: bool) -> Answer<()> {
        let ino = *self.dir(parent)?.get(name).ok_or(Errno::ENOENT)?;
        match (&self.node(INodeNo(ino))?.kind, directory) {
            (Kind::File(_), true) => return Err(Errno::ENOTDIR),
            (Kind::Dir(_), false) => return Err(Errno::EISDIR),
            (Kind::Dir(names), true) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.dir(parent)?.remove(name);
        self.node(INodeNo(ino))?.links -= 1;
        self.free_unused(ino);
        Ok(())
    }

    /// Frees what has neither a name nor a user: the kernel holds a reference as long as a file is open.
    pub(crate) fn free_unused(&mut self, ino: u64) {
        if self.nodes.get(&ino).is_some_and(|node| node.links == 0 && node.lookups == 0)
            && let Some(Node { kind: Kind::File(store), .. }) = self.nodes.remove(&ino)
        {
            self.stored -= store.stored();
        }
    }
}
