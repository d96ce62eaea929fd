//! The writer: commits one block after another, and acknowledges each once its fdatasync has returned.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use qd1_model::Problem;
use qd1_model::environment::FilesystemClass;
use qd1_probe::Machine;
use rustix::fs::{FlockOperation, fdatasync, flock, fsync};

use super::block::{self, BYTES};
use super::{BLOCKS, END, Header, boot_id, file_of, say};

/// A file to commit to.
pub struct Writer {
    file: File,
    path: PathBuf,
    header: Header,
}

/// What was done.
#[derive(Debug)]
pub struct Written {
    /// Number of acknowledged commits.
    pub acknowledged: u64,
    /// Why it ended.
    pub ended: Ended,
}

/// Why a writer ended.
#[derive(Debug)]
pub enum Ended {
    /// It was asked to stop, and informed the witness.
    Stopped,
    /// Nobody reads acknowledgements any more.
    WithoutWitness(io::Error),
    /// A commit failed, as happens when only the disk loses its power: the disk must be checked.
    CommitFailed(io::Error),
}

impl Writer {
    /// Creates the file of run `run` below `dir`, complete and durable, so that a commit changes only its block.
    ///
    /// # Errors
    /// If the directory does not exist, or has no room for 8 MiB.
    pub fn create(dir: &Path, run: u64) -> Result<Self> {
        if !dir.is_dir() {
            return Err(
                Problem::usage(format!("{} is not a directory; name one on the disk to test", dir.display())).into()
            );
        }
        let found = Machine::new().filesystem(dir).unwrap_or_default();
        if found.class == FilesystemClass::Memory {
            let message = format!(
                "{} is in memory ({}), which is lost in a power cut; name a directory on the disk to test",
                dir.display(),
                found.kind
            );
            return Err(Problem::usage(message).into());
        }
        let path = file_of(dir, run);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.with_context(|| format!("cannot create {}", path.display()))?;
        let this = Self { file, path, header: Header { run, boot: boot_id() } };
        let whole = || -> Result<()> {
            // Held as long as this process lives, so that nobody checks a file that is still being written.
            flock(&this.file, FlockOperation::NonBlockingLockExclusive)?;
            for number in 0..BLOCKS {
                this.file.write_all_at(&[0; BYTES], number * BYTES as u64)?;
            }
            fsync(&this.file)?;
            Ok(fsync(File::open(dir)?)?)
        };
        if let Err(error) = whole() {
            this.remove();
            return Err(error.context(format!("cannot write {}", dir.display())));
        }
        Ok(this)
    }

    /// Commits and acknowledges until `stop` is set, and then informs the witness that there was no cut; calls `ready`
    /// once as many commits are acknowledged as can be looked for.
    pub fn run(&self, witness: &mut dyn Write, stop: &AtomicBool, ready: impl Fn(u64)) -> Written {
        let mut block = [0; BYTES];
        let mut acknowledged = 0;
        let mut said = say(witness, &self.header.line());
        while said.is_ok() && !stop.load(Ordering::Relaxed) {
            let number = acknowledged + 1;
            block::fill(&mut block, self.header.run, number);
            let written = self.file.write_all_at(&block, (number - 1) % BLOCKS * BYTES as u64);
            if let Err(error) = written.and_then(|()| Ok(fdatasync(&self.file)?)) {
                return Written { acknowledged, ended: Ended::CommitFailed(error) };
            }
            said = say(witness, &number.to_string());
            acknowledged += u64::from(said.is_ok());
            if acknowledged == BLOCKS {
                ready(acknowledged);
            }
        }
        // Ctrl-C ends both ends of a pipe: then nobody has to be informed.
        let ended = match said.and_then(|()| say(witness, END)) {
            Err(error) if !stop.load(Ordering::Relaxed) => Ended::WithoutWitness(error),
            _ => Ended::Stopped,
        };
        Written { acknowledged, ended }
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file: there was no power cut.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
