//! For each rule, an inventory that triggers it and one that does not.
//!
//! An inventory is written as lines: `fs KIND POINT OPTIONS`, `device NAME KIND TRANSPORT WORDS..`, `memory GB`,
//! `dirty RATIO BYTES`, `background RATIO BYTES`, `physical`, `kernel RELEASE`, `limit ...`, and settings as
//! `KIND SUBJECT NAME VALUE`, with `-` for an empty subject and `_` for spaces in it.

use qd1_model::environment::{Device, Filesystem, Inodes, Nvme, NvmeHealth};
use qd1_model::setting::{Inventory, Place, Setting, SettingKind};
use qd1_model::units::Bytes;

use super::*;

/// Rule, an inventory that triggers it, one that does not.
const CASES: &[(&str, &str, &str)] = &[
    ("mount.no_barrier", "fs ext4 / rw,relatime,nobarrier", "fs ext4 / rw,relatime,barrier"),
    ("mount.no_barrier", "fs overlay / rw,relatime,volatile", "fs xfs / rw,relatime"),
    ("mount.no_barrier", "fs overlay / rw,relatime,fsync=volatile", "fs overlay / rw,relatime,fsync=auto"),
    ("mount.no_barrier", "fs f2fs / rw,relatime,fsync_mode=nobarrier", "fs f2fs / rw,relatime,fsync_mode=posix"),
    ("mount.no_barrier", "fs bcachefs / rw,relatime,journal_flush_disabled", "fs bcachefs / rw,relatime"),
    ("mount.no_barrier", "fs reiserfs / rw,relatime,barrier=none", "fs reiserfs / rw,relatime,barrier=flush"),
    ("mount.discard", "fs ext4 / rw,relatime,discard", "fs btrfs / rw,relatime,discard=async"),
    ("mount.discard", "fs xfs / rw,relatime,discard", "fs f2fs / rw,relatime,discard"),
    (
        "mount.discard",
        "fs ext4 / rw,relatime,discard\ndevice vda disk virtio trims",
        "fs ext4 / rw,relatime,discard\ndevice vda disk virtio no-trims",
    ),
    ("mount.commit", "fs ext4 / rw,relatime,commit=30", "fs btrfs / rw,relatime,commit=30"),
    ("mount.data", "fs ext4 / rw,relatime,data=writeback", "fs ext4 / rw,relatime,data=ordered"),
    ("mount.sync", "fs ext4 / rw,relatime,sync", "fs ext4 / rw,relatime"),
    ("mount.strictatime", "fs ext4 / rw", "fs ext4 / rw,noatime"),
    ("mount.strictatime", "fs xfs / rw,attr2", "fs tmpfs / rw"),
    (
        "writeback.limit",
        "memory 64\ndirty 20 0\nsysctl - vm.dirty_ratio 20",
        "memory 16\ndirty 20 0\nsysctl - vm.dirty_ratio 20",
    ),
    (
        "writeback.limit",
        "memory 8\ndirty 0 8589934592\nsysctl - vm.dirty_bytes 8589934592",
        "memory 64\ndirty 0 1073741824\nsysctl - vm.dirty_bytes 1073741824",
    ),
    (
        "writeback.limit",
        "memory 64\ndirty 5 0\nsysctl - vm.dirty_ratio 5",
        "memory 64\ndirty 1 0\nsysctl - vm.dirty_ratio 1",
    ),
    (
        "writeback.limit",
        "memory 64\ndirty 3 0\nsysctl - vm.dirty_ratio 3\ndevice sda disk scsi_(ahci) rotates",
        "memory 64\ndirty 3 0\nsysctl - vm.dirty_ratio 3\ndevice sda disk scsi_(ahci) solid",
    ),
    (
        "writeback.background",
        "memory 8\ndirty 20 0\nbackground 20 0\nsysctl - vm.dirty_background_ratio 20",
        "memory 8\ndirty 20 0\nbackground 10 0\nsysctl - vm.dirty_background_ratio 10",
    ),
    ("writeback.periodic", "sysctl - vm.dirty_writeback_centisecs 0", "sysctl - vm.dirty_writeback_centisecs 500"),
    ("writeback.expire", "sysctl - vm.dirty_expire_centisecs 36000", "sysctl - vm.dirty_expire_centisecs 3000"),
    (
        "queue.cache_not_flushed",
        "device sda disk scsi_(ahci)\nblock sda queue/write_cache write through\nblock sda cache_type write back",
        "device sda disk scsi_(ahci)\nblock sda queue/write_cache write back\nblock sda cache_type write back",
    ),
    (
        "queue.cache_not_flushed",
        "device nvme0n1 disk nvme cached\nblock nvme0n1 queue/write_cache write through",
        "device nvme0n1 disk nvme\nblock nvme0n1 queue/write_cache write through",
    ),
    (
        "queue.rotating_without_scheduler",
        "physical\ndevice sda disk scsi_(ahci) rotates\nblock sda queue/scheduler none",
        "physical\ndevice sda disk scsi_(ahci) solid\nblock sda queue/scheduler none",
    ),
    (
        "queue.rotating_without_scheduler",
        "physical\ndevice sda disk scsi_(mpt3sas) rotates\nblock sda queue/scheduler none",
        "device sda disk scsi_(ahci) rotates\nblock sda queue/scheduler none",
    ),
    (
        "queue.bfq_on_fast_disk",
        "device nvme0n1 disk nvme\nblock nvme0n1 queue/scheduler bfq",
        "device sda disk scsi_(ahci)\nblock sda queue/scheduler bfq",
    ),
    (
        "queue.few_requests",
        "device sda disk scsi_(ahci)\nblock sda queue/nr_requests 4\nblock sda device/queue_depth 31",
        "device vda disk virtio\nblock vda queue/nr_requests 64",
    ),
    (
        "queue.no_command_queue",
        "device sda disk scsi_(ahci)\nblock sda device/queue_depth 1",
        "device sda disk scsi_(ahci)\nblock sda device/queue_depth 31",
    ),
    (
        "queue.writeback_not_throttled",
        "device vda disk virtio\nblock vda queue/wbt_lat_usec 0\nblock vda queue/scheduler none",
        "device vda disk virtio\nblock vda queue/wbt_lat_usec 0\nblock vda queue/scheduler bfq",
    ),
    (
        "queue.no_readahead",
        "device vda1 partition virtio\ndevice vda disk virtio\nblock vda queue/read_ahead_kb 0",
        "device dm-0 dm -\nblock dm-0 queue/read_ahead_kb 128\ndevice vda disk virtio\nblock vda queue/read_ahead_kb 0",
    ),
    (
        "queue.no_readahead",
        "fs xfs / rw\ndevice vda disk virtio\nblock vda queue/read_ahead_kb 0",
        "fs btrfs / rw\ndevice vda disk virtio\nblock vda queue/read_ahead_kb 0",
    ),
    (
        "storage.partition_alignment",
        "device sda1 partition scsi\nblock sda1 start 63\nblock sda1 alignment_offset 0",
        // The kernel knows that this drive's blocks begin at an odd sector.
        "device sda1 partition scsi 4k\nblock sda1 start 63\nblock sda1 alignment_offset 0",
    ),
    (
        "storage.partition_alignment",
        "device sda1 partition scsi\nblock sda1 start 63",
        "device sda1 partition scsi\nblock sda1 start 2048\nblock sda1 alignment_offset 0",
    ),
    (
        "storage.partition_alignment",
        "device sda1 partition scsi\nblock sda1 start 2048\nblock sda1 alignment_offset 3584",
        "device sda disk scsi\nblock sda start 63",
    ),
    ("storage.raid_degraded", "device md0 md -\nblock md0 md/degraded 1", "device md0 md -\nblock md0 md/degraded 0"),
    (
        "storage.raid_without_bitmap",
        "device md0 md -\nblock md0 md/consistency_policy resync",
        "device md0 md -\nblock md0 md/consistency_policy bitmap",
    ),
    (
        "storage.crypt_queues",
        "fs ext4 / rw\ndevice dm-0 dm - named\ndevice nvme0n1 disk nvme solid\nblock dm-0 crypttab luks",
        "fs ext4 / rw\ndevice dm-0 dm - named\ndevice nvme0n1 disk nvme solid\nblock dm-0 crypttab luks,no-read-workqueue,no-write-workqueue",
    ),
    (
        "storage.crypt_queues",
        // A line of two or three fields has no options.
        "kernel 6.1.0\nfs ext4 / rw\ndevice dm-0 dm - named\ndevice nvme0n1 disk nvme solid\nblock dm-0 crypttab ",
        "kernel 5.4.0\nfs ext4 / rw\ndevice dm-0 dm - named\ndevice nvme0n1 disk nvme solid\nblock dm-0 crypttab luks",
    ),
    (
        "storage.crypt_queues",
        "fs ext4 / rw\ndevice dm-0 dm - named\ndevice sda disk scsi solid\nblock dm-0 crypttab luks",
        "fs ext4 / rw\ndevice dm-0 dm - named\ndevice sda disk scsi rotates\nblock dm-0 crypttab luks",
    ),
    ("storage.nearly_full", "fs ext4 / rw\nroom 100 4", "fs ext4 / rw\nroom 100 6"),
    (
        "storage.nearly_full",
        "fs ext4 / rw\nroom 1000000000000 20000000000",
        "fs ext4 / rw\nroom 1000000000000 40000000000",
    ),
    ("storage.nearly_full", "fs ext4 / rw\nroom 100 50\nfiles 1000 3", "fs ext4 / ro\nroom 100 0"),
    (
        "storage.never_trimmed",
        "fs ext4 / rw\ndevice vda disk virtio trims\nsystem - fstrim disabled",
        "fs ext4 / rw\ndevice vda disk virtio trims\nsystem - fstrim enabled",
    ),
    (
        "storage.never_trimmed",
        "fs xfs / rw\ndevice vda disk virtio trims\nsystem - fstrim disabled",
        "fs btrfs / rw,discard=async\ndevice vda disk virtio trims\nsystem - fstrim disabled",
    ),
    (
        "storage.swap_on_same_disk",
        "device vda disk virtio\nsystem /dev/vda2 swap 100000",
        "device vda disk virtio\nsystem /dev/vda2 swap 100",
    ),
    (
        "storage.swap_on_same_disk",
        "device nvme0n1 disk nvme\nsystem /dev/nvme0n1p2 swap 100000",
        "device nvme0n1 disk nvme\nsystem /dev/nvme0n12 swap 100000",
    ),
    (
        "storage.limited",
        "device vda disk virtio\nlimit 0:0 rbps=max wbps=1048576",
        "device vda disk virtio\nlimit 0:0 rbps=max wbps=max",
    ),
    ("storage.overlay", "overlay\nfs overlay / rw", "fs ext4 / rw"),
    ("storage.docker_vfs", "program Docker storage-driver vfs", "program Docker storage-driver overlay2"),
    ("storage.nvme_health", "device nvme0n1 disk nvme worn", "device nvme0n1 disk nvme cached"),
    (
        "system.syncs_ignored",
        "system - ld.so.preload /usr/lib/libeatmydata.so",
        "system - ld.so.preload /usr/lib/libjemalloc.so",
    ),
    ("system.zfs_without_flushes", "module zfs zfs_nocacheflush 1", "module zfs zfs_nocacheflush 0"),
    (
        "system.clock_source",
        "system clocksource current_clocksource hpet",
        "system clocksource current_clocksource kvm-clock",
    ),
    (
        "system.clock_source",
        "system clocksource current_clocksource xen\nsystem clocksource available_clocksource xen tsc hpet",
        "system clocksource current_clocksource xen\nsystem clocksource available_clocksource xen",
    ),
    (
        "system.lowest_frequency",
        "system cpu0 scaling_governor powersave\nsystem cpu0 scaling_driver acpi-cpufreq",
        "system cpu0 scaling_governor powersave\nsystem cpu0 scaling_driver intel_pstate",
    ),
    (
        "system.deep_idle",
        "physical\ndevice nvme0n1 disk nvme\nsystem cpu0 idle_latency_us 133",
        "device nvme0n1 disk nvme\nsystem cpu0 idle_latency_us 133",
    ),
    (
        "system.nvme_power_states",
        "physical\ndevice nvme0n1 disk nvme\nsystem nvme0n1 pm_qos_latency_tolerance_us 100000",
        "physical\ndevice nvme0n1 disk nvme\nsystem nvme0n1 pm_qos_latency_tolerance_us 0",
    ),
    ("system.io_uring_disabled", "sysctl - kernel.io_uring_disabled 2", "sysctl - kernel.io_uring_disabled 0"),
    ("system.no_tracing", "system - btf missing", "system - btf present"),
    (
        "system.no_tracing",
        "system - lockdown none integrity [confidentiality]",
        "system - lockdown [none] integrity confidentiality",
    ),
    ("postgresql.fsync", "program PostgreSQL_16 fsync off", "program PostgreSQL_16 fsync on"),
    (
        "postgresql.full_page_writes",
        "program PostgreSQL_16 full_page_writes no",
        "program PostgreSQL_16 full_page_writes no\nprogram PostgreSQL_16 data_filesystem zfs",
    ),
    (
        "postgresql.data_sync_retry",
        "program PostgreSQL_16 data_sync_retry on",
        "program PostgreSQL_16 data_sync_retry off",
    ),
    (
        "postgresql.synchronous_commit",
        "program PostgreSQL_16 synchronous_commit off",
        "program PostgreSQL_16 synchronous_commit local",
    ),
    (
        "postgresql.wal_sync_method",
        "program PostgreSQL_16 wal_sync_method fsync",
        "program PostgreSQL_16 wal_sync_method fdatasync",
    ),
    (
        "postgresql.random_page_cost",
        "program PostgreSQL_16 version 16\nprogram PostgreSQL_16 data_disk solid",
        "program PostgreSQL_16 version 16\nprogram PostgreSQL_16 random_page_cost 1.1\nprogram PostgreSQL_16 data_disk solid",
    ),
    (
        "postgresql.random_page_cost",
        "program PostgreSQL_16 version 16\nprogram PostgreSQL_16 random_page_cost 4\nprogram PostgreSQL_16 data_disk solid",
        "program PostgreSQL_16 version 16",
    ),
    (
        "postgresql.effective_io_concurrency",
        "program PostgreSQL_16 version 16\nprogram PostgreSQL_16 data_disk solid",
        "program PostgreSQL_18 version 18\nprogram PostgreSQL_18 data_disk solid",
    ),
    (
        "mysql.flush_log_at_trx_commit",
        "program MySQL_or_MariaDB innodb_flush_log_at_trx_commit 2",
        "program MySQL_or_MariaDB innodb_flush_log_at_trx_commit 1",
    ),
    (
        "mysql.flush_method",
        "program MySQL_or_MariaDB innodb_flush_method nosync",
        "program MySQL_or_MariaDB innodb_flush_method O_DIRECT",
    ),
    (
        "mysql.buffered",
        "program MySQL_or_MariaDB innodb_flush_method fsync",
        "program MySQL_or_MariaDB innodb_flush_method O_DIRECT",
    ),
    (
        "mysql.buffered",
        "program MySQL_or_MariaDB innodb_flush_method O_DSYNC",
        "program MySQL_or_MariaDB innodb_flush_method fsync\nprogram MySQL_or_MariaDB data_filesystem zfs",
    ),
    (
        "queue.few_requests",
        "device sda disk scsi_(ahci)\nblock sda queue/nr_requests 16\nblock sda device/queue_depth 32",
        "device sda disk scsi_(uas)\nblock sda queue/nr_requests 16\nblock sda device/queue_depth 32",
    ),
    (
        "queue.few_requests",
        "device sda disk scsi_(ahci)\nblock sda queue/nr_requests 16\nblock sda device/queue_depth 31",
        // No file lowers it, and the drive accepts no more.
        "device vda disk virtio\nblock vda queue/nr_requests 4",
    ),
    (
        "mysql.doublewrite",
        "program MySQL_or_MariaDB innodb_doublewrite OFF",
        "program MySQL_or_MariaDB innodb_doublewrite OFF\nprogram MySQL_or_MariaDB data_filesystem zfs",
    ),
    (
        "mysql.sync_binlog",
        "program MySQL_or_MariaDB sync_binlog 0\nprogram MySQL_or_MariaDB log_bin mysql-bin",
        "program MySQL_or_MariaDB sync_binlog 0",
    ),
    (
        "mysql.io_capacity",
        "program MySQL_or_MariaDB innodb_io_capacity 200\nprogram MySQL_or_MariaDB data_disk solid",
        "program MySQL_or_MariaDB innodb_io_capacity 200",
    ),
    ("etcd.unsafe_no_fsync", "program etcd unsafe-no-fsync true", "program etcd unsafe-no-fsync false"),
    (
        "etcd.election_timeout",
        "program etcd heartbeat-interval 500",
        "program etcd heartbeat-interval 500\nprogram etcd election-timeout 5000",
    ),
    (
        "redis.appendfsync",
        "program Redis appendfsync no\nprogram Redis appendonly yes",
        "program Redis appendfsync no\nprogram Redis appendonly no",
    ),
    (
        "redis.no_appendfsync_on_rewrite",
        "program Redis no-appendfsync-on-rewrite yes\nprogram Redis appendonly yes",
        "program Redis no-appendfsync-on-rewrite no\nprogram Redis appendonly yes",
    ),
];

pub(super) fn inventory(text: &str) -> Inventory {
    let mut made = Inventory { places: vec![Place::default()], ..Inventory::default() };
    "kvm".clone_into(&mut made.environment.virtualization);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let (dirty, place) = (&mut made.environment.dirty, &mut made.places[0]);
        match words[0] {
            "fs" => {
                place.filesystem = Filesystem {
                    kind: words[1].to_owned(),
                    mount_point: words[2].to_owned(),
                    options: words[3].split(',').map(str::to_owned).collect(),
                    class: place.filesystem.class,
                    ..Filesystem::default()
                }
            }
            "overlay" => place.filesystem.class = qd1_model::environment::FilesystemClass::Overlay,
            "room" => (place.filesystem.size, place.filesystem.available) = (Bytes(number(1)), Bytes(number(2))),
            "files" => place.filesystem.inodes = Some(Inodes { total: number(1), available: number(2) }),
            "device" => place.devices.push(device(&words)),
            "memory" => made.environment.memory = Bytes(number(1) * 1_000_000_000),
            "dirty" => (dirty.ratio, dirty.bytes) = (number(1) as u32, Bytes(number(2))),
            "background" => (dirty.background_ratio, dirty.background_bytes) = (number(1) as u32, Bytes(number(2))),
            "kernel" => words[1].clone_into(&mut made.environment.kernel),
            "physical" => "none".clone_into(&mut made.environment.virtualization),
            "limit" => made.environment.cgroup_io_limits.push(words[1..].join(" ")),
            kind => {
                let kind = kind_named(kind);
                let subject = if words[1] == "-" { String::new() } else { words[1].replace('_', " ") };
                // Names of files on disk have underscores of their own; only these two have spaces.
                let name = if words[2].starts_with("data_f") || words[2] == "data_disk" {
                    words[2].replace('_', " ")
                } else {
                    words[2].to_owned()
                };
                made.settings.push(Setting::new(kind, &subject, &name, &words[3..].join(" ")));
            }
        }
    }
    made
}

fn kind_named(name: &str) -> SettingKind {
    match name {
        "sysctl" => SettingKind::Sysctl,
        "block" => SettingKind::Block,
        "mount" => SettingKind::Mount,
        "module" => SettingKind::Module,
        "system" => SettingKind::System,
        "program" => SettingKind::Program,
        other => panic!("{other} is not a kind of setting"),
    }
}

fn device(words: &[&str]) -> Device {
    let has = |word: &str| words[4..].contains(&word);
    let warning = if has("worn") { Some(4) } else { has("hot").then_some(2) };
    let health = warning.map(|critical_warning| NvmeHealth { critical_warning, ..NvmeHealth::default() });
    let nvme = words[3] == "nvme";
    Device {
        name: words[1].to_owned(),
        number: "0:0".to_owned(),
        kind: words[2].to_owned(),
        transport: words[3].replace('_', " ").replace('-', ""),
        model: if has("named") { "CRYPT-LUKS2 home".to_owned() } else { String::new() },
        physical_block: if has("4k") { 4096 } else { 512 },
        rotational: if has("rotates") { Some(true) } else { has("solid").then_some(false) },
        discard: if has("trims") { Some(true) } else { has("no-trims").then_some(false) },
        nvme: nvme.then(|| Nvme { volatile_write_cache: Some(has("cached")), health, ..Nvme::default() }),
        ..Device::default()
    }
}

fn fired(text: &str) -> Vec<String> {
    diagnose(inventory(text)).advice.into_iter().map(|advice| advice.rule).collect()
}

#[test]
fn every_rule_fires_and_stays_silent_as_it_should() {
    for rule in rules() {
        assert!(CASES.iter().any(|(id, ..)| *id == rule.id), "{} has no case", rule.id);
    }
    for (id, fires, silent) in CASES {
        assert!(rules().any(|rule| rule.id == *id), "there is no rule {id}");
        assert!(fired(fires).iter().any(|found| found == id), "{id} is silent about {fires:?}");
        assert!(!fired(silent).iter().any(|found| found == id), "{id} fires at {silent:?}");
    }
}

#[test]
fn every_rule_has_a_source_a_cost_and_a_proof() {
    let mut names: Vec<&str> = rules().map(|rule| rule.id).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for rule in rules() {
        let are_addresses = rule.sources.iter().all(|source| source.starts_with("https://"));
        assert!(!rule.sources.is_empty() && are_addresses && !rule.cost.is_empty(), "{}", rule.id);
        assert!(!rule.what.is_empty() && !rule.proof.is_empty(), "{}", rule.id);
    }
}

#[test]
fn every_finding_says_what_to_do() {
    for (id, fires, _) in CASES {
        for advice in diagnose(inventory(fires)).advice.iter().filter(|advice| advice.rule == *id) {
            let fix = &advice.fix;
            assert!(!fix.command.is_empty() || !fix.advice.is_empty(), "{id}: {advice:?}");
        }
    }
}

#[test]
fn the_worst_comes_first() {
    let all = diagnose(inventory("fs ext4 / rw,relatime,discard,nobarrier\nsystem - btf missing")).advice;
    let rules: Vec<&str> = all.iter().map(|advice| advice.rule.as_str()).collect();
    assert_eq!(rules, ["mount.no_barrier", "mount.discard", "system.no_tracing"]);
}
