//! The checksums of fio's verification headers, as fio 3.33 stores them.
//!
//! Each was identified by comparing files that fio wrote with the published algorithms. Some are not what their names
//! say, and must be the same here, or neither program could check the other's files:
//!
//! - `crc32` is the CRC of the polynomial 0x04C11DB7, not reflected, from 0, without a final inversion.
//! - `crc32c` is CRC-32C without the final inversion.
//! - `crc64` is CRC-64/REDIS, `crc16` is CRC-16/ARC, `crc7` is CRC-7/MMC, `xxhash` is XXH32 with the seed 1.
//! - `sha1` is SHA-1 with each 32-bit word little-endian.
//! - `sha256` takes 64 bytes: the last padded block of the data, its length little-endian, over whose first eight bytes
//!   the lowest byte of each of the eight words of the state is written. So 64 bits of it depend on all of the data.
//! - `sha512` takes 128 bytes and contains no hash at all: only the last 128 bytes of its input buffer. The mark of
//!   [`super::header`] makes up for that where we wrote the block ourselves.

use crc::{CRC_7_MMC, CRC_16_ARC, CRC_64_REDIS, Crc, Table};
use md5::Md5;
use qd1_fio::types::Verify;
use sha1::Sha1;
use sha2::block_api::compress256;
use sha3::{Digest, Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use twox_hash::XxHash32;

/// Length of the longest checksum, bytes.
pub(super) const LONGEST: usize = 128;

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&crc::Algorithm {
    width: 32,
    poly: 0x04C1_1DB7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89A1_897F,
    residue: 0,
});
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_ARC);
static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_MMC);

/// The seed of fio's XXH32.
const XXHASH_SEED: u32 = 1;

/// SHA-256's initial state: FIPS 180-4, 5.3.3.
const SHA256_START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The number of a type in headers and the bytes its checksum takes; `None` for types without a header.
pub(super) const fn layout(verify: Verify) -> Option<(u16, usize)> {
    Some(match verify {
        Verify::None | Verify::Pattern | Verify::Null => return None,
        Verify::Meta => (1, 0),
        Verify::Md5 => (2, 16),
        Verify::Crc64 => (3, 8),
        Verify::Crc32 => (4, 4),
        // Both have the same number: they differ in how the checksum is computed, not in its value.
        Verify::Crc32c | Verify::Crc32cIntel => (5, 4),
        Verify::Crc16 => (7, 2),
        Verify::Crc7 => (8, 1),
        Verify::Sha256 => (9, 64),
        Verify::Sha512 => (10, 128),
        Verify::Sha3_224 => (11, 28),
        Verify::Sha3_256 => (12, 32),
        Verify::Sha3_384 => (13, 48),
        Verify::Sha3_512 => (14, 64),
        Verify::Xxhash => (15, 4),
        Verify::Sha1 => (16, 20),
    })
}

/// fio's name of a number in a header.
pub(super) fn name(number: u16) -> Option<&'static str> {
    let known = Verify::WORDS.iter().find(|(_, verify, _)| layout(*verify).is_some_and(|(code, _)| code == number));
    known.map(|(word, ..)| *word)
}

/// CRC-32C as fio stores it.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    !::crc32c::crc32c(data)
}

/// Writes the checksum of `data` to the start of `out` and returns that part, as long as [`layout`] says.
pub(super) fn compute<'a>(verify: Verify, data: &[u8], out: &'a mut [u8; LONGEST]) -> &'a [u8] {
    let length = layout(verify).map_or(0, |(_, length)| length);
    let field = &mut out[..length];
    match verify {
        Verify::None | Verify::Pattern | Verify::Null | Verify::Meta => {}
        Verify::Md5 => field.copy_from_slice(&Md5::digest(data)),
        Verify::Crc64 => field.copy_from_slice(&CRC64.checksum(data).to_le_bytes()),
        Verify::Crc32 => field.copy_from_slice(&CRC32.checksum(data).to_le_bytes()),
        Verify::Crc32c | Verify::Crc32cIntel => field.copy_from_slice(&crc32c(data).to_le_bytes()),
        Verify::Crc16 => field.copy_from_slice(&CRC16.checksum(data).to_le_bytes()),
        Verify::Crc7 => field[0] = CRC7.checksum(data),
        Verify::Sha1 => {
            field.copy_from_slice(&Sha1::digest(data));
            field.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        Verify::Sha256 => sha256(data, field),
        Verify::Sha512 => sha512(data, field),
        Verify::Sha3_224 => field.copy_from_slice(&Sha3_224::digest(data)),
        Verify::Sha3_256 => field.copy_from_slice(&Sha3_256::digest(data)),
        Verify::Sha3_384 => field.copy_from_slice(&Sha3_384::digest(data)),
        Verify::Sha3_512 => field.copy_from_slice(&Sha3_512::digest(data)),
        Verify::Xxhash => field.copy_from_slice(&XxHash32::oneshot(XXHASH_SEED, data).to_le_bytes()),
    }
    field
}

/// See the top of the file.
fn sha256(data: &[u8], field: &mut [u8]) {
    let (whole, rest) = data.as_chunks::<64>();
    let mut state = SHA256_START;
    compress256(&mut state, whole);
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    if rest.len() >= 56 {
        compress256(&mut state, &[last]);
        last = [0; 64];
    }
    last[56..].copy_from_slice(&(data.len() as u64 * 8).to_le_bytes());
    compress256(&mut state, &[last]);
    for (byte, word) in last.iter_mut().zip(state) {
        *byte = word as u8;
    }
    field.copy_from_slice(&last);
}

/// See the top of the file. The buffer holds the first 128 bytes, and over them what was left after the last whole 128.
fn sha512(data: &[u8], field: &mut [u8]) {
    field.fill(0);
    let (whole, rest) = data.as_chunks::<128>();
    if let Some(first) = whole.first() {
        field.copy_from_slice(first);
    }
    field[..rest.len()].copy_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(verify: Verify, data: &[u8]) -> String {
        compute(verify, data, &mut [0xEE; LONGEST]).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The catalogue's check values (of the digits 1 to 9), bytes in the order of the header; the hashes from Python's
    /// hashlib; XXH32 from its specification.
    #[test]
    fn checksums_have_the_published_values() {
        let known = [
            (Verify::Crc7, "75"),
            (Verify::Crc16, "3dbb"),
            (Verify::Crc32, "7f89a189"),
            (Verify::Crc32c, "7c6df91c"),
            (Verify::Crc32cIntel, "7c6df91c"),
            (Verify::Crc64, "cad9b8c414d9c6e9"),
            (Verify::Xxhash, "8c9161f2"),
            (Verify::Md5, "25f9e794323b453885f5181f1b624d0b"),
            (Verify::Sha1, "1dbcc3f773048e809967df2a4cc3cc654134aea7"),
            (Verify::Sha3_224, "5795c3d628fd638c9835a4c79a55809f265068c88729a1a3fcdf8522"),
            (Verify::Sha3_256, "87cd084d190e436f147322b90e7384f6a8e0676c99d21ef519ea718e51d45f9c"),
            (
                Verify::Sha3_384,
                "8b90ede4d095409f1a12492c2520599683a9478dc70b7566d23b3e41ece8538c6cde92382a5e38786490375c54672abf",
            ),
            (
                Verify::Sha3_512,
                "e1e44d20556e97a180b6dd3ed7ae5c465cafd553fa8747dca038fb95635b77a3\
                 7318f7ddf7aec1f6c3c14bb160ba2497007decf38dd361cab199e3b8c8fe1f5c",
            ),
            (Verify::Meta, ""),
        ];
        for (verify, wanted) in known {
            assert_eq!(of(verify, b"123456789"), wanted, "{verify:?}");
        }
    }

    /// Computed by a second implementation, whose padding was found from fio's own files.
    #[test]
    fn sha256_is_the_last_padded_block_and_a_byte_of_each_word() {
        let state = [
            (9, "3e3686d21cd4080d"),
            (55, "6c6ed2715a482e88"),
            (56, "e38ac7740ac26b67"),
            (63, "ccc8e69be184aa9a"),
            (64, "b6b79d9e3a0a734f"),
            (200, "7b3588b71f3d7296"),
        ];
        for (length, wanted) in state {
            let data: Vec<u8> = (0..length).map(|byte: usize| byte as u8).collect();
            let field = of(Verify::Sha256, &data);
            assert_eq!(&field[..16], wanted, "{length} bytes");
            let bits = (length as u64 * 8).swap_bytes();
            assert_eq!(&field[112..], format!("{bits:016x}"), "{length} bytes");
        }
    }

    #[test]
    fn sha512_is_the_last_bytes_over_the_first() {
        let data: Vec<u8> = (0..300).map(|byte: usize| byte as u8).collect();
        let wanted: Vec<u8> = data[256..].iter().chain(&data[44..128]).copied().collect();
        assert_eq!(compute(Verify::Sha512, &data, &mut [0; LONGEST]), wanted);
        assert_eq!(of(Verify::Sha512, &[7; 3]), format!("070707{}", "0".repeat(250)));
    }

    #[test]
    fn numbers_in_headers_have_one_name_each() {
        let numbers = [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        for number in 0..=u16::MAX {
            assert_eq!(name(number).is_some(), numbers.contains(&number), "{number}");
        }
        assert_eq!(name(9), Some("sha256"));
    }
}
