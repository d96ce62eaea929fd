//! Compression and deduplication by the storage: how much space and time written data takes, depending on its content.

use std::collections::HashSet;

/// Storage that reduces data.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// Whether it compresses; otherwise it only deduplicates.
    pub compresses: bool,
    /// Whether a 4 KiB block that is already stored is only referenced.
    pub deduplicates: bool,
    /// Minimum share of the bytes that is stored: headers, and blocks of a fixed size.
    pub share_min: f64,
    /// Cost of examining the data, ns per byte.
    pub per_byte_ns: f64,
}

/// Smallest block that is deduplicated.
const BLOCK: usize = 4096;
/// Bytes of a block that are examined.
const SAMPLE: usize = 1024;
/// Maximum number of blocks remembered; then the memory is cleared, as real ones forget too.
const KNOWN_MAX: usize = 1 << 20;
/// Entropy of a sample of random bytes, bits: fewer than 8, since a sample of 1,024 does not hold all 256 values
/// evenly.
const RANDOM_BITS: f64 = 7.7;

/// Blocks that are already stored, by their fingerprint.
#[derive(Debug, Default)]
pub(super) struct StoredBlocks(HashSet<u64>);

impl StoredBlocks {
    /// The share of `data` that has to be stored.
    pub(super) fn stored_share(&mut self, reduction: &Reduction, data: &[u8]) -> f64 {
        let blocks = data.chunks(BLOCK);
        let count = blocks.len().max(1) as f64;
        let stored: f64 = blocks.map(|block| self.stored_of(reduction, block)).sum();
        (stored / count).max(reduction.share_min).min(1.0)
    }

    fn stored_of(&mut self, reduction: &Reduction, block: &[u8]) -> f64 {
        if reduction.deduplicates {
            if self.0.len() >= KNOWN_MAX {
                self.0.clear();
            }
            if !self.0.insert(fingerprint(block)) {
                return 0.0;
            }
        }
        if reduction.compresses { (entropy(block) / RANDOM_BITS).min(1.0) } else { 1.0 }
    }
}

/// FNV-1a over the first and some later bytes of a block: those that a stamp makes unique, and its body.
fn fingerprint(block: &[u8]) -> u64 {
    let bytes = block.iter().take(64).chain(block.iter().skip(64).step_by(61));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Bits per byte of evenly spaced bytes of the block (Shannon): not a real compressor's ratio, but ordered like it.
fn entropy(block: &[u8]) -> f64 {
    let step = block.len().div_ceil(SAMPLE).max(1);
    let mut counts = [0u32; 256];
    block.iter().step_by(step).for_each(|byte| counts[usize::from(*byte)] += 1);
    let n = f64::from(counts.iter().sum::<u32>()).max(1.0);
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / n).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::Buffers;
    use qd1_model::plan::Data;

    fn share(compresses: bool, deduplicates: bool, data: Data) -> f64 {
        let reduction = Reduction { compresses, deduplicates, share_min: 0.0, per_byte_ns: 0.0 };
        let buffers = Buffers::with_data(1, 1 << 20, 3, data).unwrap();
        let mut known = StoredBlocks::default();
        let mut share = 0.0;
        for stamp in 1..3 {
            buffers.stamp(0, 1 << 20, stamp);
            share = buffers.inspect(0, 1 << 20, |bytes| known.stored_share(&reduction, bytes));
        }
        share
    }

    #[test]
    fn each_kind_of_data_is_stored_as_far_as_it_has_to_be() {
        assert!(share(true, true, Data::Random) > 0.99);
        assert!(share(true, false, Data::Zeros) < 0.01);
        let some = share(true, false, Data::Compressible { percent: 75 });
        assert!((0.2..0.45).contains(&some), "{some}");
        assert!(share(true, false, Data::Repeated) > 0.99, "one block again and again does not compress by itself");
        assert_eq!(share(false, true, Data::Repeated), 0.0);
        assert_eq!(share(false, true, Data::Compressible { percent: 75 }), 1.0, "no two blocks are alike");
    }
}
