//! The header at the start of each verified block, laid out as fio 3.33 writes it on little-endian machines.
//!
//! | bytes | |
//! |---|---|
//! | 0, 2 | magic, 0xACCA |
//! | 2, 2 | number of the checksum |
//! | 4, 4 | length of the block, header included |
//! | 8, 8 | seed of the data |
//! | 16, 8 | offset in the file |
//! | 24, 8 | when it was written, which fio never checks. Ours is the mark |
//! | 32, 2 | number of the thread |
//! | 34, 2 | number of the write, its lower 16 bits |
//! | 36, 4 | CRC-32C of the 36 bytes before |
//! | 40 | the checksum of what follows it, then the data |
//!
//! The mark is 63 bits of XXH3 over everything after the header, below a bit that is never set in fio's times. So each
//! byte of a block that we wrote is covered, even if the requested checksum leaves it out, and fio still accepts it.

use twox_hash::XxHash3_64;

use super::checksum;

/// Bytes before the checksum.
pub(super) const BYTES: usize = 40;
/// Bytes that the header's own checksum covers.
const COVERED: usize = 36;
/// The first two bytes.
pub(super) const MAGIC: u16 = 0xACCA;
/// Distinguishes a mark from a time: fio's nanoseconds, in the upper half, stay below 10^9.
const MARKED: u64 = 1 << 63;

/// A header's fields, except for its own checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) magic: u16,
    pub(super) checksum: u16,
    pub(super) len: u32,
    pub(super) seed: u64,
    pub(super) offset: u64,
    pub(super) written: u64,
    pub(super) thread: u16,
    pub(super) number: u16,
}

impl Header {
    /// The header as bytes, with its checksum.
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0..2].copy_from_slice(&self.magic.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.written.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.thread.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.number.to_le_bytes());
        let own = checksum::crc32c(&bytes[..COVERED]);
        bytes[COVERED..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// The fields, and the header's own checksum: the stored one and the correct one.
    pub(super) fn decode(bytes: &[u8; BYTES]) -> (Self, u32, u32) {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let header = Self {
            magic: u16_at(0),
            checksum: u16_at(2),
            len: u32_at(4),
            seed: u64_at(8),
            offset: u64_at(16),
            written: u64_at(24),
            thread: u16_at(32),
            number: u16_at(34),
        };
        (header, u32_at(COVERED), checksum::crc32c(&bytes[..COVERED]))
    }

    /// Whether the block is ours, so that its mark can be checked.
    pub(super) fn is_marked(&self) -> bool {
        self.written & MARKED != 0
    }
}

/// The mark of a block with this seed and these bytes after its header.
pub(super) fn mark(seed: u64, after: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, after) | MARKED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_fios_reads_as_what_it_says() {
        // The first block of `fio --rw=write --bs=4k --verify=crc32c`, by 3.33.
        let bytes: [u8; BYTES] = [
            0xca, 0xac, 0x05, 0x00, 0x00, 0x10, 0x00, 0x00, 0x3c, 0x54, 0x09, 0xc5, 0x01, 0xcc, 0xa4, 0x00, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0x06, 0xcd, 0x06, 0x01, 0, 0, 0, 0x67, 0xab, 0xd8, 0xd3,
        ];
        let (header, stands, belongs) = Header::decode(&bytes);
        assert_eq!((stands, belongs), (0xd3d8_ab67, 0xd3d8_ab67));
        let seed = 0x00a4_cc01_c509_543c;
        let written = 0x06cd_06e0 << 32;
        let wanted = Header { magic: MAGIC, checksum: 5, len: 4096, seed, offset: 0, written, thread: 1, number: 0 };
        assert_eq!(header, wanted);
        assert!(!header.is_marked());
        assert_eq!(header.encode(), bytes);
    }
}
