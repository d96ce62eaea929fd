//! What the advice says: commands that can be pasted, lines that do not contradict each other, and what a fix costs.

use super::cases::inventory;
use super::*;

/// What a rule says of an inventory: how severe, the title, the fix.
fn said(rule: &str, text: &str) -> (Severity, String, Fix) {
    let found = diagnose(inventory(text)).advice.into_iter().find(|advice| advice.rule == rule).unwrap();
    (found.severity, found.title, found.fix)
}

#[test]
fn the_line_of_fstab_is_changed_once_for_all_faults() {
    let mut made = inventory("fs ext4 /srv rw,relatime,discard,commit=30\nmount /srv options rw,discard,commit=30");
    let by = qd1_model::setting::Assignment {
        file: "/etc/fstab".to_owned(),
        line: 4,
        value: "discard,commit=30".to_owned(),
    };
    made.settings[0].after_boot.winner = Some(by);
    let all = diagnose(made).advice;
    let fixes: Vec<(&str, &str)> =
        all.iter().map(|advice| (advice.fix.new.as_str(), advice.fix.command.as_str())).collect();
    let trims = "systemctl enable --now fstrim.timer && mount -o remount,nodiscard /srv";
    assert_eq!(fixes, [("defaults", trims), ("defaults", "mount -o remount,commit=5 /srv")]);
}

#[test]
fn no_path_runs_a_command_when_it_is_pasted() {
    let mut made = inventory("fs ext4 /srv rw,relatime,discard,sync,nobarrier\nroom 100 1");
    "/tmp/x $(id)\u{1b}[2J".clone_into(&mut made.places[0].filesystem.mount_point);
    let all = diagnose(made).advice;
    assert_eq!(all.len(), 4);
    for advice in &all {
        for text in [&advice.proof, &advice.fix.command] {
            assert!(!text.contains("$(id)") || text.contains(r"$'/tmp/x $(id)\x1b[2J'"), "{text}");
        }
    }
    assert!(all.iter().all(|advice| advice.rule == "mount.no_barrier" || advice.proof.contains("$'/tmp/x")));
}

#[test]
fn advice_for_the_whole_machine_leaves_the_place_open() {
    let all = diagnose(inventory("memory 64\ndirty 20 0\nsysctl - vm.dirty_ratio 20")).advice;
    assert!(all[0].proof.contains("`qd1 check --with-load PATH`"), "{}", all[0].proof);
    let all = diagnose(inventory("program PostgreSQL_16 fsync off")).advice;
    assert!(all[0].proof.contains("`qd1 app postgres PATH`"), "{}", all[0].proof);
}

#[test]
fn a_background_limit_that_is_lower_is_kept() {
    let (.., fix) = said("writeback.limit", "memory 64\ndirty 20 0\nbackground 0 1048576\nsysctl - vm.dirty_ratio 20");
    assert!(fix.new.ends_with("vm.dirty_background_bytes = 1048576"), "{}", fix.new);
    assert!(fix.advice.contains("one to five seconds"), "{}", fix.advice);
}

#[test]
fn few_requests_that_a_file_sets_are_for_that_file_to_change() {
    let mut made = inventory("device vda disk virtio\nblock vda queue/nr_requests 4");
    let by = |value: &str| qd1_model::setting::Assignment {
        file: "/etc/udev/rules.d/60-a.rules".to_owned(),
        line: 2,
        value: value.to_owned(),
    };
    made.settings[0].after_boot.winner = Some(by("4"));
    let all = diagnose(made.clone()).advice;
    assert!(all[0].fix.advice.contains("delete what sets it (/etc/udev/rules.d/60-a.rules:2)"), "{:?}", all[0].fix);
    made.settings[0].after_boot.winner = Some(by("64"));
    assert_eq!(diagnose(made).advice, []);
}

#[test]
fn heat_is_not_a_failing_drive() {
    let (severity, title, fix) = said("storage.nvme_health", "device nvme0n1 disk nvme hot");
    assert_eq!((severity, title.as_str()), (Severity::Warning, "nvme0n1: its temperature is outside of its limits"));
    assert!(!fix.advice.contains("replace"), "{}", fix.advice);
    let (severity, title, fix) = said("storage.nvme_health", "device nvme0n1 disk nvme worn");
    assert_eq!(severity, Severity::Critical);
    assert!(title.contains("unreliable") && fix.advice.contains("replace the drive"), "{title}");
}

#[test]
fn a_rebuild_is_not_a_missing_disk() {
    let degraded = "device md0 md -\nblock md0 md/degraded 1";
    let (_, title, fix) = said("storage.raid_degraded", degraded);
    assert!(title.ends_with("1 disk is missing") && fix.advice.contains("--add DEVICE"), "{title}");
    let (_, title, fix) = said("storage.raid_degraded", &format!("{degraded}\nblock md0 md/sync_action recover"));
    assert!(title.ends_with("a disk is being rebuilt") && fix.advice.starts_with("wait"), "{title}");
}

#[test]
fn only_what_the_kernel_calls_misaligned_is_a_warning() {
    let rule = "storage.partition_alignment";
    let odd = "device sda1 partition scsi\nblock sda1 start 63";
    assert_eq!(said(rule, odd).0, Severity::Info);
    assert_eq!(said(rule, &format!("{odd}\nblock sda1 alignment_offset 3584")).0, Severity::Warning);
}

#[test]
fn a_governor_is_recommended_only_if_the_driver_has_it() {
    let slow = "system cpu0 scaling_governor powersave\nsystem cpu0 scaling_driver acpi-cpufreq";
    let of = |more: &str| said("system.lowest_frequency", &format!("{slow}{more}")).2;
    assert!(of("").advice.contains("scaling_available_governors"));
    let some = of("\nsystem cpu0 scaling_available_governors performance powersave");
    assert_eq!(some.command, "cpupower frequency-set -g performance");
    assert_eq!(of("\nsystem cpu0 scaling_available_governors powersave").command, "");
}

#[test]
fn fixes_say_what_they_cost() {
    let idle = "physical\ndevice nvme0n1 disk nvme\nsystem cpu0 idle_latency_us 133";
    assert_eq!(said("system.deep_idle", idle).2.command, "cpupower idle-set -D 100");
    let docker = said("storage.docker_vfs", "program Docker storage-driver vfs").2;
    assert!(docker.advice.contains("does not show the images and containers"), "{}", docker.advice);
    let bitmap = said("storage.raid_without_bitmap", "device md0 md -\nblock md0 md/consistency_policy resync").2;
    assert!(bitmap.advice.contains("small writes become slower"), "{}", bitmap.advice);
    let queue = said("queue.no_command_queue", "device sda disk scsi_(ahci)\nblock sda device/queue_depth 1").2;
    assert!(queue.advice.contains("without NCQ"), "{}", queue.advice);
    let trims = said("storage.never_trimmed", "fs ext4 / rw\ndevice vda disk virtio trims\nsystem - fstrim disabled").2;
    assert!(trims.advice.contains("only what /etc/fstab lists"), "{}", trims.advice);
    let crypt = "fs ext4 / rw\ndevice dm-0 dm - named\ndevice nvme0n1 disk nvme solid\nblock dm-0 crypttab ";
    assert!(said("storage.crypt_queues", crypt).2.advice.contains("the fourth field"));
    let reads = said(
        "postgresql.effective_io_concurrency",
        "program PostgreSQL_16 version 16\nprogram PostgreSQL_16 data_disk solid",
    );
    assert_eq!(reads.2.new, "effective_io_concurrency = 16");
}

#[test]
fn parameters_of_a_module_are_changed_in_words() {
    let mut made = inventory("module zfs zfs_nocacheflush 1");
    made.settings[0].after_boot.winner = Some(qd1_model::setting::Assignment {
        file: "/etc/modprobe.d/zfs.conf".to_owned(),
        line: 1,
        value: "1".to_owned(),
    });
    // The line may set other parameters as well.
    let fix = diagnose(made).advice[0].fix.clone();
    assert_eq!(fix.file, "");
    assert!(fix.advice.contains("in /etc/modprobe.d/zfs.conf:1, change zfs_nocacheflush=1 to"), "{}", fix.advice);
}
