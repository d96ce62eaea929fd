//! Which files processes have mapped, found without waiting for a process that hangs.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use qd1_clock as clock;
use qd1_probe::{Machine, Mapped};

/// How long an answer is waited for, which usually takes less than 1 ms. It takes longer if the process, too, waits for a
/// change of its memory.
const WAIT: Duration = Duration::from_millis(50);
/// For how long an answer is used again, ns: programs sync the same mapping again and again, but may map another file there.
const FRESH_NS: u64 = 1_000_000_000;
/// Most answers that are remembered.
const KNOWN_MAX: usize = 10_000;

/// Process and address.
type Place = (u32, u64);

/// Finds mapped files, on a thread of its own.
pub(crate) struct Mappings {
    questions: Sender<Place>,
    answers: Receiver<(Place, Option<Mapped>)>,
    is_pending: bool,
    /// Files, and when they were found, ns.
    known: HashMap<Place, (Mapped, u64)>,
}

impl Mappings {
    /// Begins a thread that looks at the processes of this machine.
    pub(crate) fn new(machine: &Machine) -> Self {
        let (machine, (questions, asked), (answered, answers)) = (machine.clone(), channel(), channel());
        let answer_all = move || {
            while let Ok(place) = asked.recv() {
                let (pid, address) = place;
                if answered.send((place, machine.mapped(pid, address))).is_err() {
                    break;
                }
            }
        };
        // Without a thread, nothing is found.
        let _ = thread::Builder::new().name("mappings".to_owned()).spawn(answer_all);
        Self { questions, answers, is_pending: false, known: HashMap::new() }
    }

    /// Returns what a process has mapped at an address, or had when it was last found; `None` if it was never found.
    pub(crate) fn find(&mut self, pid: u32, address: u64) -> Option<Mapped> {
        let place = (pid, address);
        while let Ok(answer) = self.answers.try_recv() {
            self.remember(answer);
        }
        let known = self.known.get(&place);
        let is_fresh = known.is_some_and(|(_, found_ns)| clock::now_ns() < found_ns + FRESH_NS);
        if !is_fresh && !self.is_pending && self.questions.send(place).is_ok() {
            self.is_pending = true;
            if let Ok(answer) = self.answers.recv_timeout(WAIT) {
                self.remember(answer);
            }
        }
        self.known.get(&place).map(|(file, _)| *file)
    }

    fn remember(&mut self, (place, found): (Place, Option<Mapped>)) {
        self.is_pending = false;
        let Some(found) = found else { return };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(place, (found, clock::now_ns()));
    }
}
