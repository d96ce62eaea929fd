//! Results of other tools, in every form that is read: an error, or runs of possible figures, few enough to be compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_analysis::compare::{Group, compare};
use qd1_report::{CompareFormat, Detail, Style, comparison};

fuzz_target!(|data: &[u8]| {
    let Ok(runs) = qd1_import::read("file", data) else { return };
    let figures =
        runs.iter().flat_map(|run| &run.steps).flat_map(|step| &step.streams).flat_map(|stream| &stream.figures);
    for (name, figure) in figures {
        for value in [figure.value, figure.low, figure.high].into_iter().flatten() {
            assert!((0.0..1e15).contains(&value), "{name} is {value}");
        }
    }
    let group = |name: &str| Group { name: name.to_owned(), runs: runs.clone() };
    let Ok(found) = compare(&[group("a"), group("b")], &[]) else { return };
    let style = Style { color: false, width: 80, detail: Detail::All };
    for format in [CompareFormat::Human, CompareFormat::Json, CompareFormat::Markdown] {
        assert!(!comparison(&found, format, &style, &jiff::tz::TimeZone::UTC).is_empty());
    }
});
