//! What goes wrong, and how it is brought about.

use qd1_simdisk::{FaultEffect, RequestKind, Scenario};

use super::commands::Tested;
use crate::common::apps::disk_with_flushes_of;

/// A fault of the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing: the runs that the others are held against.
    None,
    /// A signal at some moment.
    Interrupt,
    Terminate,
    HangUp,
    BrokenPipe,
    InterruptTwice,
    /// SIGKILL at some moment, of the run, its helper, a child, or all of them, as a power cut would; then `restore`.
    Kill,
    KillHelper,
    KillChild,
    KillAll,
    /// The filesystem, or what the process may write to a file, fills up.
    NoSpace,
    FileTooLarge,
    /// A write meets the end of a quota.
    Quota,
    /// The disk fails with EIO on some opens, reads, writes or flushes, or moves less than it was asked to.
    OpenError,
    ReadError,
    WriteError,
    FlushError,
    Short,
    /// It answers nothing for 3 s, or for 30.
    Hang,
    LongHang,
    /// It goes away.
    Vanish,
    /// Few descriptors, little memory, no more threads.
    Descriptors,
    Memory,
    Threads,
    /// A history that cannot be written, a state directory that is full or belongs to another user.
    ReadOnlyState,
    FullState,
    ForeignState,
    /// A stdout or stderr that is closed or full, a reader that goes away.
    StdoutFull,
    StdoutClosed,
    StderrFull,
    StderrClosed,
    ReaderGone,
    /// Two to eight runs at once in one place.
    Together,
    /// The result is to go to a file that the command reads.
    OutputIsInput,
    /// Whoever owns the directory renames what root makes there, and puts links in its place.
    HostileOwner,
}

pub(super) const FAULTS: [Fault; 35] = [
    Fault::None,
    Fault::Interrupt,
    Fault::Terminate,
    Fault::HangUp,
    Fault::BrokenPipe,
    Fault::InterruptTwice,
    Fault::Kill,
    Fault::KillHelper,
    Fault::KillChild,
    Fault::KillAll,
    Fault::NoSpace,
    Fault::FileTooLarge,
    Fault::Quota,
    Fault::OpenError,
    Fault::ReadError,
    Fault::WriteError,
    Fault::FlushError,
    Fault::Short,
    Fault::Hang,
    Fault::LongHang,
    Fault::Vanish,
    Fault::Descriptors,
    Fault::Memory,
    Fault::Threads,
    Fault::ReadOnlyState,
    Fault::FullState,
    Fault::ForeignState,
    Fault::StdoutFull,
    Fault::StdoutClosed,
    Fault::StderrFull,
    Fault::StderrClosed,
    Fault::ReaderGone,
    Fault::Together,
    Fault::OutputIsInput,
    Fault::HostileOwner,
];

impl Fault {
    /// Whether the fault can come to this command.
    pub(super) fn concerns(self, command: &Tested) -> bool {
        match self {
            // The others have no such option.
            Self::OutputIsInput => command.is_job || command.words.contains(&"--json") && command.name != "history",
            // It reads the history alone, in a moment.
            _ if command.name == "history" => self.is_of_output() || matches!(self, Self::None | Self::ReadOnlyState),
            // It refuses the journals, as it should, and leaves what they name.
            Self::ForeignState if command.finds_leftovers => false,
            // It takes a minute to come to its end by itself.
            _ if command.name == "limits" => self.is_of_signal() || self.kills(),
            // Loop devices on a disk in user space that goes away stay busy until the kernel gives up.
            Self::Hang | Self::Vanish => command.name != "filesystems",
            // Half a minute each: only where the kinds of requests differ.
            Self::LongHang => matches!(command.name, "check" | "run job" | "fio" | "meta" | "app sqlite" | "ping"),
            _ => true,
        }
    }

    /// Whether it is about what is printed alone.
    pub(super) fn is_of_output(self) -> bool {
        matches!(self, Self::StdoutFull | Self::StdoutClosed | Self::StderrFull | Self::StderrClosed | Self::ReaderGone)
    }

    /// Whether it is a signal that ends a run in order.
    pub(super) fn is_of_signal(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate | Self::HangUp)
    }

    /// Whether it kills.
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::KillAll)
    }

    /// The disk that has it, if it is one of the disk.
    pub(super) fn scenario(self) -> Option<Scenario> {
        let eio = FaultEffect::Eio;
        let (on, what, rate, after, times) = match self {
            Self::Quota => (RequestKind::Write, FaultEffect::Edquot, 1.0, 300, 0),
            Self::OpenError => (RequestKind::Open, eio, 0.1, 2, 0),
            Self::ReadError => (RequestKind::Read, eio, 0.01, 200, 0),
            Self::WriteError => (RequestKind::Write, eio, 0.01, 300, 0),
            Self::FlushError => (RequestKind::Flush, eio, 0.05, 20, 0),
            Self::Short => (RequestKind::Read, FaultEffect::Short, 0.01, 200, 0),
            Self::Hang => (RequestKind::Write, FaultEffect::Hang(3000), 1.0, 400, 1),
            Self::LongHang => (RequestKind::Write, FaultEffect::Hang(30_000), 1.0, 400, 1),
            Self::Vanish => (RequestKind::Write, FaultEffect::Hang(0), 1.0, 1000, 1),
            _ => return None,
        };
        let fault = qd1_simdisk::Fault { on, what, at: None, rate, after, times };
        Some(Scenario { faults: vec![fault], ..disk_with_flushes_of(300e3) })
    }
}
