//! Runs as they are compared, of qd1 and of other tools, without names.

use qd1_model::measured::{Aspect, Measured};

use super::words::{is_plain, plain_fault, plain_words};

/// What was replaced, in order of appearance: the same name gets the same number everywhere.
struct Numbers {
    word: &'static str,
    names: Vec<String>,
}

impl Numbers {
    fn of(word: &'static str) -> Self {
        Self { word, names: Vec::new() }
    }

    fn number(&mut self, name: &str) -> String {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("{} {}", self.word, at + 1)
    }

    fn hide(&mut self, text: &mut String) {
        if !is_plain(text) {
            *text = self.number(text);
        }
    }
}

/// Redacts the runs; the same name gets the same number in all of them.
pub(super) fn redact(runs: &mut [&mut Measured]) {
    let mut steps = Numbers::of("step");
    let mut values: Vec<(Aspect, Numbers)> = Vec::new();
    for (run, number) in runs.iter_mut().zip(1..) {
        run.label = format!("run {number}");
        run.tool = plain_words(&run.tool);
        run.missing.retain(|missing| is_plain(missing));
        for step in &mut run.steps {
            steps.hide(&mut step.name);
            if !is_plain(&step.title) {
                step.title = step.does.map_or_else(String::new, |does| does.title());
            }
            step.engine = plain_words(&step.engine);
            step.fault = plain_fault(&step.fault);
        }
        for circumstance in &mut run.circumstances {
            let aspect = circumstance.aspect;
            let at = values.iter().position(|(known, _)| *known == aspect).unwrap_or_else(|| {
                values.push((aspect, Numbers::of(aspect.name())));
                values.len() - 1
            });
            let numbers = &mut values[at].1;
            // What spoiled a run stays readable; only words chosen by others go.
            if aspect == Aspect::Spoiled {
                circumstance.value = plain_words(&circumstance.value);
            }
            if aspect == Aspect::Host {
                circumstance.value = numbers.number(&circumstance.value);
            } else {
                numbers.hide(&mut circumstance.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::measured::Circumstance;

    use super::*;

    #[test]
    fn what_spoiled_a_run_is_read_without_its_names() {
        let value = "acme-step, qd1: the hypervisor took 18 % of the processor time".to_owned();
        let mut run =
            Measured { circumstances: vec![Circumstance { aspect: Aspect::Spoiled, value }], ..Measured::default() };
        redact(&mut [&mut run]);
        assert_eq!(run.circumstances[0].value, "qd1: the hypervisor took 18 % of the processor time");
    }
}
