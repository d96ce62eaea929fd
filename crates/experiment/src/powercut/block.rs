//! One block: the run, the number of the commit, content that no other block has, and a checksum.

/// Bytes.
pub(super) const BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"QD1POWER";
const BODY: usize = 24;
const SUM: usize = BYTES - 8;

/// Fills `block` with commit `number` of `run`.
pub(super) fn fill(block: &mut [u8; BYTES], run: u64, number: u64) {
    block[..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&run.to_le_bytes());
    block[16..BODY].copy_from_slice(&number.to_le_bytes());
    let mut state = run ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for word in block[BODY..SUM].chunks_exact_mut(8) {
        // Xorshift (Marsaglia 2003): compressible data might take another path to the disk.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    let sum = checksum(&block[..SUM]);
    block[SUM..].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the number of the commit of `run` in `block`; `None` if the block is torn or belongs to another run.
pub(super) fn number_of(block: &[u8], run: u64) -> Option<u64> {
    let word = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
    let is_whole = block.len() == BYTES && block[..8] == MAGIC && word(SUM)? == checksum(&block[..SUM]);
    if is_whole && word(8)? == run { word(16) } else { None }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_knows_its_number_and_a_torn_one_none() {
        let mut block = [0; BYTES];
        assert_eq!(number_of(&block, 7), None, "never written");
        fill(&mut block, 7, 12);
        assert_eq!(number_of(&block, 7), Some(12));
        assert_eq!(number_of(&block, 8), None, "another run's");
        let mut newer = [0; BYTES];
        fill(&mut newer, 7, 12 + super::super::BLOCKS);
        block[..512].copy_from_slice(&newer[..512]);
        assert_eq!(number_of(&block, 7), None, "the first sector alone was written");
        assert_eq!(number_of(&newer[..100], 7), None);
    }
}
