//! Reasons that hold for several rows of one table, each said once: later rows name the row that has it.

use qd1_model::verdict::Judged;

use crate::words;

/// A shorter reason is repeated: saying where it is given would take as long.
const LONG: usize = 40;

/// What the rows of a table have said so far.
#[derive(Default)]
pub(crate) struct Reasons(Vec<(String, String)>);

impl Reasons {
    /// Returns a criterion's figure in words, as [`words::judged`] does, unless its reason was said already.
    pub(crate) fn judged(&mut self, judged: &Judged) -> String {
        let why = self.of(judged);
        words::judged(&Judged { why, ..judged.clone() })
    }

    /// Returns the reason of a criterion's grade, or where it is given.
    pub(crate) fn of(&mut self, judged: &Judged) -> String {
        self.once(&judged.why, &name(judged))
    }

    /// Returns the reason, or the row that has it.
    fn once(&mut self, why: &str, name: &str) -> String {
        if why.chars().count() < LONG {
            return why.to_owned();
        }
        match self.0.iter().find(|(said, _)| said == why) {
            Some((_, first)) if first == name => "as above".to_owned(),
            Some((_, first)) => format!("as for {first}, above"),
            None => {
                self.0.push((why.to_owned(), name.to_owned()));
                why.to_owned()
            }
        }
    }
}

/// The name by which a reader finds the row.
pub(crate) fn name(judged: &Judged) -> String {
    let step = &judged.criterion.step;
    let op = judged.criterion.op.name();
    if step.contains(op) { step.clone() } else { format!("{step} {op}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;
    use qd1_model::Grade;

    fn open(step: &str, why: &str) -> Judged {
        let mut judged = sample::slow_vps().verdicts[0].judged[0].clone();
        judged.criterion.step = step.to_owned();
        Judged { figure: None, grade: Grade::NotResolved, why: why.to_owned(), ..judged }
    }

    #[test]
    fn a_long_reason_is_given_once_and_then_referred_to() {
        let why = "the workers waited for a processor, not for the disk; measure again when the machine is idle";
        let mut said = Reasons::default();
        assert!(said.judged(&open("commit1", why)).ends_with(why));
        assert_eq!(said.judged(&open("commit1", why)), "commit1: sync p99: as above");
        assert_eq!(said.judged(&open("wal", why)), "wal: sync p99: as for commit1, above");
        assert!(said.judged(&open("wal", "step wal did not run")).ends_with("step wal did not run"));
        assert!(said.judged(&open("commit4", "step wal did not run")).ends_with("step wal did not run"));
    }
}
