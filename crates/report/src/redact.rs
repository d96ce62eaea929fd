//! `--redact`: removes what identifies a machine, a disk or a person, and keeps what explains the figures.
//!
//! Field by field rather than by searching the JSON, because a short host name may well occur inside the base64 of a
//! histogram. It keeps vendor, product (the instance type), kernel, transport, sizes, and mount options without values
//! that could be addresses or paths.

mod names;

use std::path::PathBuf;

use crate::machine::OPTIONS_THAT_MATTER;
use qd1_model::environment::{Device, Environment, Filesystem};
use qd1_model::{Finding, Report};

/// Further mount options whose value names nobody.
const PLAIN_OPTIONS: &[&str] = &[
    "acdirmax",
    "acdirmin",
    "acregmax",
    "acregmin",
    "allocsize",
    "data_err",
    "delaylog",
    "errors",
    "inode_readahead_blks",
    "jqfmt",
    "local_lock",
    "lookupcache",
    "max_batch_time",
    "max_read",
    "min_batch_time",
    "mode",
    "namlen",
    "nr_inodes",
    "resgid",
    "resuid",
    "retrans",
    "sec",
    "size",
    "space_cache",
    "stripe",
    "subvolid",
    "sunit",
    "swidth",
    "thread_pool",
    "timeo",
    "blksize",
];

/// Removes host name, device models and firmware, backing files, mount sources and paths from `report`, in its fields
/// and in the sentences that quote them; also the names that the user gave to jobs and steps, and e-mail addresses.
///
/// # Errors
/// When names cannot be removed: then the report must not be shown.
pub fn redact(report: &mut Report) -> serde_json::Result<()> {
    names::hide(report)?;
    redact_machine(report);
    Ok(())
}

fn redact_machine(report: &mut Report) {
    let secrets = Secrets::of(report);
    let record = &mut report.record;
    redact_command(&mut record.command, &record.plan.suite);
    record.plan.target.path = PathBuf::from("<path>");
    redact_environment(&mut record.environment);
    for step in &mut record.steps {
        step.fault = without_paths(&secrets.hidden(&step.fault));
    }
    for mount in &mut record.mounts {
        redact_filesystem(&mut mount.filesystem);
        redact_devices(&mut mount.devices);
        mount.fault = without_paths(&secrets.hidden(&mount.fault));
    }
    let candidates = report.filesystems.iter_mut().flat_map(|table| &mut table.filesystems);
    let programs = candidates.filter_map(|one| one.app.as_mut());
    let of_mounts = record.mounts.iter_mut().filter_map(|mount| mount.app.as_mut());
    let settings = record.app.iter_mut().chain(of_mounts).chain(programs).flat_map(|app| &mut app.settings);
    settings.filter(|setting| setting.value.contains('/')).for_each(|setting| setting.value = "<path>".to_owned());
    for one in report.filesystems.iter_mut().flat_map(|table| &mut table.filesystems) {
        redact_options(&mut one.options);
        one.fault = without_paths(&secrets.hidden(&one.fault));
    }
    for note in report.filesystems.iter_mut().flat_map(|table| &mut table.notes) {
        let Finding { title, evidence, advice, .. } = &mut note.finding;
        [title, evidence, advice].into_iter().for_each(|text| *text = secrets.hidden(text));
    }

    let titles = record.plan.steps.iter_mut().map(|step| &mut step.title);
    let skipped = record.plan.skipped.iter_mut().map(|skipped| &mut skipped.why);
    let engines = record.steps.iter_mut().map(|step| &mut step.engine_why);
    for finding in report.findings.iter_mut().filter(|finding| finding.id == "short_or_failed_io") {
        [&mut finding.title, &mut finding.evidence].into_iter().for_each(|text| *text = without_paths(text));
    }
    let findings = report.findings.iter_mut().flat_map(|f| [&mut f.title, &mut f.evidence, &mut f.advice]);
    let verdicts = report.verdicts.iter_mut().flat_map(|v| &mut v.judged).map(|judged| &mut judged.why);
    let criteria = report.criteria.iter_mut().map(|judged| &mut judged.why);
    let summary = report.summary.steps.iter_mut().map(|step| &mut step.title);
    let identity = report.identity.iter_mut().flat_map(|identity| {
        let evidence = identity.evidence.iter_mut().map(|evidence| &mut evidence.text);
        evidence.chain(&mut identity.contradictions).chain(&mut identity.missing)
    });
    for text in titles
        .chain(skipped)
        .chain(engines)
        .chain(findings)
        .chain(verdicts)
        .chain(criteria)
        .chain(summary)
        .chain(identity)
    {
        *text = secrets.hidden(text);
    }
}

fn redact_environment(env: &mut Environment) {
    replace(&mut env.hostname, "<host>");
    redact_devices(&mut env.devices);
    redact_filesystem(&mut env.filesystem);
}

fn redact_devices(devices: &mut [Device]) {
    for device in devices {
        replace(&mut device.model, "<model>");
        replace(&mut device.firmware, "<firmware>");
        replace(&mut device.identity, "<identity>");
        replace(&mut device.backing, "<file>");
        if let Some(nvme) = &mut device.nvme {
            replace(&mut nvme.model, "<model>");
            replace(&mut nvme.serial, "<serial>");
            replace(&mut nvme.firmware, "<firmware>");
        }
    }
}

fn redact_filesystem(fs: &mut Filesystem) {
    // `/dev/vda1` identifies nobody; `/dev/mapper/host--vg-root`, `server:/export` and a UUID do.
    if !is_kernel_name(&fs.source) {
        replace(&mut fs.source, "<source>");
    }
    if fs.mount_point != "/" {
        replace(&mut fs.mount_point, "<mount>");
    }
    if fs.upper.contains(['/', ':']) {
        replace(&mut fs.upper, "<upper>");
    }
    replace(&mut fs.id, "<id>");
    redact_options(&mut fs.options);
}

/// Leaves the values that say how it is mounted; of others nobody knows what they name.
fn redact_options(options: &mut [String]) {
    for option in options {
        if let Some((name, _)) = option.split_once('=')
            && !(OPTIONS_THAT_MATTER.contains(&name) || PLAIN_OPTIONS.contains(&name))
        {
            *option = format!("{name}=<redacted>");
        }
    }
}

/// Replaces absolute paths, whatever they are, but those that every Linux has.
fn without_paths(text: &str) -> String {
    const EVERYWHERE: [&str; 4] = ["/proc", "/sys", "/dev", "/etc/sysctl"];
    let hidden = |word: &str| {
        let start = word.find('/').filter(|at| word[..*at].chars().all(|c| !c.is_alphanumeric()));
        let Some(start) = start.filter(|at| word.len() > at + 1) else { return word.to_owned() };
        let end = word.trim_end_matches([',', ';', ':', '.', ')', '"', '\'']).len().max(start);
        let path = &word[start..end];
        if EVERYWHERE.iter().any(|known| path.starts_with(known)) {
            return word.to_owned();
        }
        format!("{}<path>{}", &word[..start], &word[end..])
    };
    text.split(' ').map(hidden).collect::<Vec<_>>().join(" ")
}

fn replace(field: &mut String, mark: &str) {
    if !field.is_empty() {
        *field = mark.to_owned();
    }
}

/// Returns true for `/dev/` with a name that the kernel assigns (`vda1`, `nvme0n1p2`, `dm-0`), and for a type such as
/// `tmpfs`.
fn is_kernel_name(source: &str) -> bool {
    let name = source.strip_prefix("/dev/").unwrap_or(source);
    name.len() < 16 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Words of a command line that say what is done.
const COMMANDS: &str = "app caches check etcd filesystems fio history identify limits meta ping postgres predict \
    rocksdb run show sqlite suites sweep sync sysbench";

/// Options whose values are numbers, sizes, times or one of a few words. What is not here may be a name or a place.
const PLAIN: &str = "--area --benchmarks --bs --builtin --burst --cache --chunk --clients --color --count --deadline \
    --disk --engine --fail-on --files --file-size --format --fsync --interval --iodepth --journal --limit --load --mode \
    --num --ops --order --over --passes --per-dir --ram --rate --resume --rounds --rows --runtime --rw --scale --seed --size \
    --suite --sync --synchronous --threads --value-size --verify --warmup --workers -S -a -c -i -s";

/// Removes every argument that may be a name or a place: what is known to be neither is left.
fn redact_command(command: &mut [String], suite: &str) {
    let is = |at: usize, word: &str| command.get(at).is_some_and(|arg| arg == word);
    let is_fio = is(1, "fio") || command.first().is_some_and(|program| program.ends_with("fio"));
    // The steps of the built-in suites are no secret.
    let is_own_suite = is(1, "run") && !command.iter().any(|arg| arg == suite);
    let is_in = |words: &str, word: &str| words.split(' ').any(|known| known == word);
    let is_plain = |flag: &str, value: &str| {
        let is_known = is_fio || is_in(PLAIN, flag) || (flag == "--only" && !is_own_suite);
        is_known && !value.contains('/')
    };
    let mark = |flag: &str| match flag {
        "--dsn" => "<server>",
        "--user" => "<user>",
        "--only" => "<steps>",
        _ => "<path>",
    };
    let mut flag = String::new();
    for (at, arg) in command.iter_mut().enumerate() {
        let before = std::mem::take(&mut flag);
        let attached = arg.split_once('=').map(|(name, value)| (name, "=", value)).or_else(|| {
            let is_short = !arg.starts_with("--") && arg.is_char_boundary(2) && arg.len() > 2;
            is_short.then(|| (&arg[..2], "", &arg[2..]))
        });
        if at == 0 {
            *arg = "qd1".into();
        } else if arg.starts_with('-') && arg.len() > 1 {
            match attached {
                Some((name, _, value)) if is_plain(name, value) => {}
                Some((name, sign, _)) => *arg = format!("{name}{sign}{}", mark(name)),
                None => flag = arg.clone(),
            }
        } else if (before.is_empty() || !is_plain(&before, arg)) && !is_in(COMMANDS, arg) && arg != suite {
            *arg = mark(&before).into();
        }
    }
}

/// Strings that no sentence may quote, the longest first so that no part of one remains.
struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    fn of(report: &Report) -> Self {
        let env = &report.record.environment;
        let mut secrets = vec![
            (report.record.plan.target.path.to_string_lossy().into_owned(), "<path>"),
            (env.hostname.clone(), "<host>"),
            (env.filesystem.mount_point.clone(), "<mount>"),
            (env.filesystem.id.clone(), "<id>"),
        ];
        if !is_kernel_name(&env.filesystem.source) {
            secrets.push((env.filesystem.source.clone(), "<source>"));
        }
        for device in &env.devices {
            secrets.push((device.backing.clone(), "<file>"));
            secrets.push((device.model.clone(), "<model>"));
            secrets.push((device.firmware.clone(), "<firmware>"));
            secrets.push((device.identity.clone(), "<identity>"));
        }
        secrets.retain(|(secret, _)| secret.len() > 1);
        secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    fn hidden(&self, text: &str) -> String {
        let named = self.0.iter().fold(text.to_owned(), |text, (secret, mark)| replace_word(&text, secret, mark));
        without_users(&named)
    }
}

/// Replaces the user in all paths such as `/home/alice/x`: `/home/<user>/x`.
fn without_users(text: &str) -> String {
    let mut parts = text.split("/home/");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.find(|c: char| c == '/' || c.is_whitespace() || ",;:)\"'".contains(c)).unwrap_or(part.len());
        out += &format!("/home/{}{}", if name == 0 { "" } else { "<user>" }, &part[name..]);
    }
    out
}

/// Where the names of the kernel's settings begin.
const SETTINGS: [&str; 9] = ["vm", "kernel", "fs", "net", "dev", "user", "abi", "debug", "crypto"];

/// Whether the word between `before` and `after` is part of a setting's name such as `vm.dirty_ratio`.
fn is_in_setting(before: &str, word: &str, after: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
    let begin =
        before.rfind(|c| !is_part(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
    let whole = format!("{}{word}{}", &before[begin..], after[..end].trim_end_matches('.'));
    whole.split_once('.').is_some_and(|(first, _)| SETTINGS.contains(&first))
}

/// Replaces `secret` where it is a separate word, so that a host called `io` does not affect `io_uring`, nor one called
/// `vm` the setting `vm.dirty_ratio`.
fn replace_word(text: &str, secret: &str, mark: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        let joined_before = secret.starts_with(is_word)
            && before.chars().next_back().or_else(|| out.chars().next_back()).is_some_and(is_word);
        let joined_after = secret.ends_with(is_word) && after.starts_with(is_word);
        out.push_str(before);
        let stays =
            joined_before || joined_after || is_in_setting(&text[..text.len() - rest.len() + at], secret, after);
        out.push_str(if stays { secret } else { mark });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::page::Style;
    use crate::render;
    use crate::samples as sample;

    fn strings_of(value: &serde_json::Value, out: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) => out.push(text.clone()),
            serde_json::Value::Array(items) => items.iter().for_each(|item| strings_of(item, out)),
            serde_json::Value::Object(map) => {
                map.iter().filter(|(key, _)| *key != "hdr_v2").for_each(|(_, v)| strings_of(v, out))
            }
            _ => {}
        }
    }

    #[test]
    fn a_redacted_report_names_no_host_user_path_model_or_address() {
        let mut report = sample::slow_vps();
        let env = &mut report.record.environment;
        env.filesystem.source = "10.1.2.3:/export/alice".into();
        env.filesystem.options.extend(["addr=10.1.2.3", "username=alice", "vers=4.2"].map(String::from));
        env.devices[0].backing = "/home/alice/disk.img".into();
        report.findings[0].evidence = "db-prod-7 mounts 10.1.2.3:/export/alice; /home/alice/disk.img is a loop".into();
        redact(&mut report).unwrap();
        let mut strings = Vec::new();
        strings_of(&serde_json::to_value(&report).unwrap(), &mut strings);
        for secret in ["db-prod-7", "alice", "/srv", "10.1.2.3", "BPKZ", "2.5+", "5b0e3f6a"] {
            let found = strings.iter().find(|text| text.contains(secret));
            assert!(found.is_none(), "{secret} is still in {found:?}");
        }
        assert!(strings.iter().any(|text| text == "vers=4.2") && strings.iter().any(|text| text == "DigitalOcean"));
    }

    #[test]
    fn the_figures_are_left_alone() {
        let (before, mut after) = (sample::slow_vps(), sample::slow_vps());
        redact(&mut after).unwrap();
        assert!(before.record.steps[0].streams == after.record.steps[0].streams);
        let csv = |report: &Report| render(report, Format::Csv, &Style::plain(80));
        assert_eq!(csv(&before), csv(&after));
    }

    #[test]
    fn paths_of_the_command_are_removed_and_its_flags_kept() {
        let mut command = [
            "/home/alice/bin/qd1",
            "run",
            "/home/alice/my.toml",
            "data",
            "-o",
            "out/x.json",
            "--destroy=/dev/sdb",
            "--quick",
        ]
        .map(String::from);
        redact_command(&mut command, "check");
        assert_eq!(command, ["qd1", "run", "<path>", "<path>", "-o", "<path>", "--destroy=<path>", "--quick"]);
    }

    #[test]
    fn servers_and_results_are_removed_however_they_were_typed() {
        for (typed, expected) in [
            ("qd1 app postgres --dsn host=db -q", "qd1 app postgres --dsn <server> -q"),
            ("qd1 app postgres --dsn=a --dsn b data", "qd1 app postgres --dsn=<server> --dsn <server> <path>"),
            ("qd1 check -o acme.json --output=acme.csv", "qd1 check -o <path> --output=<path>"),
            ("qd1 check -oacme.json --quick acme", "qd1 check -o<path> --quick <path>"),
            ("qd1 check --only commit1,wal --size=1g", "qd1 check --only commit1,wal --size=1g"),
            ("qd1 run acme.toml --only orders --runtime 5s", "qd1 run <path> --only <steps> --runtime 5s"),
            ("qd1 app postgres --script acme.sql --user=alice", "qd1 app postgres --script <path> --user=<user>"),
            ("qd1 app postgres -c fsync=on --clients 4 -- acme", "qd1 app postgres -c fsync=on --clients 4 -- <path>"),
        ] {
            let mut command: Vec<String> = typed.split(' ').map(String::from).collect();
            redact_command(&mut command, "check");
            assert_eq!(command.join(" "), expected);
        }
    }

    #[test]
    fn a_user_is_not_named_by_any_home_directory() {
        assert_eq!(without_users("/home/alice: full; see /home/bob/x"), "/home/<user>: full; see /home/<user>/x");
        assert_eq!(without_users("nothing here"), "nothing here");
    }

    #[test]
    fn a_host_name_is_only_replaced_as_a_separate_word() {
        assert_eq!(
            replace_word("io: io_uring is blocked on io", "io", "<host>"),
            "<host>: io_uring is blocked on <host>"
        );
        // Cause: a host called vm rewrote the advice.
        for (said, shown) in [
            ("on vm, set vm.dirty_ratio=5; vm.", "on <host>, set vm.dirty_ratio=5; <host>."),
            ("vm.example.com and net.core.vm", "vm.example.com and net.core.vm"),
        ] {
            assert_eq!(replace_word(said, "vm", "<host>"), shown);
        }
        assert_eq!(replace_word("db.example.com", "db", "<host>"), "<host>.example.com");
    }

    /// What no list of names foresaw: a path that only the error of a step names, and options of filesystems of others.
    #[test]
    fn paths_of_faults_and_unknown_mount_options_are_hidden() {
        assert_eq!(
            without_paths("cannot write '/srv/SECRET/x': no space (/proc/1 is read)"),
            "cannot write '<path>': no space (/proc/1 is read)"
        );
        assert_eq!(without_paths("4/5 of it, r/w, a//b"), "4/5 of it, r/w, a//b");
        let mut options: Vec<String> = [
            "rw",
            "data=ordered",
            "stripe=32",
            "errors=remount-ro",
            "jdev=SECRET",
            "servername=nas",
            "mds_namespace=fs1",
            "password=12345",
            "fsid=7",
        ]
        .map(str::to_owned)
        .into();
        redact_options(&mut options);
        let known = ["rw", "data=ordered", "stripe=32", "errors=remount-ro"];
        assert_eq!(options[..4], known);
        assert!(options[4..].iter().all(|option| option.ends_with("=<redacted>")), "{options:?}");
    }
}
