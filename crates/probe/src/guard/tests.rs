//! What the guard refuses, on fixture machines. `tests/machine.rs` asks it about real loop devices.

use super::*;
use crate::fixture::{self, Built, Fixture};

/// A machine with an idle, blank, unpartitioned disk sdb next to its root disk.
fn idle() -> Fixture {
    fixture::virtio().disk("sdb", "8:16", "", 4096)
}

fn with_partition() -> Fixture {
    idle().partition("sdb", "sdb1", "8:17", 8, 2048)
}

/// The reasons that concern use, by variant name and part.
fn reasons(machine: &Machine, dev: &str) -> Vec<String> {
    let name = |use_: InUse| match use_ {
        InUse::NotABlockDevice { .. } => "not a block device".to_owned(),
        InUse::Unknown { what, .. } => format!("unknown {what}"),
        InUse::Mounted { part, mount_point, .. } => format!("{part} mounted {}", mount_point.display()),
        InUse::Member { part, .. } => format!("{part} member"),
        InUse::Swap { part, .. } => format!("{part} swap"),
        InUse::Held { part, holder, .. } => format!("{part} held {holder}"),
        InUse::Loop { part, loop_device, .. } => format!("{part} loop {loop_device}"),
        InUse::Busy { .. } => "busy".to_owned(),
        InUse::Partitioned { partitions, .. } => format!("partitions {}", partitions.join(" ")),
        InUse::Signature { part, kind, .. } => format!("{part} {kind}"),
    };
    machine.block_uses(Path::new(dev)).into_iter().map(name).collect()
}

fn mounted(fixture: Fixture, lines: &str) -> Built {
    let own = "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n";
    fixture.file("/proc/self/mountinfo", &format!("{own}{lines}")).machine()
}

/// Gives the fixture's device node the size that sysfs claims, blank but for `parts`.
fn node(machine: &Built, dev: &str, size: usize, parts: &[(usize, &[u8])]) {
    let mut bytes = vec![0; size];
    for (offset, part) in parts {
        bytes[*offset..offset + part.len()].copy_from_slice(part);
    }
    machine.write(dev, &bytes);
}

#[test]
fn an_idle_blank_disk_may_be_overwritten() {
    assert!(idle().machine().block_in_use(Path::new("/dev/sdb")).is_ok());
}

#[test]
fn a_mounted_disk_is_refused() {
    let machine = mounted(idle(), "30 27 8:16 / /data rw - ext4 /dev/sdb rw\n");
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb mounted /data"]);
}

#[test]
fn a_disk_whose_partition_is_mounted_is_refused() {
    let machine = mounted(with_partition(), "30 27 8:17 / /data rw - ext4 /dev/sdb1 rw\n");
    node(&machine, "/dev/sdb", 4096 * 512, &[]);
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb1 mounted /data", "partitions sdb1"]);
    assert_eq!(reasons(&fixture::virtio().machine(), "/dev/vda")[0], "vda1 mounted /");
}

#[test]
fn a_partition_of_a_mounted_whole_disk_is_refused() {
    let machine = mounted(with_partition(), "30 27 8:16 / /data rw - ext4 /dev/sdb rw\n");
    assert_eq!(reasons(&machine, "/dev/sdb1"), ["sdb mounted /data"]);
}

#[test]
fn an_idle_partition_beside_a_mounted_one_may_be_overwritten() {
    let fixture = with_partition().partition("sdb", "sdb2", "8:18", 2100, 1000);
    let machine = mounted(fixture, "30 27 8:17 / /data rw - ext4 /dev/sdb1 rw\n");
    assert!(machine.block_in_use(Path::new("/dev/sdb2")).is_ok());
    assert!(machine.block_in_use(Path::new("/dev/sdb1")).is_err());
}

#[test]
fn a_mount_with_an_anonymous_number_is_found_by_its_source() {
    let machine = mounted(idle(), "30 27 0:44 /@ /data rw - btrfs /dev/sdb rw\n");
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb mounted /data"]);
    let linked =
        mounted(idle().link("/dev/disk/by-uuid/x", "../../sdb"), "30 27 0:44 / /d rw - btrfs /dev/disk/by-uuid/x rw\n");
    assert_eq!(reasons(&linked, "/dev/sdb"), ["sdb mounted /d"]);
}

#[test]
fn a_mount_in_another_namespace_is_seen() {
    let machine = idle()
        .file("/proc/4711/mountinfo", "90 80 8:16 / /inside rw - xfs /dev/sdb rw\n")
        .link("/proc/4711/ns/mnt", "mnt:[4026532222]")
        .machine();
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb mounted /inside"]);
}

#[test]
fn the_second_device_of_a_mounted_btrfs_is_refused() {
    let machine = fixture::btrfs().machine();
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb mounted /data"]);
    assert_eq!(reasons(&machine, "/dev/sdc"), ["sdc member"]);
}

#[test]
fn swap_on_a_partition_refuses_the_disk() {
    let swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb1  partition  1000  0  -2\n/swap\\040file file 1 0 -3\n";
    let machine = with_partition().file("/proc/swaps", swaps).machine();
    node(&machine, "/dev/sdb", 4096 * 512, &[]);
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb1 swap", "partitions sdb1"]);
    assert_eq!(reasons(&machine, "/dev/sdb1"), ["sdb1 swap"]);
}

#[test]
fn a_disk_whose_partition_carries_a_volume_is_refused() {
    let machine = fixture::laptop().machine();
    assert_eq!(reasons(&machine, "/dev/nvme0n1p2"), ["nvme0n1p2 held dm-0"]);
    assert!(reasons(&machine, "/dev/nvme0n1").contains(&"nvme0n1p2 held dm-0".to_owned()));
    assert_eq!(reasons(&machine, "/dev/mapper/vg-root"), ["dm-1 mounted /"]);
    assert_eq!(reasons(&fixture::raid().machine(), "/dev/sdb1"), ["sdb1 held md0"]);
}

#[test]
fn a_partition_of_a_held_whole_disk_is_refused() {
    let machine = with_partition().disk("dm-0", "253:0", "", 4096).holds("dm-0", "sdb").machine();
    assert_eq!(reasons(&machine, "/dev/sdb1"), ["sdb held dm-0"]);
}

#[test]
fn a_bcache_member_is_refused_though_it_has_no_holder() {
    let machine = idle().dir("/sys/devices/virtual/block/sdb/bcache").machine();
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb held bcache"]);
}

fn looped(name: &str, number: &str, file: &str, fixture: Fixture) -> Fixture {
    let backing = format!("/sys/devices/virtual/block/{name}/loop/backing_file");
    fixture.disk(name, number, "", 64).file(&backing, &format!("{file}\n"))
}

#[test]
fn a_disk_behind_a_loop_device_is_refused() {
    let machine = looped("loop0", "7:0", "/dev/sdb", idle()).machine();
    assert_eq!(reasons(&machine, "/dev/sdb"), ["sdb loop loop0"]);
    assert!(reasons(&machine, "/dev/loop0").is_empty());
}

#[test]
fn a_loop_device_on_a_mounted_disk_is_refused() {
    let fixture = looped("loop0", "7:0", "/dev/sdb", idle());
    let machine = mounted(fixture, "30 27 8:16 / /data rw - ext4 /dev/sdb rw\n");
    assert_eq!(reasons(&machine, "/dev/loop0"), ["sdb mounted /data"]);
}

#[test]
fn two_loop_devices_on_one_file_refuse_each_other() {
    let machine = looped("loop1", "7:1", "/img", looped("loop0", "7:0", "/img", idle())).machine();
    assert_eq!(reasons(&machine, "/dev/loop0"), ["/img loop loop1"]);
    let other = looped("loop1", "7:1", "/other", looped("loop0", "7:0", "/img", idle())).machine();
    assert!(reasons(&other, "/dev/loop0").is_empty());
}

#[test]
fn a_signature_on_the_disk_is_named_with_its_place() {
    let machine = idle().machine();
    node(&machine, "/dev/sdb", 4096 * 512, &[(512, b"LABELONE")]);
    let error = machine.block_in_use(Path::new("/dev/sdb")).unwrap_err().to_string();
    for word in ["/dev/sdb", "LVM2 physical volume", "byte 512", "wipefs"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_signature_on_a_partition_refuses_the_disk() {
    let machine = with_partition().machine();
    node(&machine, "/dev/sdb", 4096 * 512, &[(8 * 512, b"XFSB")]);
    assert_eq!(reasons(&machine, "/dev/sdb"), ["partitions sdb1", "sdb1 xfs"]);
    node(&machine, "/dev/sdb1", 2048 * 512, &[(0, b"XFSB")]);
    assert_eq!(reasons(&machine, "/dev/sdb1"), ["sdb1 xfs"]);
}

#[test]
fn what_is_not_a_block_device_is_refused() {
    let machine = idle().file("/data/file", "").machine();
    assert_eq!(reasons(&machine, "/data/file"), ["not a block device"]);
    assert_eq!(reasons(&machine, "/dev/none"), ["not a block device"]);
    assert_eq!(reasons(&Machine::new(), "/dev/null"), ["not a block device"]);
}

#[test]
fn without_a_list_of_mounts_nothing_is_overwritten() {
    let unknown = ["unknown /proc/self/mountinfo"];
    assert_eq!(reasons(&Fixture::new().disk("sdb", "8:16", "", 0).machine(), "/dev/sdb"), unknown);
    let empty = Fixture::new().disk("sdb", "8:16", "", 0).file("/proc/self/mountinfo", "").machine();
    assert_eq!(reasons(&empty, "/dev/sdb"), unknown);
}

#[test]
fn a_device_that_cannot_be_opened_is_refused() {
    let machine = idle().machine();
    fs::remove_file(machine.below("/dev/sdb")).unwrap();
    assert_eq!(reasons(&machine, "/dev/sdb"), ["unknown /dev/sdb"]);
}
