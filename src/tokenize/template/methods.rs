//! The methods of Python's strings and dicts that chat templates call.
//!
//! Invariant: each does what Python's does, as far as templates use it; others are errors.

use minijinja::value::{Rest, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Calls `method` of a string or a dict.
pub(super) fn call(_: &State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => of_string(text, method, args),
        None if value.kind() == ValueKind::Map => of_map(value, method, args),
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn of_string(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let stripped = |start: bool, end: bool| {
        let (chars,): (Option<&str>,) = from_args(args)?;
        let strip = |c: char| chars.map_or_else(|| c.is_whitespace(), |chars| chars.contains(c));
        let text = if start { text.trim_start_matches(strip) } else { text };
        Ok(Value::from(if end { text.trim_end_matches(strip) } else { text }))
    };
    let any = |test: &dyn Fn(&str) -> bool| {
        let (affixes,): (Value,) = from_args(args)?;
        Ok(Value::from(match affixes.as_str() {
            Some(affix) => test(affix),
            None => affixes.try_iter()?.any(|affix| affix.as_str().is_some_and(test)),
        }))
    };
    let affix = || from_args::<(&str,)>(args).map(|(affix,)| affix);
    match method {
        "strip" => stripped(true, true),
        "lstrip" => stripped(true, false),
        "rstrip" => stripped(false, true),
        "startswith" => any(&|affix| text.starts_with(affix)),
        "endswith" => any(&|affix| text.ends_with(affix)),
        "removeprefix" => Ok(text.strip_prefix(affix()?).unwrap_or(text).into()),
        "removesuffix" => Ok(text.strip_suffix(affix()?).unwrap_or(text).into()),
        "lower" => Ok(text.to_lowercase().into()),
        "upper" => Ok(text.to_uppercase().into()),
        "title" => Ok(title(text).into()),
        "capitalize" => {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            Ok((first + &chars.as_str().to_lowercase()).into())
        }
        "isdigit" => Ok((!text.is_empty() && text.chars().all(char::is_numeric)).into()),
        "find" => Ok(text.find(affix()?).map_or_else(|| (-1).into(), |at| text.chars_before(at).into())),
        "count" => Ok(text.matches(affix()?).count().into()),
        "replace" => {
            let (old, new, count): (&str, &str, Option<usize>) = from_args(args)?;
            Ok(count.map_or_else(|| text.replace(old, new), |count| text.replacen(old, new, count)).into())
        }
        "split" | "rsplit" => {
            let (separator, limit): (Option<&str>, Option<usize>) = from_args(args)?;
            Ok(split(text, separator, limit, method == "rsplit").into_iter().collect())
        }
        "splitlines" => Ok(text.lines().collect()),
        "join" => {
            let (parts,): (Value,) = from_args(args)?;
            let parts: Vec<String> = parts.try_iter()?.map(|part| part.to_string()).collect();
            Ok(parts.join(text).into())
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn split<'a>(text: &'a str, separator: Option<&str>, limit: Option<usize>, from_end: bool) -> Vec<&'a str> {
    let pieces = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
    match separator {
        None if pieces == usize::MAX => text.split_whitespace().collect(),
        None if from_end => {
            let mut parts: Vec<_> = text.trim().rsplitn(pieces, char::is_whitespace).collect();
            parts.reverse();
            parts
        }
        None => text.trim().splitn(pieces, char::is_whitespace).collect(),
        Some(separator) if from_end => {
            let mut parts: Vec<_> = text.rsplitn(pieces, separator).collect();
            parts.reverse();
            parts
        }
        Some(separator) => text.splitn(pieces, separator).collect(),
    }
}

fn title(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    out
}

trait CharsBefore {
    /// How many characters stand before a byte.
    fn chars_before(&self, byte: usize) -> usize;
}

impl CharsBefore for str {
    fn chars_before(&self, byte: usize) -> usize {
        self.char_indices().take_while(|(at, _)| *at < byte).count()
    }
}

fn of_map(map: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "get" => {
            let (key, default): (&Value, Rest<Value>) = from_args(args)?;
            let found = map.get_item(key)?;
            let default = default.first().cloned().unwrap_or_else(|| Value::from(()));
            Ok(if found.is_undefined() { default } else { found })
        }
        "keys" => Ok(map.try_iter()?.collect()),
        "values" => map.try_iter()?.map(|key| map.get_item(&key)).collect::<Result<Vec<_>, _>>().map(Value::from),
        "items" => {
            let item = |key: Value| map.get_item(&key).map(|value| Value::from(vec![key, value]));
            map.try_iter()?.map(item).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::{Environment, context};

    fn evaluated(expression: &str) -> String {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(super::call);
        let context = context! { text => "\n a<b>c<b> \n", map => context! { one => 1, two => 2 } };
        environment
            .compile_expression(expression)
            .unwrap()
            .eval(context)
            .map_or_else(|_| "error".into(), |v| v.to_string())
    }

    #[test]
    fn strings_have_pythons_methods() {
        for (expression, expected) in [
            ("text.strip()", "a<b>c<b>"),
            ("text.lstrip('\n')", " a<b>c<b> \n"),
            ("text.rstrip('\n ')", "\n a<b>c<b>"),
            ("text.split('<b>')[-1]", " \n"),
            ("text.split('<b>', 1)|length", "2"),
            ("text.rsplit('<b>', 1)[0].strip()", "a<b>c"),
            ("text.split()|length", "1"),
            ("'a b c'.split(none, 1)[1]", "b c"),
            ("text.strip().startswith('a<')", "True"),
            ("text.strip().endswith(('x', '>'))", "True"),
            ("'aBc dE'.title() ~ 'aBc'.upper() ~ 'ABC'.lower() ~ 'aBC'.capitalize()", "Abc DeABCabcAbc"),
            ("'aXbX'.replace('X', '-') ~ 'aXbX'.replace('X', '-', 1)", "a-b-a-bX"),
            ("'üab'.find('b') ~ 'a'.find('b') ~ 'aba'.count('a')", "2-12"),
            ("'ab'.removeprefix('a') ~ 'ab'.removesuffix('b') ~ '12'.isdigit()", "baTrue"),
            ("'a\nb'.splitlines()|length", "2"),
            ("', '.join(['a', 'b'])", "a, b"),
            ("text.unknown()", "error"),
        ] {
            assert_eq!(evaluated(expression), expected, "{expression}");
        }
    }

    #[test]
    fn dicts_have_pythons_methods() {
        for (expression, expected) in [
            ("map.get('one')", "1"),
            ("map.get('three') is none", "True"),
            ("map.get('three', 3)", "3"),
            ("map.items()|length", "2"),
            ("map.items()[1][0]", "two"),
            ("map.keys()|join(' ') ~ map.values()|join(' ')", "one two1 2"),
            ("[1].get('one')", "error"),
        ] {
            assert_eq!(evaluated(expression), expected, "{expression}");
        }
    }
}
