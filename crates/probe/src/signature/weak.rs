//! Signatures of two bytes or none: they turn up in random data, such as a benchmark writes, once in 65,536 times. So
//! the fields around them must make sense as well.

use super::Ends;

/// Kind and offset of each one present.
pub(super) fn found(ends: &Ends) -> impl Iterator<Item = (&'static str, u64)> {
    let last = (ends.size / 512).checked_sub(1).map(|sector| sector * 512);
    let of_last = |is: fn(&[u8]) -> bool| last.filter(|at| ends.get(*at, 512).is_some_and(is));
    [
        ext(ends).map(|kind| (kind, 1080)),
        minix(ends).map(|offset| ("minix", offset)),
        hfs(ends).map(|()| ("hfs", 1024)),
        fat(ends).map(|()| ("vfat", 0)),
        core_storage(ends).map(|()| ("Apple Core Storage", 88)),
        sun(ends).map(|()| ("Sun partition table", 508)),
        atari(ends).map(|()| ("Atari partition table", 0x1c6)),
        of_last(is_via).map(|at| ("VIA RAID member", at)),
        of_last(is_jmicron).map(|at| ("JMicron RAID member", at)),
    ]
    .into_iter()
    .flatten()
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

/// Three versions, each in either byte order (kernel `minix_fs.h`): zones are as large as blocks, and both maps have
/// blocks, enough of them for the inodes.
fn minix(ends: &Ends) -> Option<u64> {
    const SUPER: u64 = 1024;
    [u16::from_le_bytes, u16::from_be_bytes].into_iter().find_map(|order: fn([u8; 2]) -> u16| {
        let word = |at: u64| Some(order(ends.get(SUPER + at, 2)?.try_into().ok()?));
        let maps = |inodes: u16, zones: u16, each: u32, inode_count: u32| {
            inodes > 0 && zones > 0 && u32::from(inodes).saturating_mul(each) > inode_count
        };
        if matches!(word(16)?, 0x137f | 0x138f | 0x2468 | 0x2478) {
            let makes_sense = word(10)? == 0 && word(18)? < 8 && word(8)? > 2;
            return (makes_sense && maps(word(4)?, word(6)?, 8192, word(0)?.into())).then_some(SUPER + 16);
        }
        let block = word(28)?;
        let makes_sense = word(24)? == 0x4d5a && word(12)? == 0 && block >= 512 && block.is_power_of_two();
        (makes_sense && word(6)? > 0 && word(8)? > 0).then_some(SUPER + 24)
    })
}

/// "BD", and blocks of some KiB (Inside Macintosh, Files 2-60).
fn hfs(ends: &Ends) -> Option<()> {
    let block = ends.le32(1024 + 20)?.swap_bytes();
    (ends.has(1024, b"BD") && block > 0 && block % 512 == 0 && block < 1 << 24).then_some(())
}

/// A boot sector without a name of its filesystem: the jump, its end, and what Microsoft's fatgen103 asks of the
/// numbers.
fn fat(ends: &Ends) -> Option<()> {
    let boot = ends.get(0, 512)?;
    let word = |at: usize| u16::from_le_bytes([boot[at], boot[at + 1]]);
    let jumps = (boot[0] == 0xeb && boot[2] == 0x90) || boot[0] == 0xe9;
    let sized = matches!(word(11), 512 | 1024 | 2048 | 4096) && boot[13].is_power_of_two();
    let tables = word(14) > 0 && matches!(boot[16], 1 | 2) && (boot[21] >= 0xf8 || boot[21] == 0xf0);
    (jumps && sized && tables && boot[510..] == [0x55, 0xaa]).then_some(())
}

/// A volume header of version 1 (libfvde's documentation of the format).
fn core_storage(ends: &Ends) -> Option<()> {
    (ends.has(88, b"CS") && ends.has(8, &[1, 0, 0x10, 0])).then_some(())
}

/// The words of the sector XOR to zero (kernel `partitions/sun.c`).
fn sun(ends: &Ends) -> Option<()> {
    let sector = ends.get(0, 512)?;
    let sum = sector.chunks_exact(2).fold([0, 0], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
    (sector[508..510] == [0xda, 0xbe] && sum == [0, 0]).then_some(())
}

/// No magic at all: an entry in use, of a known kind, that lies on the device (kernel `partitions/atari.c`).
fn atari(ends: &Ends) -> Option<()> {
    let entries = ends.get(0x1c6, 48)?.chunks_exact(12);
    let long = |bytes: &[u8]| u64::from(u32::from_be_bytes(bytes.try_into().expect("four bytes")));
    let is_used = |entry: &[u8]| {
        let known = [&b"GEM"[..], b"BGM", b"XGM", b"LNX", b"SWP", b"RAW", b"MIX", b"UNX"].contains(&&entry[1..4]);
        let (start, sectors) = (long(&entry[4..8]), long(&entry[8..12]));
        entry[0] & 1 == 1 && known && start > 0 && sectors > 0 && start + sectors <= ends.size / 512
    };
    entries.into_iter().any(is_used).then_some(())
}

/// The magic 0xaa55, one of three versions, and the sum of its bytes.
fn is_via(sector: &[u8]) -> bool {
    let sum = sector[..50].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    sector[..2] == [0x55, 0xaa] && sector[2] <= 2 && sector[50] == sum
}

/// "JM", and the words of 128 bytes add up to zero or one.
fn is_jmicron(sector: &[u8]) -> bool {
    let words = sector[..128].chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    sector.starts_with(b"JM") && words.fold(0u16, u16::wrapping_add) <= 1
}

/// A boot signature alone is not enough: the four entries must be well formed and one of them in use, as the kernel
/// requires.
pub(super) fn is_mbr(ends: &Ends) -> bool {
    let Some(sector) = ends.get(0, 512) else { return false };
    let entries: Vec<&[u8]> = sector[446..510].chunks_exact(16).collect();
    let formed = entries.iter().all(|entry| entry[0] & 0x7f == 0);
    let used = entries.iter().any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]);
    sector[510..] == [0x55, 0xaa] && formed && used
}
