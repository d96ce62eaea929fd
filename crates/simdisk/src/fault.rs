//! Faults: what goes wrong, with which requests, and how often. Seeded, so that a run can be repeated.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

/// A kind of request to which a fault may be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// fsync and fdatasync.
    Flush,
    /// open, including one that creates the file. It takes none of the device's time.
    Open,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultEffect {
    /// It fails with EIO; a write changes nothing.
    Eio,
    /// The same with EDQUOT, as if a user's quota were used up.
    Edquot,
    /// Half of its bytes are transferred (rounded down to 512, at least one byte less), and the answer says so.
    Short,
    /// It succeeds, but one bit of the written data is wrong from then on: the lowest of the byte at this offset of the
    /// file if the write covers it, or of a random byte if no offset is given.
    Flip,
    /// No answer for this many milliseconds; 0 for none until the disk goes away, and then EIO.
    Hang(u64),
}

/// One fault. Requests must meet all conditions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which requests.
    pub on: RequestKind,
    /// What happens.
    pub what: FaultEffect,
    /// Only requests that cover this byte of their file.
    pub at: Option<u64>,
    /// Share of the requests that meet the other conditions, 0 to 1.
    #[serde(default = "always")]
    pub rate: f64,
    /// This many matching requests are let through first.
    #[serde(default)]
    pub after: u64,
    /// Maximum number of times; 0 for no limit.
    #[serde(default)]
    pub times: u64,
}

fn always() -> f64 {
    1.0
}

/// The faults of a disk and how often each has occurred.
pub(crate) struct Faults {
    faults: Vec<(Fault, u64, u64)>,
    rng: Xoshiro256PlusPlus,
}

impl Faults {
    pub(crate) fn new(faults: &[Fault], seed: u64) -> Self {
        let faults = faults.iter().map(|fault| (fault.clone(), 0, 0)).collect();
        Self { faults, rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xFA17) }
    }

    /// A number in 0..1.
    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The fault that hits a request, if any, with the byte that it concerns. The first in the list wins.
    pub(crate) fn judge(&mut self, on: RequestKind, offset: u64, len: u64) -> Option<(FaultEffect, u64)> {
        for index in 0..self.faults.len() {
            let (fault, ..) = &self.faults[index];
            let (rate, at) = (fault.rate, fault.at);
            if fault.on != on || at.is_some_and(|at| at < offset || at >= offset + len) {
                continue;
            }
            let (draw, place) = (self.uniform(), self.uniform());
            let (fault, seen, hit) = &mut self.faults[index];
            *seen += 1;
            if *seen <= fault.after || (fault.times > 0 && *hit >= fault.times) || draw >= rate {
                continue;
            }
            *hit += 1;
            let byte = at.unwrap_or(offset + (place * len as f64) as u64);
            return Some((fault.what, byte));
        }
        None
    }
}

/// Bytes of a short transfer.
pub(crate) fn shortened(len: usize) -> usize {
    if len >= 1024 { len / 2 / 512 * 512 } else { len / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(on: RequestKind, what: FaultEffect) -> Fault {
        Fault { on, what, at: None, rate: 1.0, after: 0, times: 0 }
    }

    #[test]
    fn a_fault_hits_its_kind_of_request_and_its_place_only() {
        let mut faults = Faults::new(&[Fault { at: Some(5000), ..fault(RequestKind::Read, FaultEffect::Eio) }], 1);
        assert_eq!(faults.judge(RequestKind::Read, 4096, 4096), Some((FaultEffect::Eio, 5000)));
        assert_eq!(faults.judge(RequestKind::Read, 0, 4096), None);
        assert_eq!(faults.judge(RequestKind::Read, 5001, 10), None);
        assert_eq!(faults.judge(RequestKind::Write, 4096, 4096), None);
    }

    #[test]
    fn a_rate_is_kept_over_many_requests() {
        let mut faults = Faults::new(&[Fault { rate: 0.05, ..fault(RequestKind::Write, FaultEffect::Short) }], 7);
        let hits = (0..100_000).filter(|n| faults.judge(RequestKind::Write, n * 4096, 4096).is_some()).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
    }

    #[test]
    fn a_fault_waits_and_then_ends() {
        let mut faults =
            Faults::new(&[Fault { after: 3, times: 2, ..fault(RequestKind::Flush, FaultEffect::Hang(5)) }], 1);
        let hits: Vec<bool> = (0..8).map(|_| faults.judge(RequestKind::Flush, 0, 0).is_some()).collect();
        assert_eq!(hits, [false, false, false, true, true, false, false, false]);
    }

    #[test]
    fn a_short_transfer_is_shorter() {
        assert_eq!((shortened(4096), shortened(512), shortened(1)), (2048, 256, 0));
    }
}
