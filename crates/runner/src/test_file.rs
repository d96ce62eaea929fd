//! A file of our own in the directory that is measured, removed however the run ends.

use std::ops::Deref;
use std::path::Path;

use anyhow::Result;
use qd1_engine::backing::Target;
use qd1_system::scratch::Scratch;

/// The measured target, with what keeps it from being left behind.
pub struct TestFile {
    // Dropped before the directory that it is in.
    target: Target,
    /// Only if the filesystem does not support unnamed files.
    _scratch: Option<Scratch>,
}

impl TestFile {
    /// Creates a file in `dir`: an unnamed one or, if the filesystem does not support that, one in a directory that is
    /// removed after the run.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(dir: &Path, id: &str) -> Result<Self> {
        if let Some(target) = Target::unnamed_in(dir)? {
            return Ok(target.into());
        }
        let scratch = Scratch::create(dir, id)?;
        Ok(Self { target: Target::create_in(scratch.path(), id)?, _scratch: Some(scratch) })
    }
}

impl From<Target> for TestFile {
    fn from(target: Target) -> Self {
        Self { target, _scratch: None }
    }
}

impl Deref for TestFile {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}
