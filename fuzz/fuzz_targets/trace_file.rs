//! What `trace summary` and `trace --play` read: recorded traces, blktrace's files and iologs, damaged in any way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_analysis::trace_summary::{Known, Summarizer};
use qd1_trace::Entry;
use qd1_trace::file::Recording;

fuzz_target!(|data: &[u8]| {
    let Ok(mut recording) = Recording::open(vec![data]) else { return };
    let mut summarizer =
        Summarizer::new(Known { queue: true, device: true, syncs: true, positions: true, files: false });
    let mut entries = 0u64;
    for entry in recording.by_ref() {
        entries += 1;
        match &entry {
            Entry::Request(request) => summarizer.push(request),
            Entry::Sync(sync, _) => summarizer.push_sync(sync),
        }
    }
    let _ = recording.ending();
    let summary = summarizer.end(|_| String::new(), Vec::new());
    assert!(summary.all.requests <= entries);
});
