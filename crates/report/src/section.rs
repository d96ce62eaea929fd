//! What a part of a report offers each format. A format asks for its own form and knows nothing about kinds of run.

use serde::Serialize;

use crate::page::Page;

/// A part of a report, as formats see it.
pub(crate) trait Section {
    /// The answer to what the command asks, in a sentence or two; empty where another section always answers.
    fn answer(&self) -> String {
        String::new()
    }

    /// The same with the figures behind it, where these have no lines of their own.
    fn whole_answer(&self) -> String {
        self.answer()
    }

    /// The same in a line, for a list of runs.
    fn line(&self) -> String {
        self.answer()
    }

    /// Whether the lines of the first screen are the answer, so that its paragraph need not have it.
    fn answers_in_lines(&self) -> bool {
        false
    }

    /// Writes the figures in a line for each thing that was found, the most important first: the first screen.
    fn brief(&self, _page: &mut Page) {}

    /// Whether it is the whole report of the run, without separate findings and failed steps.
    fn stands_alone(&self) -> bool {
        false
    }

    /// Writes all of it for a terminal.
    fn human(&self, page: &mut Page);

    /// Writes all of it as Markdown.
    fn markdown(&self, text: &mut String);

    /// Returns a table of its own, with its heading; `None` where the rows of steps are the table.
    fn csv(&self) -> Option<String> {
        None
    }

    /// Writes an object for each row.
    fn lines(&self, _lines: &mut Lines<'_>) {}

    /// Facts about the place and how it was measured, where the run's own are not those of one disk.
    fn place(&self) -> Option<Vec<(&'static str, String)>> {
        None
    }
}

/// Lines of NDJSON: each an object with its type and the run that it belongs to.
pub(crate) struct Lines<'a> {
    run: &'a str,
    text: String,
}

/// One of them.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    run: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a> Lines<'a> {
    pub(crate) const fn new(run: &'a str) -> Self {
        Self { run, text: String::new() }
    }

    pub(crate) fn add(&mut self, kind: &'static str, body: &impl Serialize) {
        let line = Line { kind, run: self.run, body };
        self.text.push_str(&serde_json::to_string(&line).expect("a report is plain JSON"));
        self.text.push('\n');
    }

    pub(crate) fn all<'b, T: Serialize + 'b>(&mut self, kind: &'static str, bodies: impl IntoIterator<Item = &'b T>) {
        bodies.into_iter().for_each(|body| self.add(kind, body));
    }

    pub(crate) fn end(self) -> String {
        self.text
    }
}
