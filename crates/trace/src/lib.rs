//! Asks the kernel about block requests and syncs by BPF. Capture only: nothing is judged here.
//!
//! [`Capture`] loads the committed object (`bpf/trace.bpf.c`, built by `cargo xtask bpf`) and attaches it to
//! tracepoints whose arguments the kernel describes (BTF). It needs no tracefs, no kprobes and no compiler; where the kernel's fields are is found when it is loaded.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod capture;
mod event;
mod split;

pub use capture::{Capture, Counts, Device};
pub use event::{Asker, COMM, Dirtied, Event, Op, Released, Request, Sync};
pub use split::{Other, Part, Split, Syncs};
