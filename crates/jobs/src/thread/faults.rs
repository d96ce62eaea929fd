//! Failed requests: which end the job and which are only counted.

use qd1_fio::types::ContinueOnError;
use rustix::io::Errno;

use super::*;

impl Thread<'_> {
    /// A request failed. Returns an error unless `continue_on_error` lets it pass.
    #[cold]
    pub(super) fn failed(&mut self, op: &Op, done: &Done, flight: &Flight) -> Phase {
        // A transfer of zero bytes means the end of the file or device.
        let errno = if done.result < 0 { Errno::from_raw_os_error(-done.result) } else { Errno::NODATA };
        let name = qd1_engine::errno_name(errno);
        IoErrors::once(&*name, op.offset).add_to(&mut self.errors);
        let what = match op.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim => "trim",
            OpKind::Fsync => "fsync",
            OpKind::Fdatasync => "fdatasync",
            OpKind::SyncFileRange => "sync_file_range",
        };
        let file = self.files.get(usize::from(op.file)).map(|file| file.path.display().to_string()).unwrap_or_default();
        let reason = if done.result < 0 { errno.to_string() } else { "end of file or device".to_owned() };
        let text = format!("{what} of {} bytes at offset {} of {file} failed: {name} ({reason})", op.len, op.offset);
        if self.passes(errno, flight.direction) {
            if self.job.error_dump {
                self.live.warn(format!("job `{}`: {text}", self.job.name));
            }
            return Ok(());
        }
        Err(JobError::new(&self.job.name, errno, text))
    }

    /// Whether an error is only counted: `ignore_error` names it, or `continue_on_error` covers its kind and it is the
    /// error that this means.
    fn passes(&self, errno: Errno, direction: usize) -> bool {
        let kind = usize::from(direction != READ);
        let named = &self.job.ignore_error[kind];
        if !named.is_empty() {
            return named.contains(&errno.raw_os_error());
        }
        let covered = match self.job.continue_on_error {
            ContinueOnError::None | ContinueOnError::Verify => false,
            ContinueOnError::Read => direction == READ,
            ContinueOnError::Write => direction == WRITE,
            ContinueOnError::Io | ContinueOnError::All => true,
        };
        covered && matches!(errno, Errno::IO | Errno::ILSEQ)
    }
}
