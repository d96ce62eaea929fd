//! Who else used the disk during a step, and how long the device had the requests of its slowest operations, as far as
//! somebody watches it.

use std::collections::HashMap;

use qd1_model::Bytes;
use qd1_model::OpClass;
use qd1_model::record::{InDevice, OtherUser, Stream};

/// Knows what other programs do on the disk. The runner does not know how.
pub trait Witness {
    /// Returns what other programs have done so far, in any order.
    fn others(&self) -> Vec<OtherUser>;

    /// Returns the slow requests since the last call, of any program; `None` if they are not known.
    fn slow_requests(&self) -> Option<Vec<SlowRequest>>;
}

/// A request to the disk that took at least [`SLOW_NS`].
#[derive(Clone, Copy, Debug)]
pub struct SlowRequest {
    /// When it was completed, ns by the clock of requests.
    pub complete_ns: u64,
    /// How long the device had it, ns.
    pub device_ns: u64,
    /// Whether it reads.
    pub is_read: bool,
}

/// How long slow requests take at least, ns.
pub const SLOW_NS: u64 = 200_000;
/// How long slow operations take at least, ns: much longer than requests that are not seen.
const SLOW_OPERATION_NS: u64 = 2_000_000;
/// How much later than its request an operation may end, and how much earlier it may begin, ns: their times are read in
/// different places.
const SLACK_NS: u64 = 100_000;

/// Returns how long the device had the requests of the stream's slowest operations. Times of operations count from
/// `started_ns` by the clock of requests.
pub(crate) fn in_device(stream: &Stream, started_ns: u64, requests: &[SlowRequest]) -> Option<InDevice> {
    let is_read = stream.class == OpClass::Read;
    let slow = stream.slowest.iter().filter(|slow| slow.lat_ns >= SLOW_OPERATION_NS);
    let all = slow.fold(InDevice::default(), |all, slow| {
        let begin_ns = started_ns + slow.at_ns;
        let end_ns = begin_ns + slow.lat_ns;
        let mut times: Vec<(u64, u64)> = requests
            .iter()
            .filter(|request| request.is_read == is_read)
            .map(|request| (request.complete_ns.saturating_sub(request.device_ns), request.complete_ns))
            .filter(|(from, to)| from + SLACK_NS >= begin_ns && *to <= end_ns + SLACK_NS)
            .map(|(from, to)| (from.max(begin_ns), to.min(end_ns)))
            .collect();
        times.sort_unstable();
        let (mut device_ns, mut until_ns) = (0, begin_ns);
        for (from, to) in times {
            device_ns += to.saturating_sub(from.max(until_ns));
            until_ns = until_ns.max(to);
        }
        all.plus(&InDevice { operations: 1, lat_ns: slow.lat_ns, device_ns })
    });
    (all.operations > 0).then_some(all)
}

/// Returns what they did between two readings, by name, busiest first.
pub(crate) fn between(before: &[OtherUser], now: Vec<OtherUser>) -> Vec<OtherUser> {
    let before: HashMap<u32, &OtherUser> = before.iter().map(|before| (before.pid, before)).collect();
    let less = |now: Bytes, before: Bytes| Bytes(now.0.saturating_sub(before.0));
    let mut did: Vec<OtherUser> = Vec::new();
    for mut now in now {
        if let Some(before) = before.get(&now.pid) {
            now.requests = now.requests.saturating_sub(before.requests);
            now.read_bytes = less(now.read_bytes, before.read_bytes);
            now.written_bytes = less(now.written_bytes, before.written_bytes);
            now.changed_bytes = less(now.changed_bytes, before.changed_bytes);
        }
        if now.bytes() > 0 {
            did.push(now);
        }
    }
    OtherUser::sort(&mut did);
    let mut others = Vec::new();
    did.into_iter().for_each(|other| other.add_to(&mut others));
    OtherUser::keep_busiest(&mut others);
    others
}

#[cfg(test)]
mod tests {
    use qd1_model::Hist;
    use qd1_model::record::Slow;

    use super::*;

    #[test]
    fn time_in_the_device_is_that_of_requests_within_the_operation() {
        let slowest = vec![Slow { at_ns: 1_000_000, lat_ns: 10_000_000 }, Slow { at_ns: 90_000_000, lat_ns: 400_000 }];
        let stream = |class| Stream { slowest: slowest.clone(), ..Stream::of(class, Bytes(0), Hist::new()) };
        let request = |complete_ns, device_ns, is_read| SlowRequest { complete_ns, device_ns, is_read };
        // Of a step that began at 100 ms: a write of 6 ms that overlaps one of 4 ms by 1 ms, a read, and one of others.
        let requests = [
            request(107_500_000, 6_000_000, false),
            request(110_500_000, 4_000_000, false),
            request(105_000_000, 900_000, true),
            request(150_000_000, 60_000_000, false),
        ];
        let found = |class| in_device(&stream(class), 100_000_000, &requests);
        let device = |device_ns| Some(InDevice { operations: 1, lat_ns: 10_000_000, device_ns });
        assert_eq!(found(OpClass::Write), device(9_000_000));
        assert_eq!(found(OpClass::Read), device(900_000));
        assert_eq!(in_device(&stream(OpClass::Read), 100_000_000, &[]), device(0));
        assert_eq!(in_device(&Stream::of(OpClass::Read, Bytes(0), Hist::new()), 0, &requests), None);
    }

    #[test]
    fn only_what_was_done_in_between_counts() {
        let user = |pid, read, changed| OtherUser {
            comm: format!("program{}", pid % 3),
            pid,
            processes: 1,
            requests: 1,
            read_bytes: Bytes(read),
            changed_bytes: Bytes(changed),
            ..OtherUser::default()
        };
        let before = [user(1, 10, 0), user(2, 5, 5)];
        let now = vec![user(1, 10, 0), user(2, 5, 9), user(3, 100, 0), user(6, 200, 0)];
        let found: Vec<_> =
            between(&before, now).iter().map(|other| (other.pid, other.bytes(), other.processes)).collect();
        assert_eq!(found, [(6, 300, 2), (2, 4, 1)]);
    }
}
