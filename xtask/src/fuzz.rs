//! `cargo xtask fuzz`: runs the fuzz targets, each for a while, starting from the committed corpus.
//!
//! It installs cargo-fuzz if that is missing. New inputs go to a separate directory, so that the committed corpus stays
//! small; `--keep` adds the inputs that reach code which no committed one reaches.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args as Arguments;
use qd1_lab::cmd;

use crate::chosen::chosen;
use crate::metadata;
use crate::tools::FUZZ;

/// The targets, as in fuzz/Cargo.toml.
const TARGETS: &[&str] =
    &["fio_job", "fio_args", "suite", "thresholds", "conninfo", "journal", "record", "import", "export", "trace_file"];

/// Longest input that is added to the committed corpus, in bytes: thousands of long ones would dominate the repository.
const KEPT_MAX: u64 = 2048;

/// Its arguments.
#[derive(Arguments)]
pub(crate) struct Args {
    /// Only these targets
    targets: Vec<String>,
    /// Time for each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Afterwards add inputs that reach new code to the committed corpus, up to 2 KiB each
    #[arg(long)]
    keep: bool,
}

/// Runs the targets in turn. An error if one of them found something.
pub(crate) fn run(args: &Args) -> Result<()> {
    let targets = chosen(TARGETS, |target| target, &args.targets, "target")?;
    FUZZ.install()?;
    targets.into_iter().try_for_each(|target| one(target, args))
}

fn one(target: &str, args: &Args) -> Result<()> {
    let found = metadata::target_dir()?.join("fuzz-corpus").join(target);
    let seeds = cmd::root().join("fuzz/corpus").join(target);
    for dir in [&found, &seeds] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    println!("fuzz: {target} for {} s; new inputs go to {}", args.seconds, found.display());
    // Files written by programs are longer than those written by people.
    let is_long = matches!(target, "record" | "import" | "export");
    let longest = if is_long { "-max_len=65536" } else { "-max_len=8192" };
    let mut fuzz = cargo_fuzz()?;
    fuzz.args(["run", target]).arg(&found).arg(&seeds);
    // The built-in files serve as seeds, and so do those written by other tools.
    match target {
        "suite" | "thresholds" => drop(fuzz.arg(cmd::root().join("crates/suites/src"))),
        "import" => drop(fuzz.arg(cmd::root().join("crates/import/tests/samples"))),
        _ => {}
    }
    fuzz.arg("--");
    // An input that takes milliseconds takes seconds when other programs have the processors.
    fuzz.args([&format!("-max_total_time={}", args.seconds), longest, "-timeout=60", "-rss_limit_mb=1024"]);
    cmd::run(&mut fuzz)?;
    if !args.keep {
        return Ok(());
    }
    let names = || fs::read_dir(&seeds)?.map(|entry| Ok(entry?.path())).collect::<Result<BTreeSet<PathBuf>>>();
    let before = names()?;
    cmd::run(cargo_fuzz()?.args(["run", target]).arg(&seeds).arg(&found).args(["--", "-merge=1"]))?;
    let mut kept = 0;
    for added in names()?.difference(&before) {
        if fs::metadata(added)?.len() > KEPT_MAX {
            fs::remove_file(added)?;
        } else {
            kept += 1;
        }
    }
    println!("fuzz: added {kept} inputs of {target}");
    Ok(())
}

/// cargo-fuzz in the fuzz package. Its instrumentation needs compiler flags that only a nightly compiler accepts, or
/// the pinned one if explicitly allowed.
fn cargo_fuzz() -> Result<std::process::Command> {
    let mut fuzz = FUZZ.command()?;
    fuzz.current_dir(cmd::root().join("fuzz")).env("RUSTC_BOOTSTRAP", "1");
    // Link-time optimisation removes symbols that the instrumentation refers to, and takes minutes for each target.
    fuzz.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    Ok(fuzz)
}
