//! Reads other tools' output and turns it into figures that can be compared with those of qd1: fio's JSON, normal
//! report and terse lines, YABS's JSON and text, bonnie++'s CSV, p99bench's results. VPS-Disk-Latency-Bench writes a
//! list of fio documents.
//!
//! Nothing is made up: a figure that a tool does not report is absent, one that rests on too few operations is not
//! resolved, and an interval is given only if a tool reports how much its own samples differ. [`Measured::missing`]
//! lists what is missing.
#![forbid(unsafe_code)]

mod bonnie;
mod documents;
mod figures;
mod fio;
mod gathered;
mod p99bench;
mod pasted;
mod yabs;

use std::borrow::Cow;

use qd1_model::Problem;
use qd1_model::measured::Measured;

use documents::Documents;
use gathered::{Gathered, LINES_MAX, TooMuch};

/// Reads the runs of a file; `label` is its name in messages.
///
/// # Errors
/// If its format is unknown, it is damaged, or it has more than can be compared; the message says what can be read.
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Measured>, Problem> {
    let text = text_of(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let mut runs = read_text(text).map_err(|what| Problem::usage(format!("{label} {what}")))?;
    let has_any = |run: &Measured| run.steps.iter().any(|step| !step.streams.is_empty() || !step.fault.is_empty());
    if !runs.iter().any(has_any) && runs.iter().any(|run| !run.steps.is_empty()) {
        let message = "names jobs but has no figures for them that qd1 can read; give it as the tool wrote it";
        return Err(Problem::usage(format!("{label} {message}")));
    }
    if runs.iter().all(|run| run.steps.is_empty()) {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let cut = serde_json::from_str::<serde::de::IgnoredAny>(text).err().filter(|_| is_json);
        return Err(Problem::usage(match cut {
            _ if text.trim().is_empty() => format!("{label} is empty; give a file with the result of a run"),
            Some(error) if error.is_eof() => {
                format!("{label} ends too early, in line {}: its JSON is incomplete", error.line())
            }
            Some(error) => format!("{label} is not valid JSON: {error}"),
            None => format!(
                "{label} is not a result that qd1 can read: a run of qd1 (--json), fio's JSON, report or terse lines, YABS's \
                 JSON or text, bonnie++'s CSV, VPS-Disk-Latency-Bench's and p99bench's JSON"
            ),
        }));
    }
    let many = runs.len() > 1;
    for (at, run) in runs.iter_mut().enumerate() {
        run.label = if many { format!("{label}#{}", at + 1) } else { label.to_owned() };
    }
    Ok(runs)
}

/// The text of these bytes; anything that is not UTF-8 becomes a question mark, which takes no more space.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // Written by a PowerShell redirection: UTF-16, lower byte first.
    if let Some(pairs) = bytes.strip_prefix(&[0xff, 0xfe]) {
        let units = pairs.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        return Cow::Owned(char::decode_utf16(units).map(|letter| letter.unwrap_or('?')).collect());
    }
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push('?');
        }
    }
    Cow::Owned(text)
}

/// Reads the runs of a text in one format; none if it has another.
type Form = fn(&str) -> Result<Gathered, TooMuch>;

/// Reads a text with the first format that finds something in it. The order matters: reports may be mixed with JSON,
/// and fio's reports cannot be mistaken for YABS's text.
fn read_text(text: &str) -> Result<Vec<Measured>, TooMuch> {
    let (mut others, mut fio) = (Gathered::default(), fio::json::Runs::default());
    let mut documents = Documents::of(text);
    for document in &mut documents {
        let document = document?;
        let run = yabs::run(&document).or_else(|| p99bench::run(&document));
        run.map_or(Ok(()), |run| others.begin(run))?;
        fio.add(&document)?;
    }
    let is_cut = documents.is_cut;
    let forms: [Form; 4] = [fio::report::runs, fio::terse::runs, yabs::from_text, bonnie::runs];
    let mut found = if others.is_empty() { fio.gathered(is_cut) } else { others };
    // One document may have used up most of the limit.
    if found.is_empty() && text.lines().nth(LINES_MAX).is_some() {
        return Err(TooMuch::Lines);
    }
    if found.is_empty() {
        let printed = pasted::as_printed(text);
        for form in forms {
            found = form(&printed)?;
            if !found.is_empty() {
                break;
            }
        }
    }
    Ok(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_none_of_the_forms_is_refused_with_those_that_are() {
        assert!(read("notes.txt", b" \n").unwrap_err().to_string().contains("is empty"));
        assert!(read("notes.txt", b"{\n\"jobs\": [").unwrap_err().to_string().contains("ends too early, in line 2"));
        for text in ["hello", "{}", "[1, 2]", "{\"jobs\": 7}", "1;2;3", "1,2,3\n"] {
            let error = read("notes.txt", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("notes.txt") && error.contains("bonnie++"), "{error}");
        }
    }

    proptest! {
        /// No input causes a panic.
        #[test]
        fn no_text_is_too_damaged_to_be_refused(text in "[ -~\\n]{0,400}") {
            let _ = read("x", text.as_bytes());
        }
    }
}
