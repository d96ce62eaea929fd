//! Records block requests and syncs through BPF. It only captures; it does not judge.
//!
//! [`Capture`] reports each request (`bpf/trace.bpf.c`); [`Live`] aggregates requests in the kernel
//! (`bpf/live.bpf.c`). Both load a committed object, built by `cargo xtask bpf`, and attach it to tracepoints whose
//! arguments the kernel describes (BTF). They need no tracefs, no kprobes and no compiler; field offsets are resolved
//! when the object is loaded (CO-RE). Where the kernel allows no BPF, requests come from tracefs. [`mod@file`] keeps traces in files, and reads those of other tools.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod capture;
mod constants;
mod entry;
mod event;
pub mod file;
mod latencies;
mod live;
mod others;
mod program;
mod split;
mod tracefs;

pub use capture::{Calls, Capture, Counts, Of};
pub use entry::Entry;
pub use event::{Dirtied, Event, Released, Via};
pub use latencies::{Latencies, Stage};
pub use live::{Disks, InFlight, Live, LiveDisk, Process, SyncUnderWay};
pub use others::{Others, SlowRequest};
pub use program::Device;
pub use split::{Other, Part, Split, Syncs};
