//! `qd1 version`: the version of qd1, and with `--verbose` what this machine supports.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_engine::backing::Target;
use qd1_engine::select::probe;
use qd1_model::plan::EngineKind;

use crate::args::DestinationArgs;
use crate::output;

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Column of the text.
const COLUMN: usize = 12;

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Also show what qd1 was built for, and what the kernel, this user and this directory allow
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Prints the version.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn run(args: &VersionArgs) -> Result<ExitCode> {
    let mut text = format!("qd1 {}\n", env!("CARGO_PKG_VERSION"));
    if args.verbose {
        for (label, what) in found() {
            let _ = writeln!(text, "{label:<COLUMN$}{what}");
        }
    }
    output::write(&DestinationArgs::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}

fn found() -> Vec<(&'static str, String)> {
    let libc = if cfg!(target_env = "musl") { "musl, static" } else { "glibc" };
    let works = |kind| probe(kind).map_or_else(|error| format!("no: {error}"), |()| "yes".to_owned());
    let unnamed = match Target::unnamed_in(Path::new(".")) {
        Ok(Some(_)) => "yes".to_owned(),
        Ok(None) => "no: test files here get a name, and are unlinked immediately".to_owned(),
        Err(error) => format!("no: {error}"),
    };
    vec![
        ("built for", format!("{}, {libc}", std::env::consts::ARCH)),
        ("schema", format!("version {} of the --json output", qd1_model::SCHEMA_VERSION)),
        ("kernel", trimmed("/proc/sys/kernel/osrelease")),
        ("page size", format!("{} B", rustix::param::page_size())),
        ("clock", format!("{}, read in {:.0} ns", trimmed(CLOCK), qd1_clock::cost().0)),
        ("io_uring", works(EngineKind::IoUring)),
        ("libaio", works(EngineKind::Libaio)),
        ("O_TMPFILE", format!("{unnamed} (in this directory)")),
        ("BPF", if Path::new(BTF).exists() { "yes: the kernel describes its types" } else { "no: no BTF" }.to_owned()),
        (
            "root",
            if rustix::process::geteuid().is_root() { "yes" } else { "no: no SMART data, mounts or --destroy" }
                .to_owned(),
        ),
    ]
}

/// Returns a file of one line; "not known" if it cannot be read.
fn trimmed(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "not known".to_owned(), |text| text.trim().to_owned())
}
