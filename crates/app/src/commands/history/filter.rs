//! Options that select runs of the history.

use anyhow::Result;
use clap::Args;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use qd1_model::Problem;
use qd1_model::history::Filter;
use qd1_model::units::parse_duration_ns;

#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct FilterArgs {
    /// Only runs on this machine
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Only runs on this block device, as `qd1 history` shows it
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// Only runs on this path, and on paths below it
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only runs of this suite: check, sweep, ...
    #[arg(long)]
    pub(crate) suite: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only runs started since this time: 2026-11-01, 2026-11-01T12:00, or an age such as 30d or 12h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only runs started before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

impl FilterArgs {
    /// Returns the conditions.
    ///
    /// # Errors
    /// When a time is invalid.
    pub(crate) fn filter(&self) -> Result<Filter> {
        let time = |option: &str, text: &Option<String>| {
            text.as_deref().map(|text| time(option, text, jiff::Timestamp::now(), &TimeZone::system())).transpose()
        };
        // A place is stored as an absolute path.
        let path = self.path.as_ref().map(|path| match std::path::absolute(path) {
            Ok(absolute) => absolute.to_string_lossy().into_owned(),
            Err(_) => path.clone(),
        });
        Ok(Filter {
            host: self.host.clone(),
            device: self.device.as_ref().map(|name| name.trim_start_matches("/dev/").to_owned()),
            path,
            suite: self.suite.clone(),
            tag: self.tag.as_ref().map(|tag| tag.trim_start_matches('@').to_owned()),
            since_unix_ns: time("--since", &self.since)?,
            until_unix_ns: time("--until", &self.until)?,
        })
    }
}

/// Parses a local date and time, or an age before `now`, to ns since the Unix epoch.
fn time(option: &str, text: &str, now: jiff::Timestamp, zone: &TimeZone) -> Result<u64, Problem> {
    let wrong = || {
        let message =
            format!("{option} {text} is not a time; give 2026-11-01, 2026-11-01T12:00, or an age such as 30d or 12h");
        Problem::usage(message)
    };
    if let Ok(at) = text.parse::<DateTime>() {
        let at = at.to_zoned(zone.clone()).map_err(|_| wrong())?;
        return u64::try_from(at.timestamp().as_nanosecond()).map_err(|_| wrong());
    }
    let ago = parse_duration_ns(text).map_err(|_| wrong())?;
    u64::try_from(now.as_nanosecond().saturating_sub(i128::from(ago))).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_dates_or_ages_before_now() {
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let of = |text: &str| time("--since", text, now, &TimeZone::UTC).map_err(|error| error.to_string());
        assert_eq!(of("2026-11-01").unwrap(), 1_793_491_200_000_000_000);
        assert_eq!(of("2026-11-01T12:00").unwrap(), 1_793_534_400_000_000_000);
        assert_eq!(of("2d").unwrap(), (1_800_000_000 - 2 * 86_400) * 1_000_000_000);
        for wrong in ["yesterday", "2026-13-01", "-3d", ""] {
            assert!(of(wrong).unwrap_err().contains("--since"), "{wrong}");
        }
    }
}
