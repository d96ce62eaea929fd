//! What stays of each text of a Record: a row for each field. A field without a row loses its text.

use super::options;
use super::words::{is_device, is_error, is_plain, plain_fault, plain_version, plain_words};

/// What happens to a text.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// It stays: one of a few words of ours, or packed numbers, which reading the Record again proves.
    Typed,
    /// It is replaced by this.
    Mark(&'static str),
    /// It stays where this holds, else it is replaced.
    If(fn(&str) -> bool, &'static str),
    /// This is left of it, or the mark where that is nothing.
    Part(fn(&str) -> String, &'static str),
    /// The name of a step: numbered where it is not one of ours.
    Step,
    /// What a step does, for people.
    Title,
    /// A text of the suite: it goes with a suite of the user's own, and where it is not plain.
    OfSuite(&'static str),
}

/// What any text without a row becomes.
pub(super) const UNKNOWN: Rule = Rule::Mark("<redacted>");

/// Returns the rule of a text: `parent` is the field of the object that it is in (that of the list, where that is one; `""`
/// for the Record itself), `field` its own, with `[]` for a text in a list.
pub(super) fn rule(parent: &str, field: &str) -> Rule {
    use Rule::{If, Mark, OfSuite, Part, Step, Title, Typed};
    match (parent, field) {
        ("app" | "programs", "program")
        | ("filesystem", "class")
        | ("criteria", "op")
        | ("files", "ops[]" | "order" | "sync")
        | ("io" | "background", "arrival" | "data" | "file" | "ioengine" | "order" | "rw" | "sync")
        | ("plan", "subject")
        | ("experience", "what")
        | ("target", "kind")
        | ("counters" | "reported", "unit")
        | ("streams", "class" | "slowest")
        | ("ops", "class")
        | ("waits", "looked_at")
        | ("steps", "ended" | "engine" | "intervals" | "machine")
        | ("lat" | "slat" | "clat" | "write_part" | "sync_part" | "sync", "hdr_v2") => Typed,

        ("", "id") => If(is_id, "<id>"),
        ("", "version") => Part(plain_version, "<version>"),
        ("plan", "suite") => OfSuite("<suite>"),
        ("target", "path") => Mark("<path>"),
        ("steps" | "skipped", "name") | ("criteria", "step") | ("mounts", "steps[]") => Step,
        ("steps", "title") => Title,
        ("criteria", "label" | "source") => OfSuite("<text>"),
        ("criteria", "metric") => If(is_plain, "<metric>"),
        ("skipped", "why") => If(is_plain, "<reason>"),
        ("steps", "engine_why") => Part(plain_why, "<reason>"),
        ("steps" | "mounts", "fault") => Part(plain_fault, "<fault>"),
        ("errors", "error") => If(is_error, "<error>"),
        ("counters" | "reported" | "buckets", "name") => If(is_plain, "<name>"),
        ("settings", "name") => If(is_plain, "<setting>"),
        ("settings", "value") => If(is_plain, "<value>"),
        ("app" | "programs", "version") | ("mounts", "tool") => Part(plain_words, "<version>"),

        ("environment", "hostname") => Mark("<host>"),
        ("environment", "kernel") => Part(plain_version, "<kernel>"),
        ("environment", "os" | "cpu_model" | "product") => Part(plain_words, "<redacted>"),
        ("environment", "virtualization" | "vendor" | "cpu_governor" | "cgroup_io_limits[]") | ("clock", "source") => {
            If(is_plain, "<redacted>")
        }
        ("others" | "beside" | "programs" | "waits", "comm") => Mark("<program>"),
        ("waits", "what" | "place") => If(is_plain, "<wait>"),
        ("disks", "name") | ("programs" | "waits", "disk") => Step,
        ("watched", "unseen") => Mark("<reason>"),
        ("devices", "name") => If(is_device, "<device>"),
        ("devices", "number" | "kind" | "transport" | "scheduler" | "write_cache") => If(is_plain, "<redacted>"),
        ("devices" | "nvme", "model") => Part(words_of_model, "<model>"),
        ("devices" | "nvme", "firmware") => Mark("<firmware>"),
        ("devices", "identity") => Mark("<identity>"),
        ("devices", "backing") => Mark("<file>"),
        ("nvme", "serial") => Mark("<serial>"),
        ("nvme", "controller" | "transport" | "version") => If(is_plain, "<redacted>"),
        ("filesystem", "kind" | "upper")
        | ("target", "filesystem")
        | ("filesystems", "names[]")
        | ("mounts", "name") => If(is_plain, "<filesystem>"),
        ("filesystem", "source") => If(is_plain_source, "<source>"),
        ("filesystem", "mount_point") => If(|path| path == "/", "<mount>"),
        ("filesystem", "version") => Part(plain_version, "<version>"),
        ("filesystem", "id") => Mark("<id>"),
        ("filesystem", "options[]") | ("mounts", "asked_options" | "properties[]") => Part(options::plain, "<option>"),
        ("mounts", "commands[]") => Part(options::plain_command, "<command>"),
        _ => UNKNOWN,
    }
}

/// Twelve hexadecimal digits, which are random.
fn is_id(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
}

/// `/dev/vda1` identifies nobody, nor does a type such as `tmpfs`; a pool, a share or a volume has a name from its owner.
fn is_plain_source(source: &str) -> bool {
    const TYPES: [&str; 8] = ["tmpfs", "overlay", "none", "ramfs", "devtmpfs", "/dev/root", "rootfs", "shm"];
    TYPES.contains(&source) || source.strip_prefix("/dev/").is_some_and(is_device)
}

/// The words that say who made a disk or that it is virtual; its own numbers go.
fn words_of_model(model: &str) -> String {
    let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    plain_words(model).split(' ').filter(is_word).collect::<Vec<_>>().join(" ")
}

/// Why an engine was chosen: what it fell back from stays, where the rest of the sentence names something.
fn plain_why(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    match text.split_once(": ") {
        Some((before, _)) if is_plain(before) => format!("{before}: <reason>"),
        _ => String::new(),
    }
}
