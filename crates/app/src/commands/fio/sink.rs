//! Where fio's reports go: standard output, or the file of `--output`.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::output::create_in_place;
use qd1_model::printable_output;

/// The destination. Each write reaches it immediately, since interim reports are read while the jobs run.
pub(crate) struct Sink {
    file: Option<(PathBuf, File)>,
}

impl Sink {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self { file: None }
    }

    /// A file, created or emptied immediately.
    ///
    /// # Errors
    /// When it cannot be created or is a disk, so that this is known before anything is measured.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        Ok(Self { file: Some((path.to_owned(), create_in_place("--output", path)?)) })
    }

    /// Writes a text.
    ///
    /// # Errors
    /// When it cannot be written. A closed pipe (`| head`) is not an error.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        let text = printable_output(text);
        match &mut self.file {
            Some((path, file)) => {
                file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
            }
            None => {
                let mut stdout = std::io::stdout().lock();
                match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                    outcome => outcome.context("cannot write to stdout"),
                }
            }
        }
    }
}

/// Returns a JSON document on one line. JSON escapes line breaks inside strings, so the others are between its tokens.
pub(crate) fn on_one_line(json: &str) -> String {
    let mut line: String = json.lines().map(str::trim_start).collect();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_on_one_line_is_the_same_document() {
        let document = "\n{\n  \"a\" : \"x  y\",\n  \"b\" : [\n    1,\n    2\n  ]\n}\n";
        let line = on_one_line(document);
        assert_eq!(line.lines().count(), 1);
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&line), parse(document));
    }
}
