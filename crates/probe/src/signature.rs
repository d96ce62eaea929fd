//! What lies on a device: the signatures that filesystems, volume managers and partition tables leave.
//!
//! The offsets are those of each format's own documentation, gathered as in util-linux's libblkid. Only the first and
//! the last megabyte are read, since every format here keeps a signature there. A signature is taken seriously even if
//! the rest looks damaged: a false alarm costs a `wipefs`, a miss costs somebody's data.

use std::io::{self, Read, Seek, SeekFrom};

/// A signature that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it belongs to: `ext4`, `LVM2 physical volume`, `GPT partition table`.
    pub kind: &'static str,
    /// Where it is, bytes from the start of what was examined.
    pub offset: u64,
}

/// How much is read from the start: VMFS is the last to begin, at 1 MiB.
const HEAD_BYTES: u64 = (1 << 20) + (64 << 10);
/// How much is read from the end: ZFS' third label begins at most 768 KiB before it.
const TAIL_BYTES: u64 = 1 << 20;

/// Fixed bytes at a fixed distance from the start.
const AT_START: &[(&str, u64, &[u8])] = &[
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
    ("BSD disklabel", 512, &[0x57, 0x45, 0x56, 0x82]),
    ("Apple partition map", 512, b"PM\0\0"),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("LUKS2 secondary header", 0x4000, b"SKUL\xba\xbe"),
    ("LUKS2 secondary header", 0x8000, b"SKUL\xba\xbe"),
    ("LUKS2 secondary header", 0x1_0000, b"SKUL\xba\xbe"),
    ("LUKS2 secondary header", 0x2_0000, b"SKUL\xba\xbe"),
    ("LUKS2 secondary header", 0x4_0000, b"SKUL\xba\xbe"),
    ("LUKS2 secondary header", 0x8_0000, b"SKUL\xba\xbe"),
    ("BitLocker", 3, b"-FVE-FS-"),
    ("LVM2 physical volume", 0, b"LABELONE"),
    ("LVM2 physical volume", 512, b"LABELONE"),
    ("LVM2 physical volume", 1024, b"LABELONE"),
    ("LVM2 physical volume", 1536, b"LABELONE"),
    ("md RAID member (1.1)", 0, &MD_MAGIC),
    ("md RAID member (1.2)", 4096, &MD_MAGIC),
    ("bcache", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81]),
    (
        "bcachefs",
        4120,
        &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef],
    ),
    ("VDO", 0, b"dmvdo001"),
    ("Stratis", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("dm-integrity", 0, b"integrt\0"),
    ("dm-verity", 0, b"verity\0\0"),
    ("Ceph BlueStore", 0, b"bluestore block device"),
    ("VMFS", 0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0]),
    ("xfs", 0, b"XFSB"),
    ("xfs log", 0, &[0xfe, 0xed, 0xba, 0xbe]),
    ("btrfs", 0x1_0040, b"_BHRfS_M"),
    ("vfat", 0x36, b"FAT12   "),
    ("vfat", 0x36, b"FAT16   "),
    ("vfat", 0x36, b"FAT     "),
    ("vfat", 0x52, b"FAT32   "),
    ("ntfs", 3, b"NTFS    "),
    ("exfat", 3, b"EXFAT   "),
    ("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("erofs", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("squashfs", 0, b"hsqs"),
    ("squashfs", 0, b"sqsh"),
    ("cramfs", 0, &[0x45, 0x3d, 0xcd, 0x28]),
    ("iso9660", 0x8001, b"CD001"),
    ("udf", 0x8001, b"BEA01"),
    ("udf", 0x8001, b"NSR02"),
    ("udf", 0x8001, b"NSR03"),
    ("jfs", 0x8000, b"JFS1"),
    ("reiserfs", 0x1_0034, b"ReIsErFs"),
    ("reiserfs", 0x1_0034, b"ReIsEr2Fs"),
    ("reiserfs", 0x1_0034, b"ReIsEr3Fs"),
    ("reiser4", 0x1_0000, b"ReIsEr4"),
    ("nilfs2", 1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34]),
    ("gfs2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]),
    ("ocfs2", 1024, b"OCFSV2"),
    ("ocfs2", 2048, b"OCFSV2"),
    ("ocfs2", 4096, b"OCFSV2"),
    ("ocfs2", 8192, b"OCFSV2"),
    ("hfsplus", 1024, b"H+\0\x04"),
    ("hfsplus", 1024, b"HX\0\x05"),
    ("apfs", 32, b"NXSB"),
    ("zonefs", 0, b"SFNZ"),
];

/// Fixed bytes at a fixed distance before the end.
const BEFORE_END: &[(&str, u64, &[u8])] = &[
    ("GPT partition table (backup)", 512, b"EFI PART"),
    ("GPT partition table (backup)", 4096, b"EFI PART"),
    ("Intel RAID member", 1024, b"Intel Raid ISM Cfg Sig. "),
    ("DDF RAID member", 512, &[0xde, 0x11, 0xde, 0x11]),
    ("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6b]),
    ("DRBD", 4096 - 52, &[0x83, 0x74, 0x02, 0x6d]),
];

/// The md superblock's magic 0xa92b4efc, little-endian (kernel `md_p.h`).
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// The same, as version 0.90 wrote it on big-endian machines.
const MD_MAGIC_BIG: [u8; 4] = [0xa9, 0x2b, 0x4e, 0xfc];

/// What ends the first page of a swap area or of a hibernation image.
const SWAP_ENDS: [&[u8]; 4] = [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0"];

/// ZFS keeps four labels of this size, two at each end (`vdev_impl.h`).
const ZFS_LABEL_BYTES: u64 = 256 << 10;
/// The second half of a label is a ring of uberblocks, one every KiB or more.
const ZFS_RING_BYTES: u64 = 128 << 10;

/// All signatures on a device or image.
///
/// # Errors
/// When it cannot be read: then nothing is known about it.
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
    if let Some(kind) = ext(&ends) {
        note(kind, 1080);
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
    // The boot sector of a FAT or NTFS ends like a partition table, and its code may look like entries.
    if found.is_empty() && is_mbr(&ends) {
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

/// The two bytes of ext's magic turn up in random data (such as a benchmark writes) once in 65,536, so two neighbours
/// must make sense as well: the block size and the revision. Which ext it is follows from its features.
fn ext(ends: &Ends) -> Option<&'static str> {
    const SUPER: u64 = 1024;
    let plausible = ends.has(SUPER + 56, &[0x53, 0xef]) && ends.le32(SUPER + 24)? <= 6 && ends.le32(SUPER + 76)? <= 1;
    if !plausible {
        return None;
    }
    let (compatible, incompatible) = (ends.le32(SUPER + 92)?, ends.le32(SUPER + 96)?);
    // INCOMPAT_JOURNAL_DEV; EXTENTS, 64BIT, MMP, FLEX_BG and later; COMPAT_HAS_JOURNAL (kernel `ext4.h`).
    Some(match (compatible, incompatible) {
        (_, i) if i & 0x8 != 0 => "ext journal",
        (_, i) if i & !0x1f != 0 => "ext4",
        (c, _) if c & 0x4 != 0 => "ext3",
        _ => "ext2",
    })
}

/// Swap ends its first page, whose size is the machine's that made it.
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

/// A boot signature alone is too little: the four entries must be well formed, and one in use, as the kernel asks.
fn is_mbr(ends: &Ends) -> bool {
    let Some(sector) = ends.get(0, 512) else { return false };
    let entries: Vec<&[u8]> = sector[446..510].chunks_exact(16).collect();
    let formed = entries.iter().all(|entry| entry[0] & 0x7f == 0);
    let used = entries.iter().any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]);
    sector[510..] == [0x55, 0xaa] && formed && used
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Cursor;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    /// A blank image with bytes written at offsets.
    fn image(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for (offset, part) in parts {
            bytes[*offset..offset + part.len()].copy_from_slice(part);
        }
        bytes
    }

    fn kinds(bytes: &[u8]) -> Vec<&'static str> {
        signatures(&mut Cursor::new(bytes)).unwrap().into_iter().map(|found| found.kind).collect()
    }

    #[test]
    fn a_blank_image_of_any_size_has_no_signature() {
        for size in [0, 1, 511, 512, 4096, 100_000, MIB, 3 * MIB + 512] {
            assert!(kinds(&image(size, &[])).is_empty(), "{size}");
        }
    }

    #[test]
    fn every_row_of_the_tables_is_found_where_it_says() {
        let size = 4 * MIB;
        for (kind, offset, bytes) in AT_START {
            let found = signatures(&mut Cursor::new(image(size, &[(*offset as usize, bytes)]))).unwrap();
            assert!(found.contains(&Signature { kind, offset: *offset }), "{kind} at {offset}: {found:?}");
        }
        for (kind, distance, bytes) in BEFORE_END {
            let offset = size - *distance as usize;
            let found = signatures(&mut Cursor::new(image(size, &[(offset, bytes)]))).unwrap();
            assert!(found.contains(&Signature { kind, offset: offset as u64 }), "{kind} at {offset}: {found:?}");
        }
    }

    #[test]
    fn swap_is_found_for_every_page_size() {
        for page in [4096, 8192, 16384, 32768, 65536] {
            assert_eq!(kinds(&image(MIB, &[(page - 10, b"SWAPSPACE2")])), ["swap"], "{page}");
        }
    }

    #[test]
    fn md_superblocks_near_the_end_are_found_on_odd_sizes() {
        let size = 5 * MIB + 7 * 512;
        let old = (size & !0xffff) - 0x1_0000;
        assert_eq!(kinds(&image(size, &[(old, &MD_MAGIC)])), ["md RAID member (0.90)"]);
        assert_eq!(kinds(&image(size, &[(old, &MD_MAGIC_BIG)])), ["md RAID member (0.90)"]);
        let new = ((size / 512 - 16) & !7) * 512;
        assert_eq!(kinds(&image(size, &[(new, &MD_MAGIC)])), ["md RAID member (1.0)"]);
    }

    #[test]
    fn zfs_is_found_by_any_of_its_four_labels() {
        let size = 9 * MIB + 100_352;
        let whole = size & !(256 * 1024 - 1);
        let magic = 0x00ba_b10c_u64;
        for label in [0, 256 << 10, whole - (512 << 10), whole - (256 << 10)] {
            let slot = label + (128 << 10) + 8192;
            assert_eq!(kinds(&image(size, &[(slot, &magic.to_le_bytes())])), ["ZFS member"], "{label}");
            assert_eq!(kinds(&image(size, &[(slot, &magic.to_be_bytes())])), ["ZFS member"], "{label}");
        }
    }

    #[test]
    fn a_partition_table_needs_an_entry_in_use() {
        let mut entry = [0u8; 16];
        (entry[4], entry[8], entry[12]) = (0x83, 1, 9);
        let table: &[(usize, &[u8])] = &[(446, &entry), (510, &[0x55, 0xaa])];
        assert_eq!(kinds(&image(MIB, table)), ["MBR partition table"]);
        assert!(kinds(&image(MIB, &table[1..])).is_empty());
        let ill_formed: &[(usize, &[u8])] = &[table[0], table[1], (462, &[0x33])];
        assert!(kinds(&image(MIB, ill_formed)).is_empty());
    }

    #[test]
    fn an_overwritten_gpt_is_found_by_its_backup() {
        let size = 3 * MIB;
        assert_eq!(kinds(&image(size, &[(size - 512, b"EFI PART")])), ["GPT partition table (backup)"]);
    }

    #[test]
    fn the_magic_of_ext_alone_is_not_enough() {
        let random: &[(usize, &[u8])] = &[(1080, &[0x53, 0xef]), (1048, &[0x91, 0x17, 0xa0, 0x5c])];
        assert!(kinds(&image(MIB, random)).is_empty());
    }

    #[test]
    fn a_window_sees_only_its_own_part() {
        let bytes = image(2 * MIB, &[(MIB, b"XFSB"), (0, b"LUKS\xba\xbe")]);
        let found = signatures_within(&mut Cursor::new(&bytes), MIB as u64, MIB as u64).unwrap();
        assert_eq!(found, [Signature { kind: "xfs", offset: 0 }]);
    }

    #[test]
    fn a_device_shorter_than_it_says_is_an_error_not_a_pass() {
        assert!(signatures_within(&mut Cursor::new(vec![0; 4096]), 0, 8192).is_err());
    }

    /// Makes a real filesystem in a file and reads it; says so when the tool is missing.
    fn made_by(tool: &str, args: &[&str], size: u64) -> Option<Vec<&'static str>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        let Ok(output) = Command::new(tool).args(args).arg(file.path()).output() else {
            eprintln!("SKIPPED: {tool} is not installed");
            return None;
        };
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        let found = signatures(&mut File::open(file.path()).unwrap()).unwrap();
        Some(found.into_iter().map(|found| found.kind).collect())
    }

    #[test]
    fn filesystems_made_by_the_real_tools_are_found() {
        let mib = 1 << 20;
        for (tool, args, size, kind) in [
            ("mkfs.ext4", &["-q", "-F"][..], 16 * mib, "ext4"),
            ("mkfs.ext3", &["-q", "-F"], 16 * mib, "ext3"),
            ("mkfs.ext2", &["-q", "-F"], 16 * mib, "ext2"),
            ("mkfs.xfs", &["-q", "-f"], 320 * mib, "xfs"),
            ("mkfs.btrfs", &["-q", "-f"], 128 * mib, "btrfs"),
            ("mkfs.vfat", &[], 64 * mib, "vfat"),
            ("mkswap", &[], 16 * mib, "swap"),
            ("mkfs.f2fs", &["-q"], 64 * mib, "f2fs"),
        ] {
            if let Some(found) = made_by(tool, args, size) {
                assert_eq!(found, [kind], "{tool}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
            let _ = kinds(&bytes);
        }
    }
}
