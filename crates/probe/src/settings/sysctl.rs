//! `/proc/sys`, and the files that set it during a boot.
//!
//! systemd-sysctl reads the drop-ins of all directories sorted by name, a later line replaces an earlier one of the
//! same name, and `/etc/sysctl.conf` is read only where a link `sysctl.d/99-sysctl.conf` leads to it (sysctl.d(5);
//! `src/sysctl/sysctl.c` of systemd; Debian 13 has no such link). What the kernel refuses changes nothing. Without
//! systemd, `sysctl --system` of procps and OpenRC reads `/etc/sysctl.conf` last (sysctl(8)). The kernel sets
//! `sysctl.*` of its command line before either (`admin-guide/kernel-parameters.txt`). TuneD comes after both, and by
//! default applies `/run`, `/etc/sysctl.d` and `/etc/sysctl.conf` once more after a section `[sysctl]`
//! (`reapply_sysctl` in tuned-main.conf; `plugin_sysctl.py`).

use std::collections::HashMap;
use std::ops::RangeInclusive;

use qd1_model::setting::{AfterBoot, Assignment, DIRTY_PAIRS, Setting, SettingKind};

use super::tuned::Profile;
use super::{Reader, assigned, globs, line_number, scripts, tuned};

/// The settings that the rules of `analysis/doctor` look at, in the order in which a pattern finds them, and the values
/// that the kernel accepts (`kernel/sysctl.c`, `mm/page-writeback.c`).
const NAMES: &[(&str, RangeInclusive<i64>)] = &[
    ("kernel.io_uring_disabled", 0..=2),
    ("kernel.unprivileged_bpf_disabled", 0..=2),
    ("kernel.yama.ptrace_scope", 0..=3),
    ("vm.dirty_background_bytes", 1..=i64::MAX),
    ("vm.dirty_background_ratio", 0..=100),
    // Two pages, or more where pages are larger.
    ("vm.dirty_bytes", 1..=i64::MAX),
    ("vm.dirty_expire_centisecs", 0..=i32::MAX as i64),
    ("vm.dirty_ratio", 0..=100),
    ("vm.dirty_writeback_centisecs", 0..=i32::MAX as i64),
];

/// Directories of drop-ins, the most important first.
const DIRS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
/// Those that TuneD applies again.
const DIRS_OF_TUNED: [&str; 2] = ["/run/sysctl.d", "/etc/sysctl.d"];
const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// A line of a file: the setting, dots between its parts, and where it stands.
#[derive(Clone)]
struct Line {
    name: String,
    by: Assignment,
    /// Whether it has a value; without one it only excludes its name from patterns.
    has_value: bool,
    /// Whether a later line replaces it before anything is written.
    is_replaced: bool,
}

impl Line {
    fn new(name: &str, by: Assignment) -> Self {
        Self { name: dotted(name), by, has_value: true, is_replaced: false }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) {
    let profile = tuned::active(reader);
    let lines = boot(reader, &profile);
    for (name, _) in NAMES {
        let place = format!("/proc/sys/{}", name.replace('.', "/"));
        let Some(value) = reader.value(&place) else { continue };
        let mut after = after_boot(&lines, name);
        after.unsure = match unsure_of_tuned(&profile, &lines, name) {
            "" => scripts::mentions(&reader.scripts, &[name, &place]),
            why => why.to_owned(),
        };
        reader.add((SettingKind::Sysctl, "", name), &place, &value, after);
    }
}

/// The lines in the order in which they take effect.
fn boot(reader: &mut Reader<'_>, profile: &Profile) -> Vec<Line> {
    let mut lines = command_line(reader);
    let has_systemd = ["/run/systemd/system", "/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"]
        .iter()
        .any(|path| reader.machine.has(path));
    let mut files = Vec::new();
    for file in reader.drop_ins(&DIRS, ".conf") {
        files.extend(lines_of(reader, &file));
    }
    if !has_systemd {
        files.extend(lines_of(reader, SYSCTL_CONF));
    }
    lines.extend(expanded(if has_systemd { merged(files) } else { files }));
    for (section, plugin) in profile.sections() {
        match plugin {
            // The plugin `vm` knows these since TuneD 2.24.
            "vm" => lines.extend(profile.keys(section).filter_map(|(key, by)| of_vm(key, by))),
            "sysctl" => {
                lines.extend(profile.keys(section).map(|(key, by)| Line::new(key, by.clone())));
                if tuned::reapplies_sysctl(reader) {
                    lines.extend(files_of_etc(reader));
                }
            }
            _ => {}
        }
    }
    lines
}

/// The files that TuneD applies again, line by line; it knows no patterns.
fn files_of_etc(reader: &mut Reader<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for file in reader.drop_ins(&DIRS_OF_TUNED, ".conf") {
        lines.extend(lines_of(reader, &file));
    }
    lines.extend(lines_of(reader, SYSCTL_CONF));
    lines.retain(|line| line.has_value);
    lines
}

/// `dirty_bytes = 40%` is a ratio of 40 (`plugin_vm.py`).
fn of_vm(key: &str, by: &Assignment) -> Option<Line> {
    let (bytes, ratio) =
        DIRTY_PAIRS.into_iter().find(|(bytes, ratio)| [*bytes, *ratio].contains(&&*format!("vm.{key}")))?;
    Some(match by.value.strip_suffix('%') {
        Some(percent) if bytes.ends_with(key) => {
            Line::new(ratio, Assignment { value: percent.trim().to_owned(), ..by.clone() })
        }
        _ => Line::new(&format!("vm.{key}"), by.clone()),
    })
}

/// Why TuneD may do something else with a setting; empty if nothing suggests that.
fn unsure_of_tuned(profile: &Profile, lines: &[Line], name: &str) -> &'static str {
    let pair = pair_of(name);
    let is_meant = |known: &str| known == name || pair.is_some_and(|(bytes, ratio)| known == bytes || known == ratio);
    let of = |plugin: &str| {
        let sections = profile.sections().into_iter().filter(|(_, known)| *known == plugin);
        sections.flat_map(|(section, _)| profile.keys(section)).collect::<Vec<_>>()
    };
    let vm = of("vm").into_iter().filter_map(|(key, by)| of_vm(key, by));
    let vm: Vec<Line> = vm.filter(|line| is_meant(&line.name)).collect();
    let sysctl = of("sysctl").into_iter().map(|(key, by)| Line::new(key, by.clone()));
    let sysctl = sysctl.filter(|line| is_meant(&line.name)).collect::<Vec<_>>();
    let by_etc = |line: &Line| {
        is_meant(&line.name) && ["/etc/sysctl", "/run/sysctl"].iter().any(|dir| line.by.file.starts_with(dir))
    };
    if vm.iter().chain(&sysctl).any(|line| line.by.value.contains("${")) {
        "a variable of TuneD decides it"
    } else if !vm.is_empty() && lines.iter().any(by_etc) {
        "TuneD sets it in its section [vm], and may apply /etc/sysctl.d before or after that"
    } else {
        ""
    }
}

/// `sysctl.vm.dirty_ratio=5` of the kernel's command line.
fn command_line(reader: &mut Reader<'_>) -> Vec<Line> {
    let file = "/proc/cmdline";
    let text = reader.text(file).unwrap_or_default();
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix("sysctl.")?.split_once('='));
    words.map(|(name, value)| Line::new(name, assigned(file, 0, value))).collect()
}

fn lines_of(reader: &mut Reader<'_>, file: &str) -> Vec<Line> {
    let text = reader.text(file).unwrap_or_default();
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        // A minus ignores failures; without a value it only excludes the name from patterns.
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None if line.starts_with('-') => (line, None),
            None => continue,
        };
        let by = assigned(file, line_number(index), value.unwrap_or_default());
        lines.push(Line { has_value: value.is_some(), ..Line::new(name.trim_start_matches('-'), by) });
    }
    lines
}

/// systemd-sysctl keeps one value for each name: a different one replaces it and takes a place at the end, the same one
/// changes nothing.
fn merged(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    let mut last: HashMap<String, usize> = HashMap::new();
    for line in lines {
        if let Some(known) = last.get(&line.name).map(|at| &mut kept[*at]) {
            if known.by.value == line.by.value && known.has_value == line.has_value {
                continue;
            }
            known.is_replaced = true;
        }
        last.insert(line.name.clone(), kept.len());
        kept.push(line);
    }
    kept
}

/// The lines with patterns replaced by what they match, unless a line anywhere has the name itself.
fn expanded(lines: Vec<Line>) -> Vec<Line> {
    let is_pattern = |name: &str| name.contains(['*', '?', '[']);
    let explicit: Vec<String> = lines.iter().map(|line| line.name.clone()).filter(|name| !is_pattern(name)).collect();
    let parts = |name: &str| name.matches('.').count();
    let of = |line: Line| -> Vec<Line> {
        if !is_pattern(&line.name) {
            return vec![line];
        }
        let names = NAMES
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| parts(name) == parts(&line.name) && globs(line.name.as_bytes(), name.as_bytes()));
        let names = names.filter(|name| !explicit.iter().any(|known| known == name));
        names.map(|name| Line { name: name.to_owned(), ..line.clone() }).collect()
    };
    lines.into_iter().flat_map(of).filter(|line| line.has_value).collect()
}

/// `vm/dirty_ratio` and `vm.dirty_ratio` are the same; if the first separator is a slash, dots are part of names.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => name.replace('/', "."),
        _ => name.to_owned(),
    }
}

fn pair_of(name: &str) -> Option<(&'static str, &'static str)> {
    DIRTY_PAIRS.into_iter().find(|(bytes, ratio)| *bytes == name || *ratio == name)
}

/// The number that the kernel reads, in C's notation; `None` if it refuses the value.
fn accepted(name: &str, value: &str) -> Option<i64> {
    let (_, range) = NAMES.iter().find(|(known, _)| *known == name)?;
    let text = value.trim();
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => i64::from_str_radix(&text[1..], 8),
        None => text.parse(),
    };
    let two_pages = 2 * rustix::param::page_size() as i64;
    number.ok().filter(|number| range.contains(number) && (name != "vm.dirty_bytes" || *number >= two_pages))
}

/// Which line wins for a setting: each is written in turn, as far as the kernel accepts it. Of bytes and a ratio, the
/// one written last is in force: the other reads as 0 then.
fn after_boot(lines: &[Line], name: &str) -> AfterBoot {
    let pair = pair_of(name);
    let (bytes, ratio) = pair.unwrap_or((name, name));
    let (mut replaced, mut written) = (Vec::new(), Vec::<Assignment>::new());
    let mut in_force = ratio;
    for line in lines.iter().filter(|line| line.name == bytes || line.name == ratio) {
        let is_own = line.name == name;
        let number = accepted(&line.name, &line.by.value).filter(|_| !line.is_replaced);
        // A setting that only goes up keeps its value, and no change of a ratio that reads as 0 is a change.
        let is_stuck = pair.is_none()
            && written.last().is_some_and(|by| !Setting::new(SettingKind::Sysctl, "", name, &by.value).can_be_lowered);
        let is_no_change = line.name == "vm.dirty_ratio" && in_force == bytes && number == Some(0);
        if number.is_none() || is_stuck || is_no_change {
            replaced.extend(is_own.then(|| line.by.clone()));
            continue;
        }
        in_force = if line.name == bytes { bytes } else { ratio };
        let value = if is_own { line.by.value.clone() } else { "0".to_owned() };
        written.push(Assignment { value, ..line.by.clone() });
    }
    let mut after = AfterBoot::last_wins(written);
    after.overridden.splice(0..0, replaced);
    after
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::Inventory;

    use super::*;
    use crate::fixture::Fixture;

    fn vm() -> Fixture {
        ["dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes"]
            .iter()
            .fold(Fixture::new(), |made, name| made.file(&format!("/proc/sys/vm/{name}"), "10\n"))
    }

    fn systemd() -> Fixture {
        vm().dir("/run/systemd/system")
    }

    fn settings(fixture: Fixture) -> Inventory {
        fixture.machine().settings(Some(Path::new("/")))
    }

    fn winner(inventory: &Inventory, name: &str) -> String {
        let setting: &Setting = inventory.sysctl(name).unwrap();
        let show = |by: &Assignment| format!("{}:{} = {}", by.file, by.line, by.value);
        setting.after_boot.winner.as_ref().map(show).unwrap_or_default()
    }

    #[test]
    fn the_last_name_wins_whatever_its_directory() {
        let inventory = settings(
            systemd()
                .file("/etc/sysctl.d/10-mine.conf", "vm.dirty_ratio = 5\n")
                .file("/usr/lib/sysctl.d/50-theirs.conf", "# a comment\nvm/dirty_ratio=30\n")
                .file("/run/sysctl.d/40-now.conf", "-vm.dirty_ratio=7\n"),
        );
        assert_eq!(winner(&inventory, "vm.dirty_ratio"), "/usr/lib/sysctl.d/50-theirs.conf:2 = 30");
        assert_eq!(inventory.sysctl("vm.dirty_ratio").unwrap().after_boot.overridden.len(), 2);
    }

    #[test]
    fn a_file_of_etc_replaces_its_namesake_of_usr() {
        let inventory = settings(
            systemd()
                .file("/usr/lib/sysctl.d/50-a.conf", "vm.dirty_ratio = 30\n")
                .file("/etc/sysctl.d/50-a.conf", "; nothing\n"),
        );
        assert_eq!(winner(&inventory, "vm.dirty_ratio"), "");
    }

    #[test]
    fn systemd_reads_sysctl_conf_only_through_its_link() {
        let conf = |made: Fixture| made.file("/etc/sysctl.conf", "vm.dirty_ratio = 8\n");
        assert_eq!(winner(&settings(conf(systemd())), "vm.dirty_ratio"), "");
        let linked = conf(systemd()).link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf");
        assert_eq!(winner(&settings(linked), "vm.dirty_ratio"), "/etc/sysctl.d/99-sysctl.conf:1 = 8");
    }

    #[test]
    fn without_systemd_sysctl_conf_comes_last() {
        let alpine =
            vm().file("/etc/sysctl.conf", "vm.dirty_ratio=8\n").file("/etc/sysctl.d/zz.conf", "vm.dirty_ratio=9\n");
        assert_eq!(winner(&settings(alpine), "vm.dirty_ratio"), "/etc/sysctl.conf:1 = 8");
    }

    /// The winners of the ratio and the bytes, with these files one after the other.
    fn winners(files: &[&str]) -> (String, String) {
        let made = files
            .iter()
            .enumerate()
            .fold(systemd(), |made, (at, text)| made.file(&format!("/etc/sysctl.d/{at}.conf"), &format!("{text}\n")));
        let inventory = settings(made);
        (winner(&inventory, "vm.dirty_ratio"), winner(&inventory, "vm.dirty_bytes"))
    }

    fn of(ratio: &str, bytes: &str) -> (String, String) {
        let full = |by: &str| if by.is_empty() { String::new() } else { format!("/etc/sysctl.d/{by}") };
        (full(ratio), full(bytes))
    }

    #[test]
    fn bytes_in_a_later_file_switch_the_ratio_off() {
        let later = ["vm.dirty_ratio = 5", "vm.dirty_bytes = 1073741824"];
        assert_eq!(winners(&later), of("1.conf:1 = 0", "1.conf:1 = 1073741824"));
        // The same value again: systemd-sysctl keeps the first line. Another one is written last.
        let again = ["vm.dirty_ratio = 5", "vm.dirty_bytes = 1073741824", "vm.dirty_ratio = 5"];
        assert_eq!(winners(&again), of("1.conf:1 = 0", "1.conf:1 = 1073741824"));
        let other = ["vm.dirty_ratio = 5", "vm.dirty_bytes = 1073741824", "vm.dirty_ratio = 6"];
        assert_eq!(winners(&other), of("2.conf:1 = 6", "2.conf:1 = 0"));
    }

    #[test]
    fn a_value_that_the_kernel_refuses_changes_nothing_but_replaces_the_earlier_line() {
        for refused in ["0", "4096", "-1", "1G", ""] {
            let files = ["vm.dirty_ratio = 40", "vm.dirty_bytes = 1073741824", &format!("vm.dirty_bytes = {refused}")];
            assert_eq!(winners(&files), of("0.conf:1 = 40", "0.conf:1 = 0"), "{refused}");
        }
        assert_eq!(winners(&["vm.dirty_ratio = 101"]), of("", ""));
        assert_eq!(
            winners(&["vm.dirty_bytes = 1073741824", "vm.dirty_ratio = 0"]).1,
            of("", "0.conf:1 = 1073741824").1
        );
        let made = systemd().file("/etc/sysctl.d/1.conf", "vm.dirty_background_ratio=7\nvm.dirty_background_bytes=0\n");
        assert_eq!(winner(&settings(made), "vm.dirty_background_ratio"), "/etc/sysctl.d/1.conf:1 = 7");
        let without_systemd = vm().file("/etc/sysctl.d/1.conf", "vm.dirty_bytes=1073741824\nvm.dirty_bytes=0\n");
        assert_eq!(winner(&settings(without_systemd), "vm.dirty_bytes"), "/etc/sysctl.d/1.conf:1 = 1073741824");
    }

    #[test]
    fn a_pattern_applies_unless_a_line_has_the_name_itself() {
        assert_eq!(winners(&["vm.dirty_rat* = 40"]), of("0.conf:1 = 40", "0.conf:1 = 0"));
        assert_eq!(winners(&["vm.dirty_ratio = 30", "vm/dirty_rat* = 40"]), of("0.conf:1 = 30", "0.conf:1 = 0"));
        assert_eq!(winners(&["vm.dirty_rat* = 40", "-vm.dirty_ratio"]), of("", ""));
        assert_eq!(winners(&["*ratio = 40"]), of("", ""));
    }

    #[test]
    fn percent_in_the_section_vm_of_tuned_is_a_ratio() {
        let tuned =
            |text: &str| systemd().file("/etc/tuned/active_profile", "mine\n").file("/etc/tuned/mine/tuned.conf", text);
        let inventory = settings(tuned("[vm]\ndirty_bytes = 40%\ndirty_background_bytes=10%\nvm.dirty_ratio=3\n"));
        assert_eq!(winner(&inventory, "vm.dirty_ratio"), "/etc/tuned/mine/tuned.conf:2 = 40");
        assert_eq!(winner(&inventory, "vm.dirty_background_ratio"), "/etc/tuned/mine/tuned.conf:3 = 10");
        let unsure = |made: Fixture| settings(made).sysctl("vm.dirty_ratio").unwrap().after_boot.unsure.clone();
        assert_eq!(unsure(tuned("[vm]\ndirty_bytes = 40%\n")), "");
        // Without a section [sysctl], TuneD does not apply /etc again.
        let etc = tuned("[vm]\ndirty_bytes = 40%\n").file("/etc/sysctl.d/1.conf", "vm.dirty_ratio = 1\n");
        let inventory = settings(etc);
        assert_eq!(winner(&inventory, "vm.dirty_ratio"), "/etc/tuned/mine/tuned.conf:2 = 40");
        assert!(inventory.sysctl("vm.dirty_ratio").unwrap().after_boot.unsure.contains("[vm]"));
        let variable = tuned("[variables]\nx=3\n[own]\ntype=sysctl\nvm.dirty_ratio=${x}\n");
        assert!(unsure(variable).contains("variable"));
    }

    #[test]
    fn tuned_loses_to_etc_and_wins_over_usr() {
        let tuned = |made: Fixture| {
            made.file("/etc/tuned/active_profile", "virtual-guest\n")
                .file(
                    "/usr/lib/tuned/virtual-guest/tuned.conf",
                    "[main]\ninclude=base\n[sysctl]\nvm.dirty_ratio = 30\n",
                )
                .file("/usr/lib/tuned/base/tuned.conf", "[sysctl]\nvm.dirty_ratio=40\nvm.dirty_background_ratio=10\n")
        };
        let of_usr = tuned(systemd().file("/usr/lib/sysctl.d/50-a.conf", "vm.dirty_ratio = 1\n"));
        let expected = "/usr/lib/tuned/virtual-guest/tuned.conf:4 = 30";
        assert_eq!(winner(&settings(of_usr), "vm.dirty_ratio"), expected);
        let of_etc = || tuned(systemd().file("/etc/sysctl.d/50-a.conf", "vm.dirty_ratio = 1\n"));
        let inventory = settings(of_etc());
        assert_eq!(winner(&inventory, "vm.dirty_ratio"), "/etc/sysctl.d/50-a.conf:1 = 1");
        assert_eq!(winner(&inventory, "vm.dirty_background_ratio"), "/usr/lib/tuned/base/tuned.conf:3 = 10");
        let kept = of_etc().file("/etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n");
        assert_eq!(winner(&settings(kept), "vm.dirty_ratio"), expected);
    }

    #[test]
    fn a_script_that_mentions_a_setting_makes_it_unsure() {
        let made = systemd().file("/etc/rc.local", "#!/bin/sh\n# vm.dirty_bytes\nsysctl -w vm.dirty_ratio=3\n");
        let inventory = settings(made);
        assert!(inventory.sysctl("vm.dirty_ratio").unwrap().after_boot.unsure.contains("/etc/rc.local:3"));
        assert_eq!(inventory.sysctl("vm.dirty_bytes").unwrap().after_boot.unsure, "");
    }
}
