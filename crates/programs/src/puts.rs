//! Puts to etcd at a fixed rate: like requests from many users, they are due at random times, whether or not earlier
//! ones have been answered; latency is measured from the time each was due.
//!
//! They use etcd's JSON gateway over HTTP, not gRPC like etcd's own clients: that takes more processor time, but the
//! load on the disk is the same.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use qd1_clock as clock;
use qd1_model::op::OpClass;
use qd1_model::plan::Stop;

use crate::answers::{Answer, Connections, DRAIN_NS, POLL, Window, due, loaded, poisson, wait_until};
use crate::program::Loaded;
use crate::tally::Tally;
use qd1_runner::watch::Watch;

/// Bytes of a value: as in the benchmarks in etcd's documentation, as closely as base64 allows.
pub(crate) const VALUE: usize = 258;
/// The same in base64.
const VALUE_LETTERS: usize = VALUE / 3 * 4;
/// Number of distinct keys.
const KEYS: u64 = 100_000;
/// Number of connections, each with one put at a time; a put that is due while all are busy waits, and the wait is
/// counted.
const CONNECTIONS: usize = 100;
const ANSWER: Duration = Duration::from_secs(10);

/// A load of puts.
pub(crate) struct Puts {
    /// Port of the server on 127.0.0.1.
    pub(crate) port: u16,
    /// Puts a second.
    pub(crate) rate: u32,
    pub(crate) seed: u64,
}

/// State that all connections share.
struct Shared<'a> {
    /// When each put is due, ns from the start.
    due_ns: &'a [u64],
    next: AtomicUsize,
    start_ns: u64,
    over: AtomicBool,
    port: u16,
    seed: u64,
}

impl Puts {
    /// Sends them for the step's time.
    ///
    /// # Errors
    /// When one fails, or none is answered. [`qd1_system::child::Cancelled`] when it was stopped before.
    pub(crate) fn run(&self, stop: &Stop, cancel: &AtomicBool, watch: &mut dyn Watch) -> Result<Loaded> {
        let due_ns = self.schedule(stop.max_ns);
        let shared = Shared {
            due_ns: &due_ns,
            next: AtomicUsize::new(0),
            start_ns: clock::now_ns() + POLL.as_nanos() as u64,
            over: AtomicBool::new(false),
            port: self.port,
            seed: self.seed,
        };
        let window = Window { start_ns: shared.start_ns, stop, cancel };
        let mut tally = Tally::new(OpClass::Transaction, stop.max_ns + DRAIN_NS);
        let connections = Connections { count: CONNECTIONS.min(due_ns.len()), name: "qd1-puts" };
        let put = |_, answers: &Sender<Result<Answer>>| shared.connection(answers);
        connections.run(put, &shared.over, &window, &mut tally, watch)?;
        let seconds = (stop.max_ns + DRAIN_NS) / 1_000_000_000;
        let due = Some(due(&due_ns, stop));
        loaded(tally, &window, due)?.with_context(|| format!("etcd did not answer any put within {seconds} s"))
    }

    /// Returns when each is due, ns.
    fn schedule(&self, length_ns: u64) -> Vec<u64> {
        poisson(&mut Rng::with_seed(self.seed ^ u64::from(self.rate)), self.rate, length_ns)
    }
}

impl Shared<'_> {
    /// Sends one put after another on its own connection.
    fn connection(&self, answered: &Sender<Result<Answer>>) -> Result<()> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("cannot reach etcd")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let mut connection = Connection { stream, answer: Vec::new() };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(due_ns) = self.due_ns.get(number) else { return Ok(()) };
            let request = request(self.seed.wrapping_add(number as u64));
            if !wait_until(self.start_ns + due_ns, &self.over) {
                return Ok(());
            }
            connection.put(&request)?;
            let at_ns = clock::now_ns() - self.start_ns;
            let lat_ns = at_ns.saturating_sub(*due_ns);
            if self.over.load(Ordering::Relaxed) || answered.send(Ok(Answer { at_ns, lat_ns })).is_err() {
                return Ok(());
            }
        }
    }
}

/// One persistent connection.
struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    fn put(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).context("etcd did not accept a put")?;
        self.answer.clear();
        let mut part = [0; 4096];
        loop {
            if let Some(head) = Head::of(&self.answer)? {
                if head.status != 200 {
                    let message =
                        String::from_utf8_lossy(&self.answer[head.length.min(self.answer.len())..]).into_owned();
                    bail!("etcd refused a put ({}): {}", head.status, message.trim());
                }
                if self.answer.len() >= head.length + head.body {
                    return Ok(());
                }
            }
            match self.stream.read(&mut part).context("etcd did not answer a put")? {
                0 => bail!("etcd closed a connection"),
                got => self.answer.extend_from_slice(&part[..got]),
            }
        }
    }
}

/// The head of an HTTP response.
#[derive(Debug, PartialEq)]
struct Head {
    status: u32,
    /// Bytes of the head, and of the body after it.
    length: usize,
    body: usize,
}

impl Head {
    /// Parses the head of a response; `None` while it is incomplete.
    fn of(answer: &[u8]) -> Result<Option<Self>> {
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&answer[..end]);
        let mut lines = text.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .context("etcd's response is not HTTP")?;
        // etcd's refusals have no Content-Length, and their status matters more.
        if status != 200 {
            return Ok(Some(Self { status, length: end + 4, body: 0 }));
        }
        let length = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        };
        let body = lines.find_map(length).context("etcd's response has no Content-Length")?;
        Ok(Some(Self { status, length: end + 4, body }))
    }
}

/// Returns a put of a random key and value, made of letters that are valid base64.
fn request(seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let key = random.u64(..KEYS);
    let value: String = (0..VALUE_LETTERS).map(|_| random.alphanumeric()).collect();
    let body = format!("{{\"key\":\"key{key:09}\",\"value\":\"{value}\"}}");
    let head = "POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_due_at_random_times_at_the_requested_rate() {
        let puts = Puts { port: 0, rate: 2000, seed: 5 };
        let due_ns = puts.schedule(20_000_000_000);
        assert!((39_000..41_000).contains(&due_ns.len()), "{}", due_ns.len());
        assert!(due_ns.is_sorted());
        let short = due_ns.windows(2).filter(|pair| pair[1] - pair[0] < 500_000).count() as f64;
        let share = short / due_ns.len() as f64;
        assert!((share - (1.0 - (-1.0f64).exp())).abs() < 0.02, "{share}: not exponential");
    }

    #[test]
    fn a_request_is_complete_and_valid_base64() {
        let request = String::from_utf8(request(3)).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let letters = |key: &str| body[key].as_str().unwrap().len();
        assert_eq!((letters("key"), letters("value")), (12, VALUE_LETTERS));
    }

    #[test]
    fn an_incomplete_response_is_waited_for() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
        assert_eq!(Head::of(&answer[..20]).unwrap(), None);
        let head = Head::of(answer).unwrap().unwrap();
        assert_eq!((head.status, head.body, head.length + head.body), (200, 7, answer.len()));
        assert!(Head::of(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        // The message was "etcd's response has no Content-Length" and did not say why etcd refused.
        let refused = Head::of(b"HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        assert_eq!(refused.unwrap().status, 503);
    }
}
