//! `cargo xtask bpf`: builds the in-kernel (eBPF) programs from C, with a pinned clang.
//!
//! The objects are committed, so that only those who change them need a compiler; `check bpf` compares their bytes.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use qd1_lab::cmd;

/// Debian's compiler in the pinned version: another version produces other bytes.
const CLANG: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";
/// The objects, next to their sources.
const OBJECTS: [&str; 2] = ["crates/trace/bpf/trace.bpf.o.gz", "crates/trace/bpf/live.bpf.o.gz"];

/// Rebuilds the objects.
pub(crate) fn run() -> Result<()> {
    for path in OBJECTS {
        let object = cmd::root().join(path);
        build(path, &object)?;
        println!("bpf: wrote {path} ({} bytes)", fs::metadata(&object)?.len());
    }
    Ok(())
}

/// Fails if a committed object is not what its source compiles to.
pub(crate) fn check() -> Result<()> {
    let fresh = tempfile::tempdir()?;
    let object = fresh.path().join("fresh.bpf.o.gz");
    for path in OBJECTS {
        build(path, &object)?;
        let committed = fs::read(cmd::root().join(path)).with_context(|| format!("cannot read {path}"))?;
        ensure!(fs::read(&object)? == committed, "{path} does not match its source; run `cargo xtask bpf`");
    }
    Ok(())
}

/// The tools that are missing.
pub(crate) fn missing() -> Vec<&'static str> {
    [CLANG, STRIP].into_iter().filter(|tool| cmd::find(tool).is_none()).collect()
}

fn build(path: &str, object: &Path) -> Result<()> {
    ensure!(missing().is_empty(), "{} is missing; run `cargo xtask setup`", missing().join(", "));
    let source = cmd::root().join(path.trim_end_matches(".o.gz").to_owned() + ".c");
    let (Some(dir), Some(name)) = (source.parent(), source.file_name()) else { bail!("{path} has no source") };
    let mut clang = cmd::command(CLANG);
    // Line information, which the kernel's verifier quotes, must not name this machine's paths.
    clang.current_dir(dir).args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf"]);
    let compiled = tempfile::NamedTempFile::new()?;
    clang.arg(format!("-fdebug-prefix-map={}=.", dir.display())).arg("-c").arg(name).arg("-o").arg(compiled.path());
    cmd::capture(&mut clang)?;
    cmd::capture(cmd::command(STRIP).arg("-g").arg(compiled.path()))?;
    // The binary holds them compressed: they are a quarter as large.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&fs::read(compiled.path())?)?;
    Ok(fs::write(object, gzip.finish()?)?)
}
