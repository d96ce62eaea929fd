//! The command that made a run: what it asked for stays, whatever may be a name or a place goes.

use qd1_model::Record;

use super::names::StepNames;
use super::options;
use super::words::is_plain;

/// Words of a command line that say what is done: commands, and what stands after these.
const COMMANDS: &str =
    "app caches check compare filesystems fio history identify limits meta ping predict report run show sweep sync";
const PROGRAMS: &str = "etcd mysql postgres rocksdb sqlite sysbench";

/// Options whose values are numbers, sizes, times or one of a few words. What is not here may be a name or a place.
const PLAIN: &str = "--area --benchmarks --bs --builtin --burst --cache --chunk --clients --color --count --deadline \
    --disk --effort --engine --fail-on --files --file-size --format --fsync --interval --iodepth --journal --limit --load \
    --mode --num --ops --order --over --passes --per-dir --ram --rate --resume --rounds --rows --runtime --rw --scale \
    --seed --size --suite --sync --synchronous --threads --value-size --verify --warmup --workers -S -a -i -s";

/// Options of fio whose values are names, texts or places, whatever they consist of.
const NAMES_OF_FIO: &str = "name section description title filename filename_format directory opendir output aux-path \
    write_bw_log write_lat_log write_iops_log write_hist_log write_iolog read_iolog merge_blktrace_file exec_prerun \
    exec_postrun buffer_pattern verify_pattern ioscheduler client server hostname cgroup pool rbdname clientname clustername \
    include profile trigger-file trigger remote-config replay_redirect dedupe_working_set";

fn is_in(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// Returns the command of a Record without names and places.
pub(super) fn redacted(record: &Record, names: &StepNames) -> Vec<String> {
    let typed = &record.command;
    let is_fio = typed.get(1).is_some_and(|word| word == "fio")
        || typed.first().is_some_and(|program| program.rsplit('/').next() == Some("fio"));
    let words = Words { is_fio, is_own_suite: names.is_own(), suite: &record.plan.suite, names };
    let mut command = Vec::new();
    let mut flag = "";
    let mut is_after_options = false;
    for (at, word) in typed.iter().enumerate() {
        let before = std::mem::take(&mut flag);
        let is_option = !is_after_options && word.starts_with('-') && word.len() > 1;
        command.push(if at == 0 {
            "qd1".to_owned()
        } else if is_option && (before.is_empty() || !is_negative(word)) {
            is_after_options = word == "--";
            let (shown, is_whole) = words.option(word);
            flag = if is_whole { word } else { "" };
            shown
        } else if before.is_empty() {
            words.positional(at, word, typed)
        } else {
            words.value(before, word)
        });
    }
    command
}

/// Whether a word with a dash is a number, and so the value of the option before it.
fn is_negative(word: &str) -> bool {
    word[1..].starts_with(|letter: char| letter.is_ascii_digit())
}

struct Words<'a> {
    is_fio: bool,
    is_own_suite: bool,
    suite: &'a str,
    names: &'a StepNames,
}

impl Words<'_> {
    /// An option, perhaps with its value in the same word, and whether the next word may be its value.
    fn option(&self, word: &str) -> (String, bool) {
        if let Some((name, value)) = word.split_once('=') {
            return (format!("{}={}", flag(name), self.value(name, value)), false);
        }
        // `-oFILE`: a short option with its value.
        let is_attached = !word.starts_with("--") && !self.is_fio && word.is_char_boundary(2) && word.len() > 2;
        if is_attached {
            let (name, value) = word.split_at(2);
            let are_flags = value.bytes().all(|letter| b"qvhV".contains(&letter));
            return if are_flags {
                (word.to_owned(), false)
            } else {
                (format!("{name}{}", self.value(name, value)), false)
            };
        }
        (flag(word), true)
    }

    /// The value of an option.
    fn value(&self, option: &str, value: &str) -> String {
        let name = option.trim_start_matches('-');
        if self.is_fio {
            return match name {
                "name" | "section" => self.names.shown(value),
                _ if is_in(NAMES_OF_FIO, name) || !is_plain(value) => "<text>".to_owned(),
                _ => value.to_owned(),
            };
        }
        match option {
            // Settings of servers.
            "-c" => options::plain(value),
            "--only" => {
                let shown = value.split(',').map(|step| self.names.shown(step));
                if self.is_own_suite { "<steps>".to_owned() } else { shown.collect::<Vec<_>>().join(",") }
            }
            _ if is_in(PLAIN, option) && is_plain(value) => value.to_owned(),
            "--dsn" => "<server>".to_owned(),
            "--user" => "<user>".to_owned(),
            _ => "<path>".to_owned(),
        }
    }

    /// A word on its own: a command, a built-in suite, or a place.
    fn positional(&self, at: usize, word: &str, typed: &[String]) -> String {
        let before = |word: &str| typed.get(at - 1).is_some_and(|before| before == word);
        let is_command = at == 1 && is_in(COMMANDS, word) || at == 2 && before("app") && is_in(PROGRAMS, word);
        let is_suite = at == 2 && before("run") && word == self.suite && !self.is_own_suite;
        if is_command || is_suite { word.to_owned() } else { "<path>".to_owned() }
    }
}

/// The name of an option, unless no option could have such a name.
fn flag(word: &str) -> String {
    let is_flag = word.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_'));
    if is_flag { word.to_owned() } else { "<option>".to_owned() }
}
