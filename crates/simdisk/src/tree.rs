//! The names and files of a disk, and the memory that they take.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use qd1_clock::wall_ns;

use crate::store::Store;

pub(crate) const BLOCK: u32 = 4096;

pub(crate) enum NodeKind {
    Dir(BTreeMap<OsString, u64>),
    File(Store),
    /// A symbolic link and where it leads.
    Link(OsString),
}

pub(crate) struct Node {
    pub(crate) kind: NodeKind,
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
    pub(crate) fn new(kind: NodeKind, mode: u32, request: (u32, u32)) -> Self {
        let (uid, gid) = request;
        Self { kind, perm: (mode & 0o7777) as u16, uid, gid, links: 1, lookups: 0, changed_ns: wall_ns() }
    }

    pub(crate) fn attr(&self, ino: u64) -> FileAttr {
        let (kind, size, stored) = match &self.kind {
            NodeKind::Dir(_) => (FileType::Directory, 0, 0),
            NodeKind::File(store) => (FileType::RegularFile, store.len(), store.stored()),
            NodeKind::Link(to) => (FileType::Symlink, to.len() as u64, 0),
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
            NodeKind::Dir(names) => Ok(names),
            NodeKind::File(_) | NodeKind::Link(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn file(&mut self, ino: INodeNo) -> Answer<&mut Store> {
        match &mut self.node(ino)?.kind {
            NodeKind::File(store) => Ok(store),
            NodeKind::Dir(_) => Err(Errno::EISDIR),
            NodeKind::Link(_) => Err(Errno::EINVAL),
        }
    }

    /// Changes a file's content and updates the memory count.
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
        let root = Node { lookups: 1, ..Node::new(NodeKind::Dir(BTreeMap::new()), 0o755, owner) };
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
            (NodeKind::File(_) | NodeKind::Link(_), true) => return Err(Errno::ENOTDIR),
            (NodeKind::Dir(_), false) => return Err(Errno::EISDIR),
            (NodeKind::Dir(names), true) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.dir(parent)?.remove(name);
        self.node(INodeNo(ino))?.links -= 1;
        self.free_unused(ino);
        Ok(())
    }

    /// Gives a file another name.
    pub(crate) fn link(&mut self, ino: INodeNo, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        if matches!(self.node(ino)?.kind, NodeKind::Dir(_)) {
            return Err(Errno::EPERM);
        }
        if self.dir(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.dir(parent)?.insert(name.to_owned(), ino.0);
        let node = self.node(ino)?;
        node.links += 1;
        node.lookups += 1;
        Ok(node.attr(ino.0))
    }

    /// Renames, replacing an existing file: whatever had the new name disappears at the same moment.
    pub(crate) fn rename(&mut self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), replace: bool) -> Answer<()> {
        let ino = *self.dir(from.0)?.get(from.1).ok_or(Errno::ENOENT)?;
        if let Some(there) = self.dir(to.0)?.get(to.1).copied() {
            if !replace {
                return Err(Errno::EEXIST);
            }
            // Two names of one file: nothing happens, as POSIX has it.
            if there == ino {
                return Ok(());
            }
            let directory = matches!(self.node(INodeNo(ino))?.kind, NodeKind::Dir(_));
            self.remove(to.0, to.1, directory)?;
        }
        self.dir(from.0)?.remove(from.1);
        self.dir(to.0)?.insert(to.1.to_owned(), ino);
        Ok(())
    }

    /// Names in a directory with their types, in an order that is not affected by removals: that of their numbers.
    pub(crate) fn list(&mut self, dir: INodeNo) -> Answer<Vec<(OsString, u64, FileType)>> {
        let mut names: Vec<(OsString, u64)> = self.dir(dir)?.iter().map(|(name, ino)| (name.clone(), *ino)).collect();
        names.sort_by_key(|(_, ino)| *ino);
        let kind = |ino: &u64| match self.nodes.get(ino).map(|node| &node.kind) {
            Some(NodeKind::Dir(_)) => FileType::Directory,
            Some(NodeKind::Link(_)) => FileType::Symlink,
            Some(NodeKind::File(_)) | None => FileType::RegularFile,
        };
        Ok(names.into_iter().map(|(name, ino)| (name, ino, kind(&ino))).collect())
    }

    /// Frees a file that has neither a name nor a user: the kernel holds a reference as long as it is open.
    pub(crate) fn free_unused(&mut self, ino: u64) {
        if self.nodes.get(&ino).is_some_and(|node| node.links == 0 && node.lookups == 0)
            && let Some(Node { kind: NodeKind::File(store), .. }) = self.nodes.remove(&ino)
        {
            debug_assert!(store.stored() <= self.stored, "every change of a file goes through Tree::change");
            self.stored -= store.stored();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tree: &mut Tree, name: &str) -> INodeNo {
        let node = Node::new(NodeKind::File(Store::default()), 0o600, (0, 0));
        tree.add(INodeNo::ROOT, OsStr::new(name), node).unwrap().ino
    }

    fn number(tree: &mut Tree, name: &str) -> Option<u64> {
        tree.dir(INodeNo::ROOT).unwrap().get(OsStr::new(name)).copied()
    }

    #[test]
    fn a_name_moved_over_another_replaces_it() {
        let mut tree = Tree::new((0, 0));
        let (a, b) = (file(&mut tree, "a"), file(&mut tree, "b"));
        let at = |name: &'static str| (INodeNo::ROOT, OsStr::new(name));
        assert!(tree.rename(at("a"), at("b"), false).is_err(), "not where it must not replace");
        tree.rename(at("a"), at("b"), true).unwrap();
        assert_eq!((number(&mut tree, "a"), number(&mut tree, "b")), (None, Some(a.0)));
        assert_eq!(tree.node(b).unwrap().links, 0);
    }

    #[test]
    fn a_file_of_two_names_lives_until_both_are_gone() {
        let mut tree = Tree::new((0, 0));
        let a = file(&mut tree, "a");
        tree.link(a, INodeNo::ROOT, OsStr::new("b")).unwrap();
        let at = |name: &'static str| (INodeNo::ROOT, OsStr::new(name));
        tree.rename(at("a"), at("b"), true).unwrap();
        assert_eq!((number(&mut tree, "a"), number(&mut tree, "b")), (Some(a.0), Some(a.0)));
        tree.remove(INodeNo::ROOT, OsStr::new("a"), false).unwrap();
        assert_eq!(tree.node(a).unwrap().links, 1);
        assert!(tree.link(INodeNo::ROOT, INodeNo::ROOT, OsStr::new("c")).is_err(), "directories have one name");
    }
}
