//! Values that are lists: file names, block size splits, zones, percentiles, processors.

use super::{Problem, float, integer, unsigned};
use crate::Limits;
use crate::types::{BlockShare, CpuRange, Distribution, KbBase, Zone};
use qd1_model::order::Order as _;

/// Names separated by `:`; `\:` is a colon within a name.
pub(crate) fn names(text: &str) -> Result<Vec<String>, Problem> {
    let mut found = vec![String::new()];
    let mut characters = text.trim().chars().peekable();
    while let Some(character) = characters.next() {
        let last = found.len() - 1;
        match character {
            '\\' if characters.peek() == Some(&':') => {
                characters.next();
                found[last].push(':');
            }
            ':' => found.push(String::new()),
            other => found[last].push(other),
        }
    }
    // fio skips empty names, as at the end of `a:b:`.
    found.retain(|name| !name.is_empty());
    if found.is_empty() { Err("it is empty".to_owned()) } else { Ok(found) }
}

/// Percentiles separated by `:`, in rising order.
pub(crate) fn percentiles(text: &str) -> Result<Vec<f64>, Problem> {
    let mut found = Vec::new();
    for part in text.split(':') {
        let value = float(part)?;
        if !(0.0..=100.0).contains(&value) {
            return Err(format!("{value} is not between 0 and 100"));
        }
        found.push(value);
        if found.len() > Limits::PERCENTILES {
            return Err(format!("there are more than {} percentiles", Limits::PERCENTILES));
        }
    }
    found.order_by(f64::total_cmp);
    Ok(found)
}

/// Lists for reads, writes and trims, separated by commas; fewer lists are extended as in [`super::triple`].
fn directions<T: Clone>(text: &str, one: impl Fn(&str) -> Result<Vec<T>, Problem>) -> Result<[Vec<T>; 3], Problem> {
    let lists: Vec<_> = text.split(',').map(one).collect::<Result<_, _>>()?;
    match lists.as_slice() {
        [all] => Ok([all.clone(), all.clone(), all.clone()]),
        [read, write] => Ok([read.clone(), write.clone(), write.clone()]),
        [read, write, trim] => Ok([read.clone(), write.clone(), trim.clone()]),
        _ => Err("there are more than three lists (read, write and trim)".to_owned()),
    }
}

/// Entries `HEAD/PERCENT` separated by `:`. Those without a percentage share the remainder.
fn shares<T>(text: &str, most: usize, head: impl Fn(&str) -> Result<T, Problem>) -> Result<Vec<(T, f64)>, Problem> {
    let mut given = Vec::new();
    for part in text.split(':') {
        if given.len() == most {
            return Err(format!("a list may have at most {most} entries"));
        }
        let (left, right) = part.split_once('/').unwrap_or((part, ""));
        let percent = match right.trim() {
            "" => None,
            right => Some(integer(right.strip_suffix('%').unwrap_or(right), KbBase::Binary)?),
        };
        if percent.is_some_and(|percent| !(0..=100).contains(&percent)) {
            return Err("a share must be a percentage from 0 to 100".to_owned());
        }
        given.push((head(left)?, percent.map(|percent| percent as f64)));
    }
    let sum: f64 = given.iter().filter_map(|(_, percent)| *percent).sum();
    let open = given.iter().filter(|(_, percent)| percent.is_none()).count();
    let rest = (100.0 - sum).max(0.0) / open.max(1) as f64;
    Ok(given.into_iter().map(|(head, percent)| (head, percent.unwrap_or(rest))).collect())
}

/// `bssplit`: block sizes with their shares, in rising order of size. A direction whose list is empty keeps `bs`.
pub(crate) fn splits(text: &str, base: KbBase) -> Result<[Vec<BlockShare>; 3], Problem> {
    directions(text, |list| {
        if list.trim().is_empty() && text.contains(',') {
            return Ok(Vec::new());
        }
        let shares = shares(list, Limits::SPLITS, |size| match unsigned(size, base)? {
            0 => Err("a block needs at least one byte".to_owned()),
            bytes => Ok(bytes),
        })?;
        let mut list: Vec<_> = shares.into_iter().map(|(bs, percent)| BlockShare { bs, percent }).collect();
        // fio draws a number below 100 and goes through the shares from the smallest on: the largest gets the
        // remainder, and anything beyond 100 is ignored.
        list.order_by(|one, other| one.percent.total_cmp(&other.percent));
        let mut left = 100.0;
        for share in &mut list {
            share.percent = share.percent.min(left);
            left -= share.percent;
        }
        if let Some(largest) = list.last_mut() {
            largest.percent += left;
        }
        list.order_by_key(|share| share.bs);
        Ok(list)
    })
}

/// `random_distribution`.
pub(crate) fn distribution(text: &str, base: KbBase) -> Result<Distribution, Problem> {
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let numbers: Vec<f64> = match (name, rest) {
        ("zipf" | "pareto" | "normal", Some(rest)) => rest.split(':').map(float).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    let center = match numbers.as_slice() {
        [] | [_] => None,
        [_, center] if (0.0..=1.0).contains(center) => Some(*center),
        [_, _] => return Err("the centre must be a fraction of the file, from 0 to 1".to_owned()),
        _ => return Err("only a parameter and a centre are allowed".to_owned()),
    };
    let parameter = |default: f64| numbers.first().copied().unwrap_or(default);
    match name {
        "random" if rest.is_none() => Ok(Distribution::Random),
        "zipf" if parameter(1.1) == 1.0 => Err("theta must not be 1".to_owned()),
        "zipf" if parameter(1.1) < 0.0 => Err("theta must not be below 0".to_owned()),
        "zipf" => Ok(Distribution::Zipf { theta: parameter(1.1), center }),
        "pareto" if !(0.0..1.0).contains(&parameter(0.2)) || parameter(0.2) == 0.0 => {
            Err("the power must be between 0 and 1".to_owned())
        }
        "pareto" => Ok(Distribution::Pareto { h: parameter(0.2), center }),
        "normal" if !(0.0..100.0).contains(&parameter(0.0)) => {
            Err("the deviation must be a percentage, at least 0 and below 100".to_owned())
        }
        "normal" => Ok(Distribution::Normal { deviation: parameter(0.0), center }),
        "zoned" => zones(rest, false, base).map(Distribution::Zoned),
        "zoned_abs" => zones(rest, true, base).map(Distribution::ZonedAbs),
        _ => Err("unknown distribution".to_owned()),
    }
}

/// `ACCESS/SIZE` lists: the size in percent, or in bytes if `absolute`.
fn zones(text: Option<&str>, absolute: bool, base: KbBase) -> Result<[Vec<Zone>; 3], Problem> {
    let text = text.ok_or("the zones are missing, as in zoned:60/10:40/90")?;
    directions(text, |list| {
        let mut zones = Vec::new();
        for part in list.split(':') {
            if zones.len() == Limits::ZONES {
                return Err(format!("a list may have at most {} zones", Limits::ZONES));
            }
            let (access, size) = part.split_once('/').ok_or("a zone must be written as ACCESS/SIZE")?;
            let access_percent = u8::try_from(unsigned(access, base)?).unwrap_or(u8::MAX);
            let size = if size.trim().is_empty() { None } else { Some(unsigned(size, base)?) };
            zones.push((access_percent, size));
        }
        let zones = sized(&zones, absolute)?;
        let access: u32 = zones.iter().map(|zone| u32::from(zone.access_percent)).sum();
        let size = zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.size));
        if access != 100 {
            return Err(format!("the accesses add up to {access} %, not 100 %"));
        }
        if !absolute && size > 100 {
            return Err(format!("the sizes add up to {size} %, which is more than 100 %"));
        }
        Ok(zones)
    })
}

/// Zones with their sizes: those without one share the remainder of the whole, which must be known.
fn sized(zones: &[(u8, Option<u64>)], absolute: bool) -> Result<Vec<Zone>, Problem> {
    let given = zones.iter().filter_map(|(_, size)| *size).fold(0, u64::saturating_add);
    let open = zones.iter().filter(|(_, size)| size.is_none()).count() as u64;
    if open > 0 && absolute {
        return Err("a size is missing".to_owned());
    }
    let share = 100_u64.saturating_sub(given).checked_div(open).unwrap_or(0);
    let zone = |(access_percent, size): &(u8, Option<u64>)| Zone {
        access_percent: *access_percent,
        size: size.unwrap_or(share),
    };
    Ok(zones.iter().map(zone).collect())
}

/// Processors: numbers and ranges, separated by `,` or `:`.
pub(crate) fn cpu_list(text: &str) -> Result<Vec<CpuRange>, Problem> {
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| "a processor must be a number".to_owned());
    let mut found = Vec::new();
    for part in text.split([',', ':']).filter(|part| !part.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = CpuRange { first: number(first)?, last: number(last)? };
        if range.first > range.last {
            return Err("a range must start with its lower number".to_owned());
        }
        found.push(range);
    }
    if found.is_empty() { Err("it is empty".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_colon_stays_in_its_name() {
        assert_eq!(names(r"/dev/a\:b:/dev/c:").unwrap(), ["/dev/a:b", "/dev/c"]);
        assert!(names(":").is_err());
    }

    #[test]
    fn shares_left_open_divide_the_rest() {
        let [read, ..] = splits("64k/50:4k/10:32k", KbBase::Binary).unwrap();
        let share = |bs, percent| BlockShare { bs, percent };
        assert_eq!(read, [share(4096, 10.0), share(32768, 40.0), share(65536, 50.0)]);
        // Below 100 %: the largest share is 70, not the last 50.
        let [read, ..] = splits("4k/50:8k/30", KbBase::Binary).unwrap();
        assert_eq!(read, [share(4096, 70.0), share(8192, 30.0)]);
        let [read, ..] = splits("4k/60:64k/50", KbBase::Binary).unwrap();
        assert_eq!(read, [share(4096, 50.0), share(65536, 50.0)]);
        assert!(splits("/50", KbBase::Binary).is_err());
    }

    #[test]
    fn each_direction_can_have_its_own_splits() {
        let [read, write, trim] = splits("2k/50:4k/50,4k/90:8k/10", KbBase::Binary).unwrap();
        assert_eq!((read[0].bs, write[1].percent), (2048, 10.0));
        assert_eq!(write, trim);
    }

    #[test]
    fn a_direction_without_splits_keeps_its_block_size() {
        let [read, write, trim] = splits(",8k/50:16k/50", KbBase::Binary).unwrap();
        assert_eq!((read.len(), write.len(), trim.len()), (0, 2, 2));
        let [read, write, trim] = splits("4k/50,,8k/100", KbBase::Binary).unwrap();
        assert_eq!((read.len(), write.len(), trim.len()), (1, 0, 1));
        for bad in ["", ":4k/50", "4k/50,,,"] {
            assert!(splits(bad, KbBase::Binary).is_err(), "{bad}");
        }
    }

    #[test]
    fn distributions_check_their_parameters_as_fio_does() {
        let read = |text| distribution(text, KbBase::Binary);
        assert_eq!(read("zipf"), Ok(Distribution::Zipf { theta: 1.1, center: None }));
        assert_eq!(read("zipf:1.2:0.5"), Ok(Distribution::Zipf { theta: 1.2, center: Some(0.5) }));
        assert_eq!(read("pareto"), Ok(Distribution::Pareto { h: 0.2, center: None }));
        assert!(matches!(read("zoned:60/10:30/20:8/30:2/40"), Ok(Distribution::Zoned(_))));
        let Ok(Distribution::Zoned([zones, ..])) = read("zoned:50/5:30/15:20/") else { panic!() };
        assert_eq!(zones[2], Zone { access_percent: 20, size: 80 });
        assert!(matches!(read("zoned_abs:60/10g:40/20g"), Ok(Distribution::ZonedAbs(_))));
        for bad in [
            "zipf:1",
            "pareto:1.2",
            "normal:150",
            "zoned:60/10:30/20",
            "zoned",
            "zipf:1.1:2",
            "foo",
            "random:1",
            "zipf:",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn processors_are_ranges_and_never_expanded() {
        assert_eq!(cpu_list("0-65535,3").unwrap().len(), 2);
        for bad in ["a", "1-0", "0-1-2", "", ",,", "70000"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentiles_are_sorted_and_limited() {
        assert_eq!(percentiles("99.9:50").unwrap(), [50.0, 99.9]);
        for bad in ["101", "99,5", "", &["1"; 21].join(":")] {
            assert!(percentiles(bad).is_err(), "{bad}");
        }
    }
}
