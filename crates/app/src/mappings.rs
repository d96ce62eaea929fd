//! Which files processes have mapped, found without waiting for a process that hangs.

use std::collections::HashMap;

use qd1_clock as clock;
use qd1_probe::{Machine, Mapped};

use crate::aside::Aside;

/// For how long an answer is used again, ns: programs sync the same mapping repeatedly, but may map another file there.
const FRESH_NS: u64 = 1_000_000_000;
/// Most answers that are remembered.
const KNOWN_MAX: usize = 10_000;

/// Process and address.
type Place = (u32, u64);

/// Finds mapped files. That takes long where the process itself waits for a change of its memory.
pub(crate) struct Mappings {
    aside: Aside<Place, (Place, Option<Mapped>)>,
    /// Files, and when they were found, ns.
    known: HashMap<Place, (Mapped, u64)>,
}

impl Mappings {
    /// Looks at the processes of this machine.
    pub(crate) fn new(machine: &Machine) -> Self {
        let machine = machine.clone();
        let aside = Aside::begin("mappings", move |(pid, address)| ((pid, address), machine.mapped(pid, address)));
        Self { aside, known: HashMap::new() }
    }

    /// Returns what a process has mapped at an address, or had when it was last found; `None` if it was never found.
    pub(crate) fn find(&mut self, pid: u32, address: u64) -> Option<Mapped> {
        let place = (pid, address);
        if let Some(answer) = self.aside.late() {
            self.remember(answer);
        }
        let known = self.known.get(&place);
        let is_fresh = known.is_some_and(|(_, found_ns)| clock::now_ns() < found_ns + FRESH_NS);
        if !is_fresh && let Some(answer) = self.aside.ask(place) {
            self.remember(answer);
        }
        self.known.get(&place).map(|(file, _)| *file)
    }

    fn remember(&mut self, (place, found): (Place, Option<Mapped>)) {
        let Some(found) = found else { return };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(place, (found, clock::now_ns()));
    }
}
