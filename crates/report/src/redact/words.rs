//! Texts that identify nobody: made of known words, of numbers and of single letters.
//!
//! Whether a word is a name cannot be seen from the word. So the list has what qd1 itself writes and what kernels,
//! filesystems, machines and databases call their own, and every other word counts as a name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

static WORDS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("words.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
});

/// Longest run of digits: longer ones are serial numbers.
const DIGITS_MAX: usize = 8;
/// Most runs of letters in a part between punctuation: `r4k` has two, and `s4ev7n` three.
const RUNS_MAX: usize = 2;
/// Errors of requests that identify nobody, in upper case as the kernel names them.
const ERRORS: [&str; 24] = [
    "EACCES",
    "EAGAIN",
    "EBADF",
    "EBUSY",
    "ECANCELED",
    "EDQUOT",
    "EFAULT",
    "EFBIG",
    "EINTR",
    "EINVAL",
    "EIO",
    "ENODATA",
    "ENODEV",
    "ENOENT",
    "ENOLINK",
    "ENOMEM",
    "ENOSPC",
    "ENOTSUP",
    "ENXIO",
    "EOPNOTSUPP",
    "EPERM",
    "EROFS",
    "ESTALE",
    "ETIMEDOUT",
];
/// What the kernel's names of block devices begin with.
const DEVICES: [&str; 19] = [
    "sd", "vd", "xvd", "hd", "nvme", "mmcblk", "dm-", "md", "loop", "zram", "ram", "nbd", "rbd", "drbd", "pmem",
    "nullb", "dasd", "bcache", "zd",
];

/// Whether all of a text is harmless.
pub(super) fn is_plain(text: &str) -> bool {
    text.split_whitespace().all(is_plain_word)
}

/// Whether a word between blanks is harmless, with its punctuation.
pub(super) fn is_plain_word(word: &str) -> bool {
    let is_address = |rest: &str| !rest.contains(['@', ':', '?']);
    let word = match word.strip_prefix("https://") {
        Some(rest) if is_address(rest) => rest,
        _ => word,
    };
    let known = |letter: char| letter.is_ascii_alphanumeric() || " .,;:()%+-*/=_<>'\"[]{}|#~!?&".contains(letter);
    let is_path =
        word.trim_start_matches(|letter: char| "(\"'[{<=".contains(letter)).starts_with('/') && word.len() > 1;
    word.chars().all(known) && !is_path && !is_number_of_machine(word) && parts(word).all(is_plain_part)
}

/// Whether a word may be the address of a machine or of a card: `10.1.2.3`, `fe80::1`, `52:54:00:12:34:56`.
fn is_number_of_machine(word: &str) -> bool {
    let groups = |mark: char| word.split(mark).filter(|group| group.ends_with(|c: char| c.is_ascii_hexdigit())).count();
    let of_digits = word.split('.').filter(|part| part.contains(|c: char| c.is_ascii_digit())).count();
    groups(':') > 2 || word.contains("::") || of_digits > 3 && !word.contains(',')
}

fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty())
}

fn is_plain_part(part: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let runs = part.split(is_digit).filter(|run| !run.is_empty());
    let is_word = |run: &str| run.len() == 1 || WORDS.contains(run.to_ascii_lowercase().as_str());
    let is_short = part.split(|letter: char| !is_digit(letter)).all(|digits| digits.len() <= DIGITS_MAX);
    // A number in hex looks like letters and digits in turn.
    is_short && runs.clone().count() <= RUNS_MAX && runs.clone().all(is_word)
}

/// Returns the harmless words of a text; nothing where none is left.
pub(super) fn plain_words(text: &str) -> String {
    let kept: Vec<&str> = text.split_whitespace().filter(|word| is_plain_word(word)).collect();
    kept.join(" ")
}

/// Returns as much of a version such as `6.1.0-18-amd64-custom` as is harmless.
pub(super) fn plain_version(text: &str) -> String {
    let kept: Vec<&str> = text.split('-').take_while(|part| is_plain_word(part)).collect();
    kept.join("-")
}

/// Whether it is the name of a failure, as the kernel or qd1 calls it.
pub(super) fn is_error(text: &str) -> bool {
    ERRORS.contains(&text) || text.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b' ') && is_plain(text)
}

/// Returns a sentence about a failure without what it names: all of it where it is harmless, else the errors in it.
pub(super) fn plain_fault(text: &str) -> String {
    if text.is_empty() || is_plain(text) {
        return text.to_owned();
    }
    let errors: Vec<&str> = parts(text).filter(|part| ERRORS.contains(part)).collect();
    if errors.is_empty() { "<fault>".to_owned() } else { format!("<fault> ({})", errors.join(", ")) }
}

/// Whether it is a name that the kernel gives a block device: `vda1`, `nvme0n1p2`, `dm-0`.
pub(super) fn is_device(name: &str) -> bool {
    DEVICES.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| is_rest_of_device(kind, rest)))
}

fn is_rest_of_device(kind: &str, rest: &str) -> bool {
    let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
    let numbers = &rest[letters..];
    let has_letters = matches!(kind, "sd" | "vd" | "xvd" | "hd" | "dasd");
    let is_drive = if has_letters { (1..4).contains(&letters) } else { letters == 0 && !numbers.is_empty() };
    let is_numbered = numbers.bytes().all(|letter| letter.is_ascii_digit() || b"npc".contains(&letter));
    let begins = numbers.is_empty() || numbers.starts_with(|letter: char| letter.is_ascii_digit());
    is_drive && is_numbered && begins && numbers.len() < 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qd1_writes_is_plain_and_what_people_name_is_not() {
        for plain in [
            "random reads, 4 KiB, 1 in flight",
            "ext4/r1/commit",
            "r4k-d32",
            // If a suite or step counts as a name, its figures cannot be found again: a redacted run had no limits.
            "limits",
            "read-small-depth",
            "both-large",
            "app-sqlite",
            "delete-normal",
            "10 clients",
            "wal_autocheckpoint",
            "rows",
            "etcd documentation: p99 of wal_fsync_duration_seconds below 10 ms",
            "data=ordered",
            "scsi (virtio_scsi)",
            "8:0 rbps=max wbps=1048576",
            "6.1.0-18-amd64",
            "254:0",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for named in [
            "acmecorp",
            "cluster_name=acme",
            "/data",
            "(/srv",
            "db-prod-7",
            "10.1.2.3",
            "addr=10.1.2.3",
            "fe80::1",
            "52:54:00:12:34:56",
            "S4EVNF0M123456",
            "123456789",
            "nas.acme.internal:/export",
            "eve@data",
            "größe",
            "5b0e3f6a",
            "https://user:data@data",
            "\u{1b}[2J",
        ] {
            assert!(!is_plain(named), "{named}");
        }
    }

    #[test]
    fn versions_keep_what_many_have() {
        assert_eq!(plain_version("6.1.0-18-amd64"), "6.1.0-18-amd64");
        assert_eq!(plain_version("6.18.5-acme-prod1"), "6.18.5");
        assert_eq!(plain_words("Debian GNU/Linux 12 (bookworm) of acme"), "Debian GNU/Linux 12 (bookworm) of");
        assert_eq!(
            plain_words("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz"),
            "Intel(R) Xeon(R) Platinum 8370C CPU 2.80GHz"
        );
    }

    #[test]
    fn faults_keep_the_error_and_lose_the_name() {
        assert_eq!(plain_fault("cannot write /srv/x y: No space left (ENOSPC)"), "<fault> (ENOSPC)");
        assert_eq!(plain_fault("gone"), "gone");
        assert_eq!(plain_fault("acme"), "<fault>");
    }

    #[test]
    fn devices_are_known_by_the_names_of_the_kernel() {
        for name in ["vda", "sda1", "nvme0n1p2", "dm-0", "md127", "loop7", "mmcblk0p1", "sdaa3", "xvda"] {
            assert!(is_device(name), "{name}");
        }
        for name in
            ["acme", "sdacme", "mdacme", "vd", "dm-acme", "loop", "sda1acme", "mapper/vg-lv", "rambler", "zdata"]
        {
            assert!(!is_device(name), "{name}");
        }
    }
}
