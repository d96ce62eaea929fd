//! The message for when the kernel refuses BPF programs.

use std::path::Path;

use anyhow::Error;
use qd1_model::printable;

/// Returns why the kernel refuses BPF programs, and what to do.
pub(crate) fn refusal(error: &Error) -> String {
    let advice = if !rustix::process::geteuid().is_root() {
        "run it as root"
    } else if Path::new("/sys/kernel/btf/vmlinux").exists() {
        "in a container, add CAP_BPF and CAP_PERFMON; elsewhere, this kernel forbids BPF"
    } else {
        "use a kernel built with it (CONFIG_DEBUG_INFO_BTF)"
    };
    // The causes between the first and the last only repeat what these two say.
    let (what, root) = (error.to_string(), error.root_cause().to_string());
    let reason = if what == root { what } else { format!("{what}: {root}") };
    format!("{}; {advice}", printable(&reason))
}
