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
#[derive(Default)]
pub(super) struct Blocks {
    parts: HashMap<((u32, u32), u64), Box<Bits>>,
    touched: u64,
    again: u64,
    counted: u64,
    is_partial: bool,
    /// First block, and the one behind the last.
    range: Option<(u64, u64)>,
}

impl Blocks {
    /// Touches the blocks that a request covers.
    pub(super) fn touch(&mut self, device: (u32, u32), sector: u64, bytes: u32) {
        let first = sector / SECTORS;
        let all = u64::from(bytes).div_ceil(SECTORS * 512);
        let blocks = all.min(BLOCKS_MAX);
        self.is_partial |= blocks < all;
        let (low, high) = self.range.unwrap_or((first, first));
        self.range = Some((low.min(first), high.max(first.saturating_add(all))));
        let end = first.saturating_add(blocks);
        let mut block = first;
        while block < end {
            // A word of the bitmap at a time.
            let next = (block / 64 + 1).saturating_mul(64).min(end);
            let mask = (u64::MAX >> (64 - (next - block))) << (block % 64);
            let count = next - block;
            let (key, word) = ((device, block / PART), (block % PART / 64) as usize);
            block = next;
            if self.parts.len() >= PARTS_MAX && !self.parts.contains_key(&key) {
                self.is_partial = true;
                continue;
            }
            let bits = self.parts.entry(key).or_insert_with(|| Box::new([0; (PART / 64) as usize]));
            let again = u64::from((bits[word] & mask).count_ones());
            self.counted += count;
            self.again += again;
            self.touched += count - again;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_across_words_and_parts() {
        let mut blocks = Blocks::default();
        // 60..70, then 4090..4100 which lies in two parts, then 65..66 again.
        blocks.touch((7, 0), 60 * 8, 10 * 4096);
        blocks.touch((7, 0), 4090 * 8, 10 * 4096);
        blocks.touch((7, 0), 65 * 8 + 3, 4096);
        blocks.touch((7, 1), 60 * 8, 512);
        assert_eq!((blocks.touched_bytes(), blocks.counted()), (21 * 4096, 22));
        assert!((blocks.again_share() - 1.0 / 22.0).abs() < 1e-9 && !blocks.is_partial());
        // At the end of the largest disk.
        blocks.touch((7, 0), u64::MAX, u32::MAX);
        assert!(blocks.is_partial());
    }
}
