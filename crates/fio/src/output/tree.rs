//! JSON as fio prints it: two spaces a level, `"key" : value`, every element on its own line. serde_json prints neither
//! this layout nor floats with six digits, and cannot hold duplicate keys at all.

use std::fmt::Write as _;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Integer(i64),
    Float(f64),
    Text(String),
    Object(Object),
    Array(Vec<Tree>),
}

/// Keys and values in the order to print; a key may appear twice, like an option that was given twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object(pub(super) Vec<(String, Tree)>);

impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Self::Integer(number as i64)
    }
}

impl From<f64> for Tree {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Object> for Tree {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl Object {
    /// Adds a value at the end.
    pub(super) fn put(&mut self, key: impl Into<String>, value: impl Into<Tree>) {
        self.0.push((key.into(), value.into()));
    }

    /// The text, with a newline at its end.
    pub(super) fn print(&self) -> String {
        let mut out = String::new();
        object(&mut out, self, 0);
        out.push('\n');
        out
    }
}

fn value(out: &mut String, tree: &Tree, level: usize) {
    // Writing to a String cannot fail.
    let _ = match tree {
        Tree::Integer(number) => write!(out, "{number}"),
        Tree::Float(number) => write!(out, "{number:.6}"),
        Tree::Text(content) => {
            text(out, content);
            Ok(())
        }
        Tree::Object(inner) => {
            object(out, inner, level);
            Ok(())
        }
        Tree::Array(elements) => {
            array(out, elements, level);
            Ok(())
        }
    };
}

fn object(out: &mut String, object: &Object, level: usize) {
    out.push_str("{\n");
    for (index, (key, inner)) in object.0.iter().enumerate() {
        indent(out, level + 1);
        text(out, key);
        out.push_str(" : ");
        value(out, inner, level + 1);
        out.push_str(if index + 1 < object.0.len() { ",\n" } else { "\n" });
    }
    indent(out, level);
    out.push('}');
}

fn array(out: &mut String, elements: &[Tree], level: usize) {
    out.push_str("[\n");
    for (index, inner) in elements.iter().enumerate() {
        indent(out, level + 1);
        value(out, inner, level + 1);
        out.push_str(if index + 1 < elements.len() { ",\n" } else { "\n" });
    }
    indent(out, level);
    out.push(']');
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// A string. fio prints control characters as they are, which no JSON reader accepts; here they are escaped.
fn text(out: &mut String, content: &str) {
    out.push('"');
    for character in content.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_each_on_a_line_of_their_own() {
        let mut inner = Object::default();
        inner.put("n", 3u64);
        inner.put("x", 0.1);
        let mut outer = Object::default();
        outer.put("in", inner);
        outer.put("list", Tree::Array(vec![Tree::from(1u64), Tree::from("a\"b\\c/d\te")]));
        outer.put("empty", Object::default());
        let expected = "{\n  \"in\" : {\n    \"n\" : 3,\n    \"x\" : 0.100000\n  },\n  \"list\" : [\n    1,\n    \
            \"a\\\"b\\\\c/d\\u0009e\"\n  ],\n  \"empty\" : {\n  }\n}\n";
        assert_eq!(outer.print(), expected);
    }
}
