//! `--redact`: what identifies a machine, a disk, a place or a person goes, and what explains the figures stays.
//!
//! It keeps only what is known to be harmless: each text of a Record has a rule (`rules.rs`), and one without a rule
//! goes. The redacted Record is then analysed like any other, so that no sentence of a report can quote what is not in
//! it any more.

mod command;
mod comparison;
mod names;
mod options;
mod rules;
mod words;

use qd1_model::measured::Measured;
use qd1_model::{Record, Thresholds};
use serde_json::{Map, Value};

use names::StepNames;
use rules::{Rule, rule};
use words::is_plain;

/// Returns a Record without what identifies somebody, to be analysed and shown.
///
/// # Errors
/// When names cannot be removed: then the run must not be shown.
pub fn redact(record: &Record) -> serde_json::Result<Record> {
    let names = StepNames::of(record);
    let mut value = serde_json::to_value(record)?;
    // Its words depend on each other.
    let command = command::redacted(record, &names);
    walk(&mut value, "", "", &names);
    let mut redacted: Record = serde_json::from_slice(&serde_json::to_vec(&value)?)?;
    redacted.command = command;
    Ok(redacted)
}

/// Returns thresholds of the user's own without their words: the classes are numbered.
pub fn redact_thresholds(own: &Thresholds, record: &Record) -> Thresholds {
    let names = StepNames::of(record);
    let mut thresholds = own.clone();
    for (class, number) in thresholds.class.iter_mut().zip(1..) {
        (class.name, class.title) = (format!("class{number}"), format!("class {number}"));
        for criterion in &mut class.criterion {
            criterion.step = names.shown(&criterion.step);
            for text in [&mut criterion.label, &mut criterion.source].into_iter().filter(|text| !text.is_empty()) {
                "<text>".clone_into(text);
            }
        }
    }
    thresholds
}

/// Removes what identifies somebody from runs of any tool: runs are numbered, and the same name gets the same number in
/// all of them.
pub fn redact_measured(runs: &mut [&mut Measured]) {
    comparison::redact(runs);
}

/// Applies the rules to all texts: `field` is that of the value, `parent` that of the object around it; for a list,
/// these are the same as for its items.
fn walk(value: &mut Value, parent: &str, field: &str, names: &StepNames) {
    match value {
        Value::String(text) => apply(text, rule(parent, field), names),
        Value::Array(items) => {
            let of_texts = format!("{field}[]");
            for item in items {
                let field = if item.is_string() { of_texts.as_str() } else { field };
                walk(item, parent, field, names);
            }
        }
        Value::Object(fields) => {
            if field == "settings" {
                hide_setting(fields);
            }
            fields.iter_mut().for_each(|(name, inner)| walk(inner, field, name, names));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A setting whose name is not known may have any value, a number too.
fn hide_setting(fields: &mut Map<String, Value>) {
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let value = options::plain_value(text("name"), text("value")).to_owned();
    if let Some(old) = fields.get_mut("value") {
        *old = Value::String(value);
    }
}

fn apply(text: &mut String, rule: Rule, names: &StepNames) {
    // What could not be read stays unknown.
    if text.is_empty() {
        return;
    }
    match rule {
        Rule::Typed => {}
        Rule::Mark(mark) => mark.clone_into(text),
        Rule::If(is_harmless, _) if is_harmless(text) => {}
        Rule::OfSuite(_) if !names.is_own() && is_plain(text) => {}
        Rule::If(_, mark) | Rule::OfSuite(mark) => mark.clone_into(text),
        Rule::Part(part, mark) => {
            *text = part(text);
            if text.is_empty() {
                mark.clone_into(text);
            }
        }
        Rule::Step => *text = names.shown(text),
        Rule::Title => *text = names.title(text),
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::record::program::{AppRecord, Setting};

    use super::*;
    use crate::samples;

    fn command(typed: &str, suite: &str) -> String {
        let mut record = samples::slow_vps().record;
        record.plan.suite = suite.to_owned();
        record.command = typed.split(' ').map(str::to_owned).collect();
        redact(&record).unwrap().command.join(" ")
    }

    #[test]
    fn commands_keep_what_was_asked_and_lose_names_and_places() {
        for (typed, shown) in [
            ("/home/alice/bin/qd1 check data -o out/x.json --quick", "qd1 check <path> -o <path> --quick"),
            ("qd1 run acme.toml etcd --only orders --runtime 5s", "qd1 run <path> <path> --only <steps> --runtime 5s"),
            ("qd1 app postgres --dsn host=db -q", "qd1 app postgres --dsn <server> -q"),
            ("qd1 app postgres --dsn=a --dsn b data", "qd1 app postgres --dsn=<server> --dsn <server> <path>"),
            ("qd1 check -oacme.json --quick acme", "qd1 check -o<path> --quick <path>"),
            ("qd1 check --only commit1,wal --size=1g", "qd1 check --only commit1,wal --size=1g"),
            ("qd1 app postgres --script acme.sql --user=alice", "qd1 app postgres --script <path> --user=<user>"),
            ("qd1 app postgres -c fsync=on --clients 4 -- acme", "qd1 app postgres -c fsync=on --clients 4 -- <path>"),
            (
                "qd1 app postgres -c cluster_name=acme -c application_name=7",
                "qd1 app postgres -c cluster_name=<redacted> -c <option>",
            ),
            ("qd1 app postgres -c primary_conninfo=password=x", "qd1 app postgres -c <option>"),
            ("qd1 check -- --acme", "qd1 check -- <path>"),
            ("qd1 check --size acme", "qd1 check --size <path>"),
        ] {
            assert_eq!(command(typed, "check"), shown);
        }
    }

    #[test]
    fn settings_of_servers_stay_where_they_name_nobody() {
        let mut record = samples::slow_vps().record;
        let settings = [("fsync", "on"), ("shared_buffers", "128MB"), ("cluster_name", "7"), ("primary_conninfo", "x")];
        let settings = settings.map(|(name, value)| Setting { name: name.to_owned(), value: value.to_owned() });
        record.app = Some(AppRecord {
            program: qd1_model::plan::program::Program::Postgres,
            version: "15".to_owned(),
            settings: settings.to_vec(),
            prepare_ns: 0,
        });
        let shown = redact(&record).unwrap().app.unwrap().settings;
        let shown: Vec<String> =
            shown.into_iter().map(|setting| format!("{}={}", setting.name, setting.value)).collect();
        assert_eq!(shown[..2], ["fsync=on", "shared_buffers=128MB"]);
        assert!(shown[2..].iter().all(|setting| setting.ends_with("=<value>")), "{shown:?}");
    }

    /// `mount -t tmpfs acmecorp m`, a pool, a tag of virtiofs: a short word passed for a name of the kernel.
    #[test]
    fn only_devices_of_the_kernel_are_sources_that_stay() {
        for (source, shown) in [
            ("/dev/vda1", "/dev/vda1"),
            ("tmpfs", "tmpfs"),
            ("acmecorp", "<source>"),
            ("tank", "<source>"),
            ("data", "<source>"),
            ("nas.acme.internal:/export", "<source>"),
            ("/dev/mapper/vg-lv", "<source>"),
            ("/dev/disk/by-id/ata-1", "<source>"),
        ] {
            let mut record = samples::slow_vps().record;
            record.environment.filesystem.source = source.to_owned();
            assert_eq!(redact(&record).unwrap().environment.filesystem.source, shown);
        }
    }

    #[test]
    fn jobs_are_numbered_and_fio_s_options_keep_their_numbers() {
        let mut record = samples::slow_vps().record;
        (record.plan.subject, record.plan.suite) = (qd1_model::Subject::Jobs, "fio".to_owned());
        record.plan.steps[0].title = "acme-billing: (g=0): rw=read, bs=4k".to_owned();
        record.plan.steps[0].name = "acme-billing".to_owned();
        record.command =
            "qd1 fio --name=acme-billing --filename acme.dat --description=data --bs=4k --ioengine=external:acme"
                .split(' ')
                .map(str::to_owned)
                .collect();
        let shown = redact(&record).unwrap();
        assert_eq!(shown.plan.steps[0].title, "job1: (g=0): rw=read, bs=4k");
        assert_eq!(
            shown.command.join(" "),
            "qd1 fio --name=job1 --filename <text> --description=<text> --bs=4k --ioengine=<text>"
        );
    }
}
