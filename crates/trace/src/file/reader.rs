//! Reads a compact file, block by block.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;

use anyhow::{Context as _, Result, bail, ensure};

use super::block::{self, BlockKind};
use super::recording::Ending;
use super::{About, MAGIC, VERSION, columns};
use crate::capture::Counts;
use crate::entry::Entry;

/// Most disks that are named; names beyond it are dropped.
const DISKS_MAX: usize = 10_000;

/// A compact file that is being read.
pub(super) struct Reader<R> {
    from: R,
    names: HashMap<(u32, u32), String>,
    entries: VecDeque<Entry>,
    /// Bytes read so far, up to the end of the last whole block.
    read: u64,
    counts: Option<Counts>,
    ending: Option<Ending>,
}

impl<R: Read> Reader<R> {
    /// Begins with the first block, which says how the trace was recorded.
    ///
    /// # Errors
    /// If the file is not a compact file, or was written by a later version, or is damaged there.
    pub(super) fn new(mut from: R) -> Result<(Self, About)> {
        let mut head = [0; MAGIC.len() + 4];
        ensure!(from.read_exact(&mut head).is_ok(), "it is cut off within its first {} bytes", MAGIC.len() + 4);
        let version = u32::from_le_bytes(head[MAGIC.len()..].try_into().expect("four bytes"));
        ensure!(head.starts_with(MAGIC), "it is not a recorded trace");
        ensure!(version <= VERSION, "it has version {version} of the format, and this qd1 reads up to {VERSION}");
        let Some((BlockKind::About, contents, length)) = block::read(&mut from)? else {
            bail!("it is cut off after its first bytes");
        };
        let about = serde_json::from_slice(&contents).context("its first block is invalid")?;
        let read = head.len() as u64 + length;
        let (names, entries) = (HashMap::new(), VecDeque::new());
        Ok((Self { from, names, entries, read, counts: None, ending: None }, about))
    }

    pub(super) fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Some(entry);
            }
            if self.ending.is_some() {
                return None;
            }
            if let Err(error) = self.read_block() {
                self.ending = Some(Ending::Incomplete { why: format!("{error:#}"), read: self.read });
            }
        }
    }

    fn read_block(&mut self) -> Result<()> {
        let Some((kind, contents, length)) = block::read(&mut self.from)? else {
            self.ending = Some(match self.counts {
                Some(counts) => Ending::Whole(counts),
                None => bail!("it has no end: qd1 was still writing it, or was killed"),
            });
            return Ok(());
        };
        ensure!(self.counts.is_none(), "something follows its end");
        match kind {
            BlockKind::About => bail!("it begins a second time"),
            BlockKind::Disks => self.read_disks(&contents)?,
            BlockKind::Entries => self.entries = columns::decode(&contents)?.into(),
            BlockKind::End => self.counts = Some(serde_json::from_slice(&contents).context("its end is invalid")?),
        }
        self.read += length;
        Ok(())
    }

    fn read_disks(&mut self, contents: &[u8]) -> Result<()> {
        let disks: BTreeMap<String, String> = serde_json::from_slice(contents).context("names of disks are invalid")?;
        for (numbers, name) in disks {
            let (major, minor) = numbers.split_once(':').context("the number of a disk is invalid")?;
            if self.names.len() < DISKS_MAX {
                self.names.insert((major.parse()?, minor.parse()?), name);
            }
        }
        Ok(())
    }

    pub(super) fn name(&self, device: (u32, u32)) -> Option<&str> {
        self.names.get(&device).map(String::as_str)
    }

    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }
}
