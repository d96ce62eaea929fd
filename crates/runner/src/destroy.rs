//! The rule of `--destroy`: a block device is written only if it is named a second time, and nothing uses it.

use std::path::Path;

use anyhow::Result;
use qd1_engine::backing::PathKind;
use qd1_model::{Problem, ProblemKind};
use qd1_probe::Machine;

use crate::place::Place;

/// Returns true if `named`, the device of `--destroy`, allows overwriting the place.
///
/// # Errors
/// When it names anything but the block device that is the place: a typing error must not cost a disk.
pub fn is_allowed(place: &Place, named: Option<&Path>) -> Result<bool, Problem> {
    let Some(named) = named else { return Ok(false) };
    let is_block = matches!(place.kind, PathKind::Block(_));
    if is_block && std::fs::canonicalize(named).is_ok_and(|named| named == place.path) {
        return Ok(true);
    }
    let message = format!(
        "--destroy has to name the same block device as PATH ({}), so that no disk is overwritten by a slip; nothing was \
         written",
        place.path.display()
    );
    Err(Problem::new(ProblemKind::Unsafe, message))
}

/// Refuses to write to a device that is in use or read-only: the kernel would reject only the first request, with an
/// error that gives no reason.
///
/// # Errors
/// When the device is in use or read-only; the message gives the reasons.
pub fn refuse_in_use(machine: &Machine, device: &Path) -> Result<()> {
    if machine.is_read_only_block(device) {
        let device = device.display();
        let message = format!(
            "{device} is read-only; leave --destroy out to measure reads alone, or, if it may be written, \
             allow that first (blockdev --setrw {device})"
        );
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    let uses = machine.block_uses(device);
    if uses.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = uses.iter().map(|in_use| format!("  {in_use}")).collect();
    let message = format!("{} is not written:\n{}", device.display(), reasons.join("\n"));
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}
