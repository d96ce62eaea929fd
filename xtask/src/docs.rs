//! `cargo xtask docs`: the pages of docs/ that the binary itself knows best.
//!
//! Generated pages are committed, so that they can be read and reviewed; `--check` holds them against the binary.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools::MDBOOK;
use crate::{cmd, metadata};

mod commands;
mod help;
mod pictures;

/// One generated file.
struct Page {
    /// Below the workspace's root.
    file: &'static str,
    form: Form,
}

/// How a page comes to be.
enum Form {
    /// What the binary prints for these arguments, as it is.
    Output(&'static [&'static str]),
    /// What another program prints, with a line before it that says where it is from.
    Example(Program),
    /// A page of help texts, one for each row of arguments. Any other output follows as it is.
    Help(&'static [&'static [&'static str]]),
}

/// Who is asked.
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
    Page { file: "docs/fio.md", form: Form::Example(Program::Example("qd1-fio", "manual")) },
    Page {
        file: "docs/cli.md",
        form: Form::Help(&[
            &["--help"],
            &["check", "--help"],
            &["run", "--help"],
            &["sweep", "--help"],
            &["limits", "--help"],
            &["sync", "--help"],
            &["meta", "--help"],
            &["ping", "--help"],
            &["powercut", "--help"],
            &["powercut", "write", "--help"],
            &["powercut", "witness", "--help"],
            &["powercut", "check", "--help"],
            &["predict", "--help"],
            &["identify", "--help"],
            &["filesystems", "--help"],
            &["restore", "--help"],
            &["app", "--help"],
            &["app", "postgres", "--help"],
            &["app", "mysql", "--help"],
            &["app", "etcd", "--help"],
            &["app", "sqlite", "--help"],
            &["app", "rocksdb", "--help"],
            &["app", "sysbench", "--help"],
            &["suites", "--help"],
            &["suites"],
            &["compare", "--help"],
            &["report", "--help"],
            &["plot", "--help"],
            &["history", "--help"],
            &["history", "show", "--help"],
            &["history", "tag", "--help"],
            &["history", "note", "--help"],
            &["history", "prune", "--help"],
            &["history", "export", "--help"],
            &["history", "import", "--help"],
            &["schema", "--help"],
            &["completions", "--help"],
            &["version", "--help"],
            &["help", "--help"],
            &["help", "verdicts"],
            &["help", "units"],
            &["help", "exit-codes"],
            &["help", "safety"],
        ]),
    },
];

const GENERATED: &str = "<!-- Written by `cargo xtask docs` from the binary; change the texts in crates/app. -->";

const GENERATED_BY_EXAMPLE: &str = "<!-- Written by `cargo xtask docs`; change the texts in crates/fio. -->";

/// Writes the pages, or only compares. False where a page is out of date.
pub(crate) fn run(check_only: bool) -> Result<bool> {
    if check_only {
        check()?;
        println!("docs: {} pages up to date", PAGES.len());
        return Ok(true);
    }
    build()?;
    for file in write(PAGES, &ask, &cmd::root())? {
        println!("docs: wrote {file}");
    }
    Ok(true)
}

/// Makes a site of the documents, which needs no network to be read.
pub(crate) fn site() -> Result<()> {
    MDBOOK.install()?;
    cmd::run(MDBOOK.command()?.arg("build"))?;
    println!("docs: dist/site/index.html");
    Ok(())
}

/// Makes the pictures of terminals anew; those whose names hold `only`, where it is given.
pub(crate) fn pictures(only: &str) -> Result<()> {
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet", "--package", "qd1", "--package", "qd1-simdisk"]))?;
    pictures::run(&metadata::target_dir()?.join("release"), only)
}

/// Runs every command that the documents show; of those whose names hold `only`, where it is given.
pub(crate) fn run_commands(only: &str) -> Result<()> {
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet", "--package", "qd1", "--bin", "qd1"]))?;
    let count = commands::run(&metadata::target_dir()?.join("release/qd1"), commands::How::Whole, only)?;
    println!("docs: {count} commands ran");
    Ok(())
}

/// Fails where a page is not what the binary would make of it now. The binary is built as the tests build it, which follow:
/// built by itself, half of the crates would be compiled once more.
pub(crate) fn check() -> Result<()> {
    cmd::capture(cmd::cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let old = stale(PAGES, &ask, &cmd::root())?;
    if !old.is_empty() {
        bail!("out of date: {}; run `cargo xtask docs` and commit", old.join(", "));
    }
    commands::run(&metadata::target_dir()?.join("debug/qd1"), commands::How::Understood, "").map(drop)
}

/// What a program prints. All three streams are detached and the width is fixed: help must not depend on the
/// terminal that it is made in.
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
        Form::Help(commands) => render_help(commands, ask)?,
    };
    if !page.ends_with('\n') {
        page.push('\n');
    }
    Ok(page)
}

fn render_help(commands: &[&[&str]], ask: Ask<'_>) -> Result<String> {
    let mut helps = Vec::new();
    let mut outputs = String::new();
    for args in commands {
        let printed = ask(Program::Binary, args)?;
        let shown = ["qd1"].iter().chain(*args).copied().filter(|word| *word != "--help").collect::<Vec<_>>().join(" ");
        if args.contains(&"--help") {
            helps.push(help::Command::new(&shown, &printed));
        } else {
            outputs.push_str(&format!("\n## What `{shown}` prints\n\n{}", help::code(printed.trim_end())));
        }
    }
    Ok(format!("{GENERATED}\n\n# The command line\n{}{outputs}", help::page(&helps)))
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

fn write(pages: &[Page], ask: Ask<'_>, root: &Path) -> Result<Vec<&'static str>> {
    let mut written = Vec::new();
    for page in pages {
        let text = render(&page.form, ask).with_context(|| format!("cannot make {}", page.file))?;
        let file = root.join(page.file);
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            continue;
        }
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        written.push(page.file);
    }
    Ok(written)
}

fn stale(pages: &[Page], ask: Ask<'_>, root: &Path) -> Result<Vec<&'static str>> {
    let mut old = Vec::new();
    for page in pages {
        let text = render(&page.form, ask).with_context(|| format!("cannot make {}", page.file))?;
        if !fs::read_to_string(root.join(page.file)).is_ok_and(|there| there == text) {
            old.push(page.file);
        }
    }
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Page = Page { file: "cli.md", form: Form::Help(&[&["--help"], &["check", "--help"]]) };

    #[test]
    fn help_texts_become_sections() {
        let page = render(&SAMPLE.form, &|_, args| Ok(format!("help of {args:?}   \n"))).unwrap();
        assert!(page.contains("## `qd1`\n\n```text\nhelp of [\"--help\"]\n```\n"), "{page}");
        assert!(page.contains("## `qd1 check`\n"), "{page}");
    }

    #[test]
    fn output_that_is_no_help_follows_the_commands() {
        let form = Form::Help(&[&["suites"], &["suites", "--help"]]);
        let page = render(&form, &|_, args| Ok(format!("{args:?}\n"))).unwrap();
        let (commands, outputs) = page.split_once("## What `qd1 suites` prints").unwrap();
        assert!(commands.contains("## `qd1 suites`"), "{page}");
        assert_eq!(outputs, "\n\n```text\n[\"suites\"]\n```\n");
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
        let answers = |text: &'static str| move |_: Program, _: &[&str]| Ok(text.to_owned());
        assert_eq!(stale(&pages, &answers("{}"), dir.path()).unwrap(), ["schema.json"]);
        assert_eq!(write(&pages, &answers("{}"), dir.path()).unwrap(), ["schema.json"]);
        assert!(stale(&pages, &answers("{}"), dir.path()).unwrap().is_empty());
        assert!(write(&pages, &answers("{}"), dir.path()).unwrap().is_empty());
        assert_eq!(stale(&pages, &answers("[]"), dir.path()).unwrap(), ["schema.json"]);
    }
}
