//! The blocks that were written and can still be verified.
//!
//! A later write replaces what it overlaps: a partly overwritten older block can no longer be verified, since its
//! checksum covers all of it. So the blocks of a file never overlap here, and memory is bounded by the file's size
//! divided by the smallest block, at about 60 bytes each, however long the job runs; with `verify_backlog`, by the
//! backlog.
//!
//! The caller must handle requests in flight: a block must not be verified while a write to it is under way. It is
//! enough to [`History::remove`] the range when a write is issued and to [`History::add`] the block when it has
//! completed.

use std::collections::{BTreeMap, VecDeque};

use super::Expected;

/// Dropped entries are cleared from the queue when they outnumber the live ones and this number.
const SLACK: usize = 1024;

/// Blocks in the order of their writes.
#[derive(Default)]
pub struct History {
    /// In write order; `None` where the block was overwritten or trimmed since.
    queue: VecDeque<Option<Expected>>,
    /// Sequence number of the queue's first entry, counted from the beginning.
    first: u64,
    /// The live entries' numbers by file and offset. They do not overlap.
    by_place: BTreeMap<(u16, u64), u64>,
}

impl History {
    /// Blocks that can be verified.
    pub fn len(&self) -> usize {
        self.by_place.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Adds a block whose write has completed. Returns how many older blocks it replaced or made unverifiable.
    pub fn add(&mut self, expected: Expected) -> usize {
        let dropped = self.remove(expected.file, expected.offset, u64::from(expected.len));
        if expected.len > 0 {
            let number = self.first + self.queue.len() as u64;
            self.queue.push_back(Some(expected));
            self.by_place.insert((expected.file, expected.offset), number);
        }
        debug_assert!(self.overlaps_none(&expected), "whatever a write overlaps must be removed before it is added");
        dropped
    }

    /// Whether the block's neighbours end before it and begin after it.
    fn overlaps_none(&self, block: &Expected) -> bool {
        let end = block.offset.saturating_add(u64::from(block.len));
        block.len == 0 || self.by_place.range((block.file, block.offset + 1)..(block.file, end)).next().is_none()
    }

    /// Forgets every block with a byte in this range, which was trimmed or is being written. Returns how many there
    /// were.
    pub fn remove(&mut self, file: u16, offset: u64, len: u64) -> usize {
        if len == 0 {
            return 0;
        }
        let end = offset.saturating_add(len);
        let mut dropped = 0;
        // Blocks do not overlap, so walking back from the end of the range can stop at the first that lies before it.
        while let Some((place, number)) = self.by_place.range((file, 0)..(file, end)).next_back() {
            let (place, number) = (*place, *number);
            let index = (number - self.first) as usize;
            let block = self.queue[index].expect("an indexed block is in the queue");
            if block.offset + u64::from(block.len) <= offset {
                break;
            }
            self.queue[index] = None;
            self.by_place.remove(&place);
            dropped += 1;
        }
        self.tidy();
        dropped
    }

    /// Takes out the oldest block.
    pub fn take_next(&mut self) -> Option<Expected> {
        while let Some(entry) = self.queue.pop_front() {
            self.first += 1;
            if let Some(block) = entry {
                self.by_place.remove(&(block.file, block.offset));
                return Some(block);
            }
        }
        None
    }

    /// The blocks, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Expected> {
        self.queue.iter().flatten()
    }

    /// Forgets all: a round of the job is over.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Entries in memory, dropped ones included.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.queue.len()
    }

    /// Keeps the queue's length within a constant factor of the live blocks.
    fn tidy(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
        }
        if self.queue.len() <= 2 * self.by_place.len() + SLACK {
            return;
        }
        self.queue.retain(Option::is_some);
        for (index, block) in self.queue.iter().flatten().enumerate() {
            self.by_place.insert((block.file, block.offset), self.first + index as u64);
        }
    }
}
