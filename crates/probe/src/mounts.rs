//! `/proc/*/mountinfo`: which mount holds a path. The kernel's own lookup is repeated on the tree of mounts, because
//! neither the longest mount point nor the last line is always the right one (proc(5), `proc_pid_mountinfo`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// One line of mountinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Mount ID, unique in its namespace.
    pub(crate) id: u64,
    /// Mount it sits on.
    pub(crate) parent: u64,
    /// `st_dev` of its files as `254:0`; major 0 is not a block device.
    pub(crate) number: String,
    /// Directory of the filesystem that is mounted; not `/` for bind mounts and control group namespaces.
    pub(crate) root: String,
    /// Mount point.
    pub(crate) point: PathBuf,
    /// Options of this mount.
    pub(crate) options: Vec<String>,
    /// Filesystem type.
    pub(crate) kind: String,
    /// What is mounted.
    pub(crate) source: String,
    /// Options of the filesystem.
    pub(crate) super_options: Vec<String>,
}

impl Mount {
    /// Whether `number` is that of a block device. Filesystems without one get major 0, and so does each btrfs
    /// subvolume.
    pub(crate) fn has_block_number(&self) -> bool {
        !self.number.is_empty() && !self.number.starts_with("0:")
    }

    /// The value of a filesystem option such as `upperdir`.
    pub(crate) fn super_option(&self, name: &str) -> Option<&str> {
        self.super_options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Block devices the source names; bcachefs joins several with colons. An NFS source has a colon too, but begins
    /// with a host.
    pub(crate) fn source_devices(&self) -> impl Iterator<Item = &Path> {
        let source = if self.source.starts_with("/dev/") { self.source.as_str() } else { "" };
        source.split(':').filter(|part| part.starts_with("/dev/")).map(Path::new)
    }
}

/// The kernel's own answer about a path, where it could be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    /// Mount ID (`STATX_MNT_ID`, Linux 5.8).
    pub(crate) mount: Option<u64>,
    /// `st_dev` as `254:0`.
    pub(crate) number: Option<String>,
}

/// Reads mountinfo; lines that make no sense are skipped.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // Spaces inside fields are escaped, so " - " can only be the separator after the optional fields.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (id, parent) = (left.next()?.parse().ok()?, left.next()?.parse().ok()?);
    let number = left.next()?.to_owned();
    let (root, point) = (unescape(left.next()?), unescape(left.next()?).into());
    let options = split_options(left.next()?);
    let mut right = right.split(' ');
    let kind = unescape(right.next()?);
    let source = unescape(right.next().unwrap_or_default());
    let super_options = split_options(right.next().unwrap_or_default());
    Some(Mount { id, parent, number, root, point, options, kind, source, super_options })
}

fn split_options(text: &str) -> Vec<String> {
    text.split(',').filter(|option| !option.is_empty()).map(unescape).collect()
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash (`\040`).
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at..at + 4).filter(|code| code[0] == b'\\').and_then(|code| octal(&code[1..]));
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0u8, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

/// The mount that holds `path`, which is absolute and without symbolic links.
pub(crate) fn containing<'a>(mounts: &'a [Mount], path: &Path, identity: &Identity) -> Option<&'a Mount> {
    if let Some(mount) = identity.mount.and_then(|id| mounts.iter().find(|mount| mount.id == id)) {
        return Some(mount);
    }
    let found = lookup(mounts, path);
    match &identity.number {
        // The tree is right unless the kernel says that the path is elsewhere. Filesystems with anonymous numbers never
        // match, so the absence of a match means nothing.
        Some(number) if found.is_none_or(|mount| mount.number != *number) => {
            let same: Vec<Mount> = mounts.iter().filter(|mount| mount.number == *number).cloned().collect();
            let better = longest(&same, path).map(|mount| mount.id);
            mounts.iter().rfind(|mount| Some(mount.id) == better).or(found)
        }
        _ => found,
    }
}

/// Descends the tree of mounts as the kernel does; where the root is not listed (chroot), the longest mount point.
fn lookup<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let ids: HashSet<u64> = mounts.iter().map(|mount| mount.id).collect();
    let is_top = |mount: &&Mount| mount.parent == mount.id || !ids.contains(&mount.parent);
    let top = mounts.iter().rfind(|mount| mount.point == Path::new("/") && is_top(mount));
    let Some(mut current) = top else { return longest(mounts, path) };
    let mut seen = HashSet::from([current.id]);
    // Of the mounts on this one, the shallowest comes first on the way down; among equals the last is on top.
    while let Some(next) = mounts
        .iter()
        .filter(|mount| mount.parent == current.id && !seen.contains(&mount.id) && path.starts_with(&mount.point))
        .rev()
        .min_by_key(|mount| mount.point.components().count())
    {
        seen.insert(next.id);
        current = next;
    }
    Some(current)
}

fn longest<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Among equals `max_by_key` returns the last one: later mounts cover earlier ones.
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
40 27 8:1 / /mnt/my\\040disk rw - xfs /dev/sda1 rw
41 27 8:2 / /srv rw - ext4 /dev/sda2 rw
42 41 8:3 / /srv/db rw - ext4 /dev/sda3 rw
43 41 8:4 / /srv rw - ext4 /dev/sda4 rw
";

    fn point_of(path: &str, identity: Identity) -> u64 {
        containing(&parse(TABLE), Path::new(path), &identity).unwrap().id
    }

    #[test]
    fn octal_escapes_in_mount_points_are_decoded() {
        assert_eq!(parse(TABLE)[2].point, Path::new("/mnt/my disk"));
        assert_eq!(point_of("/mnt/my disk/file", Identity::default()), 40);
        assert_eq!(unescape("a\\134b\\9\\04"), "a\\b\\9\\04");
    }

    #[test]
    fn optional_fields_do_not_shift_the_rest() {
        let root = &parse(TABLE)[1];
        assert_eq!((root.kind.as_str(), root.source.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(root.super_options, ["rw", "discard"]);
    }

    #[test]
    fn a_later_mount_hides_what_was_mounted_below_its_mount_point() {
        assert_eq!(point_of("/srv/db/file", Identity::default()), 43);
    }

    #[test]
    fn a_mount_point_is_matched_by_whole_names() {
        assert_eq!(point_of("/srvother", Identity::default()), 27);
        assert_eq!(point_of("/proc", Identity::default()), 22);
    }

    #[test]
    fn the_mount_id_decides_where_the_kernel_gives_one() {
        assert_eq!(point_of("/srv/db", Identity { mount: Some(42), number: None }), 42);
    }

    #[test]
    fn the_device_number_decides_between_mounts_of_one_path() {
        assert_eq!(point_of("/srv/x", Identity { mount: None, number: Some("8:2".into()) }), 41);
        assert_eq!(point_of("/srv/x", Identity { mount: None, number: Some("0:99".into()) }), 43);
    }

    #[test]
    fn a_chroot_without_its_root_mount_uses_the_longest_mount_point() {
        let mounts = parse("50 9 8:1 / /data rw - ext4 /dev/sda1 rw\n51 50 8:2 / /data/db rw - xfs /dev/sda2 rw\n");
        assert_eq!(containing(&mounts, Path::new("/data/db/x"), &Identity::default()).unwrap().id, 51);
        assert!(containing(&mounts, Path::new("/etc"), &Identity::default()).is_none());
    }

    #[test]
    fn mounts_that_name_each_other_as_parents_do_not_loop() {
        let mounts =
            parse("1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 3 8:1 / /a rw - ext4 x rw\n3 2 8:1 / /a rw - ext4 x rw\n");
        assert_eq!(containing(&mounts, Path::new("/a/b"), &Identity::default()).unwrap().id, 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[ -~\\n]{0,200}") {
            let mounts = parse(&text);
            let _ = containing(&mounts, Path::new("/a"), &Identity::default());
        }

        #[test]
        fn unescaping_undoes_the_kernels_escaping(text in "[a-z \\t\\n\\\\é]{0,40}") {
            let escaped: String = text.chars().map(|c| match c {
                ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", c as u32),
                other => other.to_string(),
            }).collect();
            prop_assert_eq!(unescape(&escaped), text);
        }
    }
}
