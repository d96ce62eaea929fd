//! The witness: notes what was acknowledged, on a machine whose power is not cut.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_model::Problem;

use super::{END, Header, LINE_MAX, say};

/// How often a connection without a word looks whether it is to end.
pub const POLL: Duration = Duration::from_millis(200);
/// Silences, of [`POLL`] each, in which a writer has to name itself.
const SILENCES_MAX: u32 = 25;
/// The answer to a writer that knows the token.
pub const WELCOME: &str = "welcome";

/// The notes so far.
#[derive(Debug, Default)]
pub struct Witness {
    /// The newest commit that was acknowledged.
    pub acknowledged: u64,
}

impl Witness {
    /// Notes the lines of a writer in `notes`, each before the next is read, until they end or `stop` is set. `silent` is
    /// called with the newest number whenever nothing came for a moment.
    ///
    /// # Errors
    /// When they are no writer's, or cannot be noted.
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
                // The end of a connection may cut a number short, which would be another number.
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
            // Once it is written: what the disk of the notes does not take was not noted.
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
        "{shown:?} is no line of a writer; start it as `qd1 powercut write PATH`, and give each run its own witness"
    ))
}

/// Waits for a writer that knows `token`, and answers it with [`WELCOME`]; `None` when `stop` was set first. Others are
/// turned away, and `refused` is called with their address.
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
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((mut stream, from)) => {
                if knows(&stream, token, stop).unwrap_or(false) && say(&mut stream, WELCOME).is_ok() {
                    return Ok(Some(stream));
                }
                refused(from);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(POLL / 4),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot take a connection"),
        }
    }
    Ok(None)
}

/// Whether the other side's first line is the token, and comes in time.
fn knows(stream: &TcpStream, token: &str, stop: &AtomicBool) -> Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(POLL))?;
    let mut said = Vec::new();
    // Byte by byte: what follows belongs to the notes.
    let mut byte = [0];
    let mut silences = 0;
    while said.len() <= token.len() && said.last() != Some(&b'\n') {
        match (&mut &*stream).read(&mut byte) {
            Ok(0) => return Ok(false),
            Ok(_) => said.push(byte[0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => silences += 1,
            Err(error) => return Err(error.into()),
        }
        if silences > SILENCES_MAX || stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
    Ok(said.strip_suffix(b"\n") == Some(token.as_bytes()))
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
}
