//! A stored run as listed.

use serde::Serialize;

/// One run of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Random identifier, 12 hexadecimal digits.
    pub id: String,
    /// Wall clock at the start, ns since the Unix epoch.
    pub started_unix_ns: u64,
    /// Duration of the whole run, ns.
    pub elapsed_ns: u64,
    /// Name of the suite.
    pub suite: String,
    /// The place that was measured.
    pub path: String,
    /// The topmost block device; empty if there is none.
    pub device: String,
    /// Type of the filesystem; empty for a block device.
    pub filesystem: String,
    /// Version of the qd1 that ran.
    pub version: String,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Whether it is a check over hours that is still running or can be resumed.
    #[serde(skip_serializing_if = "is_false")]
    pub unfinished: bool,
    /// The machine's name; absent if an earlier qd1 stored the run and it has not been requested since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its tags, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The user's remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its result in one line, as judged by the qd1 that listed or saved it; absent if it has not been judged yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Selects runs of the history: those that match everything given here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The machine's name.
    pub host: Option<String>,
    /// The topmost block device.
    pub device: Option<String>,
    /// The place that was measured, or a directory above it.
    pub path: Option<String>,
    /// The suite.
    pub suite: Option<String>,
    /// A tag.
    pub tag: Option<String>,
    /// Begun at this time or later, ns since the Unix epoch.
    pub since_unix_ns: Option<u64>,
    /// Begun before this time.
    pub until_unix_ns: Option<u64>,
}

/// Maximum length of a tag.
pub const TAG_MAX: usize = 40;
/// Maximum length of a note.
pub const NOTE_MAX: usize = 2000;

/// Whether a word can be a tag: letters, digits, `-`, `_` and `.`, beginning with a letter, so that it cannot be
/// mistaken for an id, an option or a list.
pub fn is_tag(word: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    word.starts_with(char::is_alphabetic) && word.chars().all(plain) && word.chars().count() <= TAG_MAX
}
