//! What udev's rules set on a disk when it appears.
//!
//! Rules are evaluated for the event `add` of a whole disk, as far as they can be without udev's database: the kernel
//! name, the subsystem and attributes in sysfs are known; properties (`ENV`), parents and programs are not. A rule
//! that depends on those is reported as one that may apply. Sources: udev(7), `udev-rules.c` of systemd.

use qd1_model::setting::Assignment;

use super::{Reader, assigned, line_number, matches};
use crate::block::Block;

/// Directories of rules, the most important first.
const DIRS: [&str; 5] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
    "/lib/udev/rules.d",
];

/// The rules, in the order in which udev processes them.
#[derive(Default)]
pub(super) struct Rules {
    lines: Vec<Rule>,
}

struct Rule {
    file: String,
    line: u32,
    tokens: Vec<Token>,
}

/// `ATTR{queue/scheduler}="none"`.
struct Token {
    key: String,
    attribute: String,
    operator: String,
    value: String,
    /// `i"..."`, since systemd 257.
    ignores_case: bool,
}

/// Whether a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Applies {
    No,
    Perhaps,
    Yes,
}

/// What the rules assign to one attribute of one disk.
#[derive(Default)]
pub(super) struct Assigned {
    /// By rules that apply, in their order.
    pub(super) certain: Vec<Assignment>,
    /// Why that may be wrong: the last rule that may apply, or that runs a program which mentions the attribute.
    pub(super) perhaps: Option<String>,
}

/// Reads all rules.
pub(super) fn read(reader: &mut Reader<'_>) -> Rules {
    let mut rules = Rules::default();
    for file in reader.drop_ins(&DIRS, ".rules") {
        let text = reader.text(&file).unwrap_or_default();
        for (line, text) in joined(&text) {
            rules.lines.push(Rule { file: file.clone(), line, tokens: tokens(&text) });
        }
    }
    rules
}

/// Lines without comments, those that end with a backslash joined with the next.
fn joined(text: &str) -> Vec<(u32, String)> {
    let mut found: Vec<(u32, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match found.last_mut().filter(|_| continues) {
            Some((_, whole)) => whole.push_str(part),
            None => found.push((line_number(index), part.to_owned())),
        }
        continues = goes_on;
    }
    found
}

fn tokens(line: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find('"') {
        let head = rest[..at].trim_matches(|c: char| c.is_whitespace() || c == ',');
        let Some(length) = quoted_length(&rest[at + 1..]) else { break };
        let value = &rest[at + 1..at + 1 + length];
        // `e"..."` has escapes, which no rule for disks needs; `i"..."` matches both cases.
        let plain = head.trim_end_matches(['e', 'i']);
        let (head, flags) = if plain.ends_with('=') { head.split_at(plain.len()) } else { (head, "") };
        let name = head.trim_end_matches(['=', '!', '+', '-', ':']);
        let operator = head[name.len()..].to_owned();
        let (key, attribute) = name.trim().split_once('{').unwrap_or((name.trim(), ""));
        found.push(Token {
            key: key.to_owned(),
            attribute: attribute.trim_end_matches('}').to_owned(),
            operator,
            value: value.replace("\\\"", "\""),
            ignores_case: flags.contains('i'),
        });
        rest = &rest[at + 2 + length..];
    }
    found
}

/// Where a value ends: at the first quote without a backslash.
fn quoted_length(text: &str) -> Option<usize> {
    let is_end = |at: &usize| text.as_bytes()[*at] == b'"' && !text[..*at].ends_with('\\');
    (0..text.len()).filter(|at| text.is_char_boundary(*at)).find(is_end)
}

impl Rules {
    /// What they assign to an attribute of a disk, such as `queue/scheduler`.
    pub(super) fn assigned(&self, disk: &Block, attribute: &str) -> Assigned {
        let mut result = Assigned::default();
        // The label that a GOTO leads to, the file it is in, and whether the jump is certain.
        let mut skipping: Option<(&str, &str, bool)> = None;
        for rule in &self.lines {
            if let Some((label, file, is_certain)) = skipping {
                let is_label = rule.tokens.iter().any(|token| token.key == "LABEL" && token.value == label);
                if is_label || rule.file != file {
                    skipping = None;
                } else if is_certain {
                    continue;
                }
            }
            let mut applies = rule.applies(disk);
            if skipping.is_some() {
                applies = applies.min(Applies::Perhaps);
            }
            if applies == Applies::No {
                continue;
            }
            for token in rule.tokens.iter().filter(|token| !token.is_match()) {
                if token.key == "ATTR" && token.attribute == attribute {
                    let by = assigned(&rule.file, rule.line, &token.value);
                    match applies {
                        Applies::Yes => result.certain.push(by),
                        _ => result.perhaps = Some(format!("{}:{} may set {}", by.file, by.line, by.value)),
                    }
                }
                if token.key == "GOTO" && skipping.is_none() {
                    skipping = Some((&token.value, &rule.file, applies == Applies::Yes));
                }
            }
            if rule.tokens.iter().any(|token| token.runs_program_on(attribute)) {
                result.perhaps = Some(format!("{}:{} runs a program that mentions it", rule.file, rule.line));
            }
        }
        result
    }
}

impl Rule {
    fn applies(&self, disk: &Block) -> Applies {
        let conditions = self.tokens.iter().filter(|token| token.is_match());
        conditions.map(|token| token.holds(disk)).min().unwrap_or(Applies::Yes)
    }
}

impl Token {
    fn is_match(&self) -> bool {
        matches!(self.operator.as_str(), "==" | "!=")
    }

    /// Whether it runs a program with an attribute, or its path, on the command line.
    fn runs_program_on(&self, attribute: &str) -> bool {
        let runs =
            matches!((self.key.as_str(), self.attribute.as_str()), ("RUN" | "PROGRAM", _) | ("IMPORT", "program"));
        let is_name =
            |name: &str| self.value.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        runs && attribute.split_once('/').is_some_and(|(_, name)| is_name(name))
    }

    fn holds(&self, disk: &Block) -> Applies {
        let text = match (self.key.as_str(), self.attribute.as_str()) {
            ("ACTION", _) => "add".to_owned(),
            ("SUBSYSTEM", _) => "block".to_owned(),
            ("KERNEL", _) => disk.name.replace('/', "!"),
            ("ENV", "DEVTYPE") => "disk".to_owned(),
            ("ATTR", name) if !disk.dir.join(name).exists() => return Applies::No,
            // Of a list with the active one in brackets, udev compares the whole line.
            ("ATTR", name) => disk.attr(name),
            ("TEST", _) if !self.value.starts_with('/') => {
                let exists = disk.dir.join(&self.value).exists();
                return if exists == (self.operator == "==") { Applies::Yes } else { Applies::No };
            }
            _ => return Applies::Perhaps,
        };
        let does_match = match self.ignores_case {
            true => matches(&self.value.to_lowercase(), &text.to_lowercase()),
            false => matches(&self.value, &text),
        };
        if does_match == (self.operator == "==") { Applies::Yes } else { Applies::No }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::{AfterBoot, SettingKind};

    use crate::fixture::{self, Fixture};

    fn scheduler(fixture: Fixture) -> AfterBoot {
        let inventory = fixture.machine().settings(Some(Path::new("/")));
        inventory.setting(SettingKind::Block, "vda", "queue/scheduler").unwrap().after_boot.clone()
    }

    fn rules(text: &str) -> AfterBoot {
        scheduler(fixture::virtio().file("/etc/udev/rules.d/60-io.rules", text))
    }

    #[test]
    fn the_last_rule_that_applies_wins() {
        let after = rules(
            "# schedulers\n\
             ACTION==\"add|change\", KERNEL==\"sd[a-z]*|vd[a-z]*\", ATTR{queue/rotational}==\"1\", \\\n  \
             ATTR{queue/scheduler}=\"bfq\"\n\
             KERNEL==\"nvme*\", ATTR{queue/scheduler}=\"none\"\n\
             SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ATTR{queue/scheduler}=\"mq-deadline\"\n",
        );
        let winner = after.winner.unwrap();
        assert_eq!((winner.value.as_str(), winner.line), ("mq-deadline", 5));
        assert_eq!((after.overridden[0].value.as_str(), after.overridden[0].line), ("bfq", 2));
        assert_eq!(after.unsure, "");
    }

    #[test]
    fn a_rule_on_a_property_only_may_apply() {
        let after = rules("ENV{ID_MODEL}==\"X\", ATTR{queue/scheduler}=\"kyber\"\n");
        assert_eq!(after.winner, None);
        assert_eq!(after.unsure, "/etc/udev/rules.d/60-io.rules:1 may set kyber");
    }

    #[test]
    fn a_program_that_mentions_the_attribute_may_set_it() {
        for run in [
            "RUN+=\"/bin/sh -c 'echo bfq > /sys/block/%k/queue/scheduler'\"",
            "RUN{program}+=\"/bin/sh -c \\\"echo bfq > /sys$devpath/queue/scheduler\\\"\"",
            "PROGRAM==\"/usr/local/bin/scheduler %k\"",
        ] {
            let after = rules(&format!("KERNEL==\"vd*\", {run}, ATTR{{queue/scheduler}}=\"none\"\n"));
            assert!(after.unsure.ends_with("60-io.rules:1 runs a program that mentions it"), "{run}: {}", after.unsure);
        }
        assert_eq!(rules("KERNEL==\"sd*\", RUN+=\"/bin/x queue/scheduler\"\n").unsure, "");
        assert_eq!(rules("KERNEL==\"vd*\", RUN+=\"/bin/x queue/rotational\"\n").unsure, "");
    }

    #[test]
    fn a_match_may_ignore_case_or_have_escapes() {
        let value = |condition: &str| {
            let after = rules(&format!("{condition}, ATTR{{queue/scheduler}}=\"kyber\"\n"));
            assert_eq!(after.unsure, "");
            after.winner.map(|by| by.value)
        };
        assert_eq!(value("KERNEL==i\"VD*\"").as_deref(), Some("kyber"));
        assert_eq!(value("KERNEL==\"VD*\""), None);
        assert_eq!(value("KERNEL!=i\"VD*\""), None);
        assert_eq!(value("KERNEL==e\"vda\"").as_deref(), Some("kyber"));
        // Of the attribute itself, it is still a match and no assignment.
        assert_eq!(rules("ATTR{queue/scheduler}==i\"x\", ENV{A}=\"1\"\n").winner, None);
    }

    #[test]
    fn a_jump_skips_to_its_label() {
        let after = rules(
            "SUBSYSTEM!=\"net\", GOTO=\"end\"\nATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"\n\
             ATTR{queue/missing}!=\"1\", ATTR{queue/scheduler}=\"kyber\"\n",
        );
        assert_eq!((after.winner, after.unsure.as_str()), (None, ""));
    }

    #[test]
    fn a_file_of_etc_masks_that_of_the_distribution() {
        let theirs = || {
            fixture::virtio().file(
                "/usr/lib/udev/rules.d/60-block-scheduler.rules",
                "KERNEL==\"vd*\", ATTR{queue/scheduler}=\"bfq\"\n",
            )
        };
        assert_eq!(scheduler(theirs()).winner.unwrap().value, "bfq");
        let masked = theirs().file("/etc/udev/rules.d/60-block-scheduler.rules", "");
        assert_eq!(scheduler(masked).winner, None);
    }
}
