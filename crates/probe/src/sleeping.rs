//! What a thread that sleeps in the kernel waits for, from the functions that it is in.

use crate::Machine;

/// Functions of the kernel, and what a thread in them waits for. A thread is in several; the innermost one counts, so one
/// that is called by others of the list comes first. Names are those of 5.10 to 6.18.
const WAITS: [(&str, &str); 34] = [
    ("wbt_wait", "writeback throttling (wbt)"),
    ("ioc_rqos_throttle", "the limit of io.cost"),
    ("blkcg_iolatency_throttle", "the limit of io.latency"),
    ("blkcg_maybe_throttle_current", "a limit of its control group"),
    ("blk_mq_get_tag", "a free request in the queue"),
    ("blk_queue_enter", "the queue, which is frozen"),
    ("blkdev_issue_flush", "a flush of the device's cache"),
    ("balance_dirty_pages", "room for changed data in memory"),
    ("folio_wait_writeback", "its data to be written"),
    ("wait_on_page_writeback", "its data to be written"),
    ("folio_wait_stable", "its data to be written"),
    ("jbd2_log_wait_commit", "the journal's commit"),
    ("jbd2_complete_transaction", "the journal's commit"),
    ("wait_transaction_locked", "the journal's commit"),
    ("add_transaction_credits", "room in the journal"),
    ("jbd2_log_do_checkpoint", "room in the journal"),
    ("start_this_handle", "room in the journal"),
    ("xlog_grant_head_wait", "room in the journal"),
    ("xlog_wait_on_iclog", "the journal's commit"),
    ("xlog_force", "the journal's commit"),
    ("xfs_log_force", "the journal's commit"),
    ("btrfs_sync_log", "the journal's commit"),
    ("wait_log_commit", "the journal's commit"),
    ("btrfs_commit_transaction", "the filesystem's commit"),
    ("percpu_rwsem_wait", "a filesystem that is frozen (fsfreeze)"),
    ("rwsem_down_write_slowpath", "a lock"),
    ("rwsem_down_read_slowpath", "a lock"),
    ("__mutex_lock", "a lock"),
    ("wait_sb_inodes", "data of others to be written"),
    ("iomap_dio_rw", "its own request"),
    ("blkdev_direct_IO", "its own request"),
    ("submit_bio_wait", "its own request"),
    ("folio_wait_bit", "a read of a page"),
    ("wait_on_page_bit", "a read of a page"),
];

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// In words, after "waits for".
    pub what: &'static str,
    /// Whether it is the end of requests to a disk, or of what depends on them.
    pub is_for_requests: bool,
}

/// Waits that end when requests do.
const FOR_REQUESTS: [&str; 5] = [
    "a flush of the device's cache",
    "its data to be written",
    "the journal's commit",
    "the filesystem's commit",
    "its own request",
];

impl Machine {
    /// Returns what a thread waits for at this moment; `None` if it runs, waits for something else, or the kernel does
    /// not say (it needs root).
    #[must_use]
    pub fn waits_for(&self, pid: u32, tid: u32) -> Option<Waits> {
        let what = waits_for(&self.text(format!("/proc/{pid}/task/{tid}/stack")))?;
        Some(Waits { what, is_for_requests: FOR_REQUESTS.contains(&what) })
    }
}

/// A line for each function: `[<0>] jbd2_log_wait_commit+0x11d/0x180 [jbd2]`, the innermost first.
fn waits_for(stack: &str) -> Option<&'static str> {
    let functions = stack.lines().filter_map(|line| line.split_whitespace().nth(1)?.split(['+', '.']).next());
    // Pages are waited for within most of the others.
    let is_of_page = |name: &str| name.starts_with("folio_wait_bit") || name.starts_with("wait_on_page_bit");
    let found = |name: &str| {
        WAITS.iter().find(|(function, _)| name.trim_start_matches('_').starts_with(function.trim_start_matches('_')))
    };
    let of = |is_wanted: &dyn Fn(&str) -> bool| functions.clone().filter(|name| is_wanted(name)).find_map(found);
    // A flush is a request that is waited for.
    let flush = of(&|name| name.starts_with("blkdev_issue_flush"));
    let inner = flush.or_else(|| of(&|name| !is_of_page(name))).or_else(|| of(&is_of_page));
    inner.map(|(_, waits)| *waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &[&str]) -> String {
        functions.iter().map(|name| format!("[<0>] {name}+0x1b/0x40\n")).collect()
    }

    #[test]
    fn waits_for_requests_are_of_the_list() {
        assert!(FOR_REQUESTS.iter().all(|what| WAITS.iter().any(|(_, waits)| waits == what)));
    }

    #[test]
    fn the_innermost_function_counts() {
        for (functions, waits) in [
            (&["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"][..], Some("the journal's commit")),
            (&["submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file"], Some("a flush of the device's cache")),
            (
                &[
                    "folio_wait_bit_common",
                    "folio_wait_writeback",
                    "__filemap_fdatawait_range",
                    "file_write_and_wait_range",
                ],
                Some("its data to be written"),
            ),
            (&["folio_wait_bit_common", "filemap_get_pages", "generic_file_read_iter"], Some("a read of a page")),
            (
                &["io_schedule", "rq_qos_wait", "wbt_wait", "__rq_qos_throttle", "blk_mq_submit_bio"],
                Some("writeback throttling (wbt)"),
            ),
            (&["io_schedule", "blk_mq_get_tag", "__blk_mq_alloc_requests"], Some("a free request in the queue")),
            (
                &["percpu_rwsem_wait", "__percpu_down_read", "ext4_file_write_iter"],
                Some("a filesystem that is frozen (fsfreeze)"),
            ),
            (&["hrtimer_nanosleep", "do_nanosleep"], None),
            (&[], None),
        ] {
            assert_eq!(waits_for(&stack(functions)), waits, "{functions:?}");
        }
    }
}
