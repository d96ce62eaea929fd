//! Options for files: their names, number and sizes.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, idle, idle_bool, switch};
use crate::Limits;
use crate::types::{FadviseHint, Fallocate, FileOrder, FileService, Range};
use crate::value;

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new(
        "filename",
        "Files or devices to use, separated by colons; further uses add more",
        ValueKind::Own {
            accepts: r"names separated by `:`, with `\:` for a colon within a name",
            bare: false,
            set: |job, text, _| {
                let names = value::names(text)?;
                let all = Arc::make_mut(&mut job.filename);
                all.extend(names.into_iter().map(Arc::from));
                if all.len() > Limits::FILENAMES {
                    return Err(Fault::Problem(format!("a job names at most {} files", Limits::FILENAMES)));
                }
                Ok(())
            },
        },
    ),
    FioOption::new(
        "directory",
        "Directories to put the files in, separated by colons; clones take them in turn",
        ValueKind::Own {
            accepts: r"directories separated by `:`, with `\:` for a colon within a name",
            bare: false,
            set: |job, text, _| {
                job.directory = Arc::new(value::names(text)?);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "filename_format",
        "How files are named; $jobname, $jobnum and $filenum are expanded",
        ValueKind::Text(|job| &mut job.filename_format),
    )
    .default("$jobname.$jobnum.$filenum"),
    FioOption::new(
        "nrfiles",
        "Files per clone if no filename is given",
        ValueKind::Count { min: 1, max: 1 << 20, field: |job| &mut job.nrfiles },
    )
    .aliases(&["nr_files"])
    .default("1"),
    FioOption::new(
        "openfiles",
        "Files kept open at the same time; 0 for all",
        ValueKind::Count { min: 0, max: u32::MAX, field: |job| &mut job.openfiles },
    )
    .quietly("all files of a job are open while it runs; a note says if that is more than requested"),
    FioOption::new(
        "file_service_type",
        "Which file comes next and, after a colon, after how many requests",
        ValueKind::Own {
            accepts: "random, roundrobin or sequential (with `:REQUESTS`), zipf:THETA, pareto:POWER, normal:DEVIATION",
            bare: false,
            set: |job, text, _| {
                job.file_service_type = file_service(text)?;
                Ok(())
            },
        },
    )
    .default("roundrobin"),
    FioOption::new(
        "size",
        "Total size of a clone's files, or a percentage of their existing size",
        ValueKind::Own {
            accepts: "a size such as 4k or 1g, or a percentage such as 50%",
            bare: false,
            set: |job, text, base| {
                job.size = value::size(text, base)?;
                Ok(())
            },
        },
    ),
    FioOption::new(
        "filesize",
        "Size of each file, or a range to draw it from",
        ValueKind::Own {
            accepts: "a size such as 1m, or a range such as 4k-64k",
            bare: false,
            set: |job, text, base| {
                let range = match text.split_once(['-', ':', ',']) {
                    Some((low, high)) => {
                        let (low, high) = (value::unsigned(low, base)?, value::unsigned(high, base)?);
                        Range { min: low.min(high), max: low.max(high) }
                    }
                    None => value::unsigned(text, base).map(|size| Range { min: size, max: size })?,
                };
                if range.min == 0 {
                    return Err(Fault::Problem("a file needs at least one byte".to_owned()));
                }
                job.filesize = Some(range);
                Ok(())
            },
        },
    ),
    FioOption::new(
        "io_size",
        "Bytes to transfer, if different from the size",
        ValueKind::Amount(|job| &mut job.io_size),
    )
    .aliases(&["io_limit"]),
    FioOption::new("offset", "Where in the file the I/O starts", ValueKind::Amount(|job| &mut job.offset))
        .aliases(&["fileoffset"])
        .default("0"),
    FioOption::new(
        "offset_increment",
        "How far each clone starts after the previous one",
        ValueKind::Amount(|job| &mut job.offset_increment),
    )
    .default("0"),
    FioOption::new(
        "offset_align",
        "The first offset of a clone is a multiple of this",
        ValueKind::Size { min: 0, max: u64::MAX, field: |job| &mut job.offset_align },
    )
    .default("0"),
    switch("file_append", "Start at the end of the files", |job| &mut job.file_append, "0"),
    FioOption::new(
        "number_ios",
        "End after this many requests",
        ValueKind::Size { min: 0, max: u64::MAX, field: |job| &mut job.number_ios },
    )
    .default("0"),
    FioOption::new("fallocate", "How space is allocated when files are laid out", choice!(fallocate: Fallocate))
        .default("native"),
    FioOption::new(
        "overwrite",
        "Lay out files in full before they are written",
        ValueKind::Bool(|job| &mut job.overwrite),
    ),
    FioOption::new("create_only", "Make the files and stop", ValueKind::Bool(|job| &mut job.create_only)),
    FioOption::new(
        "create_on_open",
        "Make files when they are opened, not beforehand",
        ValueKind::Bool(|job| &mut job.create_on_open),
    ),
    FioOption::new(
        "allow_file_create",
        "Create missing files; without it, they are an error",
        ValueKind::Bool(|job| &mut job.allow_file_create),
    )
    .default("1"),
    switch("create_serialize", "Make the files of one job after another", |job| &mut job.create_serialize, "1")
        .quietly("files are always made one after another"),
    switch("create_fsync", "fsync() files after creating them", |job| &mut job.create_fsync, "1"),
    switch("pre_read", "Read the files before the job starts", |job| &mut job.pre_read, "0"),
    switch("unlink_each_loop", "Delete the files after each loop", |job| &mut job.unlink_each_loop, "0"),
    FioOption::new("unlink", "Delete the files that the job made when it ends", ValueKind::Bool(|job| &mut job.unlink)),
    FioOption::new(
        "invalidate",
        "Drop the page cache of the files before the job starts",
        ValueKind::Bool(|job| &mut job.invalidate),
    )
    .default("1"),
    FioOption::new("fadvise_hint", "Tell the kernel the access pattern", choice!(fadvise_hint: FadviseHint))
        .default("1"),
    idle("unique_filename", "Put a network client's address into file names", "0 or 1", idle_bool)
        .default("1")
        .quietly("it has no effect: there are no clients"),
];

/// `file_service_type`: a word and a number.
fn file_service(text: &str) -> Result<FileService, Fault> {
    let (word, number) = text.split_once(':').unwrap_or((text, ""));
    let number = number.trim();
    let parameter = |default: f64| if number.is_empty() { Ok(default) } else { value::float(number) };
    let order = match word.trim() {
        "random" => FileOrder::Random,
        "roundrobin" => FileOrder::Roundrobin,
        "sequential" => FileOrder::Sequential,
        "zipf" => match parameter(1.1)? {
            theta if theta == 1.0 || theta < 0.0 => {
                return Err(Fault::Problem("theta must be at least 0 and not 1".into()));
            }
            theta => FileOrder::Zipf(theta),
        },
        "pareto" => match parameter(0.2)? {
            power if power > 0.0 && power < 1.0 => FileOrder::Pareto(power),
            _ => return Err(Fault::Problem("the power must be between 0 and 1".into())),
        },
        "normal" | "gauss" => match parameter(0.0)? {
            deviation if (0.0..100.0).contains(&deviation) => FileOrder::Normal(deviation),
            _ => return Err(Fault::Problem("the deviation must be at least 0 and below 100".into())),
        },
        _ => return Err(Fault::Problem("unknown order".into())),
    };
    let by_count = matches!(order, FileOrder::Random | FileOrder::Roundrobin | FileOrder::Sequential);
    let every = if by_count && !number.is_empty() { super::count(number, 1, u32::MAX)? } else { 1 };
    Ok(FileService { order, every })
}
