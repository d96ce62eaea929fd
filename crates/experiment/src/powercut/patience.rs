//! Pipes and sockets whose other end may stall: waiting for them ends soon after a signal.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qd1_clock::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often a waiting read or write checks whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Time after the signal for the last lines.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The number of bytes that a writable pipe accepts without blocking.
const WRITE_MAX: usize = 4096;

/// A pipe, or a non-blocking socket. Half a second after `stop` is seen to be set, a read returns end of file and a
/// write fails.
pub struct Stoppable<'a, T> {
    inner: T,
    stop: &'a AtomicBool,
    until_ns: Option<u64>,
}

impl<'a, T: AsFd> Stoppable<'a, T> {
    /// Watches `stop` whenever `inner` makes it wait.
    pub fn new(inner: T, stop: &'a AtomicBool) -> Self {
        Self { inner, stop, until_ns: None }
    }

    /// Waits for one of `events`; returns false when it is time to stop.
    fn wait(&mut self, events: PollFlags) -> io::Result<bool> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                let now_ns = now_ns();
                if now_ns >= *self.until_ns.get_or_insert(now_ns + LAST_WORDS.as_nanos() as u64) {
                    return Ok(false);
                }
            }
            let pause = Timespec::try_from(LOOK).expect("a moment is a time");
            match poll(&mut [PollFd::new(&self.inner, events)], Some(&pause)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // An error or a hang-up is left for the read or write to find.
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_to_wait<T>(outcome: &io::Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
}

impl<T: AsFd + Read> Read for Stoppable<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.wait(PollFlags::IN)? {
            let read = self.inner.read(bytes);
            if !is_to_wait(&read) {
                return read;
            }
        }
        Ok(0)
    }
}

impl<T: AsFd + Write> Write for Stoppable<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.wait(PollFlags::OUT)? {
            let written = self.inner.write(&bytes[..bytes.len().min(WRITE_MAX)]);
            if !is_to_wait(&written) {
                return written;
            }
        }
        Err(io::Error::new(ErrorKind::TimedOut, "the other end does not read"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_write_that_nobody_takes_ends_when_stopped() {
        let stop = AtomicBool::new(false);
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut to = Stoppable::new(&ours, &stop);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = std::iter::repeat_with(|| to.write_all(&[0; 10_000])).find(Result::is_err);
                written.unwrap().unwrap_err().kind()
            });
            // It may not have stalled yet, but must also end once stopped.
            stop.store(true, Ordering::Relaxed);
            assert_eq!(writer.join().unwrap(), ErrorKind::TimedOut);
        });
        drop(theirs);
    }

    #[test]
    fn a_read_from_one_that_says_nothing_ends_when_stopped() {
        let stop = AtomicBool::new(true);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"last words").unwrap();
        assert_eq!(io::read_to_string(Stoppable::new(reader, &stop)).unwrap(), "last words");
    }
}
