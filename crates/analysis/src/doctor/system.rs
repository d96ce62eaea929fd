//! Settings of the machine as a whole: clock, processors, power states of drives, what the kernel allows, and what
//! makes syncs do nothing.

use qd1_model::Severity;
use qd1_model::doctor::Fix;
use qd1_model::setting::{Inventory, Setting, SettingKind};

use super::{Found, Rule, fix, is_virtual, path_of};

const ZFS: &str = "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Module%20Parameters.html";

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "system.syncs_ignored",
        what: "libeatmydata in /etc/ld.so.preload",
        severity: Severity::Critical,
        cost: "fsync and its kin do nothing in every program: what was committed is lost in a crash.",
        sources: &[
            "https://www.flamingspork.com/projects/libeatmydata/",
            "https://man7.org/linux/man-pages/man8/ld.so.8.html",
        ],
        proof: "`qd1 sync PATH` shows whether flushes reach the disk",
        find: syncs_ignored,
    },
    Rule {
        id: "system.zfs_without_flushes",
        what: "zfs_nocacheflush and zil_nocacheflush",
        severity: Severity::Critical,
        cost: "ZFS does not flush the disks' caches. If one of them is volatile, a power cut may damage the pool.",
        sources: &[ZFS],
        proof: "`qd1 powercut` shows whether commits survive",
        find: zfs_without_flushes,
    },
    Rule {
        id: "system.clock_source",
        what: "the clock sources hpet, acpi_pm and jiffies; xen where tsc is available",
        severity: Severity::Warning,
        cost: "Every reading of the clock is a system call and, for hpet and acpi_pm, an access to a slow device. \
               Programs that time each request spend processor time on it, and so does qd1.",
        sources: &[
            "https://docs.kernel.org/timers/timekeeping.html",
            "https://repost.aws/knowledge-center/manage-ec2-linux-clock-source",
        ],
        proof: "`qd1 check -v PATH` shows what reading the clock costs",
        find: clock_source,
    },
    Rule {
        id: "system.lowest_frequency",
        what: "the governor powersave, where it means the lowest frequency",
        severity: Severity::Warning,
        cost: "The processors stay at their lowest frequency, so each request's work in the kernel takes longer.",
        sources: &["https://docs.kernel.org/admin-guide/pm/cpufreq.html"],
        proof: "`qd1 check PATH` with both governors, and `qd1 compare` of both",
        find: lowest_frequency,
    },
    Rule {
        id: "system.deep_idle",
        what: "idle states that take 100 us or more to leave, on a physical machine with NVMe",
        severity: Severity::Info,
        cost: "A processor that sleeps while it waits for the disk may need that long to wake up, which can be as \
               long as the request itself. Shallower states use more power.",
        sources: &["https://docs.kernel.org/admin-guide/pm/cpuidle.html"],
        proof: "`qd1 ping PATH` with and without these states",
        find: deep_idle,
    },
    Rule {
        id: "system.nvme_power_states",
        what: "power states of NVMe drives that may take 10 ms or more to leave, on a physical machine",
        severity: Severity::Info,
        cost: "After a pause, the first request may have to wait until the drive has left a power state. Without \
               them, the drive uses more power and gets warmer.",
        sources: &["https://wiki.archlinux.org/title/Solid_state_drive/NVMe"],
        proof: "`qd1 ping PATH` with a long interval, with both values",
        find: nvme_power_states,
    },
    Rule {
        id: "system.io_uring_disabled",
        what: "kernel.io_uring_disabled",
        severity: Severity::Info,
        cost: "Programs fall back to other ways of I/O, which may cost more processor time a request. Some operators \
               disable io_uring for security.",
        sources: &["https://docs.kernel.org/admin-guide/sysctl/kernel.html"],
        proof: "`qd1 check --engine io_uring PATH` and `--engine libaio`, and `qd1 compare` of both",
        find: io_uring_disabled,
    },
    Rule {
        id: "system.no_tracing",
        what: "kernels without BTF, and lockdown in the mode confidentiality",
        severity: Severity::Info,
        cost: "BPF cannot read the kernel's data: `qd1 trace` is not possible, and `qd1 watch` sees less.",
        sources: &[
            "https://docs.kernel.org/bpf/btf.html",
            "https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html",
        ],
        proof: "`qd1 trace PATH` says what it could use",
        find: no_tracing,
    },
];

/// Time to leave an idle state that shows next to a request of an NVMe drive, us.
const IDLE_LONG: i64 = 100;
/// Time to leave a power state that shows in the tail of any workload, us.
const POWER_LONG: i64 = 10_000;

fn system<'a>(inventory: &'a Inventory, subject: &str, name: &str) -> Option<&'a Setting> {
    inventory.setting(SettingKind::System, subject, name)
}

fn syncs_ignored(inventory: &Inventory) -> Vec<Found> {
    let preload = system(inventory, "", "ld.so.preload").filter(|setting| setting.value.contains("eatmydata"));
    let found = preload.map(|setting| Found {
        title: "libeatmydata is loaded into every program: nothing is synced".to_owned(),
        setting: Some(setting.clone()),
        fix: fix::advice("remove it from /etc/ld.so.preload, and restart the programs"),
        ..Found::default()
    });
    found.into_iter().collect()
}

fn zfs_without_flushes(inventory: &Inventory) -> Vec<Found> {
    let of = |name: &str| {
        let setting = inventory.setting(SettingKind::Module, "zfs", name)?;
        let command = format!("echo 0 > {}", setting.place);
        // Other parameters may be in the same line.
        let advice = match &setting.after_boot.winner {
            Some(by) if by.line > 0 => format!(
                "for the next boot: in {}:{}, change {name}={} to {name}=0, and rebuild the initramfs if it has the \
                 module",
                by.file, by.line, by.value
            ),
            Some(by) => format!("for the next boot: delete zfs.{name}={} from the kernel's command line", by.value),
            None => String::new(),
        };
        let fixed = Fix { command, advice, ..Fix::default() };
        (setting.value == "1").then(|| Found {
            title: format!("{name} = 1: ZFS does not flush the disks' caches"),
            setting: Some(setting.clone()),
            fix: fixed,
            ..Found::default()
        })
    };
    ["zfs_nocacheflush", "zil_nocacheflush"].into_iter().filter_map(of).collect()
}

fn clock_source(inventory: &Inventory) -> Vec<Found> {
    let Some(setting) = system(inventory, "clocksource", "current_clocksource") else { return Vec::new() };
    let others = system(inventory, "clocksource", "available_clocksource").map_or("", |setting| setting.value.as_str());
    let better = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
    let better = better.into_iter().find(|better| others.split_whitespace().any(|name| name == *better));
    let is_slow = matches!(setting.value.as_str(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies");
    let is_xen = setting.value == "xen" && better == Some("tsc");
    if !is_slow && !is_xen {
        return Vec::new();
    }
    let fix = match better {
        Some(better) => Fix {
            command: format!("echo {better} > {}", setting.place),
            advice: format!("for the next boot: kernel parameter clocksource={better}"),
            ..Fix::default()
        },
        None => fix::advice("`dmesg` says why the kernel does not trust the processor's counter"),
    };
    vec![Found {
        title: format!("the clock source is {}", setting.value),
        severity: (!is_slow).then_some(Severity::Info),
        setting: Some(setting.clone()),
        fix,
        ..Found::default()
    }]
}

/// With intel_pstate and amd-pstate-epp in active mode, powersave adapts to the load (`pm/intel_pstate.rst`).
fn lowest_frequency(inventory: &Inventory) -> Vec<Found> {
    let (governor, driver) =
        (system(inventory, "cpu0", "scaling_governor"), system(inventory, "cpu0", "scaling_driver"));
    let Some((governor, driver)) = governor.zip(driver) else { return Vec::new() };
    if governor.value != "powersave" || matches!(driver.value.as_str(), "intel_pstate" | "amd-pstate-epp") {
        return Vec::new();
    }
    vec![Found {
        title: format!("the governor powersave of {} keeps the processors at their lowest frequency", driver.value),
        setting: Some(governor.clone()),
        fix: faster_governor(inventory),
        ..Found::default()
    }]
}

/// The first of the governors that follow the load, or the highest frequency, that the driver has.
fn faster_governor(inventory: &Inventory) -> Fix {
    let command = |governor: &str| fix::command(format!("cpupower frequency-set -g {governor}"));
    let Some(available) = system(inventory, "cpu0", "scaling_available_governors") else {
        let advice = "one that scaling_available_governors lists: schedutil, ondemand or performance";
        return Fix { advice: advice.to_owned(), ..command("GOVERNOR") };
    };
    let has = |governor: &&str| available.value.split_whitespace().any(|name| name == *governor);
    match ["schedutil", "ondemand", "performance"].into_iter().find(has) {
        Some(governor) => command(governor),
        None => fix::advice(format!("the driver has no other governor than {}", available.value)),
    }
}

fn deep_idle(inventory: &Inventory) -> Vec<Found> {
    let has_nvme = inventory.devices().iter().any(|device| device.transport == "nvme");
    let state = system(inventory, "cpu0", "idle_latency_us");
    let Some(setting) = state.filter(|setting| setting.number().is_some_and(|latency| latency >= IDLE_LONG)) else {
        return Vec::new();
    };
    if is_virtual(inventory) || !has_nvme {
        return Vec::new();
    }
    vec![Found {
        title: format!("processors may enter a state that takes {} us to leave", setting.value),
        setting: Some(setting.clone()),
        fix: Fix {
            command: format!("cpupower idle-set -D {IDLE_LONG}"),
            advice: "in force until the next boot, which enables these states again".to_owned(),
            ..Fix::default()
        },
        ..Found::default()
    }]
}

fn nvme_power_states(inventory: &Inventory) -> Vec<Found> {
    if is_virtual(inventory) {
        return Vec::new();
    }
    let states = inventory.all(SettingKind::System, "pm_qos_latency_tolerance_us");
    let found =
        states.filter(|setting| setting.number().is_some_and(|latency| latency >= POWER_LONG)).map(|setting| Found {
            subject: setting.subject.clone(),
            title: format!(
                "{}: the drive may enter power states that take up to {} us to leave",
                setting.subject, setting.value
            ),
            setting: Some(setting.clone()),
            fix: Fix {
                command: format!("echo 0 > {}", setting.place),
                advice: "for the next boot: kernel parameter nvme_core.default_ps_max_latency_us=0".to_owned(),
                ..Fix::default()
            },
            path: path_of(inventory, &setting.subject),
            ..Found::default()
        });
    found.collect()
}

fn io_uring_disabled(inventory: &Inventory) -> Vec<Found> {
    let name = "kernel.io_uring_disabled";
    let Some(setting) = inventory.sysctl(name).filter(|setting| setting.number() > Some(0)) else { return Vec::new() };
    let who = if setting.number() == Some(1) { "most users" } else { "everyone" };
    vec![Found {
        title: format!("{name} = {}: io_uring is disabled for {who}", setting.value),
        fix: fix::sysctl(inventory, &[(name, 0)]),
        setting: Some(setting.clone()),
        ..Found::default()
    }]
}

fn no_tracing(inventory: &Inventory) -> Vec<Found> {
    let mut found = Vec::new();
    if let Some(setting) = system(inventory, "", "btf").filter(|setting| setting.value == "missing") {
        found.push(Found {
            title: "this kernel does not describe its own types (BTF)".to_owned(),
            setting: Some(setting.clone()),
            fix: fix::advice("use a kernel that was built with CONFIG_DEBUG_INFO_BTF"),
            ..Found::default()
        });
    }
    if let Some(setting) =
        system(inventory, "", "lockdown").filter(|setting| setting.value.contains("[confidentiality]"))
    {
        found.push(Found {
            title: "the kernel is locked down (confidentiality)".to_owned(),
            setting: Some(setting.clone()),
            fix: fix::advice("kernel parameter lockdown=integrity, if your policy allows it"),
            ..Found::default()
        });
    }
    found
}
