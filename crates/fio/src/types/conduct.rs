//! How a job behaves apart from its requests: pauses, ends, errors, processors, hints to the kernel.

words! {
    /// `thinktime_blocks_type`: what is counted up to `thinktime_blocks`.
    ThinkBlocks {
        #[default]
        Complete = "complete" => "Requests that completed",
        Issue = "issue" => "Requests that were issued",
    }
}

words! {
    /// `exit_what`: what ends when `exitall` applies.
    ExitWhat {
        #[default]
        Group = "group" => "The jobs of the group",
        Stonewall = "stonewall" => "All running jobs; those after the next stonewall then start",
        All = "all" => "Everything",
    }
}

words! {
    /// `fadvise_hint`: the advice that the kernel gets for buffered I/O.
    FadviseHint {
        None = "0" => "Nothing",
        #[default]
        Pattern = "1" => "Random or sequential, like the job",
        Random = "random" => "POSIX_FADV_RANDOM",
        Sequential = "sequential" => "POSIX_FADV_SEQUENTIAL",
    }
}

words! {
    /// `io_submit_mode`: whether a request that is late holds up those after it.
    SubmitMode {
        #[default]
        Inline = "inline" => "The job's thread issues its requests; latency counts from when a request is issued",
        Offload = "offload" => "Latency counts from when a request was due, so a stall counts for all delayed requests",
    }
}

words! {
    /// `stat_type` of ioengine=filestat.
    StatType {
        #[default]
        Stat = "stat" => "stat()",
        Lstat = "lstat" => "lstat()",
        Statx = "statx" => "statx()",
    }
}

words! {
    /// `continue_on_error`.
    ContinueOnError {
        #[default]
        None = "none" | "0" => "The first error ends the job",
        Read = "read" => "Read errors are counted",
        Write = "write" => "Write errors are counted",
        Io = "io" => "Read and write errors are counted",
        Verify = "verify" => "Verification errors are counted",
        All = "all" | "1" => "All these errors are counted",
    }
}

words! {
    /// `cpus_allowed_policy`.
    CpuPolicy {
        #[default]
        Shared = "shared" => "Each worker may use all of the processors",
        Split = "split" => "Each worker gets one of the processors",
    }
}

/// Processors from one number to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRange {
    /// Lowest.
    pub first: u16,
    /// Highest.
    pub last: u16,
}
