//! The defaults of a job, taken from the table of options.

use crate::job::FioJob;
use crate::options;
use crate::types::KbBase;

impl FioJob {
    /// Returns a job with fio's defaults.
    pub fn new(name: &str) -> Self {
        let mut job = Self { name: name.to_owned(), ..Self::default() };
        for option in options::all() {
            if let Some(text) = option.default {
                let set = option.set(&mut job, Some(text), KbBase::Binary);
                assert!(set.is_ok(), "the default {text} of {} must be a value of it", option.name);
            }
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RwKind;

    #[test]
    fn a_new_job_has_fios_defaults() {
        let job = FioJob::new("a");
        assert_eq!(job.bs, [4096; 3]);
        assert_eq!((job.iodepth, job.numjobs, job.rwmixread, job.rw.kind), (1, 1, 50, RwKind::Read));
        assert_eq!(job.percentile_list.len(), 17);
        assert!(job.randrepeat && job.invalidate && job.allow_file_create && !job.direct);
    }
}
