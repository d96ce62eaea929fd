//! What a run must not have left or changed: files, mounts, loop devices, journals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Arena;
use crate::common::comes_true;
use crate::faults::Case;
use crate::faults::fault::Fault;

impl Arena {
    /// What was left, or is not as it was.
    pub(super) fn changed(&self, case: &Case) -> Vec<String> {
        let mut wrong = Vec::new();
        if contents(self.canary.path()) != self.canary_before {
            wrong.push("another disk was changed".to_owned());
        }
        if case.fault != Fault::Vanish {
            let mut now = contents(&self.mount());
            // Who owns the directory did these, and a job leaves its file, as in fio.
            let is_expected = |path: &Path| {
                path.to_string_lossy().contains("meddled") || (case.command.is_job && path.ends_with("target/job"))
            };
            now.retain(|path, _| !is_expected(path));
            wrong.extend(difference(&self.before, &now));
        }
        if case.fault == Fault::HostileOwner {
            let victim = contents(&self.at("victim"));
            if victim.len() != 3 || victim.values().any(|content| *content != victim.values().next().unwrap().clone()) {
                wrong.push(format!("what only root may change was changed: {victim:?}"));
            }
        }
        let temporary = contents(&self.at("tmp"));
        if !temporary.is_empty() {
            wrong.push(format!("left among temporary files: {:?}", temporary.keys()));
        }
        let journals = contents(&self.at("home/.local/state/qd1/journal"));
        if !journals.is_empty() {
            wrong.push(format!("journals are left: {:?}", journals.keys()));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = [self.root.path().to_owned(), self.mount()];
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let expected = [self.mount(), self.at("disk")];
        let left = points.filter(|at| here.iter().any(|dir| Path::new(at).starts_with(dir)));
        wrong.extend(
            left.filter(|at| !expected.iter().any(|dir| Path::new(at) == dir))
                .map(|at| format!("a mount is left: {at}")),
        );
        let mut left: BTreeSet<String> = segments().difference(&self.segments_before).cloned().collect();
        // Those of another test's server go with it.
        let are_gone = || {
            let now = segments();
            left.retain(|name| now.contains(name));
            left.is_empty()
        };
        if case.command.program == Some("initdb") && !comes_true(500, are_gone) {
            wrong.push(format!("shared memory is left: {left:?}"));
        }
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if here.iter().any(|dir| Path::new(&file).starts_with(dir)) {
                wrong.push(format!("a loop device is left: {}", file.trim()));
            }
        }
        wrong
    }
}

/// Shared memory of PostgreSQL's servers: files, and System V segments that nobody has.
pub(super) fn segments() -> BTreeSet<String> {
    let files = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let of_nobody = list.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let of_nobody = of_nobody.filter(|words| words.get(6) == Some(&"0")).map(|words| words[1].to_owned());
    files.filter(|name| name.starts_with("PostgreSQL.")).chain(of_nobody).collect()
}

/// Every file and directory below, with its mode, owner and a sum of its content.
pub(super) fn contents(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(data) = path.symlink_metadata() else { continue };
        // The fault is there for us as well: a read may fail or be short.
        let whole = |_| fs::read(&path).ok().filter(|content| content.len() as u64 == data.len());
        let content = if data.is_file() { (0..50).find_map(whole).unwrap_or_default() } else { Vec::new() };
        let sum = content
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        found.insert(path.clone(), format!("{:o} {} {} {sum:x}", data.mode(), data.uid(), content.len()));
        if data.is_dir() {
            found.extend(contents(&path));
        }
    }
    found
}

fn difference(before: &BTreeMap<PathBuf, String>, now: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let gone = before.keys().filter(|path| !now.contains_key(*path)).map(|path| format!("gone: {}", path.display()));
    let left = now.keys().filter(|path| !before.contains_key(*path)).map(|path| format!("left: {}", path.display()));
    let other = before
        .iter()
        .filter(|(path, what)| now.get(*path).is_some_and(|now| now != *what))
        .map(|(path, _)| format!("changed: {}", path.display()));
    gone.chain(left).chain(other).collect()
}
