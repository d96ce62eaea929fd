//! What is behind a loop device, by number: a path does not reveal hard links, bind mounts and removed nodes.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{major, minor};

use crate::Machine;

/// `struct loop_info64` of the kernel's linux/loop.h, of which the first three fields are the device, the inode and,
/// for a block device, its own number.
type LoopInfo = [u64; 29];
const _: () = assert!(size_of::<LoopInfo>() == 232);
const LOOP_GET_STATUS64: u32 = 0x4C05;

/// A file or a block device behind a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Number of the device that holds the file, as `254:0`, and its inode there.
    file: (String, u64),
    /// The block device's own number; `None` for a regular file.
    pub(crate) block: Option<String>,
}

impl Behind {
    /// Number of the device that holds the file.
    pub(crate) fn device(&self) -> &str {
        &self.file.0
    }

    /// Whether it is this file.
    pub(crate) fn is(&self, data: &std::fs::Metadata) -> bool {
        self.file == (format!("{}:{}", major(data.dev()), minor(data.dev())), data.ino())
    }
}

impl Machine {
    /// What is behind the loop device with this kernel name; `None` where the kernel does not say.
    pub(crate) fn behind(&self, name: &str) -> Option<Behind> {
        if !self.is_live() {
            return None;
        }
        let device = File::open(Path::new("/dev").join(name)).ok()?;
        let mut info: LoopInfo = [0; 29];
        // SAFETY: the kernel fills in a `loop_info64`, which is as long as `info`.
        let outcome = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, info.as_mut_ptr()) };
        let [on, inode, own, ..] = info;
        // For a regular file, the kernel repeats the number of the device that holds it.
        let block = (own != 0 && own != on).then(|| number(own));
        (outcome == 0).then(|| Behind { file: (number(on), inode), block })
    }

    /// Names of the loop devices over the file at `path`, under whatever name it was attached.
    #[must_use]
    pub fn loops_of_file(&self, path: &Path) -> Vec<String> {
        let Ok(found) = std::fs::metadata(path) else { return Vec::new() };
        let loops = self.block_names().into_iter().filter(|name| name.starts_with("loop"));
        loops.filter(|name| self.behind(name).is_some_and(|behind| behind.is(&found))).collect()
    }
}

/// `254:0` from the kernel's encoding of a device number (`new_encode_dev` of linux/kdev_t.h).
fn number(encoded: u64) -> String {
    format!("{}:{}", (encoded >> 8) & 0xFFF, (encoded & 0xFF) | ((encoded >> 12) & 0xF_FF00))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_sysfs_shows() {
        assert_eq!(number(0x0700), "7:0");
        assert_eq!(number(0xFE03), "254:3");
        // The bits of a minor above 255 continue above the major.
        assert_eq!(number(0x0011_0302), "259:258");
    }
}
