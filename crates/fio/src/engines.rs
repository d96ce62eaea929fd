//! fio's I/O engines: the supported ones, and those that are refused by name.

use qd1_model::suggest;

/// An engine that jobs can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are fio's; the table below says what each does")]
pub enum EngineName {
    #[default]
    Psync,
    Sync,
    Vsync,
    Pvsync,
    Pvsync2,
    Libaio,
    IoUring,
    Mmap,
    Null,
    Filecreate,
    Filestat,
    Filedelete,
}

/// Every engine with its name and what it does.
pub const ENGINES: &[(&str, EngineName, &str)] = &[
    ("psync", EngineName::Psync, "pread() and pwrite()"),
    ("sync", EngineName::Sync, "read(), write() and lseek()"),
    (
        "vsync",
        EngineName::Vsync,
        "readv() and writev(), one request per call: unlike in fio, adjacent requests are not merged",
    ),
    ("pvsync", EngineName::Pvsync, "preadv() and pwritev()"),
    ("pvsync2", EngineName::Pvsync2, "preadv2() and pwritev2()"),
    ("libaio", EngineName::Libaio, "the kernel's asynchronous I/O: io_submit() and io_getevents()"),
    ("io_uring", EngineName::IoUring, "the kernel's asynchronous I/O over shared rings"),
    ("mmap", EngineName::Mmap, "memory-mapped files"),
    ("null", EngineName::Null, "no I/O at all: shows the overhead of qd1 itself"),
    ("filecreate", EngineName::Filecreate, "creates files"),
    ("filestat", EngineName::Filestat, "looks up files"),
    ("filedelete", EngineName::Filedelete, "deletes files"),
];

/// Names that fio takes for libaio.
const OF_LIBAIO: [&str; 3] = ["aio", "linuxaio", "aiolib"];

/// A fio engine that qd1 does not have.
#[derive(Debug)]
pub struct RefusedEngine {
    /// fio's names for it and for related engines.
    pub names: &'static [&'static str],
    /// Why qd1 does not have it.
    pub why: &'static str,
    /// The options that only this engine has.
    pub options: &'static [&'static str],
}

const NETWORK: &str = "qd1 measures disks, not networks";
const REMOTE: &str = "qd1 measures files and block devices; mount or map the storage and use the resulting path";

/// Engines that are refused.
pub const REFUSED: &[RefusedEngine] = &[
    RefusedEngine {
        names: &["net", "netsplice"],
        why: NETWORK,
        options: &[
            "hostname",
            "port",
            "protocol",
            "proto",
            "nodelay",
            "listen",
            "pingpong",
            "interface",
            "ttl",
            "window_size",
            "mss",
        ],
    },
    RefusedEngine { names: &["rdma"], why: NETWORK, options: &["verb", "bindname", "serverip"] },
    RefusedEngine {
        names: &["librpma_apm_client", "librpma_apm_server", "librpma_gpspm_client", "librpma_gpspm_server"],
        why: NETWORK,
        options: &["direct_write_to_pmem", "busy_wait_polling"],
    },
    RefusedEngine {
        names: &["http"],
        why: REMOTE,
        options: &[
            "https",
            "http_host",
            "http_user",
            "http_pass",
            "http_s3_key",
            "http_s3_keyid",
            "http_s3_region",
            "http_s3_sse_customer_key",
            "http_s3_sse_customer_algorithm",
            "http_s3_storage_class",
            "http_mode",
            "http_swift_auth_token",
            "http_verbose",
        ],
    },
    RefusedEngine {
        names: &["rados", "rbd"],
        why: REMOTE,
        options: &["clustername", "pool", "clientname", "rbdname", "conf", "touch_objects", "busy_poll"],
    },
    RefusedEngine { names: &["gfapi", "gfapi_async"], why: REMOTE, options: &["volume", "brick", "single-instance"] },
    RefusedEngine { names: &["nbd"], why: REMOTE, options: &["uri"] },
    RefusedEngine { names: &["nfs"], why: REMOTE, options: &["nfs_url"] },
    RefusedEngine { names: &["dfs"], why: REMOTE, options: &["cont", "chunk_size", "object_class", "svcl"] },
    RefusedEngine {
        names: &["libhdfs"],
        why: REMOTE,
        options: &["namenode", "hdfsdirectory", "hdfs_use_direct", "single_instance"],
    },
    RefusedEngine { names: &["libiscsi"], why: REMOTE, options: &["initiator"] },
    RefusedEngine { names: &["ime_psync", "ime_psyncv", "ime_aio"], why: REMOTE, options: &[] },
    RefusedEngine { names: &["libblkio"], why: REMOTE, options: &["libblkio_driver", "libblkio_path"] },
    RefusedEngine {
        names: &["cpuio"],
        why: "qd1 measures disks; load the processor with stress-ng at the same time",
        options: &["cpuload", "cpuchunks", "cpumode", "exit_on_io_done"],
    },
    RefusedEngine {
        names: &["exec"],
        why: "qd1 does not start other programs from a job",
        options: &["program", "arguments", "grace_time", "std_redirect"],
    },
    RefusedEngine {
        names: &["sg", "io_uring_cmd", "xnvme"],
        why: "it bypasses the block layer; use io_uring on the block device",
        options: &[
            "readfua",
            "writefua",
            "sg_write_mode",
            "stream_id",
            "xnvme_async",
            "xnvme_sync",
            "xnvme_admin",
            "xnvme_mem",
            "xnvme_dev_nsid",
            "xnvme_dev_subnqn",
            "xnvme_iovec",
        ],
    },
    RefusedEngine { names: &["libzbc"], why: "zoned block devices are not supported", options: &[] },
    RefusedEngine {
        names: &["posixaio"],
        why: "glibc implements it with threads and psync; use psync with numjobs, or io_uring",
        options: &[],
    },
    RefusedEngine { names: &["splice"], why: "it moves data between pipes; use psync", options: &[] },
    RefusedEngine {
        names: &["falloc", "ftruncate", "e4defrag"],
        why: "it measures calls that move no data",
        options: &["donorname", "inplace"],
    },
    RefusedEngine { names: &["mtd"], why: "raw flash without a block layer is not supported", options: &["skip_bad"] },
    RefusedEngine {
        names: &["pmemblk", "libpmem", "dev-dax"],
        why: "use a file system with DAX and ioengine=mmap for persistent memory",
        options: &[],
    },
    RefusedEngine { names: &["libcufile"], why: "I/O to graphics memory is not supported", options: &["cuda_io"] },
    RefusedEngine { names: &["external", "cpp_null"], why: "engines cannot be loaded from libraries", options: &[] },
];

impl EngineName {
    /// fio's name.
    pub fn name(self) -> &'static str {
        ENGINES.iter().find(|(_, engine, _)| *engine == self).map_or("psync", |(name, ..)| name)
    }

    /// The engine with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let name = if OF_LIBAIO.contains(&name) { "libaio" } else { name };
        ENGINES.iter().find(|(known, ..)| *known == name).map(|(_, engine, _)| *engine)
    }

    /// Whether it keeps several requests in flight; the others do one at a time, whatever `iodepth` says.
    pub const fn is_async(self) -> bool {
        matches!(self, Self::Libaio | Self::IoUring | Self::Null)
    }

    /// Whether it moves data; the others work on names.
    pub const fn moves_data(self) -> bool {
        !matches!(self, Self::Filecreate | Self::Filestat | Self::Filedelete)
    }
}

/// Returns why there is no such engine: it is refused, or fio does not know it either.
pub fn why_not(name: &str) -> Result<&'static str, Option<&'static str>> {
    // `external:/path/engine.so` and a bare path both load a library.
    let name = if name.starts_with("external:") || name.contains('/') { "external" } else { name };
    match REFUSED.iter().find(|engine| engine.names.contains(&name)) {
        Some(engine) => Ok(engine.why),
        None => Err(suggest::nearest(name, ENGINES.iter().map(|(name, ..)| *name))),
    }
}

/// The refused engine that this option belongs to.
pub fn refused_with_option(option: &str) -> Option<&'static RefusedEngine> {
    REFUSED.iter().find(|engine| engine.options.contains(&option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_here_or_refused_and_never_both() {
        for name in REFUSED.iter().flat_map(|engine| engine.names) {
            assert_eq!(EngineName::parse(name), None, "{name}");
        }
        for name in OF_LIBAIO {
            assert_eq!(EngineName::parse(name), Some(EngineName::Libaio), "{name}");
        }
        for (name, engine, _) in ENGINES {
            assert_eq!(EngineName::parse(name), Some(*engine));
            assert_eq!(engine.name(), *name);
        }
    }

    #[test]
    fn an_unknown_engine_has_a_neighbour() {
        assert_eq!(why_not("io_urring"), Err(Some("io_uring")));
        assert_eq!(why_not("rbd"), Ok(REMOTE));
        assert!(why_not("external:/lib/x.so").is_ok());
    }
}
