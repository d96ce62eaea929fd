//! `cargo xtask bpf`: builds the programs in the kernel from C, with a pinned clang.
//!
//! The object is committed, so that only who changes it needs a compiler; `check bpf` compares its bytes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use qd1_lab::cmd;

/// Debian's of the pinned version: another one makes other bytes.
const CLANG: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";
/// The object, next to its source.
const OBJECT: &str = "crates/trace/bpf/trace.bpf.o";

/// Writes the object anew.
pub(crate) fn run() -> Result<()> {
    let object = cmd::root().join(OBJECT);
    build(&object)?;
    println!("bpf: wrote {OBJECT} ({} bytes)", fs::metadata(&object)?.len());
    Ok(())
}

/// Fails where the committed object is not what the source gives.
pub(crate) fn check() -> Result<()> {
    let fresh = tempfile::tempdir()?;
    let object = fresh.path().join("trace.bpf.o");
    build(&object)?;
    let committed = fs::read(cmd::root().join(OBJECT)).with_context(|| format!("cannot read {OBJECT}"))?;
    ensure!(fs::read(&object)? == committed, "{OBJECT} is not what its source gives; run `cargo xtask bpf`");
    Ok(())
}

/// The tools that are not here.
pub(crate) fn missing() -> Vec<&'static str> {
    [CLANG, STRIP].into_iter().filter(|tool| cmd::find(tool).is_none()).collect()
}

fn build(object: &Path) -> Result<()> {
    ensure!(missing().is_empty(), "{} is missing; run `cargo xtask setup`", missing().join(", "));
    let source = cmd::root().join(OBJECT).with_extension("c");
    let dir = source.parent().context("the source has no directory")?;
    let mut clang = cmd::command(CLANG);
    // Line information, which the kernel's verifier quotes, must not name this machine's paths.
    clang.current_dir(dir).args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf"]);
    clang.arg(format!("-fdebug-prefix-map={}=.", dir.display())).arg("-c").arg("trace.bpf.c").arg("-o").arg(object);
    cmd::capture(&mut clang)?;
    cmd::capture(cmd::command(STRIP).arg("-g").arg(object)).map(drop)
}
