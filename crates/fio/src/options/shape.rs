//! Options for what is read and written: directions, block sizes, offsets.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, idle, idle_bool};
use crate::types::{KbBase, RandomGenerator, Rw, RwKind, Sequence, ZoneMode};
use crate::value;

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new("rw", "Direction and order of the requests", ValueKind::Own {
        accepts: "read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, trimwrite or randtrimwrite; \
                  random ones may add `:REQUESTS` per offset, sequential ones `:BYTES` to skip",
        bare: false,
        set: |job, text, base| {
            job.rw = direction(text, base)?;
            Ok(())
        },
    })
    .aliases(&["readwrite"])
    .default("read"),
    FioOption::new("rwmixread", "Share of reads in a mix, percent", ValueKind::Own {
        accepts: "a number from 0 to 100",
        bare: false,
        set: |job, text, _| {
            job.rwmixread = super::count(text, 0, 100)?;
            job.rwmixwrite = 100 - job.rwmixread;
            Ok(())
        },
    })
    .default("50"),
    FioOption::new("rwmixwrite", "Share of writes in a mix, percent; the last of both options wins", ValueKind::Own {
        accepts: "a number from 0 to 100",
        bare: false,
        set: |job, text, _| {
            job.rwmixwrite = super::count(text, 0, 100)?;
            job.rwmixread = 100 - job.rwmixwrite;
            Ok(())
        },
    })
    .default("50"),
    FioOption::new("bs", "Block size", ValueKind::Sizes { min: 1, field: |job| &mut job.bs })
        .aliases(&["blocksize"])
        .default("4096"),
    FioOption::new("bsrange", "Range of random block sizes", ValueKind::Own {
        accepts: "a range such as 4k-64k (or one each for read,write,trim)",
        bare: false,
        set: |job, text, base| {
            let parts: Vec<_> = text.split([',', '/']).collect();
            if parts.len() > 3 {
                return Err(Fault::Problem("there are more than three ranges (read, write and trim)".into()));
            }
            for direction in 0..3 {
                // A range applies to the directions after it as well.
                let part = parts[direction.min(parts.len() - 1)];
                let range = value::range(part, base)?;
                if range.min == 0 {
                    return Err(Fault::Problem("a block needs at least one byte".into()));
                }
                job.bsrange[direction] = Some(range);
            }
            Ok(())
        },
    })
    .aliases(&["blocksize_range"]),
    FioOption::new("bssplit", "Block sizes with their shares", ValueKind::Own {
        accepts: "SIZE/PERCENT entries separated by `:`, such as 4k/10:64k/50:32k/40 (lists for read,write,trim \
                  separated \
                  by commas)",
        bare: false,
        set: |job, text, base| {
            job.bssplit = value::splits(text, base)?.map(Arc::new);
            Ok(())
        },
    }),
    FioOption::new("ba", "Alignment of random offsets, if different from the block size", ValueKind::Sizes {
        min: 1,
        field: |job| &mut job.ba,
    })
    .aliases(&["blockalign"]),
    FioOption::new("percentage_random", "Share of offsets that are random, percent", ValueKind::Counts {
        min: 0,
        max: 100,
        field: |job| &mut job.percentage_random,
    })
    .default("100"),
    FioOption::new("random_distribution", "How random offsets are distributed", ValueKind::Own {
        accepts: "random, zipf:THETA, pareto:POWER, normal:DEVIATION (each with `:CENTRE`), \
                  zoned:ACCESS/SIZE:... in percent, zoned_abs:ACCESS/BYTES:...",
        bare: false,
        set: |job, text, base| {
            job.random_distribution = Arc::new(value::distribution(text, base)?);
            Ok(())
        },
    })
    .default("random"),
    FioOption::new("random_generator", "Generator of random offsets", choice!(random_generator: RandomGenerator))
        .default("tausworthe")
        .quietly("the choice is accepted, but qd1 uses its own generator, whose offsets differ from fio's"),
    FioOption::new("norandommap", "Offsets may repeat before all blocks have been visited", ValueKind::Flag(|job| {
        &mut job.norandommap
    })),
    idle("softrandommap", "Do without the map of visited blocks if there is no memory for it", "0 or 1", idle_bool)
        .default("0")
        .quietly("it has no effect: qd1 always has the map"),
    FioOption::new("randrepeat", "Use the same random offsets in each run", ValueKind::Bool(|job| &mut job.randrepeat))
        .default("1"),
    FioOption::new("allrandrepeat", "Use the same random numbers in each run", ValueKind::Bool(|job| {
        &mut job.allrandrepeat
    }))
    .default("0"),
    FioOption::new("randseed", "Seed of the random offsets", ValueKind::Own {
        accepts: "a number",
        bare: false,
        set: |job, text, base| {
            job.randseed = Some(value::unsigned(text, base)?);
            Ok(())
        },
    })
    .quietly("the same seed gives the same offsets each time, but not fio's offsets"),
    FioOption::new("zonemode", "What zonesize, zonerange and zoneskip mean", ValueKind::Choice {
        words: ZoneMode::help,
        set: |job, text, _| {
            if text == "zbd" {
                return Err(Fault::Refused("zoned block devices are not supported".into()));
            }
            job.zonemode = ZoneMode::parse(text).ok_or_else(|| super::no_such_word(text, ZoneMode::help))?;
            Ok(())
        },
    })
    .default("none")
    .quietly("only none and strided are supported, not zoned block devices"),
    FioOption::new("zonesize", "Bytes to transfer in each zone", ValueKind::Size {
        min: 0,
        max: u64::MAX,
        field: |job| &mut job.zonesize,
    }),
    FioOption::new("zonerange", "Length of a zone, if different from zonesize", ValueKind::Size {
        min: 0,
        max: u64::MAX,
        field: |job| &mut job.zonerange,
    }),
    FioOption::new("zoneskip", "Bytes to skip between zones", ValueKind::Size {
        min: 0,
        max: u64::MAX,
        field: |job| &mut job.zoneskip,
    }),
];

/// `rw`: a kind and the part after the colon.
fn direction(text: &str, base: KbBase) -> Result<Rw, Fault> {
    let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest.trim())));
    let kind = RwKind::parse(word).ok_or_else(|| super::no_such_word(word, RwKind::help))?;
    let sequence = match rest {
        None | Some("") => Sequence::Plain,
        Some(rest) if kind.is_random() => Sequence::Run(super::count_with(rest, 1, u32::MAX, base)?),
        Some(rest) => Sequence::Skip(value::integer(rest, base)?),
    };
    Ok(Rw { kind, sequence })
}
