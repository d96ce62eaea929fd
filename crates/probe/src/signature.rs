//! What is on a device: the signatures that filesystems, volume managers and partition tables leave.
//!
//! All formats that util-linux's libblkid knows are known here as well, from each format's own documentation. Only the
//! first and the last two megabytes are read, since every format here keeps a signature there. A signature is taken
//! seriously even if the rest looks damaged: a false alarm costs a `wipefs`, a miss costs somebody's data.

mod tables;
mod weak;

use std::io::{self, Read, Seek, SeekFrom};

use tables::{AT_START, BEFORE_END, MD_MAGIC, MD_MAGIC_BIG, PROMISE, PROMISE_SECTORS, SYSV, SYSV_BLOCKS, UFS, UFS_AT};

/// A signature that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it belongs to: `ext4`, `LVM2 physical volume`, `GPT partition table`.
    pub kind: &'static str,
    /// Where it is, bytes from the start of what was examined.
    pub offset: u64,
}

/// How much is read from the start: the filesystem VMFS is the last to begin, at 2 MiB.
const HEAD_BYTES: u64 = (2 << 20) + (64 << 10);
/// How much is read from the end: Promise's RAID begins at most 1.5 MiB before it.
const TAIL_BYTES: u64 = 2 << 20;

/// The marks at the end of the first page of a swap area or hibernation image (of the kernel, uswsusp and others).
const SWAP_ENDS: [&[u8]; 6] = [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"];

/// Revision 2 and the magic 0x3434 of nilfs2 (kernel `nilfs2_ondisk.h`).
const NILFS2: &[u8] = &[2, 0, 0, 0, 0, 0, 0x34, 0x34];

/// ZFS keeps four labels of this size, two at each end (`vdev_impl.h`).
const ZFS_LABEL_BYTES: u64 = 256 << 10;
/// The second half of a label is a ring of uberblocks, one every KiB or more.
const ZFS_RING_BYTES: u64 = 128 << 10;

/// All signatures on a device or image.
///
/// # Errors
/// When it cannot be read.
pub fn signatures(device: &mut (impl Read + Seek)) -> io::Result<Vec<Signature>> {
    let size = device.seek(SeekFrom::End(0))?;
    signatures_within(device, 0, size)
}

/// All signatures on the `size` bytes from `start`, as on a partition whose own node cannot be opened.
///
/// # Errors
/// When it cannot be read.
pub fn signatures_within(device: &mut (impl Read + Seek), start: u64, size: u64) -> io::Result<Vec<Signature>> {
    let ends = Ends::read(device, start, size)?;
    let mut found = Vec::new();
    let mut note = |kind, offset| found.push(Signature { kind, offset });
    for (kind, offset, bytes) in AT_START {
        if ends.has(*offset, bytes) {
            note(kind, *offset);
        }
    }
    for (kind, distance, bytes) in BEFORE_END {
        if let Some(offset) = size.checked_sub(*distance).filter(|offset| ends.has(*offset, bytes)) {
            note(kind, offset);
        }
    }
    for (kind, offset) in weak::found(&ends) {
        note(kind, offset);
    }
    if let Some(offset) = swap(&ends) {
        note("swap", offset);
    }
    if let Some((kind, offset)) = md_at_end(&ends) {
        note(kind, offset);
    }
    if let Some(offset) = zfs(&ends) {
        note("ZFS member", offset);
    }
    if let Some(offset) = unix(&ends, &UFS, UFS_AT.map(|begin| begin + 1372)) {
        note("ufs", offset);
    }
    if let Some(offset) = unix(&ends, &[SYSV], SYSV_BLOCKS.map(|block| block * 1024 + 1016)) {
        note("System V filesystem", offset);
    }
    let promise = PROMISE_SECTORS.iter().filter_map(|sectors| (size / 512).checked_sub(*sectors));
    if let Some(offset) = promise.map(|sector| sector * 512).find(|offset| ends.has(*offset, PROMISE)) {
        note("Promise RAID member", offset);
    }
    if let Some(offset) = nilfs2_copy(size).filter(|offset| ends.has(*offset, NILFS2)) {
        note("nilfs2 (copy)", offset);
    }
    if let Some(offset) = xfs_log(&ends) {
        note("xfs log", offset);
    }
    // The boot sector of a FAT or NTFS ends like a partition table, and its code may look like partition entries.
    if found.is_empty() && weak::is_mbr(&ends) {
        found.push(Signature { kind: "MBR partition table", offset: 510 });
    }
    Ok(found)
}

/// The first and the last bytes of a device.
struct Ends {
    size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Ends {
    fn read(device: &mut (impl Read + Seek), start: u64, size: u64) -> io::Result<Self> {
        let mut part = |from: u64, len: u64| {
            let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
            device.seek(SeekFrom::Start(start.saturating_add(from)))?;
            device.read_exact(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        let head = part(0, size.min(HEAD_BYTES))?;
        let tail_bytes = size.min(TAIL_BYTES);
        let tail = part(size - tail_bytes, tail_bytes)?;
        Ok(Self { size, head, tail })
    }

    /// The bytes at an offset, if they exist and were read.
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let in_tail = offset.checked_sub(self.size - self.tail.len() as u64);
        slice(&self.head, offset, len).or_else(|| slice(&self.tail, in_tail?, len))
    }

    fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        self.get(offset, bytes.len()) == Some(bytes)
    }

    fn le32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.get(offset, 4)?.try_into().ok()?))
    }
}

fn slice(bytes: &[u8], offset: u64, len: usize) -> Option<&[u8]> {
    let at = usize::try_from(offset).ok()?;
    bytes.get(at..at.checked_add(len)?)
}

/// The mark is at the end of swap's first page, whose size is that of the machine that made it.
fn swap(ends: &Ends) -> Option<u64> {
    let offsets = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10].map(|page: u64| page - 10);
    offsets.into_iter().find(|offset| SWAP_ENDS.iter().any(|bytes| ends.has(*offset, bytes)))
}

/// Versions 0.90 and 1.0 of md keep their superblock near the end, each rounded in its own way (kernel `md.c`).
fn md_at_end(ends: &Ends) -> Option<(&'static str, u64)> {
    let old = (ends.size & !((64 << 10) - 1)).checked_sub(64 << 10);
    let has_old = |offset: &u64| ends.has(*offset, &MD_MAGIC) || ends.has(*offset, &MD_MAGIC_BIG);
    if let Some(offset) = old.filter(has_old) {
        return Some(("md RAID member (0.90)", offset));
    }
    let new = (ends.size / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    new.filter(|offset| ends.has(*offset, &MD_MAGIC)).map(|offset| ("md RAID member (1.0)", offset))
}

/// An uberblock in the ring of any label; its magic 0x00bab10c is in the byte order of the machine that wrote it.
fn zfs(ends: &Ends) -> Option<u64> {
    let whole = ends.size & !(ZFS_LABEL_BYTES - 1);
    let last = [2, 1].iter().filter_map(|n| whole.checked_sub(n * ZFS_LABEL_BYTES));
    let labels = [0, ZFS_LABEL_BYTES].into_iter().chain(last);
    let mut slots = labels.flat_map(|label| (ZFS_RING_BYTES..ZFS_LABEL_BYTES).step_by(1024).map(move |at| label + at));
    let magic: u64 = 0x00ba_b10c;
    slots.find(|offset| ends.has(*offset, &magic.to_le_bytes()) || ends.has(*offset, &magic.to_be_bytes()))
}

/// One of `magics` in either byte order.
fn unix(ends: &Ends, magics: &[u32], offsets: [u64; 4]) -> Option<u64> {
    let has =
        |offset: &u64, magic: &u32| ends.has(*offset, &magic.to_le_bytes()) || ends.has(*offset, &magic.to_be_bytes());
    offsets.into_iter().find(|offset| magics.iter().any(|magic| has(offset, magic)))
}

/// nilfs2 keeps a second superblock in the last whole block of 4 KiB (kernel `nilfs2_ondisk.h`).
fn nilfs2_copy(size: u64) -> Option<u64> {
    (size >> 12).checked_sub(1).map(|block| block << 12)
}

/// A log may begin in the middle of its ring, where its last record ended: with any sector of the first 128 KiB, whose
/// version and format make sense as well (kernel `xfs_log_format.h`).
fn xfs_log(ends: &Ends) -> Option<u64> {
    let is_header = |at: &u64| {
        let version = ends.le32(at + 8).map(u32::swap_bytes);
        let format = ends.le32(at + 300).map(u32::swap_bytes);
        ends.has(*at, &[0xfe, 0xed, 0xba, 0xbe]) && matches!(version, Some(1..=3)) && matches!(format, Some(1..=3))
    };
    (1..256).map(|sector| sector * 512).find(is_header)
}

#[cfg(test)]
mod tests;
