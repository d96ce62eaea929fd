//! A run from a stranger whose every text is an escape sequence: no command sends one to the terminal.

use std::fs;

use serde_json::{Value, json};

use crate::common::Place;
use crate::kept::kept;

/// Resets the terminal, sets its title, clears it (C1), turns the text around.
const ESCAPE: &str = "\u{1b}c\u{1b}]0;x\u{7}\u{9b}2J\u{202e}|`<i>\n#%";

/// Puts `text` into each string of a value that the schema leaves free.
fn fill(value: &mut Value, schema: &Value, definitions: &Value, field: &str, text: &str) {
    let mut alternatives = Vec::new();
    gather(schema, definitions, &mut alternatives);
    match value {
        Value::String(_) if ["id", "hdr_v2", "intervals", "machine", "slowest", "looked_at"].contains(&field) => {}
        Value::String(old) => {
            let is_one_of = |schema: &&Value| {
                let is_fixed = schema.get("const").is_some_and(|fixed| fixed == old.as_str());
                is_fixed
                    || schema["enum"].as_array().is_some_and(|known| known.iter().any(|known| known == old.as_str()))
            };
            if !alternatives.iter().any(is_one_of) {
                text.clone_into(old);
            }
        }
        Value::Array(items) => {
            let of_items = alternatives.iter().find_map(|schema| schema.get("items"));
            items.iter_mut().for_each(|item| fill(item, of_items.unwrap_or(&Value::Null), definitions, field, text));
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                let of_field = alternatives.iter().find_map(|schema| schema["properties"].get(name));
                fill(inner, of_field.unwrap_or(&Value::Null), definitions, name, text);
            }
        }
        _ => {}
    }
}

/// All that a value may be.
fn gather<'a>(schema: &'a Value, definitions: &'a Value, found: &mut Vec<&'a Value>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return gather(&definitions[reference.rsplit('/').next().unwrap()], definitions, found);
    }
    found.push(schema);
    for alternatives in ["anyOf", "oneOf"] {
        schema[alternatives].as_array().into_iter().flatten().for_each(|one| gather(one, definitions, found));
    }
}

fn hostile(id: &str) -> Value {
    let schema: Value = serde_json::from_str(&qd1_report::schema()).unwrap();
    let mut record = kept("check").report["record"].clone();
    fill(&mut record, &schema["properties"]["record"], &schema["$defs"], "record", ESCAPE);
    record["id"] = json!(id);
    // The subject decides what is shown, so the steps keep names that are judged.
    let names: Vec<Value> = kept("check").report["record"]["plan"]["steps"].as_array().unwrap().clone();
    for (step, named) in record["plan"]["steps"].as_array_mut().unwrap().iter_mut().zip(names) {
        step["name"] = json!(format!("{}{ESCAPE}", named["name"].as_str().unwrap()));
    }
    json!({ "note": ESCAPE, "tags": [ESCAPE, "fine"], "record": record })
}

#[test]
fn no_command_sends_a_stranger_s_escape_sequences_to_the_terminal() {
    let place = Place::new();
    let (one, two) = ("aaaaaaaaaaaa", "bbbbbbbbbbbb");
    let lines = [hostile(one), hostile(two)].map(|line| line.to_string()).join("\n");
    assert!(lines.matches("u001bc").count() > 40, "texts were filled");
    let file = place.beside("theirs.ndjson");
    fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["history", "import", file],
        vec!["history"],
        vec!["history", "--json"],
        vec!["history", "--trend", "commit1.p99"],
        vec!["history", "--trend", "nothing.p99"],
        vec!["history", "--path", "/nowhere"],
        vec!["history", "tag", one, "kept"],
        vec!["history", "note", one, "\u{1b}c"],
        vec!["history", "prune", "--keep", "0", "--dry-run"],
        vec!["history", "export", one],
        vec!["history", "export", one, "--redact"],
        vec!["compare", one, two],
        vec!["compare", one, two, "--redact"],
        vec!["compare", "@fine", file],
        vec!["compare", "@previous", "@latest"],
        vec!["compare", "@yesterday", "@latest"],
        vec!["report", one],
        vec!["report", one, two],
        vec!["report", one, "--redact"],
        vec!["plot", one],
        vec!["plot", one, "--list"],
        vec!["plot", one, "--chart", "nothing"],
        vec!["plot", one, "--format", "svg"],
        vec!["plot", "--trend", "commit1.p99"],
        vec!["predict", "--from", one],
    ];
    for format in ["human", "json", "ndjson", "csv", "markdown", "openmetrics", "post"] {
        commands.push(vec!["history", "show", one, "--format", format]);
        commands.push(vec!["history", "show", one, "--format", format, "--redact"]);
    }
    for format in ["json", "csv", "markdown", "junit", "bmf"] {
        commands.push(vec!["compare", one, two, "--format", format]);
    }
    for command in commands {
        let output = place.qd1(&command).output().unwrap();
        for shown in [output.stdout, output.stderr] {
            let shown = String::from_utf8(shown).unwrap();
            let is_hidden = |letter: char| letter != '\n' && letter != '\t' && qd1_model::printable::is_hidden(letter);
            let at = shown.find(is_hidden);
            assert!(
                at.is_none(),
                "{command:?}: {:?}",
                at.map(|at| &shown[shown.floor_char_boundary(at.saturating_sub(80))..][..120])
            );
        }
    }
}
