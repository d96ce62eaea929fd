//! Texts from the table of options: `--help`, `--cmdhelp`, `--enghelp`, `--showcmd`.

use std::fmt::Write;

use crate::engines::{ENGINES, EngineName, why_not};
use crate::flags::{FLAGS, FlagAction, FlagValue};
use crate::job::{FioJob, Given};
use crate::options::{self, FioOption, Support, ValueKind};

/// `--help`.
pub fn usage() -> String {
    let mut text = String::from("Usage: fio [FLAGS] [OPTIONS] [JOB FILES]\n\n");
    text.push_str("Each --name=NAME starts a job; options before the first apply to all jobs.\n\n");
    for flag in FLAGS.iter().filter(|flag| !matches!(flag.act, FlagAction::Refuse(_))) {
        let takes = match flag.takes {
            FlagValue::Nothing => "",
            FlagValue::Value => "=VALUE",
            FlagValue::Optional => "[=NAME]",
        };
        let _ = writeln!(text, "  {:<24}{}", format!("--{}{takes}", flag.name), flag.help);
    }
    text.push_str("\n--cmdhelp=all lists the job options; docs/fio.md compares them with fio's.\n");
    text
}

/// `--cmdhelp`: all options, or one. `Err` is for an unknown name.
pub fn cmdhelp(name: &str) -> Result<String, String> {
    let mut text = String::new();
    if name.is_empty() || name == "all" {
        for option in options::all().filter(|option| option.is_here() && option.engines.is_empty()) {
            let _ = writeln!(text, "{:<28}: {}", option.name, option.help);
        }
        return Ok(text);
    }
    match (options::find(name), options::nearest(name)) {
        (Some(option), _) => Ok(about(option)),
        (None, Some(near)) => Err(format!("unknown option {name}; did you mean {near}?")),
        (None, None) => Err(format!("unknown option {name}")),
    }
}

/// One option in full.
fn about(option: &FioOption) -> String {
    let mut text = String::new();
    let mut line = |title: &str, value: &str| {
        let _ = writeln!(text, "{title:>20}: {value}");
    };
    line(option.name, option.help);
    if !option.aliases.is_empty() {
        line("alias", &option.aliases.join(", "));
    }
    if !option.engines.is_empty() {
        line("engines", &option.engines.join(", "));
    }
    match option.kind {
        ValueKind::Choice { words, .. } => {
            for (index, (word, help)) in words().into_iter().enumerate() {
                line(if index == 0 { "takes" } else { "" }, &format!("{word:<16} {help}"));
            }
        }
        _ => line("takes", &option.accepts()),
    }
    match option.support {
        Support::Refused(why) if option.plain.is_empty() => line("not in qd1", why),
        Support::Refused(why) => line(&format!("only {} in qd1", option.plain.join(", ")), why),
        support => {
            line("default", option.default.unwrap_or("none"));
            match support {
                Support::Differs(how) => line("differs from fio", how),
                Support::Ours => line("beyond fio", "fio does not have this option"),
                Support::Supported | Support::Refused(_) => {}
            }
        }
    }
    text
}

/// `--enghelp`: all engines, an engine's options, or one of them. `Err` is for an unknown name.
pub fn enghelp(name: &str) -> Result<String, String> {
    let mut text = String::new();
    if name.is_empty() {
        text.push_str("Available IO engines:\n");
        for (name, _, help) in ENGINES {
            let _ = writeln!(text, "\t{name:<12} {help}");
        }
        return Ok(text);
    }
    let (name, wanted) = name.split_once(',').unwrap_or((name, ""));
    if EngineName::parse(name).is_none() {
        return Err(match why_not(name) {
            Ok(why) => format!("qd1 does not have IO engine {name}: {why}"),
            Err(_) => format!("unknown IO engine {name}"),
        });
    }
    let mut own = options::all().filter(|option| option.engines.contains(&name));
    if !wanted.is_empty() {
        let found = own.find(|option| option.name == wanted);
        return found.map(about).ok_or_else(|| format!("IO engine {name} has no option {wanted}"));
    }
    for option in own.filter(|option| option.is_here()) {
        let _ = writeln!(text, "{:<24}: {}", option.name, option.help);
    }
    if text.is_empty() {
        let _ = writeln!(text, "IO engine {name} has no options of its own");
    }
    Ok(text)
}

/// `--showcmd`: the jobs as a command line that means the same.
pub fn showcmd(globals: &[Given], jobs: &[FioJob]) -> String {
    let mut text = String::from("fio");
    let mut shown = 0;
    for (index, job) in jobs.iter().enumerate() {
        if job.globals > shown {
            if index > 0 {
                text.push_str(" --name=global");
            }
            for given in globals.iter().take(job.globals).skip(shown) {
                argument(&mut text, given);
            }
            shown = job.globals;
        }
        let _ = write!(text, " --name={}", quoted(&job.name));
        for given in job.given.iter().filter(|given| given.name != "name") {
            argument(&mut text, given);
        }
        if job.stonewall && !job.gave("stonewall") {
            text.push_str(" --stonewall");
        }
    }
    text.push('\n');
    text
}

fn argument(text: &mut String, given: &Given) {
    let _ = match &given.value {
        Some(value) => write!(text, " --{}={}", given.name, quoted(value)),
        // A log's prefix may be left out only in a file.
        None if options::find(given.name).is_some_and(|option| !matches!(option.kind, ValueKind::Flag(_))) => {
            write!(text, " --{}=''", given.name)
        }
        None => write!(text, " --{}", given.name),
    };
}

/// A value quoted for a shell.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,%=@".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_there_for_what_is_here_and_for_what_is_not() {
        assert!(cmdhelp("blocksize").unwrap().contains("Block size"));
        assert!(cmdhelp("cgroup").unwrap().contains("not in qd1"));
        assert!(cmdhelp("iodeph").unwrap_err().contains("iodepth"));
        assert!(enghelp("io_uring").unwrap().contains("fixedbufs"));
        assert!(enghelp("io_uring,hipri").is_ok() && enghelp("psync").is_ok());
        assert!(enghelp("rbd").is_err() && enghelp("nonesuch").is_err());
    }
}
