//! File operations in a plan: what is done with the files, in which order, how many there are and how they are made
//! durable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpClass;
use crate::units::Bytes;

/// What is done with each file, each directory, or each piece of one large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// Make it, write it, close it.
    Create,
    /// stat.
    Stat,
    /// stat, and if it is not empty open it, read all of it and close it: what bonnie++ counts as one read.
    StatRead,
    /// Open it, read all of it, close it.
    Open,
    /// Read a whole directory.
    List,
    /// Give it another name in the same directory.
    Rename,
    /// Give it a second name in the same directory (a hard link).
    Link,
    /// Remove it.
    Delete,
    /// Write one large file, a chunk at a time.
    BlockWrite,
    /// Read each chunk of it, change it and write it back.
    BlockRewrite,
    /// Read it, a chunk at a time.
    BlockRead,
    /// Read chunks of it at random places and write every tenth back.
    Seek,
}

impl FileOp {
    /// Name in suites, JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::StatRead => "stat_read",
            Self::Open => "open",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Delete => "delete",
            Self::BlockWrite => "block_write",
            Self::BlockRewrite => "block_rewrite",
            Self::BlockRead => "block_read",
            Self::Seek => "seek",
        }
    }

    /// The kind of operation that is counted.
    pub const fn class(self) -> OpClass {
        match self {
            Self::Create => OpClass::Create,
            Self::Stat | Self::StatRead => OpClass::Stat,
            Self::Open => OpClass::Open,
            Self::List => OpClass::List,
            Self::Rename => OpClass::Rename,
            Self::Link => OpClass::Link,
            Self::Delete => OpClass::Delete,
            Self::BlockWrite => OpClass::Write,
            Self::BlockRewrite => OpClass::Rewrite,
            Self::BlockRead => OpClass::Read,
            Self::Seek => OpClass::Seek,
        }
    }

    /// Whether it works on one large file rather than on many.
    pub const fn is_block(self) -> bool {
        matches!(self, Self::BlockWrite | Self::BlockRewrite | Self::BlockRead | Self::Seek)
    }

    /// Whether it changes what a directory holds.
    pub const fn changes_directory(self) -> bool {
        matches!(self, Self::Create | Self::Rename | Self::Link | Self::Delete)
    }
}

/// In which order the files are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileOrder {
    /// As they were created; when creating them, by name.
    #[default]
    Sequential,
    /// In a random order drawn from the seed, a different one for each operation.
    Random,
    /// As their directory lists them; creating, renaming and linking them is sequential.
    Listed,
}

impl FileOrder {
    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Listed => "as listed",
        }
    }
}

/// What is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilesSync {
    /// fsync of each file that is created, within its operation.
    pub files: bool,
    /// fsync of the directory after each change to it, within the operation.
    pub dir: bool,
    /// The whole filesystem is written out when all is done, within the step's time (as in bonnie++).
    pub end: bool,
}

impl FilesSync {
    /// Whether each operation waits for something to be durable.
    pub const fn each(self) -> bool {
        self.files || self.dir
    }
}

/// How a new file is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileSync {
    /// Not at all.
    #[default]
    None,
    /// fsync of the file.
    Fsync,
    /// fsync of the file, then of its directory: only then is its name certain to survive a power cut (fsync(2)).
    FsyncDirectory,
}

impl FileSync {
    /// Whether nothing is synced.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The operations of steps in Records from before they could be chosen: create, stat, delete.
fn classic() -> Vec<FileOp> {
    vec![FileOp::Create, FileOp::Stat, FileOp::Delete]
}

fn is_classic(ops: &[FileOp]) -> bool {
    ops == classic()
}

/// A job of file operations. Files that a step leaves behind are available to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesWork {
    /// Size of each file, or of the largest; of the one file for operations on a large one.
    pub size: Bytes,
    /// Maximum number of files created.
    pub count: u64,
    /// How much smaller than `size` the smallest file is; sizes in between are equally likely.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size_spread: Bytes,
    /// Files per directory; 0 for all in one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_dir: u64,
    /// Number of threads among which the files are divided.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub workers: u32,
    /// How each file is made durable. Unless that is "none", each file is created, synced, closed and removed before
    /// the next one, as programs do with journals and temporary files, and there is no stat.
    #[serde(default, skip_serializing_if = "FileSync::is_none")]
    pub sync: FileSync,
    /// What is made durable if files stay for the next step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fsync: FilesSync,
    /// Bytes per read or write; 0 for a whole file in one go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chunk: Bytes,
    /// What is done, one after another.
    #[serde(default = "classic", skip_serializing_if = "is_classic")]
    pub ops: Vec<FileOp>,
    /// In which order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: FileOrder,
    /// Names of 10 to 22 letters, as bonnie++ makes them, instead of 9.
    #[serde(default, skip_serializing_if = "is_default")]
    pub long_names: bool,
    /// How many random reads, for [`FileOp::Seek`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub seeks: u64,
}

impl Default for FilesWork {
    /// Nothing, once: a base for struct update syntax.
    fn default() -> Self {
        Self {
            size: Bytes(0),
            count: 0,
            size_spread: Bytes(0),
            per_dir: 0,
            workers: 1,
            sync: FileSync::None,
            fsync: FilesSync::default(),
            chunk: Bytes(0),
            ops: classic(),
            order: FileOrder::default(),
            long_names: false,
            seeks: 0,
        }
    }
}

/// Space a file takes in addition to its data, bytes: an inode, and its share of a directory. XFS has the largest
/// inodes of the common filesystems, 512 bytes; a name of 22 letters with its header in a directory that is two thirds
/// full takes less than 64.
const INODE_BYTES: u64 = 576;

impl FilesWork {
    /// Whether it creates files, or the one large file.
    pub fn makes(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, FileOp::Create | FileOp::BlockWrite))
    }

    /// Number of directories the files are in, not counting the one that holds everything.
    pub fn dirs(&self) -> u64 {
        if self.per_dir == 0 { 1 } else { self.count.div_ceil(self.per_dir).max(1) }
    }

    /// Maximum space its files take, bytes.
    pub fn space(&self) -> u64 {
        if self.ops.iter().all(|op| op.is_block()) {
            return self.size.0;
        }
        // If each file is synced, only one exists at a time.
        let at_once = if self.sync.is_none() { self.count } else { 1 };
        let data = at_once.saturating_mul(self.size.0.saturating_add(4095) / 4096 * 4096);
        // A check's files are few enough to ignore their inodes, and its plan has always done so.
        if is_classic(&self.ops) {
            return data;
        }
        data.saturating_add((self.count + self.dirs()).saturating_mul(INODE_BYTES))
    }

    /// Maximum number of inodes it needs.
    pub fn inodes(&self) -> u64 {
        if self.ops.iter().all(|op| op.is_block()) || !self.sync.is_none() {
            return 2;
        }
        self.count + self.dirs() + 1
    }

    /// Maximum number of bytes it writes.
    pub fn writes_max(&self) -> u64 {
        let each = |op: &FileOp| match op {
            FileOp::Create => self.count.saturating_mul(self.size.0),
            FileOp::BlockWrite | FileOp::BlockRewrite => self.size.0,
            // Each seeker rewrites a tenth of its share, including the first block.
            FileOp::Seek => (self.seeks.div_ceil(10) + u64::from(self.workers)).saturating_mul(self.chunk.0),
            _ => 0,
        };
        self.ops.iter().map(each).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_a_kept_record_is_the_one_it_was() {
        let old: FilesWork = serde_json::from_str("{\"size\":4096,\"count\":20000}").unwrap();
        assert_eq!(old, FilesWork { size: Bytes(4096), count: 20_000, ..FilesWork::default() });
        assert_eq!(old.ops, [FileOp::Create, FileOp::Stat, FileOp::Delete]);
        assert_eq!(serde_json::to_string(&old).unwrap(), "{\"size\":4096,\"count\":20000}");
    }

    #[test]
    fn empty_files_take_inodes_and_a_place_in_their_directory() {
        let work = FilesWork { count: 1_000_000, per_dir: 1000, ops: vec![FileOp::Create], ..FilesWork::default() };
        assert_eq!((work.dirs(), work.inodes(), work.writes_max()), (1000, 1_001_001, 0));
        assert!((500 << 20..700 << 20).contains(&work.space()), "{}", work.space());
    }

    #[test]
    fn a_large_file_is_one_file_that_is_written_twice_by_a_rewrite() {
        let ops = vec![FileOp::BlockWrite, FileOp::BlockRewrite, FileOp::BlockRead];
        let work = FilesWork { size: Bytes::gib(1), chunk: Bytes::kib(8), ops, ..FilesWork::default() };
        assert_eq!((work.space(), work.inodes(), work.writes_max()), (1 << 30, 2, 2 << 30));
    }
}
