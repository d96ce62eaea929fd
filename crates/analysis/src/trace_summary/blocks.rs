//! Which blocks of 4 KiB were read or written, as a bitmap that grows where it is needed.

use std::collections::HashMap;

/// Sectors of a block.
const SECTORS: u64 = 8;
/// Blocks of a part of the bitmap: 16 MiB of the disk in 512 bytes.
const PART: u64 = 4096;
/// Most parts: 32 MiB of memory, for 1 TiB of a disk.
const PARTS_MAX: usize = 65_536;

/// Most blocks of one request: 64 MiB, more than a kernel's requests have.
const BLOCKS_MAX: u64 = 16_384;

/// A part of the bitmap.
type Bits = [u64; (PART / 64) as usize];

/// The blocks that were touched.
pub(super) struct Blocks {
    parts_max: usize,
    parts: HashMap<((u32, u32), u64), Box<Bits>>,
    touched: u64,
    again: u64,
    counted: u64,
    is_partial: bool,
    /// First block, and the one behind the last.
    range: Option<(u64, u64)>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::of_parts(PARTS_MAX)
    }
}

impl Blocks {
    /// Begins with room for so many parts.
    pub(super) fn of_parts(parts_max: usize) -> Self {
        Self { parts_max, parts: HashMap::new(), touched: 0, again: 0, counted: 0, is_partial: false, range: None }
    }

    /// Touches the blocks that a request covers. Only those that it covers whole can be repeated: a log that grows by less
    /// than a block repeats nothing.
    pub(super) fn touch(&mut self, device: (u32, u32), sector: u64, bytes: u32) {
        let behind = sector.saturating_add(u64::from(bytes).div_ceil(512));
        let (first, all_end) = (sector / SECTORS, behind.div_ceil(SECTORS));
        let whole = sector.div_ceil(SECTORS)..behind / SECTORS;
        let end = all_end.min(first.saturating_add(BLOCKS_MAX));
        self.is_partial |= end < all_end;
        let (low, high) = self.range.unwrap_or((first, first));
        self.range = Some((low.min(first), high.max(all_end)));
        let mut block = first;
        while block < end {
            // A word of the bitmap at a time.
            let next = (block / 64 + 1).saturating_mul(64).min(end);
            let mask = bits_of(block, next);
            let whole = bits_of(block.max(whole.start), next.min(whole.end));
            let (key, word) = ((device, block / PART), (block % PART / 64) as usize);
            block = next;
            if self.parts.len() >= self.parts_max && !self.parts.contains_key(&key) {
                self.is_partial = true;
                continue;
            }
            let bits = self.parts.entry(key).or_insert_with(|| Box::new([0; (PART / 64) as usize]));
            self.counted += u64::from(whole.count_ones());
            self.again += u64::from((bits[word] & whole).count_ones());
            self.touched += u64::from((mask & !bits[word]).count_ones());
            bits[word] |= mask;
        }
    }

    /// Returns the share of blocks that had been touched before.
    pub(super) fn again_share(&self) -> f64 {
        self.again as f64 / self.counted.max(1) as f64
    }

    /// Returns the distinct bytes.
    pub(super) const fn touched_bytes(&self) -> u64 {
        self.touched * SECTORS * 512
    }

    /// Returns how often a block was touched.
    pub(super) const fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the distinct bytes of both.
    pub(super) fn union_bytes(&self, other: &Self) -> u64 {
        let both: u64 = self
            .parts
            .iter()
            .filter_map(|(key, bits)| {
                let others = other.parts.get(key)?;
                Some(
                    bits.iter()
                        .zip(others.iter())
                        .map(|(one, other)| u64::from((one & other).count_ones()))
                        .sum::<u64>(),
                )
            })
            .sum();
        self.touched_bytes() + other.touched_bytes() - both * SECTORS * 512
    }

    /// Returns the bytes from the first block to the last of both.
    pub(super) fn range_bytes(&self, other: &Self) -> u64 {
        let ranges = [self.range, other.range];
        let low = ranges.iter().flatten().map(|(low, _)| *low).min().unwrap_or(0);
        let high = ranges.iter().flatten().map(|(_, high)| *high).max().unwrap_or(0);
        (high - low).saturating_mul(SECTORS * 512)
    }

    /// Returns true if some blocks were not counted.
    pub(super) const fn is_partial(&self) -> bool {
        self.is_partial
    }
}

/// The bits of a word for blocks from `from` to before `to`, which are in the same word.
const fn bits_of(from: u64, to: u64) -> u64 {
    if from >= to { 0 } else { (u64::MAX >> (64 - (to - from))) << (from % 64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_across_words_and_parts() {
        let mut blocks = Blocks::default();
        // 60..70, then 4090..4100 which lies in two parts, then 65..66 again.
        blocks.touch((7, 0), 60 * 8, 10 * 4096);
        blocks.touch((7, 0), 4090 * 8, 10 * 4096);
        blocks.touch((7, 0), 65 * 8, 4096);
        blocks.touch((7, 1), 60 * 8, 512);
        assert_eq!((blocks.touched_bytes(), blocks.counted()), (21 * 4096, 21));
        assert!((blocks.again_share() - 1.0 / 21.0).abs() < 1e-9 && !blocks.is_partial());
        // A log that grows sector by sector, and a write that covers two blocks in part.
        (0..80).for_each(|sector| blocks.touch((7, 2), sector, 512));
        blocks.touch((7, 3), 4, 4096);
        assert_eq!((blocks.touched_bytes(), blocks.counted()), ((21 + 10 + 2) * 4096, 21));
        // At the end of the largest disk, and more than a request has.
        blocks.touch((7, 0), u64::MAX, u32::MAX);
        blocks.touch((7, 0), 1 << 40, u32::MAX);
        assert!(blocks.is_partial());
    }
}
