//! `cargo xtask check`: everything that can be checked in the sources without running the product.
//!
//! Each check prints one line; all of them run even if one fails, so that one round shows everything that is wrong.

mod circles;
mod house;
mod layers;
mod modules;
mod paths;
mod phrases;

use anyhow::{Context, Result, ensure};
use qd1_lab::{clock, cmd};

use crate::chosen::chosen;
use crate::tools::{AST_GREP, DENY, RUMDL, SHEAR, TYPOS, Tool};
use crate::{bpf, docs};

/// Notes of a check that passes, one per line.
type Notes = Vec<String>;

struct Check {
    name: &'static str,
    /// The pinned program that it runs.
    tool: Option<&'static Tool>,
    run: fn() -> Result<Notes>,
}

/// Quick ones first: a wrong format should not wait for clippy.
const CHECKS: &[Check] = &[
    Check { name: "fmt", tool: None, run: fmt },
    Check { name: "layers", tool: None, run: layers::run },
    Check { name: "circles", tool: None, run: circles::run },
    Check { name: "house", tool: Some(&AST_GREP), run: house::run },
    Check { name: "typos", tool: Some(&TYPOS), run: typos },
    Check { name: "phrases", tool: Some(&AST_GREP), run: phrases::run },
    Check { name: "links", tool: Some(&RUMDL), run: links },
    Check { name: "licences", tool: Some(&DENY), run: licences },
    Check { name: "unused", tool: Some(&SHEAR), run: unused },
    Check { name: "clippy", tool: None, run: clippy },
    Check { name: "rustdoc", tool: None, run: rustdoc },
    Check { name: "docs", tool: None, run: generated_docs },
    // Last: its compiler is installed while the others run.
    Check { name: "bpf", tool: None, run: object_of_bpf },
];

/// Runs the named checks, or all. False if one failed.
pub(crate) fn run(names: &[String]) -> Result<bool> {
    if names.iter().any(|name| name == "list") {
        CHECKS.iter().for_each(|check| println!("{}", check.name));
        return Ok(true);
    }
    let chosen = chosen(CHECKS, |check| check.name, names, "check")?;
    let failed: Vec<_> = chosen.into_iter().filter(|check| !passes(check)).map(|check| check.name).collect();
    if failed.is_empty() {
        println!("check: all passed");
    } else {
        println!("check: failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

/// Runs one check and prints its line, with its findings indented below.
fn passes(check: &Check) -> bool {
    // A tool that cannot be installed fails only its own check; the others do not wait for it either.
    let (outcome, took) = clock::timed(|| check.tool.map_or(Ok(()), Tool::install).and_then(|()| (check.run)()));
    let (word, lines) = match &outcome {
        Ok(notes) => ("ok  ", notes.clone()),
        Err(error) => ("FAIL", format!("{error:#}").lines().map(str::to_owned).collect()),
    };
    println!("{word} {} ({:.1} s)", check.name, took.as_secs_f64());
    for line in lines {
        println!("       {line}");
    }
    outcome.is_ok()
}

fn fmt() -> Result<Notes> {
    cmd::capture(cmd::cargo().args(["fmt", "--all", "--check", "--", "-l"])).context("run `cargo fmt --all`")?;
    Ok(Vec::new())
}

fn clippy() -> Result<Notes> {
    let mut clippy = cmd::cargo();
    clippy.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    cmd::capture(&mut clippy)?;
    Ok(Vec::new())
}

fn rustdoc() -> Result<Notes> {
    let mut doc = cmd::cargo();
    doc.args(["doc", "--quiet", "--no-deps", "--workspace", "--document-private-items"]);
    // Private items are documented too, so links to them resolve; nothing is published without them.
    cmd::capture(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))?;
    Ok(Vec::new())
}

/// What the binary may contain, according to `deny.toml`. Advisories are left out: their database is on the network,
/// and a new entry must not make an old commit fail.
fn licences() -> Result<Notes> {
    let mut deny = DENY.command()?;
    deny.args(["--locked", "--color", "never", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    let said =
        cmd::capture_all(&mut deny).context("`cargo tree --workspace --invert NAME` shows what depends on it")?;
    Ok(said.lines().filter_map(|line| line.strip_prefix("warning[duplicate]: ")).map(str::to_owned).collect())
}

/// Dependencies that no source uses or only tests use, files that no module names, and targets built for tests that do
/// not exist.
fn unused() -> Result<Notes> {
    cmd::capture(SHEAR.command()?.args(["--deny-warnings", "--locked", "--color", "never", "."]))?;
    Ok(Vec::new())
}

/// Runs ast-grep, whose configuration is `sgconfig.yml`.
fn ast_grep(args: &[&str]) -> Result<Notes> {
    let style: &[&str] = if args[0] == "scan" { &["--report-style", "short", "--color", "never"] } else { &[] };
    let output = cmd::output(AST_GREP.command()?.args(args).args(style))?;
    // Its rules are among the arguments and need not be shown.
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end()
    );
    Ok(Vec::new())
}

/// Links from one document to another: each leads to a file that exists, and to a heading that it has.
fn links() -> Result<Notes> {
    cmd::capture(RUMDL.command()?.args(["check", "--no-cache", "--color", "never", "."]))?;
    Ok(Vec::new())
}

fn typos() -> Result<Notes> {
    cmd::capture(TYPOS.command()?.args(["--color", "never", "--format", "brief"]))?;
    Ok(Vec::new())
}

fn generated_docs() -> Result<Notes> {
    docs::check()?;
    Ok(Vec::new())
}

fn object_of_bpf() -> Result<Notes> {
    let missing = bpf::missing();
    if missing.is_empty() {
        bpf::check()?;
    }
    Ok(missing.iter().map(|tool| format!("not compared: {tool} is missing; run `cargo xtask setup`")).collect())
}
