//! Shared memory that a PostgreSQL server or its initdb leaves behind when it is killed: files in /dev/shm and System V
//! segments, under random names. Ours are those of its user that look like a server's, were not there before, and are
//! no longer attached anywhere: its user may keep other segments that are not attached at the moment.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::journal::{Change, Journal};
use crate::tool::tool;

const MEMORY: &str = "/dev/shm";
/// Prefix of the server's files there; a number follows.
const PREFIX: &str = "PostgreSQL.";
/// Bytes and permissions of its System V segment, which marks its data directory as in use (`PGShmemHeader`).
const MARK: (u64, &str) = (56, "600");
/// How long a server may take to exit, or to start.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSES: u32 = 8;

/// The segments of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// The user's number.
    uid: u32,
    /// Names of files.
    files: BTreeSet<String>,
    /// Ids of System V segments.
    ids: BTreeSet<u32>,
}

/// Records in the journal that a server of user `uid` is about to run. What it leaves is removed when the journal is
/// dropped.
///
/// # Errors
/// When the journal cannot be written.
pub fn watch(id: &str, uid: u32) -> Result<Journal> {
    let mut journal = Journal::open(&format!("{id}-s"), "")?;
    journal.note(Change::Segments { before: Segments::of(uid, |_| true) })?;
    Ok(journal)
}

/// A System V segment, as `/proc/sysvipc/shm` lists it.
struct Listed {
    id: u32,
    creator: u32,
    attached: u32,
    uid: u32,
    /// Whether it looks like one that a server makes.
    is_mark: bool,
}

impl Segments {
    /// Returns the existing ones of user `uid` that match.
    fn of(uid: u32, is_wanted: impl Fn(&Use<'_>) -> bool) -> Self {
        let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let ids = parse(&list).filter(|listed| listed.is_mark && listed.uid == uid);
        let ids = ids.filter(|listed| is_wanted(&Use::Id(listed))).map(|listed| listed.id).collect();
        let entries = fs::read_dir(MEMORY).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_of_user = entry.metadata().is_ok_and(|data| data.is_file() && data.uid() == uid);
            (is_of_user && is_drawn(&name) && is_wanted(&Use::File(&name))).then_some(name)
        });
        Self { uid, files: names.collect(), ids }
    }

    /// Whether the names look like those that a server chooses.
    pub(crate) fn is_ours(&self) -> bool {
        self.files.iter().all(|name| is_drawn(name))
    }

    /// Removes those that have appeared since and are not attached; returns what was removed.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn clear(&self) -> Result<Vec<String>> {
        let left = |is_wanted: &dyn Fn(&Use<'_>) -> bool| {
            let now = Self::of(self.uid, is_wanted);
            let files: BTreeSet<_> = now.files.difference(&self.files).cloned().collect();
            let ids: BTreeSet<_> = now.ids.difference(&self.ids).copied().collect();
            (files, ids)
        };
        let all = || left(&|_| true);
        let orphans = || left(&|one| one.is_over());
        // Our server may still be exiting, and another's is not yet attached to what it has just made.
        let mut before = orphans();
        for _ in 0..PAUSES {
            if all() == Default::default() {
                return Ok(Vec::new());
            }
            std::thread::sleep(PAUSE);
            let now = orphans();
            let is_all = now == before && now == all();
            before = now;
            if is_all {
                break;
            }
        }
        let still = orphans();
        let mut removed = Vec::new();
        for name in before.0.intersection(&still.0) {
            let path = Path::new(MEMORY).join(name);
            fs::remove_file(&path)?;
            removed.push(path.display().to_string());
        }
        for id in before.1.intersection(&still.1) {
            tool("ipcrm", &["-m", &id.to_string()])?;
            removed.push(format!("shared memory {id}"));
        }
        Ok(removed)
    }
}

/// One segment, to find out who has it attached.
enum Use<'a> {
    File(&'a str),
    Id(&'a Listed),
}

impl Use<'_> {
    /// Whether nobody has it attached or will attach it.
    fn is_over(&self) -> bool {
        match self {
            Self::Id(listed) => listed.attached == 0 && !Path::new(&format!("/proc/{}", listed.creator)).exists(),
            Self::File(name) => {
                let path = format!("{MEMORY}/{name}");
                let maps = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path().join("maps"));
                !maps.filter_map(|maps| fs::read_to_string(maps).ok()).any(|text| text.contains(&path))
            }
        }
    }
}

fn is_drawn(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The segments of a list: key, id, permissions, size, creator, last user, attached processes, user, ...
fn parse(list: &str) -> impl Iterator<Item = Listed> {
    list.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        let is_mark = (words.get(3)?.parse().ok()?, *words.get(2)?) == MARK;
        Some(Listed { id: number(1)?, creator: number(4)?, attached: number(6)?, uid: number(7)?, is_mark })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let list = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid\n\
                    131082    9175061   600                    56  9001  9002      1 65534 65534 65534 65534\n\
                         0    9175062   600                  4096  9001  9002      0 65534 65534 65534 65534\n";
        let [mark, other] = &parse(list).collect::<Vec<_>>()[..] else { panic!("two") };
        assert_eq!((mark.id, mark.creator, mark.attached, mark.uid), (9_175_061, 9001, 1, 65_534));
        assert!(mark.is_mark && !other.is_mark, "a segment of another program is none of ours");
        assert!(parse("damaged\nline\n").next().is_none());
    }

    #[test]
    fn only_what_came_later_and_nobody_has_is_removed() {
        let uid = rustix::process::getuid().as_raw();
        // No server chooses these: its numbers have 31 bits.
        let name = |number: u32| format!("{MEMORY}/{PREFIX}{}", u32::MAX - 100 - number);
        let files = [name(std::process::id() % 1000), name(1000 + std::process::id() % 1000), name(3000)];
        fs::write(&files[0], "before").unwrap();
        let before = Segments::of(uid, |_| true);
        assert!(before.is_ours());
        fs::write(&files[1], "left").unwrap();
        fs::write(format!("{MEMORY}/{PREFIX}x"), "of another name").unwrap();
        let removed = before.clear().unwrap();
        assert_eq!(removed, [files[1].clone()]);
        assert!(Path::new(&files[0]).exists() && !Path::new(&files[1]).exists());
        assert!(before.clear().unwrap().is_empty());
        for path in [files[0].clone(), format!("{MEMORY}/{PREFIX}x")] {
            fs::remove_file(path).unwrap();
        }
    }
}
