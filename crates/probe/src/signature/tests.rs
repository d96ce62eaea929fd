//! Each row at its documented place, images made by real tools, and what the installed libblkid says about them.

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

/// Makes a real filesystem in a file and reads it; prints a message when the tool is missing.
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

/// Each name that libblkid 2.38 to 2.41 has for a superblock, and ours for the same.
const BLKID: &[(&str, &str)] = &[
    ("linux_raid_member", "md RAID member"),
    ("ddf_raid_member", "DDF RAID member"),
    ("isw_raid_member", "Intel RAID member"),
    ("lsi_mega_raid_member", "LSI RAID member"),
    ("via_raid_member", "VIA RAID member"),
    ("silicon_medley_raid_member", "Silicon Image RAID member"),
    ("nvidia_raid_member", "NVIDIA RAID member"),
    ("promise_fasttrack_raid_member", "Promise RAID member"),
    ("hpt45x_raid_member", "HighPoint 45x RAID member"),
    ("hpt37x_raid_member", "HighPoint 37x RAID member"),
    ("adaptec_raid_member", "Adaptec RAID member"),
    ("jmicron_raid_member", "JMicron RAID member"),
    ("bcache", "bcache"),
    ("bcachefs", "bcachefs"),
    ("ceph_bluestore", "Ceph BlueStore"),
    ("drbd", "DRBD"),
    ("drbdmanage_control_volume", "DRBD manager volume"),
    ("drbdproxy_datalog", "DRBD proxy log"),
    ("LVM2_member", "LVM2 physical volume"),
    ("LVM1_member", "LVM1 physical volume"),
    ("DM_snapshot_cow", "device-mapper snapshot"),
    ("DM_verity_hash", "dm-verity"),
    ("DM_integrity", "dm-integrity"),
    ("crypto_LUKS", "LUKS"),
    ("cs_fvault2", "Apple Core Storage"),
    ("VMFS_volume_member", "VMFS"),
    ("VMFS", "VMFS filesystem"),
    ("ubi", "ubi"),
    ("ubifs", "ubifs"),
    ("vdo", "VDO"),
    ("stratis", "Stratis"),
    ("BitLocker", "BitLocker"),
    ("vfat", "vfat"),
    ("swsuspend", "swap"),
    ("swap", "swap"),
    ("xfs", "xfs"),
    ("xfs_external_log", "xfs log"),
    ("exfs", "exfs"),
    ("ext4dev", "ext4"),
    ("ext4", "ext4"),
    ("ext3", "ext3"),
    ("ext2", "ext2"),
    ("jbd", "ext journal"),
    ("reiserfs", "reiserfs"),
    ("reiser4", "reiser4"),
    ("jfs", "jfs"),
    ("udf", "udf"),
    ("iso9660", "iso9660"),
    ("zfs_member", "ZFS member"),
    ("hfsplus", "hfsplus"),
    ("hfs", "hfs"),
    ("ufs", "ufs"),
    ("hpfs", "hpfs"),
    ("sysv", "System V filesystem"),
    ("xenix", "xenix"),
    ("ntfs", "ntfs"),
    ("ReFS", "ReFS"),
    ("cramfs", "cramfs"),
    ("romfs", "romfs"),
    ("minix", "minix"),
    ("gfs", "gfs2"),
    ("gfs2", "gfs2"),
    ("ocfs", "ocfs"),
    ("ocfs2", "ocfs2"),
    ("oracleasm", "oracleasm"),
    ("vxfs", "vxfs"),
    ("squashfs", "squashfs"),
    ("squashfs3", "squashfs"),
    ("nss", "NetWare NSS"),
    ("btrfs", "btrfs"),
    ("bfs", "bfs"),
    ("befs", "befs"),
    ("nilfs2", "nilfs2"),
    ("exfat", "exfat"),
    ("f2fs", "f2fs"),
    ("mpool", "mpool"),
    ("apfs", "apfs"),
    ("zonefs", "zonefs"),
    ("erofs", "erofs"),
    ("scoutfs", "scoutfs"),
];

/// libblkid's names of partition tables, and ours.
const TABLES: &[(&str, &str)] = &[
    ("dos", "MBR partition table"),
    ("gpt", "GPT partition table"),
    ("mac", "Apple partition map"),
    ("sgi", "SGI partition table"),
    ("sun", "Sun partition table"),
    ("ultrix", "Ultrix partition table"),
    ("bsd", "BSD disklabel"),
    ("atari", "Atari partition table"),
];

/// What blkid says about an image: types of superblocks and partition tables.
fn blkid(bytes: &[u8]) -> Option<Vec<String>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let output = Command::new("blkid").args(["-p", "-o", "export"]).arg(file.path()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let types = text.lines().filter_map(|line| line.strip_prefix("TYPE=").or_else(|| line.strip_prefix("PTTYPE=")));
    Some(types.map(str::to_owned).collect())
}

/// Everything that blkid names in an image must be found here. Returns whether it named anything.
#[track_caller]
fn as_blkid_says(what: &str, bytes: &[u8]) -> bool {
    let Some(said) = blkid(bytes) else {
        eprintln!("SKIPPED: blkid is not installed");
        return false;
    };
    let found = signatures(&mut Cursor::new(bytes)).unwrap();
    for name in &said {
        let ours = BLKID.iter().chain(TABLES).find(|(theirs, _)| theirs == name);
        let (_, kind) = ours.unwrap_or_else(|| panic!("{what}: blkid's {name} has no name here"));
        assert!(found.iter().any(|one| one.kind.starts_with(kind)), "{what}: blkid says {name}, here {found:?}");
    }
    !said.is_empty()
}

/// Cause: oracleasm, ReFS, minix, bfs, ubi, DM_snapshot_cow and others were overwritten without a word.
#[test]
fn every_name_that_blkid_lists_has_one_here() {
    let Ok(output) = Command::new("blkid").arg("-k").output() else {
        return eprintln!("SKIPPED: blkid is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let missing: Vec<_> = text.lines().filter(|name| !BLKID.iter().any(|(theirs, _)| theirs == name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Those of the functions, each with a test of its own.
    let computed = ["md RAID member", "ext4", "ext3", "ext2", "ext journal", "swap", "ZFS member"];
    let weak: Vec<_> = weak_images().into_iter().map(|(kind, _)| kind).collect();
    let rows = AT_START.iter().chain(BEFORE_END).map(|(kind, ..)| *kind);
    let all: Vec<&str> = rows.chain(weak).chain(computed).collect();
    for (theirs, ours) in BLKID.iter().chain(TABLES) {
        assert!(*theirs == "dos" || all.iter().any(|kind| kind.starts_with(ours)), "nothing here finds {theirs}");
    }
    assert!(!output.status.success() || text.lines().count() > 50, "{text}");
}

/// Cause: as above. libblkid needs only the magic of these to recognise them, or what is written here.
#[test]
fn what_blkid_sees_in_planted_magics_is_seen_here() {
    let size = 8 * MIB;
    let mut seen = 0;
    for (kind, offset, bytes) in AT_START {
        seen += usize::from(as_blkid_says(kind, &image(size, &[(*offset as usize, bytes)])));
    }
    for (kind, distance, bytes) in BEFORE_END {
        seen += usize::from(as_blkid_says(kind, &image(size, &[(size - *distance as usize, bytes)])));
    }
    for at in PROMISE_SECTORS {
        seen += usize::from(as_blkid_says("promise", &image(size, &[(size - at as usize * 512, PROMISE)])));
    }
    for (magic, at) in UFS.iter().flat_map(|magic| UFS_AT.map(|at| (magic, at as usize + 1372))) {
        seen += usize::from(as_blkid_says("ufs", &image(size, &[(at, &magic.to_le_bytes())])));
        seen += usize::from(as_blkid_says("ufs", &image(size, &[(at, &magic.to_be_bytes())])));
    }
    for at in SYSV_BLOCKS.map(|block| block as usize * 1024 + 1016) {
        seen += usize::from(as_blkid_says("sysv", &image(size, &[(at, &SYSV.to_le_bytes())])));
    }
    for (page, end) in [4096, 8192, 16384, 32768, 65536].into_iter().flat_map(|page| SWAP_ENDS.map(|end| (page, end))) {
        let parts: &[(usize, &[u8])] = &[(page - 10, end), (1024, &[1, 0, 0, 0, 255])];
        seen += usize::from(as_blkid_says("swap", &image(size, parts)));
    }
    assert!(seen == 0 || seen > 130, "blkid knew {seen}");
}

/// Images of formats with two bytes of magic or none, as libblkid accepts them.
fn weak_images() -> Vec<(&'static str, Vec<u8>)> {
    let size = 8 * MIB;
    let last = size - 512;
    let mut via = [0u8; 51];
    (via[0], via[1], via[50]) = (0x55, 0xaa, 0xff);
    let minix: &[u8] = &[64, 0, 128, 0, 1, 0, 1, 0, 5, 0, 0, 0, 0, 0xfc, 7, 0x10, 0x8f, 0x13, 1, 0];
    let jmicron = [&b"JM\0\0"[..], &(0u16.wrapping_sub(0x4d4a)).to_le_bytes()].concat();
    let fat: &[(usize, &[u8])] = &[
        (0, &[0xeb, 0x3c, 0x90]),
        (11, &[0, 2, 4, 1, 0, 2, 0, 2, 0, 0x40, 0xf8, 16, 0]),
        (510, &[0x55, 0xaa]),
        (512, &[0xf8, 0xff, 0xff]),
    ];
    let atari: &[u8] = &[1, b'G', b'E', b'M', 0, 0, 0, 2, 0, 0, 4, 0];
    vec![
        ("minix", image(size, &[(1024, minix)])),
        ("hfs", image(size, &[(1024, b"BD"), (1044, &[0, 0, 16, 0])])),
        ("vfat", image(size, fat)),
        ("Apple Core Storage", image(size, &[(8, &[1, 0, 0x10, 0]), (88, b"CS\x01\0\0\0")])),
        ("Sun partition table", image(size, &[(0, &[0xda, 0xbe]), (508, &[0xda, 0xbe])])),
        ("Atari partition table", image(size, &[(0x1c6, atari)])),
        ("VIA RAID member", image(size, &[(last, &via)])),
        ("JMicron RAID member", image(size, &[(last, &jmicron)])),
        ("nilfs2 (copy)", image(size, &[(size - 4096, NILFS2)])),
        ("xfs log", image(size, &[(3584, b"\xfe\xed\xba\xbe\0\0\0\0\0\0\0\x02"), (3884, &[0, 0, 0, 1])])),
        ("ufs", image(size, &[(8192 + 1372, &UFS[0].to_le_bytes())])),
        ("System V filesystem", image(size, &[(1016, &SYSV.to_le_bytes())])),
        ("Promise RAID member", image(size, &[(size - 3087 * 512, PROMISE)])),
    ]
}

#[test]
fn weak_magics_are_believed_with_what_belongs_to_them() {
    for (kind, bytes) in weak_images() {
        assert!(kinds(&bytes).contains(&kind), "{kind}: {:?}", kinds(&bytes));
        as_blkid_says(kind, &bytes);
    }
}

#[test]
fn images_of_small_tools_are_seen_as_blkid_sees_them() {
    let mib = 1 << 20;
    for (tool, args, kind) in [
        ("mkfs.minix", &["-1"][..], "minix"),
        ("mkfs.minix", &["-2"], "minix"),
        ("mkfs.minix", &["-3"], "minix"),
        ("mkfs.bfs", &[], "bfs"),
    ] {
        if let Some(found) = made_by(tool, args, 8 * mib) {
            assert_eq!(found, [kind], "{tool} {args:?}");
        }
    }
    for label in ["dos", "gpt", "sun", "sgi"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 * mib).unwrap();
        let script = format!("echo 'label: {label}\nstart=2048, size=4096' | sfdisk -q {}", file.path().display());
        if Command::new("sh").args(["-c", &script]).output().is_ok_and(|made| made.status.success()) {
            as_blkid_says(label, &std::fs::read(file.path()).unwrap());
        }
    }
}

/// A benchmark fills a disk with random data, and the next run must not be refused for it.
#[test]
fn random_data_has_no_signature() {
    let mut seed = 20_261_123_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    let bytes: Vec<u8> = (0..MIB).flat_map(|_| random().to_le_bytes()).collect();
    let mut all = Cursor::new(&bytes);
    for start in (0..3 * MIB as u64).step_by(512) {
        let found = signatures_within(&mut all, start, 300 << 10).unwrap();
        assert!(found.is_empty(), "{start}: {found:?}");
    }
    // The two bytes alone, in each such place, a thousand times.
    let magics: &[(usize, &[u8])] = &[(1040, &[0x7f, 0x13]), (1048, b"ZM"), (1024, b"BD"), (508, &[0xda, 0xbe])];
    let more: &[(usize, &[u8])] = &[(1080, &[0x53, 0xef]), (510, &[0x55, 0xaa]), (88, b"CS"), (0, &[0xe9])];
    for (at, start) in (0..3 * MIB).step_by(3 << 10).enumerate() {
        for (offset, magic) in [magics, more].concat() {
            let mut part = bytes[start..start + 8192].to_vec();
            part[offset..offset + magic.len()].copy_from_slice(magic);
            assert!(kinds(&part).is_empty(), "{at} {offset}: {:?}", kinds(&part));
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
