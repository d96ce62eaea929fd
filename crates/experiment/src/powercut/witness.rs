//! The witness: records acknowledgements on a machine whose power is not cut.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_clock::now_ns;
use qd1_model::Problem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{END, Header, LINE_MAX, say};

/// How often a silent connection checks whether to end.
pub const POLL: Duration = Duration::from_millis(200);
/// Time within which a writer must identify itself.
const NAMING: Duration = Duration::from_secs(5);
/// Maximum number of connections that have not identified themselves yet; beyond it the oldest is dropped.
const PENDING_MAX: usize = 128;
/// The answer to a writer that knows the token.
pub const WELCOME: &str = "welcome";

/// The notes so far.
#[derive(Debug, Default)]
pub struct Witness {
    /// The newest commit that was acknowledged.
    pub acknowledged: u64,
}

impl Witness {
    /// Records a writer's lines in `notes`, each before the next is read, until they end or `stop` is set. `silent` is
    /// called with the newest number whenever nothing has arrived for a moment.
    ///
    /// # Errors
    /// If the lines are not from a writer, or cannot be recorded.
    pub fn keep(
        &mut self,
        lines: impl Read,
        notes: &mut dyn Write,
        stop: &AtomicBool,
        mut silent: impl FnMut(u64),
    ) -> Result<()> {
        let mut lines = BufReader::new(lines);
        let mut has_header = false;
        let mut line = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match (&mut lines).take(LINE_MAX - line.len() as u64).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                // A part of a line is kept until the rest comes.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    silent(self.acknowledged);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot read the acknowledgements"),
            }
            if line.last() != Some(&b'\n') {
                // The end of a connection may cut a number short and thereby change it.
                if line.len() as u64 >= LINE_MAX {
                    bail!(not_ours(&line));
                }
                continue;
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            let is_next = has_header && text.parse() == Ok(self.acknowledged + 1);
            let is_end = has_header && text == END;
            if !(is_next || is_end || !has_header && Header::parse(&text).is_some()) {
                bail!(not_ours(&line));
            }
            // Only after the write: an acknowledgement that could not be written to the notes does not count.
            say(notes, &text).context("cannot write the notes")?;
            has_header = true;
            self.acknowledged += u64::from(is_next);
            if is_end {
                break;
            }
            line.clear();
        }
        Ok(())
    }
}

fn not_ours(line: &[u8]) -> Problem {
    let shown: String = String::from_utf8_lossy(line).trim_end().chars().take(40).collect();
    Problem::usage(format!(
        "{shown:?} is not a line from a writer; start the writer with `qd1 powercut write PATH`, and use one witness \
         per run"
    ))
}

/// Waits for a writer that knows `token`, and answers it with [`WELCOME`]; `None` when `stop` was set first. Others are
/// turned away, and `refused` is called with their address; silent connections do not delay the others.
///
/// # Errors
/// When the socket fails.
pub fn accept(
    listener: &TcpListener,
    token: &str,
    stop: &AtomicBool,
    refused: impl Fn(SocketAddr),
) -> Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    // Oldest first.
    let mut pending: VecDeque<Pending> = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        wait_for(listener, &pending)?;
        // Existing connections come before a new one displaces any.
        let now_ns = now_ns();
        for mut one in std::mem::take(&mut pending) {
            match one.hear(token, now_ns) {
                Heard::Token if say(&mut one.stream, WELCOME).is_ok() => {
                    one.stream.set_nonblocking(false)?;
                    one.stream.set_read_timeout(Some(POLL))?;
                    return Ok(Some(one.stream));
                }
                Heard::Token | Heard::Other => refused(one.from),
                Heard::Part => pending.push_back(one),
            }
        }
        match listener.accept() {
            Ok((stream, from)) if stream.set_nonblocking(true).is_ok() => {
                if pending.len() == PENDING_MAX {
                    pending.pop_front().into_iter().for_each(|oldest| refused(oldest.from));
                }
                let until_ns = now_ns + NAMING.as_nanos() as u64;
                pending.push_back(Pending { stream, from, said: Vec::new(), until_ns });
            }
            Ok(_) => {}
            Err(error) if is_of_one_connection(error.kind()) => {}
            Err(error) => return Err(error).context("cannot accept a connection"),
        }
    }
    Ok(None)
}

/// The other end is gone, or the connection failed before it was accepted.
fn is_of_one_connection(kind: ErrorKind) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ConnectionAborted | ConnectionReset)
        || matches!(kind, HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut)
}

/// Waits a moment, or until there is a new connection or data.
fn wait_for(listener: &TcpListener, pending: &VecDeque<Pending>) -> Result<()> {
    let streams = pending.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN));
    let mut all: Vec<PollFd<'_>> = [PollFd::new(listener, PollFlags::IN)].into_iter().chain(streams).collect();
    let pause = Timespec::try_from(POLL / 4).expect("a moment is a time");
    match poll(&mut all, Some(&pause)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for a connection"),
    }
}

/// A connection that has not presented the token yet.
struct Pending {
    stream: TcpStream,
    from: SocketAddr,
    said: Vec<u8>,
    until_ns: u64,
}

/// The first line of a connection so far.
enum Heard {
    Token,
    /// It may become the token.
    Part,
    Other,
}

impl Pending {
    /// Reads what has arrived, byte by byte, because what follows the token belongs to the notes.
    fn hear(&mut self, token: &str, now_ns: u64) -> Heard {
        let mut byte = [0];
        while self.said.len() <= token.len() && self.said.last() != Some(&b'\n') {
            match self.stream.read(&mut byte) {
                Ok(0) => return Heard::Other,
                Ok(_) => self.said.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && now_ns < self.until_ns => return Heard::Part,
                Err(_) => return Heard::Other,
            }
        }
        if self.said.strip_suffix(b"\n") == Some(token.as_bytes()) { Heard::Token } else { Heard::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lines: &str) -> (Result<()>, u64, String) {
        let (mut witness, mut notes) = (Witness::default(), Vec::new());
        let outcome = witness.keep(lines.as_bytes(), &mut notes, &AtomicBool::new(false), |_| ());
        (outcome, witness.acknowledged, String::from_utf8(notes).unwrap())
    }

    #[test]
    fn what_was_acknowledged_is_noted_and_a_number_cut_short_is_not() {
        let lines = "qd1-powercut 1 run=0000000000000007 boot=b\n1\n2\n3\n1";
        let (outcome, acknowledged, notes) = noted(lines);
        outcome.unwrap();
        assert_eq!((acknowledged, notes.as_str()), (3, &lines[..lines.len() - 1]));
    }

    #[test]
    fn what_is_no_writers_is_refused() {
        for wrong in ["1\n", "hello\n", "qd1-powercut 1 run=7 boot=\n2\n", "qd1-powercut 1 run=7 boot=\n1\n1\n"] {
            assert!(noted(wrong).0.is_err(), "{wrong}");
        }
        assert!(noted(&"x".repeat(1000)).0.is_err());
    }

    #[test]
    fn a_writer_without_the_token_is_turned_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for token in ["wrong", "secretly", "secret"] {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    stream.write_all(format!("{token}\n").as_bytes()).unwrap();
                    let mut answer = String::new();
                    let heard = BufReader::new(&stream).read_line(&mut answer);
                    if heard.is_ok() && answer.trim_end() == WELCOME {
                        stream.write_all(b"qd1-powercut 1 run=7 boot=b\n1\nend\n").unwrap();
                    }
                }
            });
            let stream = accept(&listener, "secret", &stop, |_| ()).unwrap().unwrap();
            let (mut witness, mut notes) = (Witness::default(), Vec::new());
            witness.keep(stream, &mut notes, &stop, |_| ()).unwrap();
            assert_eq!(witness.acknowledged, 1);
            assert!(notes.ends_with(b"\n1\nend\n"));
        });
    }

    /// Each of them used to delay the writer by five seconds.
    #[test]
    fn those_who_say_nothing_do_not_lock_the_writer_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = AtomicBool::new(false);
        let turned_away = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let witness = scope.spawn(|| {
                accept(&listener, "secret", &stop, |_| _ = turned_away.fetch_add(1, Ordering::Relaxed)).unwrap()
            });
            let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
            // Some send part of the token, and there are more than may wait.
            let idle: Vec<TcpStream> = (0..PENDING_MAX + 20).map(|_| connect()).collect();
            idle.iter().step_by(2).for_each(|mut one| _ = one.write_all(b"sec"));
            let mut writer = connect();
            writer.write_all(b"sec").unwrap();
            writer.write_all(b"ret\n").unwrap();
            let mut answer = String::new();
            BufReader::new(&writer).read_line(&mut answer).unwrap();
            assert_eq!(answer.trim_end(), WELCOME);
            assert_eq!(witness.join().unwrap().unwrap().peer_addr().unwrap(), writer.local_addr().unwrap());
        });
        // They are dropped because of their number, not because of the time they took.
        assert!(turned_away.into_inner() >= 20);
    }

    #[test]
    fn a_connection_is_heard_until_its_time_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut one = Pending { stream, from, said: Vec::new(), until_ns: 1000 };
        other.write_all(b"sec").unwrap();
        assert!(matches!(one.hear("secret", 999), Heard::Part));
        assert!(matches!(one.hear("secret", 1000), Heard::Other), "too late");
    }
}
