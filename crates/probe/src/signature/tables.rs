//! Byte sequences at a fixed place, too long to be there by chance: at least three bytes, mostly four to ten.
//!
//! From the kernel's headers (`include/uapi/linux/magic.h`, those of filesystems and partition parsers) and the
//! formats' documentation; each was compared with what the installed libblkid reports (`tests.rs`).

/// What it belongs to, where it is, and the bytes.
pub(super) type Row = (&'static str, u64, &'static [u8]);

/// Fixed bytes at a fixed distance from the start.
pub(super) const AT_START: &[Row] = &[
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
    ("zonefs", 0, b"SFOZ"),
    ("iso9660 (High Sierra)", 0x8009, b"CDROM"),
    ("udf", 0x8001, b"BOOT2"),
    ("udf", 0x8001, b"CDW02"),
    ("udf", 0x8001, b"TEA01"),
    ("reiserfs", 0x2034, b"ReIsErFs"),
    ("reiserfs", 0x2014, b"ReIsErFs"),
    ("vfat", 0x36, b"MSDOS"),
    ("vfat", 0x52, b"MSWIN"),
    ("cramfs", 0, &[0x28, 0xcd, 0x3d, 0x45]),
    ("romfs", 0, b"-rom1fs-"),
    ("ReFS", 3, b"ReFS\0"),
    ("hpfs", 0x2000, &[0x49, 0xe8, 0x95, 0xf9]),
    ("bfs", 0, &[0xce, 0xfa, 0xad, 0x1b]),
    ("befs", 32, b"BFS1"),
    ("befs", 32, b"1SFB"),
    ("befs", 544, b"BFS1"),
    ("befs", 544, b"1SFB"),
    ("vxfs", 1024, &[0xf5, 0xfc, 0x01, 0xa5]),
    ("vxfs", 0x2000, &[0xa5, 0x01, 0xfc, 0xf5]),
    ("xenix", 0x7f8, &[0x44, 0x55, 0x2b, 0]),
    ("xenix", 0x7f8, &[0, 0x2b, 0x55, 0x44]),
    ("xenix", 0x800, &[0x44, 0x55, 0x2b]),
    ("xenix", 0x800, &[0x2b, 0x55, 0x44]),
    ("exfs", 0, b"EXFS"),
    ("ocfs", 8, b"OracleCFS"),
    ("ocfs", 8, b"NTOCFS"),
    ("oracleasm", 32, b"ORCLDISK"),
    ("NetWare NSS", 4096, b"SPB5"),
    ("ubi", 0, b"UBI#"),
    ("ubifs", 0, &[0x31, 0x18, 0x10, 0x06]),
    ("mpool", 0, b"mpoolDev"),
    ("scoutfs", 0x1_0004, &[0x8b, 0x42, 0x3c, 0x10]),
    ("VMFS filesystem", 0x20_0000, &[0x5e, 0xf1, 0xab, 0x2f]),
    ("BitLocker To Go", 424, &BITLOCKER_TO_GO),
    ("LVM1 physical volume", 0, b"HM\x01\0"),
    ("LVM1 physical volume", 0, b"HM\x02\0"),
    ("device-mapper snapshot", 0, b"SnAp"),
    ("swap (hibernation image)", 0, &TUXONICE),
    ("DRBD manager volume", 0, b"$DRBDmgr=q"),
    ("DRBD proxy log", 0, b"DRBDdlh*"),
    ("HighPoint 37x RAID member", 4640, &[0xf0, 0x16, 0x78, 0x5a]),
    ("HighPoint 37x RAID member", 4640, &[0xfd, 0x16, 0x78, 0x5a]),
    ("BSD disklabel", 0, &[0x57, 0x45, 0x56, 0x82]),
    ("BSD disklabel", 64, &[0x57, 0x45, 0x56, 0x82]),
    ("BSD disklabel", 128, &[0x57, 0x45, 0x56, 0x82]),
    ("Apple partition map", 1024, b"PM\0\0"),
    ("Apple partition map", 2048, b"PM\0\0"),
    ("Apple partition map", 4096, b"PM\0\0"),
    ("SGI partition table", 0, &[0x0b, 0xe5, 0xa9, 0x41]),
    ("Solaris x86 partition table", 524, &[0xee, 0xde, 0x0d, 0x60]),
    ("Ultrix partition table", 0x4000 - 72, &[0x57, 0x29, 0x03, 0]),
    ("UnixWare partition table", 29 * 512 + 4, &[0x0d, 0x60, 0x5e, 0xca]),
];

/// Fixed bytes at a fixed distance before the end.
pub(super) const BEFORE_END: &[Row] = &[
    ("GPT partition table (backup)", 512, b"EFI PART"),
    ("GPT partition table (backup)", 4096, b"EFI PART"),
    ("Intel RAID member", 1024, b"Intel Raid ISM Cfg Sig. "),
    ("Intel RAID member", 8192, b"Intel Raid ISM Cfg Sig. "),
    ("DDF RAID member", 512, &[0xde, 0x11, 0xde, 0x11]),
    ("DDF RAID member", 512, &[0x11, 0xde, 0x11, 0xde]),
    ("DDF RAID member", 257 * 512, &[0xde, 0x11, 0xde, 0x11]),
    ("DDF RAID member", 257 * 512, &[0x11, 0xde, 0x11, 0xde]),
    ("LSI RAID member", 512, b"$XIDE$"),
    ("Silicon Image RAID member", 512 - 0x60, &[0, 0, 0, 0x2f]),
    ("NVIDIA RAID member", 1024, b"NVIDIA"),
    ("Adaptec RAID member", 512, &[0x37, 0xfc, 0x4d, 0x1e]),
    ("HighPoint 45x RAID member", 11 * 512, &[0xf3, 0x16, 0x78, 0x5a]),
    ("HighPoint 45x RAID member", 11 * 512, &[0xfd, 0x16, 0x78, 0x5a]),
    ("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6b]),
    ("DRBD", 4096 - 60, &[0x83, 0x74, 0x02, 0x6d]),
    ("DRBD", 4096 - 52, &[0x83, 0x74, 0x02, 0x6d]),
];

/// The md superblock's magic 0xa92b4efc, little-endian (kernel `md_p.h`).
pub(super) const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// The same, as version 0.90 wrote it on big-endian machines.
pub(super) const MD_MAGIC_BIG: [u8; 4] = [0xa9, 0x2b, 0x4e, 0xfc];

/// The GUID {4967d63b-2e29-4ad8-8399-f6a339e3d001}, as Windows writes it.
const BITLOCKER_TO_GO: [u8; 16] =
    [0x3b, 0xd6, 0x67, 0x49, 0x29, 0x2e, 0xd8, 0x4a, 0x83, 0x99, 0xf6, 0xa3, 0x39, 0xe3, 0xd0, 0x01];
/// TuxOnIce's.
const TUXONICE: [u8; 8] = [0xed, 0xc3, 0x02, 0xe9, 0x98, 0x56, 0xe5, 0x0c];

/// Promise's RAID puts this at one of these distances before the end, in sectors of 512 bytes.
pub(super) const PROMISE: &[u8] = b"Promise Technology, Inc.";
pub(super) const PROMISE_SECTORS: [u64; 13] = [16, 63, 255, 256, 399, 591, 675, 735, 911, 951, 974, 991, 3087];

/// UFS's magics (BSD `fs.h` and its relatives), in the byte order of the machine that wrote them, 1,372 bytes after
/// each possible start of its superblock.
pub(super) const UFS: [u32; 7] =
    [0x0001_1954, 0x1954_0119, 0x0061_2195, 0x0523_1994, 0x0009_5014, 0x0019_5612, 0x7c2c_4b96];
pub(super) const UFS_AT: [u64; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
/// System V's, 1,016 bytes after the start of one of these 1 KiB blocks (kernel `sysv_fs.h`).
pub(super) const SYSV: u32 = 0xfd18_7e20;
pub(super) const SYSV_BLOCKS: [u64; 4] = [0, 9, 15, 18];
