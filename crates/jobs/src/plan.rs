//! From jobs to threads: clones of `numjobs`, groups, seeds.

use qd1_fio::FioJob;

/// One thread: a clone of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Index of its job.
    pub job: usize,
    /// Number among the job's clones, from 0.
    pub clone: u32,
    /// Number among all threads, from 0.
    pub number: u32,
    /// Reporting group, from 0: a new one begins with each `stonewall` or `new_group`.
    pub group: u32,
    /// Seed of its offsets and data.
    pub seed: u64,
}

/// The seed of jobs that were neither given one nor drew one: with `randrepeat`, each run repeats the previous one.
const REPEATED_SEED: u64 = 0x5D1_F10;

/// All threads in the order of the jobs. `drawn` is a random seed for jobs with `randrepeat=0`.
pub fn threads(jobs: &[FioJob], drawn: u64) -> Vec<ThreadPlan> {
    let mut threads = Vec::new();
    let mut group = 0;
    for (index, job) in jobs.iter().enumerate() {
        if index > 0 && (job.stonewall || job.new_group) {
            group += 1;
        }
        let seed = match (job.randseed, job.randrepeat || job.allrandrepeat) {
            (Some(seed), _) => seed,
            (None, true) => REPEATED_SEED,
            (None, false) => drawn,
        };
        for clone in 0..job.numjobs {
            let number = threads.len() as u32;
            // An odd constant keeps the seeds of any two threads apart (it is a bijection modulo 2^64).
            let seed = seed.wrapping_add(u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            threads.push(ThreadPlan { job: index, clone, number, group, seed });
        }
    }
    threads
}
