//! The rule of `--destroy`: a block device is written only if it is named a second time, and nothing uses it.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use qd1_engine::backing::PathKind;
use qd1_model::{Problem, ProblemKind};
use qd1_probe::Machine;
use qd1_system::tool;

use crate::place::Place;

/// Returns true if `named`, the device of `--destroy`, allows overwriting the place.
///
/// # Errors
/// When it names anything but the block device that is the place: a typing error must not cost a disk.
pub fn is_allowed(place: &Place, named: Option<&Path>) -> Result<bool, Problem> {
    let Some(named) = named else { return Ok(false) };
    let is_block = matches!(place.kind, PathKind::Block(_));
    let is_same = std::fs::canonicalize(named).is_ok_and(|named| named == place.path);
    if is_block && is_same { Ok(true) } else { Err(mismatch(&place.path)) }
}

/// The same before anything is opened, for which there may be no permission. A path that does not exist is reported
/// elsewhere.
///
/// # Errors
/// When `named` is not the block device at `path`.
pub fn refuse_mismatch(path: &Path, named: Option<&Path>) -> Result<(), Problem> {
    let (Some(named), Ok(path)) = (named, std::fs::canonicalize(path)) else { return Ok(()) };
    let is_block = std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_block_device());
    let is_same = std::fs::canonicalize(named).is_ok_and(|named| named == path);
    if is_block && is_same { Ok(()) } else { Err(mismatch(&path)) }
}

fn mismatch(path: &Path) -> Problem {
    let message = format!(
        "--destroy must name the same block device as PATH ({}), so that no disk is overwritten by mistake; nothing \
         was written",
        path.display()
    );
    Problem::new(ProblemKind::Unsafe, message)
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
            "{device} is read-only; leave out --destroy to measure only reads, or make it writable first \
             (blockdev --setrw {device})"
        );
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    let mut reasons: Vec<String> = machine.block_uses(device).iter().map(|in_use| format!("  {in_use}")).collect();
    if reasons.is_empty() {
        reasons.extend(second_opinion(device));
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let message = format!("{} was not written:\n{}", device.display(), reasons.join("\n"));
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

/// What `blkid`, if installed, sees on a device on which nothing was found: a newer one may know a format that
/// this binary does not.
fn second_opinion(device: &Path) -> Option<String> {
    let blkid = tool::find("blkid")?;
    let output = Command::new(blkid).args(["-p", "-o", "export"]).arg(device).stdin(Stdio::null()).output().ok()?;
    let kind = match output.status.code() {
        Some(0) => type_of(&String::from_utf8_lossy(&output.stdout))?,
        Some(BLKID_AMBIVALENT) => "more than one filesystem".to_owned(),
        _ => return None,
    };
    let device = device.display();
    Some(format!(
        "  refusing to overwrite {device}: blkid says that it holds {kind}; if you do not need it, erase it first \
         (wipefs --all {device})"
    ))
}

/// blkid's exit code where it found several signatures and prints none.
const BLKID_AMBIVALENT: i32 = 8;

/// The filesystem or partition table in what `blkid -o export` prints. Anything else that it says, such as a block
/// size, is not a reason: random data has some of it now and then.
fn type_of(export: &str) -> Option<String> {
    let value = |key: &str| export.lines().find_map(|line| line.strip_prefix(key)).filter(|value| !value.is_empty());
    let kind = value("TYPE=")
        .map(str::to_owned)
        .or_else(|| value("PTTYPE=").map(|table| format!("a {table} partition table")))?;
    Some(kind.chars().filter(|letter| !letter.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// Cause: what libblkid knows and this binary does not was overwritten.
    #[test]
    fn what_blkid_sees_is_a_reason_to_refuse() {
        if tool::find("blkid").is_none() {
            return eprintln!("SKIPPED: blkid is not installed");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        assert_eq!(second_opinion(file.path()), None, "blank");
        file.as_file().write_all_at(b"ORCLDISK", 32).unwrap();
        let said = second_opinion(file.path()).unwrap();
        assert!(said.contains("holds oracleasm") && said.contains("wipefs"), "{said}");
        // Two at once.
        file.as_file().write_all_at(b"XFSB", 0).unwrap();
        file.as_file().write_all_at(b"-rom1fs-", 0).unwrap();
        assert!(second_opinion(file.path()).is_some());
    }

    #[test]
    fn only_a_type_or_a_partition_table_counts() {
        assert_eq!(type_of("DEVNAME=/dev/x\nBLOCK_SIZE=512\nUSAGE=raid\n"), None);
        assert_eq!(type_of("DEVNAME=/dev/x\nTYPE=minix\n").unwrap(), "minix");
        assert_eq!(type_of("PTUUID=1\nPTTYPE=dos\n").unwrap(), "a dos partition table");
        assert_eq!(type_of("TYPE=a\x1b[2Jb\n").unwrap(), "a[2Jb");
    }

    /// A benchmark leaves random data, and its next run must not be refused for it.
    #[test]
    fn random_data_does_not_convince_blkid() {
        let mut seed = 7u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        for round in 0..50 {
            let bytes: Vec<u8> = (0..1 << 17).flat_map(|_| random().to_le_bytes()).collect();
            std::fs::write(file.path(), bytes).unwrap();
            assert_eq!(second_opinion(file.path()), None, "{round}");
        }
    }
}
