//! Everything about the machine that explains a figure, in one piece.

use std::path::Path;

use qd1_model::environment::{Clock, Dirty, Environment};
use qd1_model::units::Bytes;

use crate::Machine;

impl Machine {
    /// The machine as seen from the target `path`. Whatever cannot be read stays empty. The clock's `read_cost_ns` and
    /// `resolution_ns` are left 0: the engine, which owns the clock, measures them. `sort_ns` is left to the caller
    /// that needs it.
    #[must_use]
    pub fn environment(&self, path: &Path) -> Environment {
        let filesystem = self.filesystem(path).unwrap_or_default();
        let status = self.text("/proc/self/status");
        Environment {
            hostname: self.text("/proc/sys/kernel/hostname"),
            kernel: self.text("/proc/sys/kernel/osrelease"),
            os: self.os(),
            cpu_model: self.cpu_model(),
            cpus: count_list(field(&status, "Cpus_allowed_list")),
            memory: Bytes(kib(field(&self.text("/proc/meminfo"), "MemTotal"))),
            virtualization: self.virtualization(),
            vendor: self.vendor(),
            product: self.product(),
            // Real, effective, saved and filesystem user, in this order.
            root: field(&status, "Uid").split_whitespace().nth(1) == Some("0"),
            clock: Clock {
                source: self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                ..Clock::default()
            },
            devices: self.devices(&filesystem, path),
            filesystem,
            dirty: self.dirty(),
            cgroup_memory_max: self.cgroup_memory_max(),
            cgroup_io_limits: self.cgroup_io_limits(),
            cpu_governor: self.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            sort_ns: None,
        }
    }

    fn os(&self) -> String {
        // os-release(5): /etc overrides /usr/lib; a minimal image may have either.
        let pretty = |file: &str| {
            let text = self.text(file);
            let value = text.lines().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
            Some(value.trim_matches(['"', '\'']).to_owned())
        };
        pretty("/etc/os-release").or_else(|| pretty("/usr/lib/os-release")).unwrap_or_default()
    }

    fn cpu_model(&self) -> String {
        let text = self.text("/proc/cpuinfo");
        // x86, then POWER, MIPS and the board names of ARM; s390 has none of these.
        let names = ["model name", "cpu", "cpu model", "Model", "Hardware", "uarch"];
        names.iter().map(|name| field(&text, name)).find(|value| !value.is_empty()).unwrap_or_default().to_owned()
    }

    fn dirty(&self) -> Dirty {
        let number = |name: &str| self.number::<u64>(format!("/proc/sys/vm/dirty_{name}")).unwrap_or(0);
        let small = |name: &str| u32::try_from(number(name)).unwrap_or(0);
        Dirty {
            ratio: small("ratio"),
            background_ratio: small("background_ratio"),
            bytes: Bytes(number("bytes")),
            background_bytes: Bytes(number("background_bytes")),
            expire_centisecs: small("expire_centisecs"),
            writeback_centisecs: small("writeback_centisecs"),
        }
    }
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next().unwrap_or_default()
}

/// Bytes of a meminfo value such as `16384 kB`, where kB means 1024 bytes.
fn kib(value: &str) -> u64 {
    let number = value.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// How many numbers a list such as `0-3,8,10-11` holds.
fn count_list(list: &str) -> u32 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if last >= first => (last - first).saturating_add(1),
            _ => 0,
        }
    };
    list.split(',').map(count).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Fixture};

    #[test]
    fn an_empty_machine_gives_an_empty_environment() {
        let expected = Environment { virtualization: "none".to_owned(), ..Environment::default() };
        assert_eq!(Fixture::new().machine().environment(Path::new("/data")), expected);
    }

    #[test]
    fn a_droplet_is_described_in_full() {
        let environment = fixture::droplet().machine().environment(Path::new("/mnt/volume"));
        assert_eq!(environment.hostname, "web-1");
        assert_eq!(environment.kernel, "6.8.0-31-generic");
        assert_eq!(environment.os, "Ubuntu 24.04 LTS");
        assert_eq!(environment.cpu_model, "DO-Regular");
        assert_eq!((environment.cpus, environment.memory), (3, Bytes::gib(2)));
        assert_eq!((environment.vendor.as_str(), environment.product.as_str()), ("DigitalOcean", "Droplet"));
        assert_eq!((environment.virtualization.as_str(), environment.root), ("kvm", false));
        assert_eq!(environment.clock.source, "kvm-clock");
        assert_eq!((environment.dirty.ratio, environment.dirty.expire_centisecs), (20, 3000));
        assert_eq!(environment.dirty.bytes, Bytes(0));
        assert_eq!(environment.filesystem.kind, "ext4");
        let names: Vec<&str> = environment.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["sda"]);
        assert_eq!((environment.cgroup_memory_max, environment.cpu_governor.as_str()), (None, ""));
    }

    #[test]
    fn the_effective_user_decides_about_root() {
        let root = |ids: &str| {
            let fixture = Fixture::new().file("/proc/self/status", &format!("Name:\tqd1\nUid:\t{ids}\n"));
            fixture.machine().environment(Path::new("/")).root
        };
        assert!(root("1000\t0\t0\t0"));
        assert!(!root("0\t1000\t0\t0"));
    }

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(count_list("0-3,8,10-11"), 7);
        assert_eq!(count_list(""), 0);
        assert_eq!(count_list("3-1,x"), 0);
    }
}
