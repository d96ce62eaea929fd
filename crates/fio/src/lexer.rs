//! Job files: lines, comments, sections, included files. Every key and value has its place.
//!
//! fio's rules, as seen with 3.33: a `;` or `#` anywhere ends the line; blanks around a line are ignored; nothing
//! continues on the next line; options belong to a section; `include FILE` must also be in a section, is looked up next
//! to the including file, and contributes options but no sections.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Findings, Place};
use crate::{Limits, World};

/// An option as written: nothing expanded, nothing looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Left of the `=`.
    pub key: String,
    /// Right of it; `None` without one.
    pub value: Option<String>,
    /// Where the key starts.
    pub place: Place,
    /// Where the value starts, or the key where there is none.
    pub value_place: Place,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Between the brackets.
    pub name: String,
    /// Where it starts.
    pub place: Place,
    /// Its options, with those of included files in place of the `include`.
    pub entries: Vec<Entry>,
}

/// Reads a job file; `-` is standard input. `place` is where it was named.
pub(crate) fn read(file: &str, place: &Place, world: &dyn World, findings: &mut Findings) -> Vec<Section> {
    let mut reader = Reader { world, findings, sections: Vec::new(), open: Vec::new(), entries: 0, bytes: 0 };
    reader.file(Path::new(file), place);
    reader.sections
}

struct Reader<'a> {
    world: &'a dyn World,
    findings: &'a mut Findings,
    sections: Vec<Section>,
    /// The files being read, each included by the one before it.
    open: Vec<PathBuf>,
    entries: usize,
    bytes: usize,
}

impl Reader<'_> {
    fn error(&mut self, place: &Place, text: &str, kind: ErrorKind) {
        self.findings.error(Error::new(place.clone(), text, kind));
    }

    fn limit(&mut self, place: &Place, what: &str, limit: usize) {
        self.error(place, "", ErrorKind::Limit { what: what.to_owned(), limit });
    }

    fn file(&mut self, path: &Path, place: &Place) {
        let shown = path.to_string_lossy().into_owned();
        if self.open.iter().any(|open| open == path) {
            let why = "it includes itself".to_owned();
            return self.error(place, &shown, ErrorKind::Read { file: shown.clone(), why });
        }
        if self.open.len() > Limits::INCLUDE_DEPTH {
            return self.limit(place, "levels of included files", Limits::INCLUDE_DEPTH);
        }
        let bytes = match self.world.read(path) {
            Ok(bytes) => bytes,
            Err(why) => {
                let why = why.to_string();
                return self.error(place, &shown, ErrorKind::Read { file: shown.clone(), why });
            }
        };
        if bytes.len() > Limits::FILE_BYTES {
            return self.limit(place, "bytes in a job file", Limits::FILE_BYTES);
        }
        self.bytes += bytes.len();
        if self.bytes > Limits::INCLUDED_BYTES {
            self.entries = Limits::ENTRIES + 1;
            return self.limit(place, "bytes in all job files together", Limits::INCLUDED_BYTES);
        }
        self.open.push(path.to_owned());
        let name: Arc<str> = shown.into();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if self.findings.is_full() || self.entries > Limits::ENTRIES {
                break;
            }
            let place = Place::File { file: name.clone(), line: index as u32 + 1, column: 1 };
            self.line(line, &place);
        }
        self.open.pop();
    }

    fn line(&mut self, line: &[u8], start: &Place) {
        let end = line.iter().position(|byte| matches!(byte, b';' | b'#')).unwrap_or(line.len());
        let Ok(text) = std::str::from_utf8(&line[..end]) else {
            let kind = ErrorKind::Syntax("the line is not UTF-8".to_owned());
            return self.error(start, &String::from_utf8_lossy(&line[..end]), kind);
        };
        if text.len() > Limits::VALUE_BYTES {
            return self.limit(start, "bytes in a line", Limits::VALUE_BYTES);
        }
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return;
        }
        let place = start.right(column_of(text, trimmed));
        if let Some(inside) = trimmed.strip_prefix('[') {
            return self.section(inside, &place, trimmed);
        }
        if self.sections.is_empty() {
            let problem = "this option is not in a section: put [global] or [NAME] above it".to_owned();
            return self.error(&place, trimmed, ErrorKind::Syntax(problem));
        }
        let (key, value) = match trimmed.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
            None => (trimmed, None),
        };
        let value_place = place.right(value.map_or(0, |value| column_of(trimmed, value)));
        if let Some(file) = included(key, value) {
            self.entries += 1;
            let file = self.beside(file);
            return self.file(&file, &place);
        }
        if key.is_empty() {
            return self.error(&place, trimmed, ErrorKind::Syntax("there is no option before the `=`".to_owned()));
        }
        self.entry(Entry { key: key.to_owned(), value: value.map(str::to_owned), place, value_place });
    }

    fn entry(&mut self, entry: Entry) {
        self.entries += 1;
        if self.entries > Limits::ENTRIES {
            return self.limit(&entry.place, "options in job files", Limits::ENTRIES);
        }
        if let Some(section) = self.sections.last_mut() {
            section.entries.push(entry);
        }
    }

    fn section(&mut self, inside: &str, place: &Place, text: &str) {
        if self.open.len() > 1 {
            let problem = "an included file may have options but no sections".to_owned();
            return self.error(place, text, ErrorKind::Syntax(problem));
        }
        if self.sections.len() == Limits::SECTIONS {
            // Reported once: the options that follow belong to the missing section.
            self.entries = Limits::ENTRIES + 1;
            return self.limit(place, "sections", Limits::SECTIONS);
        }
        let name = match inside.rsplit_once(']') {
            Some((name, "")) => name,
            Some((name, rest)) => {
                let problem = format!("`{}` does not belong after the section's name", crate::error::shortened(rest));
                self.error(place, text, ErrorKind::Syntax(problem));
                name
            }
            None => {
                self.error(place, text, ErrorKind::Syntax("the section's name does not end with `]`".to_owned()));
                inside
            }
        };
        self.sections.push(Section { name: name.to_owned(), place: place.clone(), entries: Vec::new() });
    }

    /// The path of an included file: next to the file being read.
    fn beside(&self, file: &str) -> PathBuf {
        let directory = self.open.last().and_then(|open| open.parent());
        directory.map_or_else(|| PathBuf::from(file), |directory| directory.join(file))
    }
}

/// The file of `include FILE` and `include=FILE`.
fn included<'a>(key: &'a str, value: Option<&'a str>) -> Option<&'a str> {
    match value {
        Some(value) => (key == "include").then_some(value),
        None => key.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim_start),
    }
}

/// How many characters of `whole` come before its part `part`.
fn column_of(whole: &str, part: &str) -> usize {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    whole.get(..start).map_or(0, |before| before.chars().count())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io;

    use super::*;
    use crate::System;

    struct Files(HashMap<&'static str, &'static [u8]>);

    impl World for Files {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let content = self.0.get(path.to_str().unwrap());
            content.map(|content| content.to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        fn env(&self, _: &str) -> Option<String> {
            None
        }
        fn system(&self) -> System {
            System { ncpus: 1, mb_memory: 1, pagesize: 4096 }
        }
    }

    fn lex(files: &[(&'static str, &'static [u8])]) -> (Vec<Section>, Vec<String>) {
        let world = Files(files.iter().copied().collect());
        let mut findings = Findings::default();
        let sections = read("a.fio", &Place::Whole, &world, &mut findings);
        (sections, findings.errors.iter().map(ToString::to_string).collect())
    }

    fn pairs(section: &Section) -> Vec<(&str, Option<&str>)> {
        section.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_deref())).collect()
    }

    #[test]
    fn comments_blanks_and_bare_flags_are_read_as_fio_reads_them() {
        let (sections, errors) = lex(&[(
            "a.fio",
            b"; c\n# c \xff\n\n[a b] ; x\n  size = 1g ; y\r\n\tdirect=1#z\nstonewall\ndescription=a = b\n",
        )]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(sections[0].name, "a b");
        let expected =
            [("size", Some("1g")), ("direct", Some("1")), ("stonewall", None), ("description", Some("a = b"))];
        assert_eq!(pairs(&sections[0]), expected);
        let Place::File { line, column, .. } = sections[0].entries[0].value_place.clone() else { panic!() };
        assert_eq!((line, column), (5, 10));
    }

    #[test]
    fn included_options_stand_where_the_include_stands() {
        let (sections, errors) = lex(&[
            ("a.fio", b"[a]\nbs=4k\ninclude sub/b.fio\nsize=1m\n"),
            ("sub/b.fio", b"iodepth=4\ninclude=c.fio\n"),
            ("sub/c.fio", b"direct=1\n"),
        ]);
        assert_eq!(errors, Vec::<String>::new());
        let keys: Vec<_> = sections[0].entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["bs", "iodepth", "direct", "size"]);
        assert_eq!(sections[0].entries[2].place.to_string(), "sub/c.fio:1:1");
    }

    #[test]
    fn what_is_no_job_file_is_an_error_with_its_place() {
        for (content, expected) in [
            (&b"size=1g\n[a]\n"[..], "a.fio:1:1: this option is not in a section"),
            (b"[a\n", "a.fio:1:1: the section's name does not end"),
            (b"[a] x\n", "a.fio:1:1: ` x` does not belong"),
            (b"[a]\n =3\n", "a.fio:2:2: there is no option"),
            (b"[a]\n\xff=3\n", "a.fio:2:1: the line is not UTF-8"),
            (b"[a]\ninclude no.fio\n", "a.fio:2:1: cannot read no.fio"),
            (b"[a]\ninclude a.fio\n", "a.fio:2:1: cannot read a.fio: it includes itself"),
        ] {
            let content: &'static [u8] = Box::leak(content.to_vec().into_boxed_slice());
            let (_, errors) = lex(&[("a.fio", content)]);
            assert!(errors.iter().any(|error| error.starts_with(expected)), "{expected}: {errors:?}");
        }
        let (_, errors) = lex(&[("a.fio", b"[a]\ninclude b.fio\n"), ("b.fio", b"[x]\n")]);
        assert!(errors[0].contains("no sections"), "{errors:?}");
    }

    #[test]
    fn nothing_grows_without_bound() {
        let many: &'static [u8] = Box::leak("[a]\n".repeat(3000).into_bytes().into_boxed_slice());
        let (sections, errors) = lex(&[("a.fio", many)]);
        assert_eq!((sections.len(), errors.len()), (Limits::SECTIONS, 1));
        // Each file includes the next twice: 2^16 inclusions, if they were not counted.
        let doubling: &'static [u8] = b"include b/a.fio\ninclude c/a.fio\nbs=4k\n";
        let mut names = vec!["a.fio".to_owned()];
        for depth in 0..20 {
            let parents: Vec<_> = names.iter().filter(|name| name.matches('/').count() == depth).cloned().collect();
            names.extend(parents.iter().take(4).flat_map(|name| {
                let directory = name.strip_suffix("a.fio").unwrap();
                [format!("{directory}b/a.fio"), format!("{directory}c/a.fio")]
            }));
        }
        let files: Vec<_> = names.into_iter().map(|name| (&*name.leak(), doubling)).collect();
        let (_, errors) = lex(&files);
        assert!(errors.len() <= Limits::ERRORS);
    }
}
