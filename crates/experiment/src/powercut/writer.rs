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

/// A file to be committed to.
pub struct Writer {
    file: File,
    path: PathBuf,
    header: Header,
}

/// What was done.
#[derive(Debug)]
pub struct Written {
    /// Commits that were acknowledged.
    pub acknowledged: u64,
    /// Why it ended.
    pub ended: Ended,
}

/// Why a writer ended.
#[derive(Debug)]
pub enum Ended {
    /// It was told to, and told the witness.
    Stopped,
    /// Nobody takes acknowledgements any more.
    WithoutWitness(io::Error),
    /// A commit failed, as where the disk alone loses its power: what is on it is to be looked at.
    CommitFailed(io::Error),
}

impl Writer {
    /// Makes the file of run `run` below `dir`, whole and durable, so that a commit changes nothing but its block.
    ///
    /// # Errors
    /// When there is no such directory, or it takes no 8 MiB.
    pub fn create(dir: &Path, run: u64) -> Result<Self> {
        if !dir.is_dir() {
            return Err(
                Problem::usage(format!("{} is not a directory; name one on the disk to test", dir.display())).into()
            );
        }
        let found = Machine::new().filesystem(dir).unwrap_or_default();
        if found.class == FilesystemClass::Memory {
            let message = format!(
                "{} is in memory ({}), which no power cut survives; name a directory on the disk to test",
                dir.display(),
                found.kind
            );
            return Err(Problem::usage(message).into());
        }
        let path = file_of(dir, run);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.with_context(|| format!("cannot make {}", path.display()))?;
        let this = Self { file, path, header: Header { run, boot: boot_id() } };
        let whole = || -> Result<()> {
            // Held as long as this process lives: nobody checks what is still written.
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

    /// Commits and acknowledges until `stop` is set, and tells the witness that there was no cut; calls `ready` once as many
    /// commits as can be looked for are acknowledged.
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
        // Ctrl-C ends both ends of a pipe: then nobody has to be told.
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
