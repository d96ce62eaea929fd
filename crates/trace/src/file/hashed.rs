//! Replaces names and positions by hashes, so that a trace can be given to others.

use std::hash::{BuildHasher as _, RandomState};

use qd1_model::requests::{Asker, COMM};

use crate::entry::Entry;

/// Sectors of 512 bytes in a region; positions within a region are kept, so that sequences can be recognised.
const REGION: u64 = 2048;
/// Bits of a hashed region's number.
const REGION_BITS: u32 = 32;

/// Beginnings of names that are kept: kernel workers and the journal.
const KEPT: [&[u8]; 2] = [b"kworker/", b"jbd2/"];

/// Hashes with a random key that is forgotten when the trace ends: within a trace, the same name has the same hash, but
/// nobody can find out whose it is by trying names.
#[derive(Default)]
pub struct Hashing(RandomState);

impl Hashing {
    /// Replaces what names somebody or something: names of threads, ids of control groups, inodes, and in which
    /// region of 1 MiB a request lies.
    pub(super) fn apply(&self, entry: &mut Entry) {
        match entry {
            Entry::Request(request) => {
                self.apply_to_asker(&mut request.asker);
                if request.bytes > 0 {
                    let region = self.0.hash_one(("region", request.device, request.sector / REGION));
                    request.sector = (region >> (64 - REGION_BITS)) * REGION + request.sector % REGION;
                }
            }
            Entry::Sync(sync, split) => {
                self.apply_to_asker(&mut sync.asker);
                sync.inode = self.number("inode", sync.inode);
                split.others.iter_mut().for_each(|other| self.apply_to_asker(&mut other.asker));
            }
        }
    }

    fn apply_to_asker(&self, asker: &mut Asker) {
        // These say what the kernel does, not what somebody runs.
        if KEPT.iter().any(|kept| asker.comm.starts_with(kept)) {
            return;
        }
        let mut comm = [0; COMM];
        let name = format!("h{:014x}", self.0.hash_one(("comm", asker.comm)) >> 8);
        comm[..COMM - 1].copy_from_slice(name.as_bytes());
        asker.comm = comm;
        asker.cgroup = self.number("cgroup", asker.cgroup);
    }

    /// Returns the name of a disk as it is, but that of a file, which an iolog has, hashed.
    pub(super) fn name(&self, name: String) -> String {
        if name.contains('/') { format!("/h{:014x}", self.0.hash_one(("file", &name)) >> 8) } else { name }
    }

    /// Zero stands for nothing and remains.
    fn number(&self, what: &str, value: u64) -> u64 {
        if value == 0 { 0 } else { self.0.hash_one((what, value)) >> 16 }
    }
}
