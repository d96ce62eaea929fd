//! Settings of the machine as a whole that disks depend on: clocks, processors, timers, kernel modules, and libraries
//! that every program loads.

use qd1_model::setting::{AfterBoot, Inventory, SettingKind};

use super::reader::is_null;
use super::{Reader, assigned};

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";
const CPUS: &str = "/sys/devices/system/cpu";
const CPU: &str = "/sys/devices/system/cpu/cpu0";

/// Module parameters that decide about durability or latency.
const PARAMETERS: [(&str, &str); 3] =
    [("zfs", "zfs_nocacheflush"), ("zfs", "zil_nocacheflush"), ("nvme_core", "default_ps_max_latency_us")];

/// Where units are, and in `timers.target.wants` timers are enabled; the most important first.
const TIMERS: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];

pub(super) fn read(reader: &mut Reader<'_>, inventory: &Inventory) {
    for name in ["current_clocksource", "available_clocksource"] {
        plain(reader, "clocksource", name, &format!("{CLOCK}/{name}"));
    }
    frequencies(reader);
    idle(reader);
    for (module, name) in PARAMETERS {
        let place = format!("/sys/module/{module}/parameters/{name}");
        if let Some(value) = reader.value(&place) {
            let after = parameter(reader, module, name);
            reader.add((SettingKind::Module, module, name), &place, &value, after);
        }
    }
    plain(reader, "", "ld.so.preload", "/etc/ld.so.preload");
    plain(reader, "", "lockdown", "/sys/kernel/security/lockdown");
    let has_types = reader.machine.has("/sys/kernel/btf/vmlinux");
    if reader.machine.has("/sys/kernel") {
        let value = if has_types { "present" } else { "missing" };
        reader.add((SettingKind::System, "", "btf"), "/sys/kernel/btf/vmlinux", value, AfterBoot::default());
    }
    trims(reader);
    swaps(reader);
    docker(reader);
    for device in inventory.devices() {
        let Some(nvme) = &device.nvme else { continue };
        let name = "pm_qos_latency_tolerance_us";
        plain(reader, &device.name, name, &format!("/sys/class/nvme/{}/power/{name}", nvme.controller));
        match &nvme.health {
            Some(health) => {
                let key = (SettingKind::System, device.name.as_str(), "critical_warning");
                let place = format!("the health log of {}", nvme.controller);
                reader.add(key, &place, &health.critical_warning.to_string(), AfterBoot::default());
            }
            None => {
                reader.unseen(format!("the health of {}", device.name), "only root may ask an NVMe controller for it");
            }
        }
    }
}

/// A file with one value.
fn plain(reader: &mut Reader<'_>, subject: &str, name: &str, place: &str) {
    if let Some(value) = reader.value(place) {
        reader.add((SettingKind::System, subject, name), place, &value, AfterBoot::default());
    }
}

/// The governors and drivers: of each pair, the first processor that has it.
fn frequencies(reader: &mut Reader<'_>) {
    let number = |name: &String| name.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
    let names = reader.names(CPUS);
    let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    let mut known = Vec::new();
    for number in numbers {
        let dir = format!("{CPUS}/cpu{number}/cpufreq");
        let pair = ["scaling_governor", "scaling_driver"].map(|name| reader.machine.text(format!("{dir}/{name}")));
        if pair[0].is_empty() || known.contains(&pair) {
            continue;
        }
        known.push(pair);
        for name in ["scaling_governor", "scaling_driver"] {
            plain(reader, &format!("cpu{number}"), name, &format!("{dir}/{name}"));
        }
    }
}

/// How long the deepest idle state that is enabled takes to leave, microseconds.
fn idle(reader: &mut Reader<'_>) {
    let dir = format!("{CPU}/cpuidle");
    let mut deepest: Option<(u64, String)> = None;
    for state in reader.names(&dir).into_iter().filter(|name| name.starts_with("state")) {
        let number = |reader: &mut Reader<'_>, name: &str| {
            reader.value(format!("{dir}/{state}/{name}")).and_then(|value| value.parse::<u64>().ok())
        };
        let (Some(latency), disabled) = (number(reader, "latency"), number(reader, "disable")) else { continue };
        if disabled.unwrap_or(0) == 0 && deepest.as_ref().is_none_or(|(known, _)| latency > *known) {
            deepest = Some((latency, format!("{dir}/{state}/latency")));
        }
    }
    if let Some((latency, place)) = deepest {
        let key = (SettingKind::System, "cpu0", "idle_latency_us");
        reader.add(key, &place, &latency.to_string(), AfterBoot::default());
    }
}

/// `options zfs zfs_nocacheflush=1` of modprobe.d(5), then `zfs.zfs_nocacheflush=1` of the kernel's command line.
fn parameter(reader: &mut Reader<'_>, module: &str, name: &str) -> AfterBoot {
    let dirs =
        ["/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"];
    let mut found = Vec::new();
    for file in reader.drop_ins(&dirs, ".conf") {
        let text = reader.text(&file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.len() < 3 || words[0] != "options" || words[1] != module {
                continue;
            }
            let values = words[2..].iter().filter_map(|word| word.split_once('=')).filter(|(key, _)| *key == name);
            found.extend(values.map(|(_, value)| assigned(&file, super::line_number(index), value)));
        }
    }
    let line = reader.text("/proc/cmdline").unwrap_or_default();
    let key = format!("{module}.{name}=");
    let values = line.split_whitespace().filter_map(|word| word.strip_prefix(key.as_str()));
    found.extend(values.map(|value| assigned("/proc/cmdline", 0, value)));
    AfterBoot::last_wins(found)
}

/// Whether something trims the filesystems regularly: systemd's timer, or a script of cron.
fn trims(reader: &mut Reader<'_>) {
    let timers = TIMERS.map(|dir| format!("{dir}/timers.target.wants/fstrim.timer"));
    let scripts = ["daily", "weekly", "monthly"].map(|how| format!("/etc/cron.{how}/fstrim"));
    // A link whose target is missing here is still an enabled timer; one to /dev/null is a mask, as is one to it of the
    // unit itself.
    let is_masked = |path: &String| reader.machine.below(path).metadata().is_ok_and(|data| is_null(&data));
    let is_there = |path: &&String| reader.machine.below(path).symlink_metadata().is_ok() && !is_masked(path);
    let unit = TIMERS.iter().map(|dir| format!("{dir}/fstrim.timer"));
    let unit = unit.into_iter().find(|path| reader.machine.below(path).symlink_metadata().is_ok());
    let has_timer = !unit.as_ref().is_some_and(is_masked);
    let found = timers.iter().filter(|_| has_timer).chain(&scripts).find(is_there).cloned();
    if found.is_some() || reader.machine.has("/etc/systemd/system") {
        let (value, place) = found.map_or(("disabled", timers[0].clone()), |path| ("enabled", path));
        reader.add((SettingKind::System, "", "fstrim"), &place, value, AfterBoot::default());
    }
}

/// Swap space on block devices: its name in `/dev`, and how much of it is used, KiB.
fn swaps(reader: &mut Reader<'_>) {
    let text = reader.text("/proc/swaps").unwrap_or_default();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(used)) = (fields.first(), fields.get(3)) else { continue };
        reader.add((SettingKind::System, name, "swap"), "/proc/swaps", used, AfterBoot::default());
    }
}

/// Docker's storage driver, where its configuration names one.
fn docker(reader: &mut Reader<'_>) {
    let file = "/etc/docker/daemon.json";
    let text = reader.text(file).unwrap_or_default();
    let Some((_, rest)) = text.split_once("\"storage-driver\"") else { return };
    if let Some(driver) = rest.split('"').nth(1) {
        let line = super::line_number(text[..text.len() - rest.len()].matches('\n').count());
        let after = AfterBoot::last_wins(vec![assigned(file, line, driver)]);
        reader.add((SettingKind::Program, "Docker", "storage-driver"), file, driver, after);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::environment::{Nvme, NvmeHealth};

    use super::*;
    use crate::fixture::{self, Fixture};

    fn settings(fixture: Fixture) -> Inventory {
        fixture.machine().settings(Some(Path::new("/")))
    }

    #[test]
    fn a_module_parameter_of_the_command_line_wins() {
        let inventory = settings(
            Fixture::new()
                .file("/sys/module/zfs/parameters/zfs_nocacheflush", "1\n")
                .file("/etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=1 zfs_nocacheflush=0\n")
                .file("/proc/cmdline", "quiet zfs.zfs_nocacheflush=1\n"),
        );
        let setting = inventory.setting(SettingKind::Module, "zfs", "zfs_nocacheflush").unwrap();
        assert_eq!((setting.value.as_str(), setting.after_boot.overridden[0].value.as_str()), ("1", "0"));
        assert_eq!(setting.after_boot.winner.as_ref().unwrap().file, "/proc/cmdline");
    }

    #[test]
    fn the_deepest_idle_state_that_is_enabled_counts() {
        let state = |made: Fixture, name: &str, latency: &str, disable: &str| {
            made.file(&format!("{CPU}/cpuidle/{name}/latency"), latency)
                .file(&format!("{CPU}/cpuidle/{name}/disable"), disable)
        };
        let made = state(state(Fixture::new(), "state1", "2\n", "0\n"), "state2", "133\n", "1\n");
        assert_eq!(settings(made).setting(SettingKind::System, "cpu0", "idle_latency_us").unwrap().value, "2");
    }

    #[test]
    fn trims_swap_and_docker_are_read() {
        let inventory = settings(
            fixture::virtio()
                .link("/etc/systemd/system/timers.target.wants/fstrim.timer", "/lib/systemd/system/fstrim.timer")
                .file("/proc/swaps", "Filename Type Size Used Priority\n/dev/vda2 partition 1000 12 -2\n")
                .file("/etc/docker/daemon.json", "{\n  \"storage-driver\": \"vfs\"\n}\n"),
        );
        assert_eq!(inventory.setting(SettingKind::System, "", "fstrim").unwrap().value, "enabled");
        assert_eq!(inventory.setting(SettingKind::System, "/dev/vda2", "swap").unwrap().number(), Some(12));
        let driver = inventory.setting(SettingKind::Program, "Docker", "storage-driver").unwrap();
        assert_eq!((driver.value.as_str(), driver.after_boot.winner.as_ref().unwrap().line), ("vfs", 2));
    }

    #[test]
    fn a_masked_timer_is_not_enabled() {
        let enabled = || {
            Fixture::new()
                .link("/etc/systemd/system/timers.target.wants/fstrim.timer", "/usr/lib/systemd/system/fstrim.timer")
        };
        let value = |made: Fixture| settings(made).setting(SettingKind::System, "", "fstrim").unwrap().value.clone();
        assert_eq!(value(enabled()), "enabled");
        assert_eq!(value(enabled().link("/etc/systemd/system/fstrim.timer", "/dev/null")), "disabled");
        assert_eq!(value(enabled().link("/run/systemd/system/fstrim.timer", "/dev/null")), "disabled");
        let wants = "/etc/systemd/system/timers.target.wants/fstrim.timer";
        assert_eq!(value(Fixture::new().link(wants, "/dev/null")), "disabled");
    }

    #[test]
    fn each_governor_is_read_whichever_processor_has_it() {
        let cpu = |made: Fixture, number: u32, governor: &str| {
            made.file(&format!("{CPUS}/cpu{number}/cpufreq/scaling_governor"), governor)
                .file(&format!("{CPUS}/cpu{number}/cpufreq/scaling_driver"), "acpi-cpufreq\n")
        };
        let made = [(0, "schedutil\n"), (1, "schedutil\n"), (2, "powersave\n"), (10, "powersave\n")]
            .into_iter()
            .fold(Fixture::new(), |made, (number, governor)| cpu(made, number, governor));
        let inventory = settings(made);
        let governors = inventory.all(SettingKind::System, "scaling_governor");
        let found: Vec<(&str, &str)> = governors.map(|found| (found.subject.as_str(), found.value.as_str())).collect();
        assert_eq!(found, [("cpu0", "schedutil"), ("cpu2", "powersave")]);
    }

    #[test]
    fn the_warnings_of_a_drive_are_a_number() {
        let machine = fixture::virtio().machine();
        let mut inventory = machine.settings(Some(Path::new("/")));
        let health = NvmeHealth { critical_warning: 0x0a, ..NvmeHealth::default() };
        let nvme = Nvme { controller: "nvme0".to_owned(), health: Some(health), ..Nvme::default() };
        inventory.places[0].devices[0].nvme = Some(nvme);
        let name = inventory.places[0].devices[0].name.clone();
        let mut reader = Reader::new(&machine);
        read(&mut reader, &inventory);
        let found = reader.settings.iter().find(|setting| setting.name == "critical_warning").unwrap();
        assert_eq!((found.subject.as_str(), found.number()), (name.as_str(), Some(10)));
    }
}
