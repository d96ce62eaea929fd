//! `qd1 plot`: one chart of runs as a picture, without a browser.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use qd1_model::Problem;
use qd1_model::suggest::nearest;
use qd1_report::{Charts, PictureFormat, Size};

use crate::args::{Choice, DestinationArgs, When, choice};
use crate::commands::history::filter::FilterArgs;
use crate::commands::history::trend;
use crate::commands::report::{RunsArgs, graded, pictured, zone};
use crate::output;

/// The formats of a picture: name, help text and value.
const FORMATS: [Choice<Form>; 3] = [
    ("svg", "Vector graphics, sharp at any size", Form::Svg),
    ("png", "Pixel graphics", Form::Png),
    ("text", "For a terminal", Form::Text),
];

/// Text at the end of the help.
pub(crate) const EXAMPLE: &str = "\
Examples:
  qd1 plot
  qd1 plot --list
  qd1 plot @previous @latest --chart percentiles-commit1-commit -o commits.svg
  qd1 plot --matrix @vps-a @vps-b nvme.json -o disks.svg
  qd1 plot --trend commit1.p99 --path /srv -o trend.svg

Exit codes: 0 done; 1 a run cannot be read; 2 usage error.";

/// Smallest and largest width and height of a picture.
const LEAST: u32 = 200;
const MOST: u32 = 4000;
/// Most rows of a matrix.
const MATRIX_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Svg,
    Png,
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArgs,
    /// The chart to draw [default: the first of --list]
    #[arg(long, value_name = "NAME")]
    pub(crate) chart: Option<String>,
    /// List the charts of these runs
    #[arg(long, conflicts_with_all = ["chart", "output", "format"])]
    pub(crate) list: bool,
    /// Draw the grades of runs instead: a row for each run, a column for each class of workload
    #[arg(long, conflicts_with_all = ["chart", "list", "trend"])]
    pub(crate) matrix: bool,
    /// Draw one figure over the runs of the history instead, such as commit1.p99 or read32.iops
    #[arg(long, value_name = "FIGURE", conflicts_with_all = ["runs", "chart", "list", "thresholds", "redact"])]
    pub(crate) trend: Option<String>,
    /// Write the picture to this file instead of stdout (whole, or not at all)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the picture [default: by the extension of the file; text without a file]
    #[arg(long, value_parser = choice(&FORMATS))]
    pub(crate) format: Option<Form>,
    /// Width of the SVG or PNG in pixels; text is 12 pixels high
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u32).range(i64::from(LEAST)..=i64::from(MOST)))]
    pub(crate) width: u32,
    /// Height of the SVG or PNG in pixels
    #[arg(long, default_value_t = 420, value_parser = clap::value_parser!(u32).range(i64::from(LEAST)..=i64::from(MOST)))]
    pub(crate) height: u32,
    #[command(flatten, next_help_heading = "Filters (with --trend)")]
    pub(crate) filter: FilterArgs,
}

/// Writes the picture.
///
/// # Errors
/// When a run cannot be read, has no such chart, or the picture cannot be written; the message says what to do.
pub(crate) fn run(args: &PlotArgs) -> Result<ExitCode> {
    args.output.iter().try_for_each(|path| output::check_destination(path))?;
    let form = form(args)?;
    let charts = match &args.trend {
        Some(figure) => Charts::of_trend(&trend::of_figure(figure, &args.filter)?),
        None if args.filter != FilterArgs::default() => {
            let message = "filters such as --path and --suite work only with --trend; without it, name the runs: \
                           qd1 plot @latest";
            return Err(Problem::usage(message).into());
        }
        None if args.matrix => Charts::of_matrix(&graded(&args.runs, MATRIX_MAX)?, &zone(&args.runs)),
        None => Charts::of(&pictured(&args.runs)?, &zone(&args.runs)),
    };
    let to = DestinationArgs { output: args.output.clone(), verbose: true, color: When::Auto };
    let Some((first, _)) = charts.names().next() else {
        let message = if args.matrix {
            "none of these runs has grades for classes of workload; runs of `qd1 check` have them"
        } else {
            "these runs have no charts: nothing was measured"
        };
        return Err(Problem::usage(message).into());
    };
    if args.list {
        let widest = charts.names().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let lines: String = charts.names().map(|(name, title)| format!("{name:widest$}  {title}\n")).collect();
        output::write(&to, &lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.chart.as_deref().unwrap_or(first);
    let style = output::style(&to, qd1_report::Detail::All);
    let format = match form {
        Form::Svg => PictureFormat::Svg,
        Form::Png => PictureFormat::Png,
        Form::Text => PictureFormat::Terminal {
            columns: style.width.clamp(40, 200),
            color: style.color,
            is_unicode: is_unicode(),
        },
    };
    let size = Size { width: f64::from(args.width), height: f64::from(args.height) };
    let picture = charts.picture(name, format, size).ok_or_else(|| unknown(&charts, name))?;
    let picture = picture.map_err(|error| anyhow!("cannot draw the chart {name}: {error}"))?;
    match str::from_utf8(&picture) {
        Ok(text) => output::write(&to, text)?,
        Err(_) => output::write_bytes(&to, &picture)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The format asked for, or that of the file's name.
fn form(args: &PlotArgs) -> Result<Form> {
    let end = args.output.as_ref().and_then(|path| path.extension()).map(|end| end.to_string_lossy().to_lowercase());
    let form = match (args.format, &args.output, end.as_deref()) {
        (Some(form), ..) => form,
        (None, None, _) => Form::Text,
        (None, Some(_), Some("svg")) => Form::Svg,
        (None, Some(_), Some("png")) => Form::Png,
        (None, Some(_), Some("txt")) => Form::Text,
        (None, Some(path), _) => {
            let message = format!("-o {}: the name must end with .svg, .png or .txt; or give --format", path.display());
            return Err(Problem::usage(message).into());
        }
    };
    if form == Form::Png && args.output.is_none() && std::io::stdout().is_terminal() {
        return Err(Problem::usage("stdout is a terminal; write the PNG to a file: -o chart.png").into());
    }
    Ok(form)
}

fn unknown(charts: &Charts, name: &str) -> Problem {
    let hint = nearest(name, charts.names().map(|(name, _)| name));
    let hint =
        hint.map_or_else(|| "--list shows all".to_owned(), |near| format!("did you mean {near}? --list shows all"));
    Problem::usage(format!("there is no chart {}; {hint}", qd1_model::printable(name)))
}

/// Whether the terminal shows more than ASCII, by the locale.
fn is_unicode() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
