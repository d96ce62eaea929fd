//! Checks a document against a JSON Schema: the part of draft 2020-12 that `schemars` writes. A keyword it does not
//! know is an error, so that nothing passes unseen.

use serde_json::Value;

/// Every place where `value` breaks `schema`; `root` holds the `$defs`.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Some(keywords) = schema.as_object() else {
        return if *schema == Value::Bool(true) { Vec::new() } else { vec![format!("{at}: nothing is allowed here")] };
    };
    let mut faults_here = Vec::new();
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|path| path.strip_prefix('#')).expect("a local reference");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("{rule} leads nowhere"));
                faults_here.extend(faults(root, target, value, at));
            }
            "type" => {
                let allowed: Vec<&Value> = rule.as_array().map_or_else(|| vec![rule], |all| all.iter().collect());
                if !allowed.iter().any(|name| is_a(value, name.as_str().unwrap_or_default())) {
                    faults_here.push(format!("{at}: {} is not {rule}", shortened(value)));
                }
            }
            "const" if value != rule => faults_here.push(format!("{at}: {} is not {rule}", shortened(value))),
            "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => {
                faults_here.push(format!("{at}: {} is none of {rule}", shortened(value)));
            }
            "minimum" | "maximum" => {
                let (limit, number) = (rule.as_f64(), value.as_f64());
                if let (Some(limit), Some(number)) = (limit, number)
                    && (keyword == "minimum" && number < limit || keyword == "maximum" && number > limit)
                {
                    faults_here.push(format!("{at}: {number} is beyond the {keyword} of {limit}"));
                }
            }
            "anyOf" | "oneOf" => {
                let each: Vec<_> = rule.as_array().unwrap().iter().map(|one| faults(root, one, value, at)).collect();
                let fitting = each.iter().filter(|faults| faults.is_empty()).count();
                if fitting == 0 || keyword == "oneOf" && fitting > 1 {
                    faults_here.push(format!("{at}: {} fits {fitting} of the {keyword}", shortened(value)));
                }
            }
            "properties" | "required" | "additionalProperties" => {}
            "items" | "prefixItems" | "minItems" | "maxItems" => {}
            "const" | "enum" | "$schema" | "$defs" | "title" | "description" | "format" | "default" => {}
            unknown => panic!("{at}: the schema uses {unknown:?}, which this test does not know"),
        }
    }
    if let Some(object) = value.as_object() {
        faults_here.extend(object_faults(root, schema, object, at));
    }
    if let Some(array) = value.as_array() {
        faults_here.extend(array_faults(root, schema, array, at));
    }
    faults_here
}

fn object_faults(root: &Value, schema: &Value, object: &serde_json::Map<String, Value>, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            found.push(format!("{at}: {name} is missing"));
        }
    }
    for (name, value) in object {
        let at = format!("{at}/{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(rule), _) | (None, Some(rule)) => found.extend(faults(root, rule, value, &at)),
            // Legal for JSON Schema, but then the published schema does not describe what is printed.
            (None, None) if schema.get("properties").is_some() => found.push(format!("{at}: not in the schema")),
            (None, None) => {}
        }
    }
    found
}

fn array_faults(root: &Value, schema: &Value, array: &[Value], at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let prefix = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, value) in array.iter().enumerate() {
        if let Some(rule) = prefix.get(index).or_else(|| schema.get("items")) {
            found.extend(faults(root, rule, value, &format!("{at}/{index}")));
        }
    }
    let length = array.len() as u64;
    if schema["minItems"].as_u64().is_some_and(|least| length < least)
        || schema["maxItems"].as_u64().is_some_and(|most| length > most)
    {
        found.push(format!("{at}: {length} items"));
    }
    found
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("unknown type {other:?}"),
    }
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
