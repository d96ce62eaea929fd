//! The place and machine of a run in a few labelled lines, and the command that runs it again.

use qd1_model::environment::{Device, FilesystemClass};
use qd1_model::plan::TargetKind;
use qd1_model::printable::is_hidden;
use qd1_model::units::{format_ns, format_span_ns};
use qd1_model::{Bytes, Record, Report, Subject};

use crate::words;

/// Mount options that affect a disk's behaviour; the others are noise in a report.
pub(crate) const OPTIONS_THAT_MATTER: &[&str] = &[
    "ro",
    "sync",
    "dirsync",
    "noatime",
    "relatime",
    "strictatime",
    "lazytime",
    "discard",
    "barrier",
    "nobarrier",
    "data",
    "commit",
    "journal_checksum",
    "journal_async_commit",
    "nodelalloc",
    "compress",
    "compress-force",
    "nodatacow",
    "nodatasum",
    "autodefrag",
    "flushoncommit",
    "dax",
    "logbufs",
    "logbsize",
    "wsync",
    "largeio",
    "hard",
    "soft",
    "vers",
    "proto",
    "rsize",
    "wsize",
    "cache",
    "async",
    "quota",
    "usrquota",
    "grpquota",
    "prjquota",
];

/// Returns label and text of each line, in the order shown.
pub(crate) fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let record = &report.record;
    let mut lines = vec![("path", path(record)), ("filesystem", filesystem(record)), ("disk", disk(record))];
    lines.push(("first write", first_write(record)));
    lines.extend(engines(record).into_iter().map(|text| ("engine", text)));
    lines.push(("machine", machine(record)));
    lines.push(("limits", limits(record)));
    lines.push(("kernel", kernel(record)));
    lines.push(("run", run(record)));
    lines.retain(|(_, text)| !text.is_empty());
    lines
}

fn path(record: &Record) -> String {
    let target = &record.plan.target;
    let what = match target.kind {
        TargetKind::Directory if record.app.is_some() => "the program's own files".to_owned(),
        TargetKind::Directory if !record.plan.needs_shared_file() => "the steps' own files".to_owned(),
        TargetKind::Directory => format!("test file of {}", target.size),
        TargetKind::File => format!("an existing file, the first {} of it read", target.size),
        TargetKind::BlockReadOnly => format!("a block device, {} of it read, nothing written", target.size),
        TargetKind::BlockDestroy => format!("a block device, {} of it overwritten (--destroy)", target.size),
    };
    let direct = if target.direct { "" } else { "; O_DIRECT is not possible there" };
    format!("{} ({what}{direct})", target.path.display())
}

fn filesystem(record: &Record) -> String {
    let fs = &record.environment.filesystem;
    let is_device = matches!(record.plan.target.kind, TargetKind::BlockReadOnly | TargetKind::BlockDestroy);
    if fs.kind.is_empty() || is_device {
        return String::new();
    }
    let class = match fs.class {
        FilesystemClass::Disk => "",
        FilesystemClass::Memory => " (in memory, not on a disk)",
        FilesystemClass::Overlay => " (layers)",
        FilesystemClass::Network => " (on another machine)",
        FilesystemClass::Fuse => " (in user space)",
        FilesystemClass::Pseudo => " (made up by the kernel)",
    };
    let upper = if fs.upper.is_empty() { String::new() } else { format!(" over {}", fs.upper) };
    let matters = |option: &&String| {
        let name = option.split('=').next().unwrap_or_default();
        OPTIONS_THAT_MATTER.contains(&name)
    };
    let options: Vec<_> = fs.options.iter().filter(matters).map(String::as_str).collect();
    let options = if options.is_empty() { String::new() } else { format!("; {}", options.join(",")) };
    format!("{}{class}{upper} on {}, {} of {} free{options}", fs.kind, fs.mount_point, fs.available, fs.size)
}

/// Returns the chain from the filesystem down: `dm-0 (dm) on vda2 (partition) on vda (disk, virtio, ...)`.
fn disk(record: &Record) -> String {
    let devices: Vec<_> = record.environment.devices.iter().map(device).collect();
    devices.join(" on ")
}

fn device(device: &Device) -> String {
    let mut facts = vec![device.kind.clone()];
    let is_hardware = device.kind != "partition";
    if is_hardware {
        facts.extend([&device.transport, &device.model].map(Clone::clone));
        facts.push(if device.size == Bytes(0) { String::new() } else { device.size.to_string() });
        facts.push(match device.rotational {
            // The kernel's default where the host says nothing.
            Some(true) if device.transport == "virtio" => "rotating, as the kernel assumes".into(),
            Some(true) => "rotating".into(),
            _ => String::new(),
        });
        facts.push(named("scheduler", &device.scheduler));
        facts.push(named("cache", &device.write_cache));
        facts.push(if device.discard == Some(false) { "no discard".into() } else { String::new() });
        facts.push(named("backed by", &device.backing));
    }
    facts.retain(|fact| !fact.is_empty());
    if facts.is_empty() { device.name.clone() } else { format!("{} ({})", device.name, facts.join(", ")) }
}

fn named(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{name} {value}") }
}

fn first_write(record: &Record) -> String {
    let Some(prepare) = &record.prepare else { return String::new() };
    let shortened = if prepare.shortened { "; made smaller than planned because writing was slow" } else { "" };
    let (all, fsync) = (format_span_ns(prepare.elapsed_ns), format_ns(prepare.fsync_ns as f64));
    format!("{} in {all}, of which {fsync} the final fsync{shortened}", prepare.bytes)
}

/// Returns one line per engine and reason, with the steps it ran.
fn engines(record: &Record) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for step in &record.steps {
        let Some(engine) = step.engine else { continue };
        let why = if step.engine_why.is_empty() { "as requested" } else { &step.engine_why };
        let text = format!("{}: {why}", engine.name());
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, steps)) => steps.push(&step.name),
            None => groups.push((text, vec![&step.name])),
        }
    }
    groups.into_iter().map(|(text, steps)| format!("{text} ({})", words::some(&steps))).collect()
}

fn machine(record: &Record) -> String {
    let env = &record.environment;
    let name = [&env.vendor, &env.product].map(String::as_str).join(" ");
    let mut parts = vec![env.hostname.clone(), name.trim().to_owned()];
    parts.push(match env.virtualization.as_str() {
        "" => String::new(),
        "none" => "no virtualization".into(),
        kind => kind.to_owned(),
    });
    parts.push(format!("{} x {}", env.cpus, if env.cpu_model.is_empty() { "CPU" } else { &env.cpu_model }));
    parts.push(format!("{} of memory", env.memory));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn limits(record: &Record) -> String {
    let env = &record.environment;
    let memory = env.cgroup_memory_max.map(|max| format!("memory.max {max}"));
    let parts: Vec<_> = env.cgroup_io_limits.iter().map(|limit| format!("io.max {limit}")).chain(memory).collect();
    if parts.is_empty() { String::new() } else { format!("{} (control group)", parts.join("; ")) }
}

fn kernel(record: &Record) -> String {
    let env = &record.environment;
    let clock = format!("clock {} read in {}", env.clock.source, format_ns(env.clock.read_cost_ns));
    let clock = if env.clock.source.is_empty() { String::new() } else { clock };
    let parts = [env.kernel.clone(), env.os.clone(), clock];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn run(record: &Record) -> String {
    let (started, took) = (started_utc(record.started_unix_ns), format_span_ns(record.elapsed_ns));
    format!("{} of {started}, took {took}, suite {}, qd1 {}", record.id, record.plan.suite, record.version)
}

/// Formats a time in UTC: a report may be read in another time zone than the machine's.
fn started_utc(unix_ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(unix_ns.into()) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "an unknown time".into(),
    }
}

/// Returns the command as typed, with the seed that was drawn if none was given.
pub(crate) fn command_again(record: &Record) -> String {
    let typed = if record.command.is_empty() { vec!["qd1".to_owned()] } else { record.command.clone() };
    // Jobs of fio contain their seeds.
    let seeded =
        record.plan.subject == Subject::Jobs || typed.iter().any(|arg| arg == "--seed" || arg.starts_with("--seed="));
    let mut words: Vec<_> = typed.iter().map(|arg| quoted(arg)).collect();
    if !seeded {
        // After `--` it would be a path.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(end, format!("--seed {}", record.plan.seed));
    }
    words.join(" ")
}

/// Quotes an argument for a shell; one with control characters as bash, ksh and zsh read it.
fn quoted(arg: &str) -> String {
    if arg.contains(is_hidden) {
        return format!("$'{}'", arg.chars().map(in_dollar_quotes).collect::<String>());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) { arg.to_owned() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}

fn in_dollar_quotes(letter: char) -> String {
    match letter {
        '\\' | '\'' => format!("\\{letter}"),
        _ if is_hidden(letter) => letter.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        _ => letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn the_command_can_be_pasted_into_a_shell_and_carries_the_seed() {
        let mut record = sample::slow_vps().record;
        record.command = ["qd1", "check", "/srv/it's here"].map(String::from).to_vec();
        assert_eq!(command_again(&record), format!(r"qd1 check '/srv/it'\''s here' --seed {}", record.plan.seed));
        record.command = ["qd1", "--seed=7", "a\u{1b}'\u{9b}\\"].map(String::from).to_vec();
        assert_eq!(command_again(&record), r"qd1 --seed=7 $'a\x1b\'\xc2\x9b\\'");
        record.command = ["qd1", "--seed=7", "/srv"].map(String::from).to_vec();
        assert_eq!(command_again(&record), "qd1 --seed=7 /srv");
        record.command = ["qd1", "check", "--", "-srv"].map(String::from).to_vec();
        assert_eq!(command_again(&record), format!("qd1 check --seed {} -- -srv", record.plan.seed));
    }

    #[test]
    fn only_mount_options_that_matter_are_shown() {
        let mut record = sample::slow_vps().record;
        record.environment.filesystem.options =
            ["rw", "noatime", "errors=remount-ro", "data=ordered"].map(String::from).to_vec();
        assert!(filesystem(&record).ends_with("; noatime,data=ordered"), "{}", filesystem(&record));
    }

    #[test]
    fn each_engine_is_named_once_with_its_reason_and_steps() {
        let engines = engines(&sample::slow_vps().record);
        assert_eq!(engines.len(), 2, "{engines:?}");
        assert!(engines[0].starts_with("psync: ") && engines[0].contains("(qd1, commit1"), "{engines:?}");
    }
}
