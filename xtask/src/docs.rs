//! `cargo xtask docs`: the pages of docs/ that are generated from the binary.
//!
//! Generated pages are committed, so that they can be read and reviewed; `--check` compares them with the binary.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use qd1_lab::cmd;

use crate::metadata;
use crate::tools::MDBOOK;

mod commands;
mod help;
mod pictures;

/// One generated file.
struct Page {
    /// Below the workspace's root.
    file: &'static str,
    form: Form,
}

/// How a page is generated.
enum Form {
    /// The binary's output for these arguments, unchanged.
    Output(&'static [&'static str]),
    /// Another program's output, after a line that says where it comes from.
    Example(Program),
    /// The help texts of all commands, and the output of [`OUTPUTS`].
    Help,
}

/// The program to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// The product.
    Binary,
    /// An example of a package: its name and the example's.
    Example(&'static str, &'static str),
}

/// The generated pages.
const PAGES: &[Page] = &[
    Page { file: "docs/schema.json", form: Form::Output(&["schema"]) },
    Page { file: "docs/schema-compare.json", form: Form::Output(&["schema", "compare"]) },
    Page { file: "docs/schema-doctor.json", form: Form::Output(&["schema", "doctor"]) },
    Page { file: "docs/fio.md", form: Form::Example(Program::Example("qd1-fio", "manual")) },
    Page { file: "docs/method/doctor.md", form: Form::Example(Program::Example("qd1-analysis", "doctor")) },
    Page { file: "docs/cli.md", form: Form::Help },
];

/// Commands whose output follows the help texts unchanged; then come the pages of `qd1 help`.
const OUTPUTS: &[&[&str]] = &[&["suites"]];
/// Its help is fio's, which docs/fio.md contains.
const NO_HELP: &str = "fio";

const GENERATED: &str = "<!-- Written by `cargo xtask docs` from the binary; change the texts in crates/app. -->";

const GENERATED_BY_EXAMPLE: &str =
    "<!-- Written by `cargo xtask docs`; change the texts in the crate that prints it. -->";

/// Writes the pages, or only compares. False if a page is out of date.
pub(crate) fn run(check_only: bool) -> Result<bool> {
    if check_only {
        check()?;
        println!("docs: {} pages up to date", PAGES.len());
        return Ok(true);
    }
    build()?;
    for (file, text) in stale(PAGES, &ask, &cmd::root())? {
        fs::write(cmd::root().join(file), text).with_context(|| format!("cannot write {file}"))?;
        println!("docs: wrote {file}");
    }
    Ok(true)
}

/// Builds a site of the documents, which can be read offline.
pub(crate) fn site() -> Result<()> {
    MDBOOK.install()?;
    cmd::run(MDBOOK.command()?.arg("build"))?;
    println!("docs: dist/site/index.html");
    Ok(())
}

/// Redraws the pictures of terminals; only those whose names contain `only`, if given.
pub(crate) fn pictures(only: &str) -> Result<()> {
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet", "--package", "qd1", "--package", "qd1-simdisk"]))?;
    pictures::run(&metadata::target_dir()?.join("release"), only)
}

/// Runs every command that the documents show; only of documents whose names contain `only`, if given.
pub(crate) fn run_commands(only: &str) -> Result<()> {
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet", "--package", "qd1", "--bin", "qd1"]))?;
    let count = commands::run(&metadata::target_dir()?.join("release/qd1"), commands::How::Whole, only)?;
    println!("docs: {count} commands ran");
    Ok(())
}

/// Fails if a page is not what the binary would generate now. The binary is built the same way as for the tests, which
/// follow: otherwise half of the crates would be compiled a second time.
pub(crate) fn check() -> Result<()> {
    cmd::capture(cmd::cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let old = stale(PAGES, &ask, &cmd::root())?;
    if !old.is_empty() {
        let names: Vec<_> = old.iter().map(|(file, _)| *file).collect();
        bail!("out of date: {}; run `cargo xtask docs` and commit", names.join(", "));
    }
    commands::run(&metadata::target_dir()?.join("debug/qd1"), commands::How::Understood, "").map(drop)
}

/// A program's output. All three streams are detached and the width is fixed: help must not depend on the terminal in
/// which it is generated.
fn ask(program: Program, args: &[&str]) -> Result<String> {
    let built = metadata::target_dir()?.join("debug");
    let mut command: Command = match program {
        Program::Example(_, example) => cmd::command(built.join("examples").join(example)),
        Program::Binary => cmd::command(built.join("qd1")),
    };
    command.args(args).env("COLUMNS", "100").env("NO_COLOR", "1").env_remove("CLICOLOR_FORCE");
    cmd::capture(&mut command)
}

/// Answers for arguments; the programs, or a stand-in.
type Ask<'a> = &'a dyn Fn(Program, &[&str]) -> Result<String>;

fn render(form: &Form, ask: Ask<'_>) -> Result<String> {
    let mut page = match form {
        Form::Output(args) => ask(Program::Binary, args)?,
        Form::Example(program) => format!("{GENERATED_BY_EXAMPLE}\n\n{}", ask(*program, &[])?),
        Form::Help => render_help(ask)?,
    };
    if !page.ends_with('\n') {
        page.push('\n');
    }
    Ok(page)
}

fn render_help(ask: Ask<'_>) -> Result<String> {
    let (mut helps, mut outputs) = (Vec::new(), String::new());
    add_help(&mut helps, &[], ask)?;
    let topics = ask(Program::Binary, &["help", "--help"])?;
    let topics = topics.lines().find_map(|line| line.strip_prefix("Topics: ")).context("help names no topics")?;
    ensure!(topics.ends_with('.'), "the topics of `qd1 help --help` take more than one line: {topics}");
    let topics = topics.trim_end_matches('.').split(", ").map(|topic| vec!["help", topic]);
    for args in OUTPUTS.iter().map(|args| args.to_vec()).chain(topics) {
        let printed = ask(Program::Binary, &args)?;
        outputs += &format!("\n## What `qd1 {}` prints\n\n{}", args.join(" "), help::code(printed.trim_end()));
    }
    Ok(format!("{GENERATED}\n\n# The command line\n{}{outputs}", help::page(&helps)))
}

/// Adds the help of a command and of all its subcommands, in the order in which it lists them.
fn add_help(helps: &mut Vec<help::Command>, words: &[&str], ask: Ask<'_>) -> Result<()> {
    let printed = ask(Program::Binary, &[words, &["--help"]].concat())?;
    helps.push(help::Command::new(&[&["qd1"], words].concat().join(" "), &printed));
    let listed = printed.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines of a description are indented further.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    // A subcommand has no page for the `help` command that clap adds.
    let is_page = |name: &&str| *name != NO_HELP && (words.is_empty() || *name != "help");
    names.filter(is_page).try_for_each(|name| add_help(helps, &[words, &[name]].concat(), ask))
}

fn build() -> Result<()> {
    cmd::capture(cmd::cargo().args(["build", "--quiet", "--package", "qd1", "--bin", "qd1"]))?;
    let examples = PAGES.iter().filter_map(|page| match page.form {
        Form::Example(Program::Example(package, example)) => Some((package, example)),
        _ => None,
    });
    for (package, example) in examples {
        cmd::capture(cmd::cargo().args(["build", "--quiet", "--package", package, "--example", example]))?;
    }
    Ok(())
}

/// The pages that differ from what the programs would generate now, each with its new text.
fn stale(pages: &[Page], ask: Ask<'_>, root: &Path) -> Result<Vec<(&'static str, String)>> {
    let mut old = Vec::new();
    for page in pages {
        let text = render(&page.form, ask).with_context(|| format!("cannot make {}", page.file))?;
        if !fs::read_to_string(root.join(page.file)).is_ok_and(|there| there == text) {
            old.push((page.file, text));
        }
    }
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with a command, a command below it, and a page of help.
    fn sample(_: Program, args: &[&str]) -> Result<String> {
        Ok(match args {
            ["--help"] => {
                "About\n\nCommands:\n  app   Run\n        it\n  fio   Fio\n  help  Help\n\nOptions:\n".to_owned()
            }
            ["app", "--help"] => "Commands:\n  etcd  Etcd\n  help  Help\n".to_owned(),
            ["help", "--help"] => "Topics: units.\n".to_owned(),
            args => format!("{args:?}   \n"),
        })
    }

    #[test]
    fn each_command_has_a_section_and_other_output_follows() {
        let page = render(&Form::Help, &sample).unwrap();
        let titles: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).skip(1).collect();
        let outputs = ["What `qd1 suites` prints", "What `qd1 help units` prints"];
        assert_eq!(titles, [&["`qd1`", "`qd1 app`", "`qd1 app etcd`", "`qd1 help`"][..], &outputs].concat());
        assert!(page.contains("## `qd1 app etcd`\n\n```text\n[\"app\", \"etcd\", \"--help\"]\n```\n"), "{page}");
        assert!(page.ends_with("\n\n```text\n[\"help\", \"units\"]\n```\n"), "{page}");
    }

    #[test]
    fn output_is_kept_and_ends_with_a_line_break() {
        assert_eq!(render(&Form::Output(&["schema"]), &|_, _| Ok("{}".into())).unwrap(), "{}\n");
    }

    #[test]
    fn a_page_of_an_example_says_where_it_is_from() {
        let form = Form::Example(Program::Example("qd1-fio", "manual"));
        let page = render(&form, &|program, _| Ok(format!("{program:?}"))).unwrap();
        assert_eq!(page, format!("{GENERATED_BY_EXAMPLE}\n\nExample(\"qd1-fio\", \"manual\")\n"));
    }

    #[test]
    fn a_page_is_stale_until_it_is_written_and_again_when_the_binary_changes() {
        let dir = tempfile::tempdir().unwrap();
        let pages = [Page { file: "schema.json", form: Form::Output(&["schema"]) }];
        let stale = |answer: &str| stale(&pages, &|_, _| Ok(answer.to_owned()), dir.path()).unwrap();
        assert_eq!(stale("{}"), [("schema.json", "{}\n".to_owned())]);
        fs::write(dir.path().join("schema.json"), "{}\n").unwrap();
        assert!(stale("{}").is_empty());
        assert_eq!(stale("[]").len(), 1);
    }
}
