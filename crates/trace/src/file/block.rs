//! The blocks of a compact file: a header with lengths and a checksum, and compressed contents.

use std::io::{Read, Write};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::{Compression, Crc};

/// The first bytes of a block.
const MARK: [u8; 4] = *b"qblk";
/// Length of a header: the mark, the kind, the length of the contents before and after compression, and the checksum.
const HEADER: usize = 20;
/// Longest contents of a block before compression, bytes. This bounds a reader's memory.
pub(super) const LONGEST: usize = 4 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// How the trace was recorded, JSON.
    About = 1,
    /// Names of disks by their numbers, JSON.
    Disks = 2,
    /// Requests and syncs.
    Entries = 3,
    /// What was and was not recorded, JSON.
    End = 4,
}

/// Writes a block, and returns its length in the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(to: &mut impl Write, kind: BlockKind, contents: &[u8]) -> std::io::Result<u64> {
    let mut stored = vec![0; HEADER];
    let mut deflate = flate2::write::DeflateEncoder::new(&mut stored, Compression::fast());
    deflate.write_all(contents)?;
    deflate.finish()?;
    let length = (stored.len() - HEADER) as u32;
    stored[..4].copy_from_slice(&MARK);
    stored[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
    stored[8..12].copy_from_slice(&(contents.len() as u32).to_le_bytes());
    stored[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&stored);
    stored[16..HEADER].copy_from_slice(&sum.to_le_bytes());
    to.write_all(&stored)?;
    Ok(stored.len() as u64)
}

/// CRC-32 (as in gzip) of everything but the checksum.
fn checksum(block: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&block[..16]);
    crc.update(&block[HEADER..]);
    crc.sum()
}

/// Reads the next block: its kind, its contents, and its length in the file. `None` at the end of the file.
///
/// # Errors
/// If it is damaged or incomplete, or has an unknown kind.
pub(super) fn read(from: &mut impl Read) -> Result<Option<(BlockKind, Vec<u8>, u64)>> {
    let mut stored = Vec::with_capacity(HEADER);
    from.take(HEADER as u64).read_to_end(&mut stored)?;
    if stored.is_empty() {
        return Ok(None);
    }
    ensure!(stored.len() == HEADER, "it ends within a block");
    let number = |at: usize| u32::from_le_bytes(stored[at..at + 4].try_into().expect("four bytes"));
    let (kind, raw, length, sum) = (number(4), number(8) as usize, number(12) as usize, number(16));
    // Deflate cannot make random bytes much longer.
    ensure!(stored[..4] == MARK && raw <= LONGEST && length <= LONGEST + LONGEST / 8, "a block is damaged");
    let read = from.take(length as u64).read_to_end(&mut stored)?;
    ensure!(read == length, "it ends within a block");
    ensure!(checksum(&stored) == sum, "a block is damaged");
    let kind = match kind {
        1 => BlockKind::About,
        2 => BlockKind::Disks,
        3 => BlockKind::Entries,
        4 => BlockKind::End,
        _ => bail!("it has a block of an unknown kind; a later version may read it"),
    };
    let mut contents = Vec::with_capacity(raw);
    let inflate = flate2::read::DeflateDecoder::new(&stored[HEADER..]);
    inflate.take(LONGEST as u64 + 1).read_to_end(&mut contents).context("a block cannot be decompressed")?;
    ensure!(contents.len() == raw, "a block is damaged");
    Ok(Some((kind, contents, stored.len() as u64)))
}
