//! Files beside the tests, read as a user's.

use std::path::Path;

use qd1_model::OpClass;
use qd1_model::measured::{Measured, MeasuredStep};

pub(crate) fn read(name: &str) -> Vec<Measured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    qd1_import::read(name.rsplit('/').next().unwrap(), &std::fs::read(path).unwrap()).unwrap()
}

pub(crate) fn only(name: &str) -> Measured {
    let mut runs = read(name);
    assert_eq!(runs.len(), 1, "{name}");
    runs.remove(0)
}

#[track_caller]
pub(crate) fn value(step: &MeasuredStep, class: OpClass, metric: &str) -> f64 {
    let stream = step.streams.iter().find(|stream| stream.class == class).expect("there is such a kind of operation");
    stream.figure(metric).and_then(|figure| figure.value).expect("the figure is resolved")
}
