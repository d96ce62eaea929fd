//! A scenario of the lab: devices, what runs on them, and the expected results. Data, from
//! `crates/lab/scenarios/*.toml`.
//!
//! HACKING.md explains how to write one; [`super::claim`] defines what is checked in a report.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::claim::Claim;
use crate::cmd;

/// Where they are, below the workspace's root.
const DIR: &str = "crates/lab/scenarios";

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// A description, in one sentence.
    pub about: String,
    /// Whether it belongs to the short set that the tests run.
    #[serde(default)]
    pub short: bool,
    /// Modules to load first, each with its parameters: `null_blk nr_devices=1`.
    #[serde(default)]
    pub(super) modules: Vec<String>,
    /// Disks that QEMU gives the machine; `$DISK0` is the first one's path.
    #[serde(default, rename = "disk")]
    pub(super) disks: Vec<Disk>,
    /// Shell commands in a separate machine, whose power is cut when they have ended, whatever is still running; the
    /// later commands find the disks as they were then.
    #[serde(default)]
    pub(super) before_cut: String,
    /// Shell commands that create the devices. If one fails, the scenario fails.
    #[serde(default)]
    pub(super) setup: String,
    /// The runs, in order.
    #[serde(rename = "run")]
    pub(super) runs: Vec<Run>,
    /// Shell commands that remove the devices again, also after a failure.
    #[serde(default)]
    pub(super) teardown: String,
}

const fn once() -> u32 {
    1
}

/// A disk of the virtual machine, empty.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    /// QEMU's device with its properties, without drive and serial: `nvme`, `scsi-hd,rotation_rate=7200`.
    pub(super) device: String,
    /// Its size; the file behind it is sparse.
    pub(super) size_mib: u64,
    /// Properties of QEMU's drive besides its file: `cache=none,throttling.iops-total=300`.
    #[serde(default)]
    pub(super) drive: Option<String>,
}

/// One run of the binary and what is expected of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// Shell commands that change the devices first.
    #[serde(default)]
    pub(super) before: String,
    /// Shell commands that are repeated for as long as qd1 runs: under emulation nobody knows when it will look.
    #[serde(default)]
    pub(super) meanwhile: String,
    /// The arguments, as the guest's shell parses them.
    pub(super) qd1: String,
    /// How many times it is run, one after another.
    #[serde(default = "once")]
    pub(super) times: u32,
    /// The exit code.
    #[serde(default)]
    pub(super) exit: i32,
    /// Prefixes of ids of findings that must be in the report.
    #[serde(default)]
    pub(super) findings: Vec<String>,
    /// Prefixes of ids that must not be in the report.
    #[serde(default)]
    pub(super) no_findings: Vec<String>,
    /// Texts that stdout must contain.
    #[serde(default)]
    pub(super) stdout: Vec<String>,
    /// Texts that stderr must contain.
    #[serde(default)]
    pub(super) stderr: Vec<String>,
    /// Kinds of storage that a report may be sure of; empty: no claim about the kind.
    #[serde(default)]
    pub(super) kinds: Vec<String>,
    /// Claims about the report.
    #[serde(default, rename = "expect")]
    pub(super) claims: Vec<Claim>,
}

impl Run {
    /// Whether there are claims about its JSON report.
    pub(super) fn wants_report(&self) -> bool {
        !(self.findings.is_empty() && self.no_findings.is_empty() && self.kinds.is_empty() && self.claims.is_empty())
    }
}

impl Disk {
    /// The modules that the guest needs to see it.
    pub(super) fn modules(&self) -> Result<&'static [&'static str]> {
        let kinds: [(&str, &[&str]); 3] =
            [("nvme", &["nvme"]), ("virtio-blk", &["virtio_blk"]), ("scsi-hd", &["virtio_scsi"])];
        let found = kinds.into_iter().find(|(prefix, _)| self.device.starts_with(prefix));
        found.map(|(_, modules)| modules).with_context(|| format!("no module is known for a disk {}", self.device))
    }
}

impl Scenario {
    /// Reads a scenario's text.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut this: Self = toml::from_str(text)?;
        name.clone_into(&mut this.name);
        ensure!(!this.runs.is_empty(), "a scenario needs at least one run");
        for run in &this.runs {
            ensure!(
                !run.wants_report() || run.qd1.contains("--json"),
                "claims about a report need --json: {}",
                run.qd1
            );
            run.claims.iter().try_for_each(Claim::check)?;
        }
        this.runs =
            this.runs.into_iter().flat_map(|run| std::iter::repeat_n(run.clone(), run.times as usize)).collect();
        this.disks.iter().try_for_each(|disk| disk.modules().map(drop))?;
        Ok(this)
    }

    /// All scenarios of the lab, by name.
    pub fn all() -> Result<Vec<Self>> {
        let dir = cmd::root().join(DIR);
        let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.sort();
        let mut all = Vec::new();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let name =
                path.file_stem().and_then(|stem| stem.to_str()).context("a scenario's file name must be UTF-8")?;
            let text = fs::read_to_string(path)?;
            all.push(Self::parse(name, &text).with_context(|| format!("in {}", path.display()))?);
        }
        Ok(all)
    }

    /// The script for the guest's shell before its power is cut.
    pub(super) fn script_before_cut(&self, index: usize) -> String {
        let mut lines = vec!["set -eu".to_owned(), ". /lab/helpers".to_owned()];
        lines.extend(self.devices(index));
        lines.push(self.before_cut.clone());
        lines.join("\n") + "\n"
    }

    /// Loads the modules and names the disks.
    fn devices(&self, index: usize) -> Vec<String> {
        let load = self.modules.iter().map(|module| format!("modprobe {module}"));
        let disks = (0..self.disks.len()).map(|number| format!("DISK{number}=$(disk {})", serial(index, number)));
        load.chain(disks).collect()
    }

    /// The script for the guest's shell, which can use the helpers of `init.sh`.
    pub(super) fn script(&self, index: usize) -> String {
        let mut lines = vec!["set -eu".to_owned(), ". /lab/helpers".to_owned(), "finish() {".to_owned()];
        // Each line on its own: what was not created cannot be removed, but the rest still must be.
        lines.push("set +e".to_owned());
        lines.extend(self.teardown.lines().map(str::to_owned));
        let unload = self.modules.iter().rev().filter_map(|module| module.split_whitespace().next());
        lines.extend(unload.map(|module| format!("modprobe -r {module} 2>/dev/null")));
        lines.extend([":".to_owned(), "}".to_owned(), "trap finish EXIT".to_owned()]);
        lines.extend(self.devices(index));
        lines.push(self.setup.clone());
        for (number, run) in self.runs.iter().enumerate() {
            lines.push(run.before.clone());
            if !run.meanwhile.is_empty() {
                lines.push(format!("( until [ -e /tmp/ended ]; do\n{}\ndone ) & meanwhile=$!", run.meanwhile));
            }
            lines.push(format!("result=0; qd1 {} >/tmp/out 2>/tmp/err || result=$?", run.qd1));
            if !run.meanwhile.is_empty() {
                lines.push("touch /tmp/ended; wait $meanwhile || :; rm /tmp/ended".to_owned());
            }
            lines.push(format!("send run {} {number} $result", self.name));
        }
        lines.join("\n") + "\n"
    }
}

/// The serial number of a disk: NVMe and virtio take 20 characters.
pub(super) fn serial(scenario: usize, disk: usize) -> String {
    format!("lab-{scenario}-{disk}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "about = 'x'\nmodules = ['null_blk gb=1']\nsetup = 'true'\nteardown = 'rm x'\n\
                        [[disk]]\ndevice = 'nvme'\nsize_mib = 8\n\
                        [[run]]\nqd1 = 'check $DISK0 --json'\nfindings = ['a']\nexpect = [{ at = '/x', equals = 1 }]\n";

    #[test]
    fn every_scenario_of_the_lab_is_valid() {
        let all = Scenario::all().unwrap();
        assert!(all.len() >= 10 && all.iter().any(|scenario| scenario.short));
    }

    #[test]
    fn a_script_sets_up_runs_and_takes_away() {
        let script = Scenario::parse("n", TEXT).unwrap().script(3);
        let at = |part: &str| script.find(part).unwrap_or_else(|| panic!("{part} is missing: {script}"));
        assert!(at("rm x") < at("modprobe -r null_blk") && at("modprobe -r null_blk") < at("trap finish EXIT"));
        assert!(at("trap finish EXIT") < at("modprobe null_blk gb=1"));
        assert!(at("DISK0=$(disk lab-3-0)") < at("qd1 check $DISK0 --json") && at("qd1 check") < at("send run n 0"));
    }

    #[test]
    fn nonsense_is_refused() {
        for (from, to) in [("'nvme'", "'floppy'"), (" --json", ""), ("equals = 1", "is = 1"), ("equals = 1", "")] {
            assert!(Scenario::parse("n", &TEXT.replace(from, to)).is_err(), "{to}");
        }
    }
}
