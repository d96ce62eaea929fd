//! The filesystem around the device: names, sizes and content, served by FUSE with direct_io, so that every read and
//! write of a client comes here. Only reads, writes and syncs of files take the device's time.
//!
//! There is no O_TMPFILE (EOPNOTSUPP), as on most FUSE filesystems: clients must create a named file and unlink it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::fault::{RequestKind, shortened};
use crate::serve::{DiskRequest, Fate, Server};
use crate::store::Store;
use crate::tree::{Answer, BLOCK, Node, NodeKind, Tree};

/// How long the kernel may cache names and attributes.
const TTL: Duration = Duration::from_secs(1);
/// Largest request, bytes; the kernel splits longer ones.
const REQUEST_MAX: u32 = 1 << 20;
/// Requests the kernel keeps in flight for asynchronous clients.
const IN_FLIGHT_MAX: u16 = 256;

/// Maximum size of a disk's content, bytes, since it is kept in memory: 4 GiB.
pub const fn stored_bytes_max() -> u64 {
    4 << 30
}

/// The space that is available to writes of new data.
#[derive(Clone, Copy)]
pub(crate) struct Space {
    /// The size that statfs shows.
    pub(crate) size: u64,
    /// The size at which ENOSPC begins.
    pub(crate) limit: u64,
}

pub(crate) struct Files {
    tree: Mutex<Tree>,
    server: Arc<Server>,
    space: Space,
    /// The owner of every file, whoever creates it.
    squashed: Option<(u32, u32)>,
}

impl Files {
    pub(crate) fn new(server: Arc<Server>, space: Space, owner: (u32, u32), squashed: Option<(u32, u32)>) -> Self {
        Self { tree: Mutex::new(Tree::new(squashed.unwrap_or(owner))), server, space, squashed }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn make(&self, request: &Request, parent: INodeNo, name: &OsStr, kind: NodeKind, mode: u32) -> Answer<FileAttr> {
        let owner = self.squashed.unwrap_or((request.uid(), request.gid()));
        self.tree().add(parent, name, Node::new(kind, mode, owner))
    }

    /// Performs a write according to its fate; returns the byte count that the answer reports.
    fn put(&self, ino: INodeNo, offset: u64, data: &[u8], fate: Fate) -> Answer<u32> {
        let data = match fate {
            Fate::Fail(error) => return Err(error),
            Fate::Short => &data[..shortened(data.len())],
            Fate::Good | Fate::Flip(_) => data,
        };
        let mut tree = self.tree();
        let growth = tree.file(ino)?.growth(offset, data.len());
        if tree.stored + growth > self.space.limit {
            return Err(Errno::ENOSPC);
        }
        tree.change(ino, |store| {
            store.write(offset, data);
            if let Fate::Flip(byte) = fate {
                store.flip(byte, 0);
            }
        })?;
        Ok(data.len() as u32)
    }

    fn get(&self, ino: INodeNo, offset: u64, size: u32, fate: Fate) -> Answer<Vec<u8>> {
        if let Fate::Fail(error) = fate {
            return Err(error);
        }
        let mut data = self.tree().file(ino)?.read(offset, size as usize);
        if fate == Fate::Short {
            data.truncate(shortened(data.len()));
        }
        Ok(data)
    }

    fn allocate(&self, ino: INodeNo, offset: u64, length: u64, mode: i32) -> Answer<()> {
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let mut tree = self.tree();
        match mode {
            0 | libc::FALLOC_FL_KEEP_SIZE => {
                if offset + length > self.space.size {
                    return Err(Errno::ENOSPC);
                }
                tree.change(ino, |store| {
                    if mode == 0 {
                        store.set_len(store.len().max(offset + length));
                    }
                })
            }
            mode if mode == punch => tree.change(ino, |store| store.punch(offset, length)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// A request that transfers no data: opening a file, or a sync of a file or of a directory's names, which costs a
    /// flush of the device.
    fn ask(&self, request: &DiskRequest<'_>) -> Answer<()> {
        let admitted = self.server.admit(request);
        self.server.wait(&admitted);
        match admitted.fate() {
            Fate::Fail(error) => Err(error),
            Fate::Good | Fate::Short | Fate::Flip(_) => Ok(()),
        }
    }

    fn opened(&self, ino: INodeNo) -> Answer<FopenFlags> {
        self.tree().file(ino)?;
        Ok(FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH)
    }
}

/// Answers an operation whose successful replies all have one form.
macro_rules! answer {
    ($outcome:expr, $reply:ident, $value:pat => $success:expr) => {
        match $outcome {
            Ok($value) => $success,
            Err(errno) => $reply.error(errno),
        }
    };
}

impl Filesystem for Files {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_BIG_WRITES
            | InitFlags::FUSE_MAX_PAGES
            | InitFlags::FUSE_PARALLEL_DIROPS
            // etcd's database and SQLite's log index are memory-mapped by those programs.
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        for flag in wanted.iter() {
            // An older kernel has fewer of them, and serves fewer requests in parallel.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_MAX);
        let _ = config.set_max_background(IN_FLIGHT_MAX);
        let _ = config.set_congestion_threshold(IN_FLIGHT_MAX);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = self.tree();
        let found = tree.dir(parent).and_then(|names| names.get(name).copied().ok_or(Errno::ENOENT));
        let found = found.and_then(|ino| {
            let node = tree.node(INodeNo(ino))?;
            node.lookups += 1;
            Ok(node.attr(ino))
        });
        answer!(found, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn forget(&self, _req: &Request, ino: INodeNo, count: u64) {
        let mut tree = self.tree();
        if let Ok(node) = tree.node(ino) {
            node.lookups = node.lookups.saturating_sub(count);
            tree.free_unused(ino.0);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        answer!(self.tree().node(ino).map(|node| node.attr(ino.0)), reply, attr => reply.attr(&TTL, &attr));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.tree();
        let resized = size.map_or(Ok(()), |size| tree.change(ino, |store| store.set_len(size)));
        let changed = resized.and_then(|()| {
            let node = tree.node(ino)?;
            node.perm = mode.map_or(node.perm, |mode| (mode & 0o7777) as u16);
            (node.uid, node.gid) = (uid.unwrap_or(node.uid), gid.unwrap_or(node.gid));
            Ok(node.attr(ino.0))
        });
        answer!(changed, reply, attr => reply.attr(&TTL, &attr));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self.make(req, parent, name, NodeKind::Dir(BTreeMap::new()), mode & !umask);
        answer!(made, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        if mode & libc::S_IFMT != libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let made = self.make(req, parent, name, NodeKind::File(Store::default()), mode & !umask);
        answer!(made, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.ask(&DiskRequest::OPEN).and_then(|()| {
            let attr = self.make(req, parent, name, NodeKind::File(Store::default()), mode & !umask)?;
            Ok((attr, self.opened(attr.ino)?))
        });
        answer!(made, reply, (attr, flags) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags));
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        answer!(self.tree().link(ino, newparent, newname), reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, link_name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.make(req, parent, link_name, NodeKind::Link(target.as_os_str().to_owned()), 0o777);
        answer!(made, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let mut tree = self.tree();
        let to = tree.node(ino).and_then(|node| match &node.kind {
            NodeKind::Link(to) => Ok(to.clone()),
            _ => Err(Errno::EINVAL),
        });
        answer!(to, reply, to => reply.data(to.as_bytes()));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(self.tree().remove(parent, name, false), reply, () => reply.ok());
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(self.tree().remove(parent, name, true), reply, () => reply.ok());
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let renamed = self.tree().rename((parent, name), (newparent, newname), replace);
        answer!(renamed, reply, () => reply.ok());
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        answer!(self.ask(&DiskRequest::OPEN).and_then(|()| self.opened(ino)), reply, flags => reply.opened(FileHandle(0), flags));
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let asked = DiskRequest { on: RequestKind::Read, ino: ino.0, offset, len: size, data: &[], synced: false };
        let admitted = self.server.admit(&asked);
        let outcome = self.get(ino, offset, size, admitted.fate());
        self.server.wait(&admitted);
        answer!(outcome, reply, data => reply.data(&data));
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // O_SYNC includes the bit of O_DSYNC.
        let synced = flags.0 & libc::O_DSYNC != 0;
        let asked = DiskRequest { on: RequestKind::Write, ino: ino.0, offset, len: data.len() as u32, data, synced };
        let admitted = self.server.admit(&asked);
        let outcome = self.put(ino, offset, data, admitted.fate());
        self.server.wait(&admitted);
        answer!(outcome, reply, written => reply.written(written));
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer!(self.ask(&DiskRequest::FLUSH), reply, () => reply.ok());
    }

    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer!(self.ask(&DiskRequest::FLUSH), reply, () => reply.ok());
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer!(self.allocate(ino, offset, length, mode), reply, () => reply.ok());
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let tree = self.tree();
        let blocks = |bytes: u64| bytes / u64::from(BLOCK);
        let free = blocks(self.space.size.saturating_sub(tree.stored));
        reply.statfs(blocks(self.space.size), free, free, 1 << 20, 1 << 20, BLOCK, 255, BLOCK);
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let names = match self.tree().list(ino) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        let dots = [".", ".."].map(|name| (OsString::from(name), ino.0, FileType::Directory));
        // The position to continue from is a name's number, not its index: names may be removed meanwhile.
        let places = (1..=2).chain(names.iter().map(|(_, ino, _)| ino + 2)).collect::<Vec<u64>>();
        for (place, (name, ino, kind)) in places.into_iter().zip(dots.into_iter().chain(names)) {
            if place > offset && reply.add(INodeNo(ino), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
