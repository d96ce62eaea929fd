//! Which disk an msync is for: the kernel's programs only see an address.

use std::collections::HashMap;

use qd1_model::requests::Sync;
use qd1_probe::{Machine, MappedFile};
use qd1_trace::Event;

/// Most addresses that are remembered.
const KNOWN_MAX: usize = 10_000;

/// Finds the files of msyncs. A program syncs the same mapping again and again, and may be gone when its last event is read.
pub(super) struct Mappings<'a> {
    machine: &'a Machine,
    /// The disk that is traced; `None` for all.
    disk: Option<(u32, u32)>,
    /// By process and address.
    known: HashMap<(u32, u64), MappedFile>,
}

impl<'a> Mappings<'a> {
    pub(super) fn new(machine: &'a Machine, disk: Option<(u32, u32)>) -> Self {
        Self { machine, disk, known: HashMap::new() }
    }

    /// Completes an msync with the disk and the inode of its file; `None` if it is for another disk. Where the file cannot be
    /// found any more, its disk remains unknown.
    pub(super) fn complete(&mut self, event: Event) -> Option<Event> {
        let Event::Sync(sync) = event else { return Some(event) };
        if sync.call != Sync::MSYNC {
            return Some(event);
        }
        let key = (sync.asker.pid, sync.inode);
        let found = self.machine.mapped_file(key.0, key.1).or_else(|| self.known.get(&key).copied());
        let Some(file) = found else { return Some(Event::Sync(Sync { inode: 0, ..sync })) };
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&key) {
            self.known.insert(key, file);
        }
        let is_here = self.disk.is_none_or(|disk| disk == file.device || file.device == (0, 0));
        is_here.then_some(Event::Sync(Sync { device: file.device, inode: file.inode, ..sync }))
    }
}
