//! One boot of the virtual machine, or two with a power cut between them: its files, its command line, and what it
//! sends back.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::archive::Archive;
use super::scenario::{Disk, Scenario, serial};
use super::{Machine, QEMU};
use crate::{clock, cmd, interrupted};

/// Memory of the guest: its files, and what null_blk keeps.
const MEMORY_MIB: u32 = 1024;
/// Time limit of one scenario, seconds; emulation makes a program a hundred times slower.
const SCENARIO_SECONDS: u32 = 240;
/// Time limit from start to the first scenario.
const START_SECONDS: u64 = 120;
/// A machine that is silent for this long hangs as a whole, as an emulated one does now and then on a busy host: no
/// scenario takes that long.
const SILENCE: Duration = Duration::from_secs(400);

/// Loaded before any scenario: the bus of the virtual disks, the port that results go through, the driver of all SCSI
/// disks, and the checksum that ext4 asks for when it is mounted.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "sd_mod", "crc32c_generic"];
/// Programs of this machine that scenarios use, each with its package.
const TOOLS: &[(&str, &str)] = &[
    ("mkfs.ext4", "e2fsprogs"),
    ("wipefs", "util-linux"),
    ("losetup", "mount"),
    ("script", "bsdutils"),
    ("blktrace", "blktrace"),
];

/// Something that the guest sent.
#[derive(Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) number: usize,
    pub(super) status: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The result of a boot.
pub(super) struct Outcome {
    pub(super) sent: Vec<Sent>,
    /// The kernel's messages, for people.
    pub(super) console: String,
}

impl Outcome {
    /// Whether the guest reached the end of its list.
    pub(super) fn is_whole(&self) -> bool {
        self.sent.iter().any(|sent| sent.kind == "end")
    }
}

/// Boots and runs these scenarios; tries once more if the emulated machine hangs.
pub(super) fn boot(scenarios: &[Scenario], machine: &Machine) -> Result<Outcome> {
    match boot_once(scenarios, machine) {
        Err(error) if error.is::<Silent>() => {
            println!("{error}; trying again");
            boot_once(scenarios, machine)
        }
        outcome => outcome,
    }
}

/// The machine stopped sending anything.
#[derive(Debug)]
struct Silent;

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the machine sent nothing for {} s", SILENCE.as_secs())
    }
}

impl std::error::Error for Silent {}

fn boot_once(scenarios: &[Scenario], machine: &Machine) -> Result<Outcome> {
    let dir = tempfile::Builder::new().prefix("qd1-lab-").tempdir()?;
    make_disks(scenarios, dir.path())?;
    let cut: Vec<usize> = (0..scenarios.len()).filter(|number| !scenarios[*number].before_cut.is_empty()).collect();
    if !cut.is_empty() {
        let script = |number: usize| scenarios[number].script_before_cut(number);
        let until_cut = power_on(scenarios, &Scripts { numbers: cut, script: &script, cuts: true }, machine, &dir)?;
        if let Some(failed) = until_cut.sent.iter().find(|sent| sent.status != 0) {
            bail!("{} failed before its power was cut: {}", failed.name, failed.stdout);
        }
    }
    let script = |number: usize| scenarios[number].script(number);
    let numbers = (0..scenarios.len()).collect();
    power_on(scenarios, &Scripts { numbers, script: &script, cuts: false }, machine, &dir)
}

/// What a machine runs from its start to its end.
pub(super) struct Scripts<'a> {
    /// The scenarios, by their place among all.
    pub(super) numbers: Vec<usize>,
    pub(super) script: &'a dyn Fn(usize) -> String,
    /// Its power is cut at the end.
    pub(super) cuts: bool,
}

fn power_on(scenarios: &[Scenario], scripts: &Scripts<'_>, machine: &Machine, dir: &TempDir) -> Result<Outcome> {
    let initramfs = dir.path().join("initramfs");
    archive(scenarios, scripts, machine)?.write(&initramfs, &machine.packages)?;
    let (port, console) = (dir.path().join("port"), dir.path().join("console"));
    let mut qemu = without_disks(machine, &initramfs, &port);
    add_disks(&mut qemu, scenarios, dir.path());
    qemu.stdout(File::create(&console)?).stderr(File::options().append(true).open(&console)?);
    let count = u64::try_from(scripts.numbers.len())?;
    let most = Duration::from_secs(START_SECONDS + count * u64::from(SCENARIO_SECONDS));
    let child = qemu.spawn().context("cannot start QEMU")?;
    let said = || [&port, &console].map(|path| fs::metadata(path).map_or(0, |found| found.len()));
    let ended = wait(child, most, said);
    let console = String::from_utf8_lossy(&fs::read(&console)?).into_owned();
    ended.with_context(|| format!("QEMU said: {}", cmd::tail(&console, 20)))?;
    Ok(Outcome { sent: parse(&fs::read(&port)?)?, console })
}

/// The machine without its disks. The console goes to our pipe, results through a port of their own: the console is
/// slow, and the kernel writes to it as well.
pub(super) fn without_disks(machine: &Machine, initramfs: &Path, port: &Path) -> Command {
    let mut qemu = cmd::command(QEMU);
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    // An emulated processor runs anywhere; this checks behaviour, not speed. One thread for both of them: with one each, QEMU
    // 7.2 sometimes goes on running code that another processor has patched, such as a tracepoint.
    qemu.args(["-machine", "q35", "-accel", "tcg,thread=single", "-cpu", "Nehalem", "-smp", "2"]);
    qemu.args(["-m", &MEMORY_MIB.to_string()]);
    qemu.arg("-kernel").arg(machine.packages.kernel()).arg("-initrd").arg(initramfs);
    // The kernel would panic if the timer ticks of a busy host came too late for its check.
    qemu.args(["-append", "console=ttyS0 loglevel=4 panic=-1 random.trust_cpu=on mitigations=off no_timer_check"]);
    qemu.args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=port,name=lab"]);
    qemu.arg("-chardev").arg(format!("file,id=port,path={}", port.display()));
    qemu
}

/// All disks, with their serial numbers.
fn all_disks(scenarios: &[Scenario]) -> impl Iterator<Item = (String, &Disk)> {
    scenarios
        .iter()
        .enumerate()
        .flat_map(|(n, scenario)| scenario.disks.iter().enumerate().map(move |(m, disk)| (serial(n, m), disk)))
}

/// Creates the disks' files: they are sparse, and removed with the directory.
fn make_disks(scenarios: &[Scenario], dir: &Path) -> Result<()> {
    all_disks(scenarios)
        .try_for_each(|(serial, disk)| Ok(File::create(dir.join(serial))?.set_len(disk.size_mib << 20)?))
}

fn add_disks(qemu: &mut Command, scenarios: &[Scenario], dir: &Path) {
    if all_disks(scenarios).any(|(_, disk)| disk.device.starts_with("scsi-")) {
        qemu.args(["-device", "virtio-scsi-pci"]);
    }
    for (serial, disk) in all_disks(scenarios) {
        let file = dir.join(&serial);
        // Writes to the file need not be durable: it lives only as long as the machine.
        let own = disk.drive.as_deref().unwrap_or_default();
        let cache = if own.contains("cache=") { "" } else { "cache=unsafe," };
        let more = if own.is_empty() { String::new() } else { format!(",{own}") };
        let drive = format!("if=none,id={serial},format=raw,{cache}file={}{more}", file.display());
        let device = format!("{},drive={serial},serial={serial}", disk.device);
        qemu.args(["-drive", &drive, "-device", &device]);
    }
}

pub(super) fn archive(scenarios: &[Scenario], scripts: &Scripts<'_>, machine: &Machine) -> Result<Archive> {
    let packages = &machine.packages;
    let archive = Archive::new(packages, packages)?;
    archive.program("init", include_bytes!("init.sh"))?;
    archive.file("lab/helpers", include_bytes!("helpers.sh"))?;
    archive.program_with_libraries("bin/qd1", &machine.binary, packages)?;
    archive.program_with_libraries("bin/dmsetup", &packages.program("dmsetup")?, packages)?;
    archive.program_with_libraries("bin/lvm", &packages.program("lvm")?, packages)?;
    for (tool, package) in TOOLS {
        let program = cmd::find(tool).with_context(|| format!("{tool} is missing (package {package})"))?;
        archive.program_with_libraries(&format!("bin/{tool}"), &program, packages)?;
    }
    let mut modules: BTreeSet<&str> = MODULES.iter().copied().collect();
    let mut order = String::new();
    for number in &scripts.numbers {
        let scenario = &scenarios[*number];
        for disk in &scenario.disks {
            modules.extend(disk.modules()?);
        }
        archive.file(&format!("lab/{}", scenario.name), (scripts.script)(*number).as_bytes())?;
        order += &format!("{}\n", scenario.name);
    }
    let modules: Vec<_> = modules.into_iter().collect();
    archive.file("lab/modules", modules.join("\n").as_bytes())?;
    archive.file("lab/order", order.as_bytes())?;
    if scripts.cuts {
        archive.file("lab/cut", b"")?;
    }
    archive.file("lab/seconds", SCENARIO_SECONDS.to_string().as_bytes())?;
    Ok(archive)
}

/// Waits for the machine to power itself off; kills it if it does not, or if we are asked to stop.
fn wait(mut child: Child, most: Duration, said: impl Fn() -> [u64; 2]) -> Result<()> {
    let begin = clock::now();
    let (mut heard, mut heard_at) = ([0; 2], begin);
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "QEMU failed: {status}");
            return Ok(());
        }
        let stopped = interrupted().and_then(|()| {
            if said() != heard {
                (heard, heard_at) = (said(), clock::now());
            }
            ensure!(heard_at.elapsed() < SILENCE, Silent);
            ensure!(begin.elapsed() < most, "the machine did not power off within {} s", most.as_secs());
            Ok(())
        });
        if let Err(why) = stopped {
            child.kill()?;
            child.wait()?;
            bail!(why);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Reads what came through the port: a line of six words, followed by as many bytes as it announces.
fn parse(bytes: &[u8]) -> Result<Vec<Sent>> {
    let mut sent = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, name, number, status, stdout, stderr] = words[..] else { bail!("the guest sent {line:?}") };
        let mut take = |length: &str| -> Result<String> {
            let length: usize = length.parse()?;
            // A machine that ended in the middle: take what there is.
            let (taken, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            Ok(String::from_utf8_lossy(taken).into_owned())
        };
        sent.push(Sent {
            kind: kind.to_owned(),
            name: name.to_owned(),
            number: number.parse()?,
            status: status.parse()?,
            stdout: take(stdout)?,
            stderr: take(stderr)?,
        });
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_read_to_the_byte() {
        let sent = parse(b"run a 0 3 4 2\nx\ny\nerscenario a 0 0 0 0\nend - 0 0 0 0\n").unwrap();
        assert_eq!((sent[0].stdout.as_str(), sent[0].stderr.as_str(), sent[0].status), ("x\ny\n", "er", 3));
        assert_eq!((sent[1].kind.as_str(), sent.len()), ("scenario", 3));
        assert!(parse(b"noise on the line\n").is_err());
    }
}
