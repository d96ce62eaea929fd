//! Sees, through BPF, who else uses the disk that a run measures, and its slow requests.

use std::cell::RefCell;
use std::path::Path;

use qd1_model::Bytes;
use qd1_model::record::OtherUser;
use qd1_model::requests::Op;
use qd1_probe::Machine;
use qd1_runner::witness::{SLOW_NS, SlowRequest, Witness};
use qd1_trace::{Device, Others};

use crate::named_disk::named_disk;

const _: () = assert!(SLOW_NS == Others::SLOW_NS);

/// The initial namespace of process ids, as the kernel numbers it.
const INITIAL_PIDS: &str = "pid:[4026531836]";

/// A disk whose other users are seen.
pub(crate) struct DiskWitness(RefCell<Others>);

impl DiskWitness {
    /// Begins to watch the disk below a path; `None` if it cannot be watched: without root, BPF or a single disk there.
    pub(crate) fn of(machine: &Machine, path: &Path) -> Option<Self> {
        // In a namespace, this process has another id than the one that BPF sees.
        let is_initial = std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == INITIAL_PIDS);
        if !rustix::process::geteuid().is_root() || !is_initial {
            return None;
        }
        let queue = machine.block_queue(&named_disk(machine, path).ok()?)?;
        let disk = Device { major: queue.major, minor: queue.minor };
        let others = queue.has_requests.then(|| Others::begin(disk, queue.has_times).ok()).flatten();
        others.map(|others| Self(RefCell::new(others)))
    }
}

impl Witness for DiskWitness {
    fn others(&self) -> Vec<OtherUser> {
        let processes = self.0.borrow().processes().unwrap_or_default();
        let of = |process: qd1_trace::Process| OtherUser {
            comm: process.name().into_owned(),
            pid: process.pid,
            processes: 1,
            requests: process.requests,
            read_bytes: Bytes(process.read_bytes),
            written_bytes: Bytes(process.write_bytes),
            changed_bytes: Bytes(process.changed_bytes),
        };
        processes.into_iter().map(of).collect()
    }

    fn slow_requests(&self) -> Option<Vec<SlowRequest>> {
        let requests = self.0.borrow_mut().slow_requests()?;
        let of = |request: qd1_trace::SlowRequest| {
            let (complete_ns, is_read) = (request.complete_ns, request.op == Op::Read);
            Some(SlowRequest { complete_ns, device_ns: request.device_ns?, is_read })
        };
        requests.into_iter().map(of).collect()
    }
}
