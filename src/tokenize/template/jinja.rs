//! The Jinja environment that chat templates expect: Hugging Face's options, functions and filters.
//!
//! Invariant: rendering depends on the template and the prompt alone. `strftime_now` always tells the same day.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::super::TokenizerError;
use super::methods;

/// The name of the template for prompts in general.
pub(super) const DEFAULT: &str = "default";
/// The name of the template for prompts with tools, if there is one.
pub(super) const TOOL_USE: &str = "tool_use";

/// An environment that holds `templates`, by name.
pub(super) fn environment(templates: Vec<(String, String)>) -> Result<Environment<'static>, TokenizerError> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(format);
    environment.set_unknown_method_callback(methods::call);
    environment.add_function("raise_exception", |_: Value| Err::<Value, _>(refused("the template refuses the prompt")));
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", |value: &Value, indent: Option<usize>, options: Kwargs| {
        let separators: Option<Vec<String>> = options.get("separators").unwrap_or_default();
        to_json(value, indent.or(options.get("indent").unwrap_or_default()), &separators.unwrap_or_default())
    });
    environment.add_filter("string", |value: &Value| python(value, false));
    for (name, source) in templates {
        environment
            .add_template_owned(name, without_generation_tags(&source))
            .map_err(|error| TokenizerError::BadTemplate { line: error.line().unwrap_or(0) })?;
    }
    Ok(environment)
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// The clock stands still at the start of 2025: a prompt is a function of its input.
fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, jiff::civil::datetime(2025, 1, 1, 0, 0, 0, 0))
        .map_err(|_| refused("bad date format"))
}

/// JSON as Python writes it: a space after comma and colon unless told otherwise, no escapes beyond those that JSON needs.
struct Separated<'a> {
    comma: &'a str,
    colon: &'a str,
}

impl Formatter for Separated<'_> {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { "" } else { self.comma }.as_bytes())
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(self.colon.as_bytes())
    }
}

fn to_json(value: &Value, indent: Option<usize>, separators: &[String]) -> Result<String, Error> {
    let mut out = Vec::new();
    let done = match (indent, separators) {
        (Some(width), _) => {
            let width = " ".repeat(width);
            value.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(width.as_bytes())))
        }
        (None, [comma, colon]) => {
            value.serialize(&mut Serializer::with_formatter(&mut out, Separated { comma, colon }))
        }
        (None, _) => value.serialize(&mut Serializer::with_formatter(&mut out, Separated { comma: ", ", colon: ": " })),
    };
    done.ok().and_then(|()| String::from_utf8(out).ok()).ok_or_else(|| refused("not JSON"))
}

fn format(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => out.write_str(&python(value, false))?,
    }
    Ok(())
}

/// A value as Python prints it; strings in quotes if `nested`.
fn python(value: &Value, nested: bool) -> String {
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::String if nested => {
            let text = value.as_str().unwrap_or_default();
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let mut out = String::from(quote);
            for c in text.chars() {
                match c {
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    '\\' => out.push_str("\\\\"),
                    c if c == quote => out.extend(['\\', c]),
                    c => out.push(c),
                }
            }
            out.push(quote);
            out
        }
        ValueKind::Seq => format!("[{}]", items().map(|item| python(&item, true)).collect::<Vec<_>>().join(", ")),
        ValueKind::Map => {
            let entry = |key: Value| {
                format!("{}: {}", python(&key, true), python(&value.get_item(&key).unwrap_or_default(), true))
            };
            format!("{{{}}}", items().map(entry).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// Hugging Face marks what a model generates by `{% generation %}`, which only training needs: it becomes `{% if true %}`.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        rest = tag;
        let body = tag.trim_start_matches(['-', '+']).trim_start();
        for (name, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
            let after = body
                .strip_prefix(name)
                .filter(|after| after.trim_start().trim_start_matches(['-', '+']).starts_with("%}"));
            if let Some(after) = after {
                out.push_str(tag.get(..tag.len() - body.len()).unwrap_or_default());
                out.push_str(instead);
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str) -> Result<String, Error> {
        let environment = environment(vec![(DEFAULT.to_owned(), source.to_owned())]).unwrap();
        let value: Value = serde_json::from_str(r#"{"b":"<é'\n\">","a":[1,2.0,true,null],"c":{}}"#).unwrap();
        environment.get_template(DEFAULT).unwrap().render(minijinja::context! { value, text => " a,b\n" })
    }

    #[test]
    fn values_print_as_in_python() {
        assert_eq!(rendered("{{ value }}").unwrap(), r#"{'b': '<é\'\n">', 'a': [1, 2.0, True, None], 'c': {}}"#);
        assert_eq!(rendered("{{ none }}{{ true }}{{ nothing }}{{ false|string }}").unwrap(), "NoneTrueFalse");
    }

    #[test]
    fn json_is_written_as_in_python() {
        let json = r#"{"b": "<é'\n\">", "a": [1, 2.0, true, null], "c": {}}"#;
        assert_eq!(rendered("{{ value | tojson }}").unwrap(), json);
        assert_eq!(rendered("{{ value | tojson(ensure_ascii=False) }}").unwrap(), json);
        let tight = r#"{"b":"<é'\n\">","a":[1,2.0,true,null],"c":{}}"#;
        assert_eq!(rendered("{{ value | tojson(separators=(',', ':'), sort_keys=false) }}").unwrap(), tight);
        assert_eq!(rendered("{{ [1] | tojson(indent=2) }}").unwrap(), "[\n  1\n]");
    }

    #[test]
    fn the_clock_stands_still() {
        assert_eq!(rendered("{{ strftime_now('%d %b %Y') }}").unwrap(), "01 Jan 2025");
        assert!(rendered("{{ strftime_now('%') }}").is_err());
    }

    #[test]
    fn blocks_are_trimmed_and_loops_can_be_left() {
        let source = "  {% for n in [1, 2, 3] %}\n{% if n == 3 %}{% break %}{% endif %}\n{{ n }}\n  {% endfor %}\n.";
        assert_eq!(rendered(source).unwrap(), "1\n2\n.");
        assert!(rendered("{{ raise_exception('no') }}").is_err());
    }

    #[test]
    fn generation_tags_do_nothing() {
        assert_eq!(rendered("a {%- generation -%} b {% endgeneration %}{% set generation = 1 %}c").unwrap(), "ab c");
    }

    #[test]
    fn a_template_that_does_not_compile_is_named_by_its_line() {
        let error = environment(vec![(DEFAULT.to_owned(), "\n{% if %}".to_owned())]).err();
        assert_eq!(error, Some(TokenizerError::BadTemplate { line: 2 }));
    }
}
