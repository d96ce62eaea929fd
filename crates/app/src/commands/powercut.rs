//! `qd1 powercut`: tests whether commits survive a power cut.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read as _, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use qd1_experiment::powercut::{self, Ended, Outcome, POLL, Stoppable, Witness, Writer};
use qd1_model::{Problem, ProblemKind};
use qd1_report::thousands;
use qd1_runner::id;
use qd1_system::destination::Destination;
use rustix::fs::OFlags;

use crate::args::DestinationArgs;
use crate::message;
use crate::output;
use crate::signals::Signals;

/// Longest wait for a witness to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// Shortest token that is accepted.
const TOKEN_MIN: usize = 8;
/// Longest first line of a token file that is read, bytes.
const TOKEN_MAX: u64 = 4096;
/// The environment variable that may hold the token.
const TOKEN_VARIABLE: &str = "QD1_TOKEN";
/// Silence after which the witness reports that nothing arrives any more.
const SILENCE: Duration = Duration::from_secs(10);

pub(crate) const EXAMPLE: &str = "\
Over ssh, on the machine to test:
  qd1 powercut write /var/lib/db | ssh other qd1 powercut witness notes
or over TCP, first on the other machine:
  (umask 077; head -c 16 /dev/urandom | base64 >token), and copy this file to the machine to test
  qd1 powercut witness notes --listen 192.0.2.7:7777 --token-file token
  qd1 powercut write /var/lib/db --to 192.0.2.7:7777 --token-file token
Cut the power (do not shut down), start the machine again, copy the notes to it, and run
  qd1 powercut check /var/lib/db notes

Exit codes: 0 all commits are there, or done; 1 failed, lost the witness, or tested nothing;
2 usage error; 3 acknowledged commits are lost; 129, 130, 143 ended by a signal.";

#[derive(Debug, Subcommand)]
pub(crate) enum PowercutCommand {
    /// Commit below PATH until the power is cut, and acknowledge each commit to a witness
    Write(WriteArgs),
    /// Record acknowledged commits in FILE; run this on another machine
    Witness(WitnessArgs),
    /// After the cut: check that the acknowledged commits recorded in FILE are below PATH
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Directory on the disk to test
    path: PathBuf,
    /// The witness, if it is not at the other end of a pipe
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<String>,
    /// File that only you can read; its first line is the witness's token. Or set QD1_TOKEN
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The token itself, the same as the witness's; other users can see it (`ps`)
    #[arg(long, value_parser = token)]
    token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WitnessArgs {
    /// File for the notes; it must not exist yet
    file: PathBuf,
    /// Wait for the writer at this address, instead of reading from stdin
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// File that only you can read; its first line is a token of at least 8 characters, which the writer must
    /// present. Or set QD1_TOKEN
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The token itself; other users can see it (`ps`)
    #[arg(long, value_parser = token)]
    token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory that the writer used
    path: PathBuf,
    /// The notes of the witness
    file: PathBuf,
    /// Leave the writer's file in place even if nothing is lost
    #[arg(long)]
    keep: bool,
    /// Only the disk lost power: judge even though this machine was not restarted
    #[arg(long)]
    disk_alone: bool,
}

/// Runs one of them.
///
/// # Errors
/// When it fails.
pub(crate) fn run(command: &PowercutCommand) -> Result<ExitCode> {
    match command {
        PowercutCommand::Write(args) => write(args),
        PowercutCommand::Witness(args) => witness(args),
        PowercutCommand::Check(args) => check(args),
    }
}

fn token(text: &str) -> Result<String, String> {
    match text.len() >= TOKEN_MIN && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(format!("a token has at least {TOKEN_MIN} characters and no spaces")),
    }
}

/// Returns the token for the connection at `address`, which `option` sets; an empty one without a connection, even if
/// the variable is set, perhaps for other runs.
fn shared(option: &str, address: Option<&str>, word: Option<&str>, file: Option<&Path>) -> Result<String> {
    let found = match (address, word, file) {
        (None, None, None) => Ok(String::new()),
        (None, ..) => Err(format!("a token is only used for a connection; add {option}")),
        (Some(_), Some(word), _) => Ok(word.to_owned()),
        (Some(_), None, Some(file)) => token_of(file).map_err(|why| format!("--token-file {}: {why}", file.display())),
        (Some(_), None, None) => match std::env::var_os(TOKEN_VARIABLE) {
            Some(word) => token(&word.to_string_lossy()).map_err(|why| format!("{TOKEN_VARIABLE}: {why}")),
            None => Err(format!("{option} needs a token; give --token-file FILE, or set {TOKEN_VARIABLE}")),
        },
    };
    Ok(found.map_err(Problem::usage)?)
}

/// Reads a token from the first line of a file that nobody else can read or change.
fn token_of(path: &Path) -> Result<String, String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let read = || -> std::io::Result<_> {
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        Ok((file.metadata()?, file))
    };
    let (found, file) = read().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err(format!("it is not a regular file; name one, or set {TOKEN_VARIABLE}"));
    }
    if found.permissions().mode() & 0o066 != 0 {
        return Err(format!("other users can read or change it; run: chmod 600 {}", path.display()));
    }
    let mut line = String::new();
    BufReader::new(file.take(TOKEN_MAX)).read_line(&mut line).map_err(|error| error.to_string())?;
    token(line.trim_end())
}

fn write(args: &WriteArgs) -> Result<ExitCode> {
    let secret = shared("--to HOST:PORT", args.to.as_deref(), args.token.as_deref(), args.token_file.as_deref())?;
    let to = match &args.to {
        Some(address) => File::from(std::os::fd::OwnedFd::from(connect(address, &secret)?)),
        None if std::io::stdout().is_terminal() => {
            return Err(Problem::usage(
                "the acknowledgements go to stdout: pipe them to a witness on another machine (`| ssh HOST qd1 powercut \
                 witness FILE`), or name it with --to",
            )
            .into());
        }
        None => duplicate(std::io::stdout().as_fd())?,
    };
    let signals = Signals::install()?;
    let writer = Writer::create(&args.path, id::random_seed()?)?;
    message::print(format_args!("qd1: committing to {}; wait", writer.path().display()));
    // A witness that stalls must not keep the writer from ending.
    let mut to = Stoppable::new(to, signals.stop());
    let written = writer.run(&mut to, signals.stop(), |acknowledged| {
        message::print(format_args!(
            "qd1: {} commits acknowledged; cut the power of this machine at any time, or end this with Ctrl-C",
            thousands(acknowledged)
        ));
    });
    let count = thousands(written.acknowledged);
    let failed = |why: String| Problem::new(ProblemKind::Failed, why);
    match written.ended {
        Ended::CommitFailed(error) => {
            let file = writer.path().display();
            return Err(failed(format!(
                "the commit after the first {count} failed: {error}; {file} is kept, so that it can be checked"
            ))
            .into());
        }
        Ended::WithoutWitness(error) => {
            writer.remove();
            return Err(failed(format!(
                "the witness was lost after {count} commits: {error}; the file has been removed"
            ))
            .into());
        }
        Ended::Stopped => writer.remove(),
    }
    message::print(format_args!("qd1: ended after {count} commits without a power cut; the file has been removed"));
    Ok(signals.exit_code().map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Returns an unbuffered handle to the same stream.
fn duplicate(stream: BorrowedFd<'_>) -> Result<File> {
    Ok(stream.try_clone_to_owned().context("cannot take the stream")?.into())
}

fn connect(address: &str, token: &str) -> Result<TcpStream> {
    let wrong = |why: String| Problem::usage(format!("cannot reach a witness at {address}: {why}"));
    let mut last = wrong("the name has no address".to_owned());
    let each = address.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    // A name may lead to an address where nobody listens, and to one where somebody does.
    let connected = each.into_iter().find_map(|one| {
        TcpStream::connect_timeout(&one, CONNECT).map_err(|error| last = wrong(error.to_string())).ok()
    });
    let Some(mut stream) = connected else { return Err(last.into()) };
    stream.set_nodelay(true)?;
    writeln!(stream, "{token}").context("the witness was lost")?;
    // Nobody should cut the power before the witness listens.
    stream.set_read_timeout(Some(CONNECT))?;
    let mut answer = String::new();
    let heard = BufReader::new(&stream).take(64).read_line(&mut answer);
    if heard.is_err() || answer.trim_end() != powercut::WELCOME {
        return Err(wrong("it refused the token, or is not a witness".to_owned()).into());
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn witness(args: &WitnessArgs) -> Result<ExitCode> {
    let secret =
        shared("--listen ADDRESS:PORT", args.listen.as_deref(), args.token.as_deref(), args.token_file.as_deref())?;
    let listener = args.listen.as_ref().map(|address| {
        TcpListener::bind(address).map_err(|error| Problem::usage(format!("cannot listen at {address}: {error}")))
    });
    let listener = listener.transpose()?;
    if listener.is_none() && std::io::stdin().is_terminal() {
        return Err(Problem::usage(
            "there is no writer on stdin: start it as `qd1 powercut write PATH | ssh HOST qd1 powercut witness FILE`, or \
             wait for it with --listen",
        )
        .into());
    }
    let made = Destination::of(&args.file).and_then(|there| Ok((there.create_new()?, there)));
    let (mut notes, there) = made.map_err(|error| {
        Problem::usage(format!("cannot create {}: {error}; name a file that does not exist yet", args.file.display()))
    })?;
    let mut witness = Witness::default();
    let signals = Signals::install()?;
    let outcome = match listener {
        // Ctrl-C also ends the writer of a pipe, and with it the input; what it still sends is recorded.
        None => {
            let lines = Stoppable::new(duplicate(std::io::stdin().as_fd())?, signals.stop());
            witness.keep(lines, &mut notes, &false.into(), |_| ())
        }
        Some(listener) => {
            message::print(format_args!("qd1: waiting for the writer at {}", listener.local_addr()?));
            let refused = |from| message::print(format_args!("qd1: refused {from}, which did not present the token"));
            match powercut::accept(&listener, &secret, signals.stop(), refused)? {
                Some(writer) => {
                    // Nobody else should wait for an answer.
                    drop(listener);
                    message::print("qd1: the writer is connected; its commits are noted");
                    follow(&mut witness, writer, &mut notes, &signals)
                }
                None => Ok(()),
            }
        }
    };
    let synced = notes.sync_all().context("cannot write the notes");
    message::print(format_args!(
        "qd1: {} acknowledged commits are noted in {}",
        thousands(witness.acknowledged),
        args.file.display()
    ));
    outcome.and(synced)?;
    if witness.acknowledged == 0 {
        let _ = std::fs::remove_file(there.path());
        if let Some(code) = signals.exit_code() {
            return Ok(ExitCode::from(code));
        }
        return Err(Problem::new(ProblemKind::Failed, "no writer acknowledged a commit").into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Records what arrives over a connection, and reports once when nothing arrives any more: a machine that loses power
/// does not close its connections.
fn follow(witness: &mut Witness, writer: TcpStream, notes: &mut dyn Write, signals: &Signals) -> Result<()> {
    let (mut last, mut silences) = (u64::MAX, 0);
    witness.keep(writer, notes, signals.stop(), |acknowledged| {
        silences = if acknowledged == last { silences + 1 } else { 1 };
        last = acknowledged;
        if POLL * silences == SILENCE {
            let count = thousands(acknowledged);
            message::print(format_args!(
                "qd1: nothing received for ten seconds, after {count} acknowledged commits; if the power was cut, end \
                 this with Ctrl-C"
            ));
        }
    })
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    let outcome = powercut::verify(&args.path, &args.file, args.disk_alone)?;
    let text = said(&outcome);
    output::write(&DestinationArgs::stdout(), &text)?;
    if outcome.lost > 0 {
        return Ok(ExitCode::from(ProblemKind::Threshold.exit_code()));
    }
    if !args.keep {
        std::fs::remove_file(&outcome.file).context("cannot remove the file of the run")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the outcome as text, headline first.
fn said(outcome: &Outcome) -> String {
    let [acknowledged, looked_for, lost] = [outcome.acknowledged, outcome.looked_for, outcome.lost].map(thousands);
    let newest = thousands(outcome.newest);
    match outcome {
        Outcome { lost: 0, .. } => format!(
            "Kept: the last {looked_for} of {acknowledged} acknowledged commits are all there. One cut proves little: a disk may \
             lose some at another cut.\n"
        ),
        Outcome { newest: n, acknowledged: a, .. } if n < a => format!(
            "LOST: {lost} of the last {looked_for} acknowledged commits are not on the disk. The newest one found is \
             number {newest}, but number {acknowledged} was acknowledged: flushes are probably ignored, by the disk or \
             by a layer above it.\n"
        ),
        Outcome { first_lost, last_lost, .. } => format!(
            "LOST: {lost} of the last {looked_for} acknowledged commits are missing or damaged, between numbers {} and {}, \
             though newer ones are there: writes were dropped or reordered in spite of flushes, or the file was damaged.\n",
            thousands(*first_lost),
            thousands(*last_lost)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_comes_first() {
        let kept = Outcome {
            acknowledged: 31_442,
            looked_for: 2048,
            lost: 0,
            first_lost: 0,
            last_lost: 0,
            newest: 31_443,
            file: PathBuf::new(),
        };
        assert!(said(&kept).starts_with("Kept: the last 2,048 of 31,442"), "{}", said(&kept));
        let lost = Outcome { lost: 812, newest: 30_630, ..kept.clone() };
        assert!(
            said(&lost).starts_with("LOST: 812 of the last 2,048") && said(&lost).contains("ignored"),
            "{}",
            said(&lost)
        );
        let damaged = Outcome { lost: 2, first_lost: 30_000, last_lost: 30_007, ..kept };
        let text = said(&damaged);
        assert!(text.contains("between numbers 30,000 and 30,007") && !text.contains("ignored"), "{text}");
    }

    #[test]
    fn short_tokens_are_refused() {
        assert!(token("3f0c91ab").is_ok());
        assert!(token("short").is_err() && token("with space").is_err());
    }
}
