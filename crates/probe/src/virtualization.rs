//! Whether this is a container, a virtual machine, both or neither. Names are those of `systemd-detect-virt`.

use std::path::Path;

use crate::Machine;

/// What the control group of process 1 is called in each kind of container.
const GROUPS: &[(&str, &str)] = &[
    ("/kubepods", "kubernetes"),
    ("/docker/", "docker"),
    ("/docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd", "containerd"),
    ("/lxc/", "lxc"),
    ("/lxc.payload", "lxc"),
    ("/machine.slice/systemd-nspawn", "systemd-nspawn"),
];

/// Clock sources that exist only under one hypervisor.
const CLOCKS: &[(&str, &str)] = &[("kvm-clock", "kvm"), ("hyperv_clocksource", "microsoft"), ("xen", "xen")];

impl Machine {
    /// `docker`, `kvm`, `docker on kvm`, `none`, ...; `vm` for a hypervisor that does not give its name.
    pub(crate) fn virtualization(&self) -> String {
        match (self.container(), self.hypervisor()) {
            (None, None) => "none".to_owned(),
            (Some(one), None) | (None, Some(one)) => one,
            (Some(container), Some(hypervisor)) => format!("{container} on {hypervisor}"),
        }
    }

    fn container(&self) -> Option<String> {
        let named = self.text("/run/systemd/container");
        if !named.is_empty() {
            return Some(named);
        }
        let environ = self.text("/proc/1/environ");
        let mut variables = environ.split('\0');
        if let Some(name) = variables.clone().find_map(|variable| variable.strip_prefix("container=")) {
            return Some(if name.is_empty() { "container" } else { name }.to_owned());
        }
        let in_kubernetes = variables.any(|variable| variable.starts_with("KUBERNETES_SERVICE_HOST="))
            || self.has("/var/run/secrets/kubernetes.io");
        let kernel = self.text("/proc/sys/kernel/osrelease").to_ascii_lowercase();
        let groups = self.text("/proc/1/cgroup");
        let by_group = GROUPS.iter().find(|(text, _)| groups.contains(text)).map(|(_, name)| *name);
        let name = if in_kubernetes {
            "kubernetes"
        } else if let Some(name) = by_group {
            name
        } else if self.has("/run/.containerenv") {
            "podman"
        } else if self.has("/.dockerenv") && !self.root_is_a_whole_disk() {
            "docker"
        } else if self.has("/proc/vz") && !self.has("/proc/bc") {
            "openvz"
        } else if kernel.contains("microsoft") || kernel.contains("wsl") {
            "wsl"
        } else {
            return None;
        };
        Some(name.to_owned())
    }

    /// A small virtual machine booted from a Docker image keeps its `/.dockerenv`, but its root is a whole filesystem
    /// on a block device, which a container's never is.
    fn root_is_a_whole_disk(&self) -> bool {
        self.mount_of(Path::new("/")).is_ok_and(|mount| mount.has_block_number() && mount.root == "/")
    }

    fn hypervisor(&self) -> Option<String> {
        let xen = self.text("/sys/hypervisor/type");
        if !xen.is_empty() {
            return Some(xen);
        }
        let cpuinfo = self.text("/proc/cpuinfo");
        let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags")).map(|line| line.split_whitespace());
        let flag = flags.next().map(|mut words| words.any(|word| word == "hypervisor"));
        let clocks = self.text("/sys/devices/system/clocksource/clocksource0/available_clocksource");
        let by_clock = CLOCKS.iter().find(|(clock, _)| clocks.split_whitespace().any(|name| name.starts_with(clock)));
        if let Some((_, name)) = by_clock {
            return Some((*name).to_owned());
        }
        // Clouds put their names into the DMI of bare-metal machines too; on x86 the missing hypervisor flag tells them
        // apart.
        let vendor = self.known_vendor().filter(|_| flag != Some(false) && !self.product().contains("metal"));
        let by_tree = self.text("/proc/device-tree/hypervisor/compatible");
        match (vendor, flag) {
            (Some(vendor), _) => Some(vendor.hypervisor.to_owned()),
            (None, _) if by_tree.contains("kvm") => Some("kvm".to_owned()),
            (None, Some(true)) => Some("vm".to_owned()),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, Fixture};

    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    const VM_FLAGS: &str = "processor : 0\nflags\t\t: fpu vme hypervisor lahf_lm\n";

    #[test]
    fn a_machine_without_any_hint_is_none() {
        assert_eq!(Fixture::new().machine().virtualization(), "none");
        assert_eq!(Fixture::new().file("/proc/cpuinfo", "flags : fpu vme\n").machine().virtualization(), "none");
    }

    #[test]
    fn the_hypervisor_is_recognised_by_its_clock() {
        for (clock, name) in [
            ("tsc kvm-clock acpi_pm", "kvm"),
            ("hyperv_clocksource_tsc_page acpi_pm", "microsoft"),
            ("xen tsc hpet", "xen"),
        ] {
            assert_eq!(Fixture::new().file(CLOCK, clock).machine().virtualization(), name);
        }
    }

    #[test]
    fn a_rented_whole_machine_is_not_virtual() {
        let machine = |flags: &str| {
            let fixture = Fixture::new().file("/sys/class/dmi/id/sys_vendor", "Hetzner\n").file("/proc/cpuinfo", flags);
            fixture.machine().virtualization()
        };
        assert_eq!(machine("flags : fpu vme\n"), "none");
        assert_eq!(machine(VM_FLAGS), "kvm");
    }

    #[test]
    fn an_unnamed_hypervisor_is_a_vm() {
        assert_eq!(Fixture::new().file("/proc/cpuinfo", VM_FLAGS).machine().virtualization(), "vm");
    }

    #[test]
    fn xen_says_its_own_name() {
        assert_eq!(Fixture::new().file("/sys/hypervisor/type", "xen\n").machine().virtualization(), "xen");
    }

    #[test]
    fn a_container_and_its_hypervisor_are_both_named() {
        let machine = fixture::docker().file("/.dockerenv", "").file(CLOCK, "tsc kvm-clock").machine();
        assert_eq!(machine.virtualization(), "docker on kvm");
    }

    #[test]
    fn a_virtual_machine_booted_from_a_docker_image_is_no_container() {
        assert_eq!(fixture::virtio().file("/.dockerenv", "").machine().virtualization(), "none");
    }

    #[test]
    fn containers_are_recognised_by_what_they_leave() {
        let group = |text: &str| Fixture::new().file("/proc/1/cgroup", text).machine().virtualization();
        assert_eq!(group("4:memory:/docker/0123\n"), "docker");
        assert_eq!(group("0::/kubepods.slice/pod1/cri-containerd-2.scope\n"), "kubernetes");
        assert_eq!(group("0::/init.scope\n"), "none");
        let environ = |text: &str| Fixture::new().file("/proc/1/environ", text).machine().virtualization();
        assert_eq!(environ("PATH=/bin\0container=lxc\0"), "lxc");
        assert_eq!(environ("KUBERNETES_SERVICE_HOST=10.0.0.1\0"), "kubernetes");
        assert_eq!(Fixture::new().file("/run/systemd/container", "podman\n").machine().virtualization(), "podman");
    }
}
