//! Writes a compact file, block by block.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use anyhow::Result;

use super::block::{self, BlockKind};
use super::columns::{self, MOST};
use super::hashed::Hashing;
use super::{About, MAGIC, VERSION};
use crate::capture::Counts;
use crate::entry::Entry;

/// How long an entry waits to be written, ns: what is lost at most if the machine fails.
const WAITS_NS: u64 = 1_000_000_000;

/// Most syncs of a block: each takes up to some 300 bytes.
const SYNCS_MOST: usize = 4096;

/// A compact file that is being written.
pub struct Writer<W: Write> {
    to: W,
    begin_ns: u64,
    hashing: Option<Hashing>,
    entries: Vec<Entry>,
    /// Syncs among them.
    syncs: usize,
    named: HashSet<(u32, u32)>,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file; `begin_ns` is when the trace began, on the clock of its entries. Names and positions are replaced
    /// if `hashing` is given.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut to: W, about: &About, begin_ns: u64, hashing: Option<Hashing>) -> Result<Self> {
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let head = (MAGIC.len() + 4) as u64;
        let about = serde_json::to_vec(about)?;
        let written = head + block::write(&mut to, BlockKind::About, &about)?;
        Ok(Self { to, begin_ns, hashing, entries: Vec::with_capacity(MOST), syncs: 0, named: HashSet::new(), written })
    }

    /// Adds an entry; `name` returns the name of a disk that has not appeared before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn push(&mut self, mut entry: Entry, name: impl FnOnce((u32, u32)) -> String) -> Result<()> {
        let device = match &entry {
            Entry::Request(request) => request.device,
            Entry::Sync(sync, _) => sync.device,
        };
        if self.named.insert(device) {
            let name = name(device);
            let name = if let Some(hashing) = &self.hashing { hashing.name(name) } else { name };
            let names = BTreeMap::from([(format!("{}:{}", device.0, device.1), name)]);
            self.written += block::write(&mut self.to, BlockKind::Disks, &serde_json::to_vec(&names)?)?;
        }
        if let Some(hashing) = &self.hashing {
            hashing.apply(&mut entry);
        }
        self.syncs += usize::from(matches!(entry, Entry::Sync(..)));
        self.entries.push(entry);
        if self.entries.len() == MOST || self.syncs == SYNCS_MOST { self.write() } else { Ok(()) }
    }

    /// Writes the entries that have waited since before `now_ns` for long enough.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn tick(&mut self, now_ns: u64) -> Result<()> {
        let has_waited = self.entries.first().is_some_and(|first| first.complete_ns() + WAITS_NS <= now_ns);
        if has_waited { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let contents = columns::encode(&self.entries, self.begin_ns);
        self.entries.clear();
        self.syncs = 0;
        self.written += block::write(&mut self.to, BlockKind::Entries, &contents)?;
        Ok(())
    }

    /// Writes what is left and the counts, and returns the length of the file, bytes. Without counts, the file has no
    /// end, as one that was cut short.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(mut self, counts: Option<Counts>) -> Result<u64> {
        if !self.entries.is_empty() {
            self.write()?;
        }
        if let Some(counts) = counts {
            self.written += block::write(&mut self.to, BlockKind::End, &serde_json::to_vec(&counts)?)?;
        }
        self.to.flush()?;
        Ok(self.written)
    }
}
