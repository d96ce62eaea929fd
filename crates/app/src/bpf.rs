//! What to say where the kernel refuses programs (BPF).

use std::path::Path;

use anyhow::Error;
use qd1_model::printable;

/// Returns why programs in the kernel are refused, and what to do.
pub(crate) fn refusal(error: &Error) -> String {
    let advice = if !rustix::process::geteuid().is_root() {
        "run it as root"
    } else if Path::new("/sys/kernel/btf/vmlinux").exists() {
        "in a container, root needs CAP_BPF and CAP_PERFMON; elsewhere this kernel forbids it"
    } else {
        "the kernel does not describe itself (/sys/kernel/btf/vmlinux)"
    };
    // Between the first and the last of its causes, libraries repeat themselves.
    let (what, root) = (error.to_string(), error.root_cause().to_string());
    let reason = if what == root { what } else { format!("{what}: {root}") };
    format!("{}; {advice}", printable(&reason))
}
