//! Names, directories and sizes of files, computed from their number: a million files need no table.

use std::ffi::CStr;

use qd1_model::plan::FilesWork;

use crate::load::mix;

/// The prefix of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// As files are created.
    First = b'f' as isize,
    /// After renaming.
    Second = b'r' as isize,
    /// Their second names.
    Link = b'l' as isize,
}

/// Room for a directory and a name, both with a number of 20 digits, and twelve letters.
const LENGTH: usize = 64;
/// The characters at the end of long names.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A path below the files' directory, ready for a system call; built without allocation, since every call needs one.
#[derive(Clone, Copy)]
pub(super) struct Name {
    bytes: [u8; LENGTH],
    length: usize,
}

impl Name {
    const fn empty() -> Self {
        Self { bytes: [0; LENGTH], length: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// In decimal, padded with leading zeros to `width`.
    fn push_number(&mut self, number: u64, width: usize) {
        let digits = width.max(number.checked_ilog10().map_or(1, |log| log as usize + 1));
        let mut rest = number;
        for at in (self.length..self.length + digits).rev() {
            self.bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.length += digits;
    }

    /// As system calls take it.
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.length]).expect("made of letters and digits, and zero after them")
    }
}

/// What files are called, where they are and how large they are.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// Number of directories, or 1 if a single one holds all files.
    pub(super) dirs: u64,
    per_dir: u64,
    long: bool,
    size: u64,
    spread: u64,
    seed: u64,
}

impl Naming {
    pub(super) fn new(work: &FilesWork, seed: u64) -> Self {
        let per_dir = if work.per_dir == 0 { u64::MAX } else { work.per_dir };
        let (size, spread) = (work.size.0, work.size_spread.0.min(work.size.0));
        Self { dirs: work.dirs(), per_dir, long: work.long_names, size, spread, seed }
    }

    /// The directory that file `number` is in.
    pub(super) fn dir_of(&self, number: u64) -> u64 {
        number / self.per_dir
    }

    /// Path of directory `dir`.
    pub(super) fn dir(&self, dir: u64) -> Name {
        let mut name = Name::empty();
        if self.dirs == 1 {
            name.push(b'.');
        } else {
            name.push(b'd');
            name.push_number(dir, 6);
        }
        name
    }

    /// Path of file `number`.
    pub(super) fn file(&self, kind: NameKind, number: u64) -> Name {
        let mut name = Name::empty();
        if self.dirs > 1 {
            name = self.dir(self.dir_of(number));
            name.push(b'/');
        }
        name.push(kind as u8);
        name.push_number(number, if self.long { 9 } else { 8 });
        if self.long {
            let mut random = mix(number ^ self.seed);
            let letters = random % 13;
            random /= 13;
            for _ in 0..letters {
                random = mix(random);
                name.push(LETTERS[(random % 62) as usize]);
            }
        }
        name
    }

    /// Size of file `number`, bytes.
    pub(super) fn size(&self, number: u64) -> u64 {
        if self.spread == 0 {
            self.size
        } else {
            self.size - mix(number ^ self.seed.rotate_left(17)) % (self.spread + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::Bytes;

    fn naming(work: FilesWork) -> Naming {
        Naming::new(&work, 7)
    }

    fn text(name: &Name) -> String {
        name.as_c_str().to_str().unwrap().to_owned()
    }

    #[test]
    fn names_say_where_and_which() {
        let flat = naming(FilesWork { count: 3000, ..FilesWork::default() });
        assert_eq!((text(&flat.file(NameKind::First, 42)).as_str(), text(&flat.dir(0)).as_str()), ("f00000042", "."));
        let deep = naming(FilesWork { count: 3000, per_dir: 1000, ..FilesWork::default() });
        assert_eq!(text(&deep.file(NameKind::Link, 2999)), "d000002/l00002999");
        assert_eq!(text(&deep.dir(2)), "d000002");
        let far = naming(FilesWork { count: u64::MAX, per_dir: 1, long_names: true, ..FilesWork::default() });
        assert!(
            text(&far.file(NameKind::Second, u64::MAX - 1)).starts_with("d18446744073709551614/r18446744073709551614")
        );
    }

    #[test]
    fn long_names_are_as_long_as_those_of_bonnie_and_all_different() {
        let naming = naming(FilesWork { count: 20_000, long_names: true, ..FilesWork::default() });
        let names: std::collections::HashSet<String> =
            (0..20_000).map(|number| text(&naming.file(NameKind::First, number))).collect();
        assert_eq!(names.len(), 20_000);
        assert!(names.iter().all(|name| (10..=22).contains(&name.len())));
        let mean = names.iter().map(String::len).sum::<usize>() as f64 / 20_000.0;
        assert!((15.8..16.2).contains(&mean), "{mean}");
    }

    #[test]
    fn sizes_are_spread_evenly_and_a_number_always_has_the_same() {
        let work = FilesWork { size: Bytes(10_000), size_spread: Bytes(8000), count: 9000, ..FilesWork::default() };
        let naming = naming(work);
        let sizes: Vec<u64> = (0..9000).map(|number| naming.size(number)).collect();
        assert!(sizes.iter().all(|size| (2000..=10_000).contains(size)));
        let mean = sizes.iter().sum::<u64>() as f64 / 9000.0;
        assert!((5900.0..6100.0).contains(&mean), "{mean}");
        assert_eq!(naming.size(77), sizes[77]);
    }
}
