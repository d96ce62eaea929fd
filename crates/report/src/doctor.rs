//! `qd1 doctor`: what is set up badly, as text and JSON.

use anstyle::Style as Paint;
use qd1_model::doctor::{Advice, Diagnosis, Fix};
use qd1_model::setting::{AfterBoot, Assignment, Setting, SettingKind, Unseen};
use qd1_model::{Severity, printable};

use crate::formats::document;
use crate::page::{BAD, BOLD, DIM, Detail, MIDDLING, NOTE, Page, Style};
use crate::words::severity;

/// Column of the text after a label.
const TEXT: usize = 11;
/// Unseen things that are listed unless all are asked for.
const UNSEEN_MAX: usize = 6;

/// Returns what was found, the worst first, and what could not be looked at.
#[must_use]
pub fn doctor_human(diagnosis: &Diagnosis, style: &Style) -> String {
    let mut page = Page::new(style);
    let places = diagnosis.places.iter().map(|place| printable(place).into_owned()).collect::<Vec<_>>();
    let places = if places.is_empty() { "the machine; no disk was looked at".to_owned() } else { places.join(", ") };
    let settings = match diagnosis.settings.len() {
        1 => "1 setting".to_owned(),
        count => format!("{count} settings"),
    };
    let checked = format!("checked {} rules against {settings} of {places}", diagnosis.rules);
    match diagnosis.advice.len() {
        0 if !diagnosis.saw_the_kernel() => {
            page.bold("Nothing could be looked at: no settings can be read from /proc and /sys.");
        }
        0 => page.bold(&format!("Nothing is set up badly: {checked}.")),
        1 => page.bold(&format!("1 thing to look at: {checked}.")),
        count => page.bold(&format!("{count} things to look at: {checked}.")),
    }
    for advice in &diagnosis.advice {
        page.line("");
        one(&mut page, advice);
    }
    unseen(&mut page, &diagnosis.unseen);
    page.text
}

/// Returns it as one JSON document.
#[must_use]
pub fn doctor_json(diagnosis: &Diagnosis) -> String {
    document(diagnosis)
}

fn one(page: &mut Page, advice: &Advice) {
    let paint = match advice.severity {
        Severity::Critical => BAD,
        Severity::Warning => MIDDLING,
        Severity::Info => NOTE,
    };
    page.hang(0, severity(advice.severity), paint, TEXT, &printable(&advice.title));
    if let Some(setting) = &advice.setting {
        row(page, "in force", &in_force(setting));
        let after = after_boot(setting);
        if !after.is_empty() {
            row(page, "next boot", &after);
        }
        if !setting.also_changes.is_empty() {
            row(page, "coupled", &format!("when it is written, {}", setting.also_changes));
        }
        if !setting.can_be_lowered {
            row(page, "one way", "the running kernel does not lower it again");
        }
    }
    row(page, "costs", &advice.cost);
    fix(page, &advice.fix);
    row(page, "prove it", &printable(&advice.proof));
    let shown = if page.style.detail == Detail::All { advice.sources.len() } else { 1 };
    for (at, source) in advice.sources.iter().take(shown).enumerate() {
        // Not broken either, so that it can be followed.
        let label = if at == 0 { "source" } else { "" };
        let label = page.paint(DIM, &format!("{label:10}"));
        page.line(&format!("  {label}{source}"));
    }
    if page.style.detail == Detail::All {
        row(page, "rule", &advice.rule);
    }
}

fn row(page: &mut Page, label: &str, text: &str) {
    page.hang(2, label, DIM, TEXT + 1, text);
}

fn in_force(setting: &Setting) -> String {
    let value = if setting.value.is_empty() { "(set)" } else { &setting.value };
    match setting.kind {
        SettingKind::Program => format!("{} = {} ({})", setting.name, printable(value), origin(setting)),
        SettingKind::Mount => format!("{} ({})", printable(value).replace(',', ", "), setting.place),
        _ => format!("{} ({})", printable(value), printable(&setting.place)),
    }
}

/// Which line of a program's files decides.
fn origin(setting: &Setting) -> String {
    match &setting.after_boot.winner {
        Some(by) => place(by),
        None => format!("the default, not in {}", printable(&setting.place)),
    }
}

fn place(by: &Assignment) -> String {
    match by.line {
        0 => printable(&by.file).into_owned(),
        line => format!("{}:{line}", printable(&by.file)),
    }
}

/// What is known of the next boot; empty where nothing is, or where it has been said.
fn after_boot(setting: &Setting) -> String {
    let AfterBoot { winner, overridden, unsure } = &setting.after_boot;
    if matches!(setting.kind, SettingKind::Program | SettingKind::System) {
        let others: Vec<String> = overridden.iter().map(place).collect();
        return if others.is_empty() { String::new() } else { format!("overrides {}", others.join(", ")) };
    }
    let mut text = match winner {
        Some(by) if is_same(&by.value, &setting.value) => format!("the same, by {}", place(by)),
        Some(by) => format!("{} sets {}", place(by), printable(&by.value)),
        None if setting.kind == SettingKind::Mount => "in neither /etc/fstab nor a mount unit".to_owned(),
        None => "no file sets it, so the default is in force".to_owned(),
    };
    if !overridden.is_empty() {
        let others: Vec<String> =
            overridden.iter().map(|by| format!("{} ({})", place(by), printable(&by.value))).collect();
        text += &format!("; overridden: {}", others.join(", "));
    }
    if !unsure.is_empty() {
        text += &format!("; not sure: {}", printable(unsure));
    }
    text
}

fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn fix(page: &mut Page, fix: &Fix) {
    let by = Assignment { file: fix.file.clone(), line: fix.line, value: String::new() };
    let (old, new) = (printable(&fix.old), printable(&fix.new));
    if !fix.file.is_empty() {
        let text = match fix.line {
            0 => format!("add to {}:", place(&by)),
            _ => format!("in {}, instead of {old}:", place(&by)),
        };
        row(page, "fix", &text);
        // Lines for a file, and commands, are not broken, so that they can be copied.
        for line in new.split("; ") {
            page.line(&format!("{:indent$}{line}", "", indent = TEXT + 3));
        }
    }
    let mut label = if fix.file.is_empty() { "fix" } else { "then" };
    if !fix.command.is_empty() {
        let label_now = if fix.file.is_empty() { label } else { "and now" };
        let shown = page.paint(DIM, &format!("{label_now:10}"));
        page.line(&format!("  {shown}{}", printable(&fix.command)));
        label = "";
    }
    if !fix.advice.is_empty() {
        row(page, label, &printable(&fix.advice));
    }
}

fn unseen(page: &mut Page, unseen: &[Unseen]) {
    if unseen.is_empty() {
        return;
    }
    page.line("");
    page.hang(0, "Could not be looked at:", BOLD, 24, "");
    let shown = if page.style.detail == Detail::All { unseen.len() } else { UNSEEN_MAX.min(unseen.len()) };
    for thing in &unseen[..shown] {
        page.hang(2, "-", Paint::new(), 4, &format!("{}: {}", printable(&thing.what), printable(&thing.why)));
    }
    if shown < unseen.len() {
        page.prose(4, &format!("and {} more, which -v lists", unseen.len() - shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis() -> Diagnosis {
        let by = |file: &str, line, value: &str| Assignment { file: file.to_owned(), line, value: value.to_owned() };
        let setting = Setting::new(SettingKind::Sysctl, "", "vm.dirty_ratio", "20");
        let setting = Setting {
            place: "/proc/sys/vm/dirty_ratio".to_owned(),
            after_boot: AfterBoot {
                winner: Some(by("/etc/sysctl.d/99-a.conf", 3, "40")),
                overridden: vec![by("/usr/lib/sysctl.d/50-b.conf", 1, "10")],
                unsure: "/etc/rc.local:2 mentions it".to_owned(),
            },
            ..setting
        };
        let advice = Advice {
            rule: "writeback.limit".to_owned(),
            severity: Severity::Warning,
            subject: String::new(),
            title: "the kernel may hold up to 47.6 GiB of unwritten data \u{1b}]0;owned\u{7}".to_owned(),
            cost: "A sync waits until the disk has written it, which can take as long as the disk needs.".to_owned(),
            sources: vec![
                "https://docs.kernel.org/admin-guide/sysctl/vm.html".to_owned(),
                "https://b.test/".to_owned(),
            ],
            fix: Fix {
                file: "/etc/sysctl.d/99-qd1.conf".to_owned(),
                new: "vm.dirty_bytes = 2147483648; vm.dirty_background_bytes = 536870912".to_owned(),
                command: "sysctl -w vm.dirty_bytes=2147483648 vm.dirty_background_bytes=536870912".to_owned(),
                ..Fix::default()
            },
            proof: "`qd1 check --with-load /` with both limits".to_owned(),
            setting: Some(setting.clone()),
        };
        Diagnosis {
            schema_version: 1,
            places: vec!["/".to_owned()],
            rules: 40,
            advice: vec![advice],
            unseen: vec![Unseen { what: "/etc/\u{1b}[2J".to_owned(), why: "this user may not read it".to_owned() }],
            settings: vec![setting],
        }
    }

    fn screen() -> Style {
        Style { color: false, width: 80, detail: Detail::Screen { is_kept: false, lines: None } }
    }

    #[test]
    fn it_says_what_is_in_force_why_it_matters_and_what_to_do() {
        let text = doctor_human(&diagnosis(), &screen());
        for part in [
            "1 thing to look at: checked 40 rules against 1 setting of /.",
            "warning    the kernel may hold",
            "in force  20 (/proc/sys/vm/dirty_ratio)",
            "next boot /etc/sysctl.d/99-a.conf:3 sets 40; overridden:",
            "/usr/lib/sysctl.d/50-b.conf:1 (10)",
            "not sure: /etc/rc.local:2 mentions it",
            "vm.dirty_bytes becomes 0",
            "fix       add to /etc/sysctl.d/99-qd1.conf:",
            "vm.dirty_background_bytes = 536870912\n",
            "and now   sysctl -w",
            "source   https://docs.kernel.org/admin-guide/sysctl/vm.html",
        ] {
            let found = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let wanted = part.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(found.contains(&wanted), "{part} is not in\n{text}");
        }
        assert!(!text.contains("b.test"));
        let mut wide = text.lines().filter(|line| line.chars().count() > 80);
        assert!(wide.all(|line| line.contains("sysctl -w")), "{text}");
    }

    #[test]
    fn nothing_from_a_file_reaches_the_terminal_as_a_command() {
        let text = doctor_human(&diagnosis(), &screen());
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
        assert!(text.contains(r"\x1b]0;owned"), "{text}");
    }

    #[test]
    fn nothing_found_says_what_was_checked() {
        let healthy = Diagnosis { advice: Vec::new(), unseen: Vec::new(), ..diagnosis() };
        assert_eq!(
            doctor_human(&healthy, &screen()),
            "Nothing is set up badly: checked 40 rules against 1 setting of /.\n"
        );
    }

    #[test]
    fn without_proc_and_sys_nothing_is_called_healthy() {
        let blind = Diagnosis { advice: Vec::new(), unseen: Vec::new(), settings: Vec::new(), ..diagnosis() };
        assert!(doctor_human(&blind, &screen()).starts_with("Nothing could be looked at"));
        let mut of_file = diagnosis().settings;
        "/etc/ld.so.preload".clone_into(&mut of_file[0].place);
        let blind = Diagnosis { settings: of_file, ..blind };
        assert!(doctor_human(&blind, &screen()).starts_with("Nothing could be looked at"));
    }

    #[test]
    fn a_place_without_a_disk_is_not_called_one() {
        let text = doctor_human(&Diagnosis { places: Vec::new(), ..diagnosis() }, &screen());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("1 setting of the machine; no disk was looked at."), "{text}");
    }

    #[test]
    fn what_follows_a_change_of_a_file_comes_then() {
        let mut restart = diagnosis();
        restart.advice[0].fix.command = String::new();
        "restart PostgreSQL".clone_into(&mut restart.advice[0].fix.advice);
        let text = doctor_human(&restart, &screen());
        assert!(text.contains("  then      restart PostgreSQL") && !text.contains("and now"), "{text}");
    }

    #[test]
    fn json_has_the_whole_diagnosis() {
        let read: Diagnosis = serde_json::from_str(&doctor_json(&diagnosis())).unwrap();
        assert_eq!(read, diagnosis());
    }
}
