//! fio's iolog, versions 2 and 3: what a job issued, file by file, without latencies or processes.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use anyhow::{Context as _, Result, bail, ensure};
use qd1_model::requests::{Asker, Op, Request};

use super::About;
use super::recording::Ending;

/// Longest line, bytes.
const LINE_MAX: u64 = 64 << 10;
/// Most files that are counted separately.
const FILES_MAX: usize = 100_000;

/// An iolog that is being read.
pub(super) struct Iolog<R> {
    from: R,
    /// Whether lines begin with a time (version 3).
    has_times: bool,
    line: u64,
    read: u64,
    now_us: u64,
    places: HashMap<String, u32>,
    names: Vec<String>,
    ending: Option<Ending>,
}

impl<R: BufRead> Iolog<R> {
    pub(super) fn new(from: R) -> Result<(Self, About)> {
        let mut iolog = Self {
            from,
            has_times: false,
            line: 0,
            read: 0,
            now_us: 0,
            places: HashMap::new(),
            names: Vec::new(),
            ending: None,
        };
        let head = iolog.line()?.context("it is empty")?;
        iolog.has_times = match head.trim() {
            "fio version 2 iolog" => false,
            "fio version 3 iolog" => true,
            _ => bail!("it is an iolog of an unknown version; versions 2 and 3 can be read"),
        };
        Ok((iolog, About::default()))
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        let length = self.from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).context("cannot read it")?;
        self.line += 1;
        self.read += length as u64;
        ensure!(line.ends_with(b"\n") || (length as u64) < LINE_MAX, "line {} is too long", self.line);
        Ok((length > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    pub(super) fn next(&mut self) -> Option<Request> {
        while self.ending.is_none() {
            let before = self.read;
            match self.line().and_then(|line| line.map(|line| self.parse(&line)).transpose()) {
                Ok(Some(Some(request))) => return Some(request),
                Ok(Some(None)) => {}
                Ok(None) => self.ending = Some(Ending::Unmarked),
                Err(error) => self.ending = Some(Ending::Incomplete { why: format!("{error:#}"), read: before }),
            }
        }
        None
    }

    /// Returns the request of a line, if it has one.
    fn parse(&mut self, line: &str) -> Result<Option<Request>> {
        let at = self.line;
        let number = |text: &str| text.parse::<u64>().with_context(|| format!("line {at}: {text} is not a number"));
        let mut words = line.split_ascii_whitespace();
        if self.has_times {
            let Some(time) = words.next() else { return Ok(None) };
            self.now_us = number(time)?;
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else { return Ok(None) };
        let numbers: Vec<u64> = words.map(number).collect::<Result<_>>()?;
        let op = match action {
            "read" => Op::Read,
            "write" => Op::Write,
            "sync" | "datasync" => Op::Flush,
            "trim" => Op::Discard,
            "add" | "open" | "close" => return Ok(None),
            "wait" => {
                // Version 2 has pauses instead of times, us.
                self.now_us = self.now_us.saturating_add(numbers.first().copied().unwrap_or(0));
                return Ok(None);
            }
            _ => bail!("line {at}: {action} is not an action of an iolog"),
        };
        let (offset, length) = match (op, numbers[..].iter().as_slice()) {
            (Op::Flush, _) => (0, 0),
            (_, [offset, length]) => (*offset, *length),
            _ => bail!("line {at}: it needs an offset and a length"),
        };
        let bytes = u32::try_from(length).with_context(|| format!("line {at}: {length} bytes are too many"))?;
        let place = self.place(file);
        Ok(Some(Request {
            complete_ns: self.now_us.saturating_mul(1000),
            queue_ns: None,
            device_ns: 0,
            sector: offset / 512,
            bytes,
            device: (0, place),
            flags: op.flags(),
            asker: Asker::default(),
            blkcg: 0,
            errno: 0,
        }))
    }

    /// Returns the number of a file; the last one stands for all further ones.
    fn place(&mut self, file: &str) -> u32 {
        if let Some(place) = self.places.get(file) {
            return *place;
        }
        let place = self.names.len().min(FILES_MAX) as u32;
        if self.names.len() < FILES_MAX {
            self.names.push(file.to_owned());
            self.places.insert(file.to_owned(), place);
        }
        place
    }

    pub(super) fn name(&self, device: (u32, u32)) -> Option<&str> {
        self.names.get(device.1 as usize).map(String::as_str)
    }

    pub(super) const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Request>, Ending) {
        let (mut iolog, _) = Iolog::new(text.as_bytes()).unwrap();
        let requests = std::iter::from_fn(|| iolog.next()).collect();
        (requests, iolog.ending().unwrap().clone())
    }

    #[test]
    fn both_versions_are_read() {
        let (requests, ending) = read(
            "fio version 3 iolog\n0 /a add\n0 /a open\n10 /a write 4096 8192\n20 /b read 512 512\n30 /a sync\n40 /a close\n",
        );
        let seen: Vec<_> = requests
            .iter()
            .map(|request| (request.complete_ns, request.op(), request.sector, request.bytes, request.device.1))
            .collect();
        assert_eq!(
            seen,
            [(10_000, Op::Write, 8, 8192, 0), (20_000, Op::Read, 1, 512, 1), (30_000, Op::Flush, 0, 0, 0)]
        );
        assert_eq!(ending, Ending::Unmarked);
        let (requests, _) =
            read("fio version 2 iolog\n/a add\n/a open\n/a wait 500 0\n/a read 0 4096\n/a trim 0 4096\n");
        assert_eq!((requests[0].complete_ns, requests[1].op()), (500_000, Op::Discard));
    }

    #[test]
    fn a_bad_line_ends_it_and_is_named() {
        let (requests, ending) = read("fio version 3 iolog\n1 /a read 0 512\n2 /a eat 0 512\n3 /a read 0 512\n");
        assert_eq!(requests.len(), 1);
        let Ending::Incomplete { why, read: bytes } = ending else { panic!("{ending:?}") };
        assert_eq!((why.as_str(), bytes), ("line 3: eat is not an action of an iolog", 36));
        assert!(Iolog::new(&b"fio version 9 iolog\n"[..]).is_err());
    }
}
