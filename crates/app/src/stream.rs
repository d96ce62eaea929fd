//! Output that is written line by line while a command runs.

use std::io::ErrorKind;

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether stdout has no reader any more: while the disk is idle, there is no write whose failure would show it.
pub(crate) fn has_hung_up(stdout: &std::io::Stdout) -> bool {
    let mut waiting = [PollFd::new(stdout, PollFlags::empty())];
    let polled = poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && waiting[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// Writes to stdout; returns false if it has no reader any more.
pub(crate) fn written(out: &mut impl std::io::Write, text: &str) -> Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.context("cannot write to stdout").map(|()| true),
    }
}
