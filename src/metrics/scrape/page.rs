//! [`Page`]: Prometheus text, and what of OpenMetrics engines use, as series.
//!
//! Invariant: a line that cannot be read is counted, and the others are read all the same.

/// One time series at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name, `_total` and `_bucket` included.
    pub name: String,
    /// Its labels, sorted by name.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

impl Series {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }
}

/// What a server showed at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its series, in order.
    pub series: Vec<Series>,
    /// Lines that are no comment and cannot be read.
    pub malformed: usize,
}

impl Page {
    /// Reads a page.
    pub fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match series(line) {
                Some(series) => page.series.push(series),
                None => page.malformed += 1,
            }
        }
        page
    }

    /// The series of this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.name == name)
    }
}

/// `name{label="value",…} value [time] [# exemplar]`
fn series(line: &str) -> Option<Series> {
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at_checked(name_end)?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.'))
    };
    let (mut labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    labels.sort();
    is_name(name).then(|| Series { name: name.to_owned(), labels, value })
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim().to_owned(), value));
        rest = after.trim_start();
        rest = rest.strip_prefix(',').or_else(|| rest.starts_with('}').then_some(rest))?;
    }
}

/// A label's value up to its closing quote, escapes undone, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_every_form_are_read() {
        let page = Page::parse(concat!(
            "# HELP a:b What it is {\"x\"}\n# TYPE a:b counter\n",
            "a:b_total 5\n",
            "  a:b_total{le=\"+Inf\",engine=\"0\",} 1.5e3 1700000000000\n",
            "x { name = \"a \\\"b\\\" \\\\ c\\n, }\" } NaN # {trace=\"1\"} 3\n",
            "y{} -Inf\n\n# EOF\n"
        ));
        assert_eq!((page.series.len(), page.malformed), (4, 0));
        let one = page.named("a:b_total").nth(1).unwrap();
        assert_eq!(
            (one.value.to_string().as_str(), one.label("engine"), one.label("le")),
            ("1500", Some("0"), Some("+Inf"))
        );
        assert!(page.series[2].value.is_nan());
        assert_eq!(page.series[2].label("name"), Some("a \"b\" \\ c\n, }"));
        assert!(page.series[3].value.is_infinite());
    }

    #[test]
    fn broken_lines_are_counted_and_the_others_are_read() {
        let page = Page::parse("a\nb{x=\"1\" 2\nc{x=1} 2\nd{x=\"1} 2\ne five\n9f 1\n{x=\"1\"} 2\n<html>\nok 1\n");
        assert_eq!((page.series.len(), page.malformed), (1, 8));
        assert_eq!(Page::parse("{\"answer\": 42}").series, []);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[ -~\\n\"\\\\{}é=,]{0,200}") {
            Page::parse(&text);
        }

        #[test]
        fn labels_come_back_as_they_were_written(value in "[ -~\\né]{0,20}") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let page = Page::parse(&format!("a{{b=\"{escaped}\"}} 1"));
            prop_assert_eq!(page.series[0].label("b"), Some(value.as_str()));
        }
    }
}
