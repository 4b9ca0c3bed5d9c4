//! The house rules that no lint knows: layers, headers, sizes, and what each layer may hold.
//!
//! It reads `src` as text. Rules look at code only: comments, the tests at the end of a file, and files that are tests are
//! left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may use; nothing else. `cli` may use all of them.
const LAYERS: &[(&str, &[&str])] = &[
    ("trace", &[]),
    ("wire", &[]),
    ("tokenize", &[]),
    ("capture", &["wire"]),
    ("format", &["trace"]),
    ("metrics", &["trace"]),
    ("analyze", &["trace"]),
    ("anonymize", &["trace", "wire", "tokenize", "capture"]),
    ("state", &["trace", "format"]),
    ("derive", &["trace", "format"]),
    ("audit", &["trace", "format"]),
    ("proof", &["audit", "wire", "capture", "anonymize", "trace", "format"]),
    ("replay", &["trace", "wire", "tokenize", "metrics"]),
    ("experiment", &["replay", "derive", "metrics", "trace", "format"]),
    ("report", &["trace", "metrics", "analyze", "audit", "experiment"]),
    ("proxy", &["wire", "capture", "anonymize", "state"]),
    ("mock", &["trace", "wire", "tokenize"]),
];

/// Modules that see text of logs, and those that never may.
const TEXT_SIDE: &[&str] = &["capture", "wire", "tokenize", "anonymize"];
const TEXT_FREE_SIDE: &[&str] = &["trace", "format", "audit", "analyze", "metrics", "report"];

/// Lines a file may have in all.
const MAX_LINES: usize = 500;

/// `(words, modules where they may stand, what to do instead)`.
const PLACES: &[(&[&str], &[&str], &str)] = &[
    (
        &["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!("],
        &["cli"],
        "return what is to be shown, and let cli print it",
    ),
    (
        &["std::env", "env::var", "env::args", "var_os("],
        &["cli"],
        "take the value as an argument; cli reads the environment",
    ),
    (&["anyhow::", "anyhow!(", "use anyhow"], &["cli"], "use the thiserror enum of the layer"),
    (&["SystemTime", "Instant::now"], &["cli", "proxy", "replay", "mock"], "take the time as an argument"),
    // An interrupt has nobody to return to.
    (&["process::exit", "process::abort"], &["cli"], "return an exit code to cli::main"),
    (&["todo!(", "unimplemented!("], &[], "finish it, or leave the command out"),
];

/// What could hold text, or reach outside. None of it stands in `src/trace`.
const NOT_IN_TRACE: &[&str] = &[
    "String",
    "Box<str>",
    "Rc<str>",
    "Arc<str>",
    "Vec<u8>",
    "Box<[u8]>",
    "serde_json",
    "std::fs",
    "std::io",
    "std::net",
    "PathBuf",
    "OsString",
    "CString",
    "Cow<",
    "async ",
    "format!(",
    ".to_owned()",
    ".to_string()",
    "<char>",
];

struct Source {
    /// From the root of the repository.
    path: String,
    /// The top-level module, empty for `lib.rs` and `main.rs`.
    module: String,
    /// Folders and file below `src`: how many `super`s lead to the crate.
    depth: usize,
    text: String,
    /// `(line number, code)`; without comments and tests.
    code: Vec<(usize, String)>,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let below: Vec<_> =
            path.strip_prefix(root.join("src")).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let module = match below[..] {
            ["lib.rs" | "main.rs"] => "",
            [_] => stem,
            _ => below[0],
        };
        Self {
            path: path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(),
            module: module.to_owned(),
            depth: if stem == "mod" { below.len() - 1 } else { below.len() },
            code: code_of(&text),
            text,
        }
    }

    fn uses_of<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
        self.code
            .iter()
            .flat_map(|(number, line)| words.iter().filter(|word| has_word(line, word)).map(|word| (*number, *word)))
    }
}

/// Whether `word` stands in `line`, not as a part of a longer name: `print!(` is not in `eprint!(`.
fn has_word(line: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let goes_on_before = word.starts_with(name) && line[..at].ends_with(name);
        let goes_on_after = word.ends_with(name) && line[at + word.len()..].starts_with(name);
        !goes_on_before && !goes_on_after
    })
}

/// Code by line, without comments, up to the tests at the end of the file.
fn code_of(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<_> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
    lines[..tests.unwrap_or(lines.len())]
        .iter()
        .enumerate()
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap().to_owned()))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect()
}

/// Paths without `.rs` of the modules that the file at `path` declares for tests only: `#[cfg(test)] mod oracle;`.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let stem = path.trim_end_matches(".rs");
    let folder = ["/mod", "/lib"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    let lines: Vec<_> = text.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| pair[1].strip_suffix(';')?.split_once("mod ").map(|(_, name)| format!("{folder}/{name}")))
        .collect()
}

fn sources() -> Vec<Source> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = walkdir::WalkDir::new(root.join("src"))
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    paths.sort();
    assert!(paths.len() > 5, "no sources found");
    let mut sources: Vec<_> = paths.iter().map(|path| Source::read(&root, path)).collect();
    let tests: Vec<_> = sources.iter().flat_map(|source| test_modules(&source.path, &source.text)).collect();
    for source in &mut sources {
        if tests.iter().any(|test| source.path.strip_prefix(test).is_some_and(|rest| rest.starts_with(['.', '/']))) {
            source.code.clear();
        }
    }
    sources
}

/// Fails with all problems at once.
fn none(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<_> = problems.into_iter().collect();
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}

/// `(line number, module)` for each path `crate::module…`, grouped imports included.
fn crate_paths(code: &[(usize, String)]) -> BTreeSet<(usize, String)> {
    let mut found = BTreeSet::new();
    for (at, (number, line)) in code.iter().enumerate() {
        for (start, path) in line.match_indices("crate::") {
            if line[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            // A group may go on over the lines that follow.
            let mut rest = line[start + path.len()..].to_owned();
            rest.extend(code[at + 1..].iter().take(50).map(|(_, line)| line.as_str()));
            found.extend(first_names(&rest).into_iter().map(|name| (*number, name)));
        }
    }
    found
}

/// `a::b` gives a; `{a::{b, c}, d}` gives a and d.
fn first_names(path: &str) -> Vec<String> {
    let name =
        |text: &str| -> String { text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut names, mut item) = (0_usize, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => names.push(name(&std::mem::take(&mut item))),
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == 0 => item.push(c),
            _ => {}
        }
    }
    names.push(name(&item));
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn every_file_says_what_it_is_for_and_its_invariant() {
    none(sources().iter().filter_map(|Source { path, text, .. }| {
        let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        if header.is_empty() {
            Some(format!("{path}: open it with `//!`: what the file is for, then its invariant"))
        } else if !header.contains("Invariant:") && path != "src/main.rs" {
            Some(format!("{path}: its header has no `Invariant: …`; say what always holds here"))
        } else {
            None
        }
    }));
}

#[test]
fn no_file_is_too_long() {
    none(sources().iter().filter_map(|Source { path, text, .. }| {
        let lines = text.lines().count();
        (lines > MAX_LINES).then(|| format!("{path}: {lines} lines, at most {MAX_LINES}; split it by job"))
    }));
}

#[test]
fn every_module_uses_only_the_layers_below_it() {
    none(sources().iter().filter(|source| !["", "cli"].contains(&source.module.as_str())).flat_map(|source| {
        let Source { path, module, depth, code, .. } = source;
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| name == module) else {
            return vec![format!(
                "{path}: module {module} has no row in LAYERS (tests/suite/architecture.rs); add one"
            )];
        };
        let mut problems: Vec<_> = crate_paths(code)
            .into_iter()
            .filter(|(_, used)| used != module && !allowed.contains(&used.as_str()))
            .map(|(line, used)| {
                format!(
                    "{path}:{line}: {module} may not use {used} (only: {}); move the code or pass a value",
                    allowed.join(", ")
                )
            })
            .collect();
        let climb = "super::".repeat(*depth);
        problems.extend(code.iter().filter(|(_, line)| has_word(line, &climb)).map(|(line, _)| {
            format!(
                "{path}:{line}: leaves its module by `{climb}`; write `crate::…`, so that the layers can be checked"
            )
        }));
        problems
    }));
}

#[test]
fn the_layers_keep_the_text_free_side_apart() {
    none(LAYERS.iter().filter(|(module, _)| TEXT_FREE_SIDE.contains(module)).flat_map(|(module, allowed)| {
        allowed
            .iter()
            .filter(|used| TEXT_SIDE.contains(used))
            .map(move |used| format!("LAYERS: {module} is on the text-free side and may never use {used}"))
    }));
}

#[test]
fn a_trace_can_hold_no_text() {
    none(sources().iter().filter(|source| source.module == "trace").flat_map(|source| {
        let words = source.uses_of(NOT_IN_TRACE).map(|(line, word)| (line, word.to_owned()));
        let borrowed =
            source.code.iter().filter(|(_, line)| borrows_text(line)).map(|(line, _)| (*line, "&'a str".to_owned()));
        words
            .chain(borrowed)
            .map(|(line, word)| {
                format!(
                    "{}:{line}: `{word}` in src/trace, which can hold no text; use a number or a word of trace::vocab",
                    source.path
                )
            })
            .collect::<Vec<_>>()
    }));
}

/// A field can borrow text only through a named lifetime; `'static` is text of the program.
fn borrows_text(line: &str) -> bool {
    line.match_indices("&'").any(|(at, _)| {
        let (lifetime, rest) = line[at + 2..].split_once(' ').unwrap_or_default();
        lifetime != "static" && (rest.starts_with("str") || rest.starts_with("[u8]"))
    })
}

#[test]
fn what_belongs_to_one_layer_stands_nowhere_else() {
    none(sources().iter().flat_map(|source| {
        PLACES
            .iter()
            .filter(|(_, modules, _)| !modules.contains(&source.module.as_str()))
            .flat_map(|(words, _, instead)| {
                source.uses_of(words).map(move |(line, word)| {
                    format!("{}:{line}: `{word}` does not belong here; {instead}", source.path)
                })
            })
            .collect::<Vec<_>>()
    }));
}

#[test]
fn continuous_integration_runs_the_check_script_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = fs::read_to_string(root.join(".ci/run")).unwrap();
    let commands: Vec<_> = script.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(
        commands,
        ["set -euo pipefail", "cd \"$(dirname \"$0\")/..\"", "exec scripts/check"],
        "put it into scripts/check"
    );
}

#[test]
fn the_rules_see_what_they_must() {
    let code = code_of(
        "//! use crate::a;\nuse crate::{b::{x, y}, c};\nuse crate::{\n    d,\n    e::f,\n};\nlet x = crate::g::h(); // crate::i\n\
         not_crate::j();\n#[cfg(test)]\nmod tests {\n use crate::k; }",
    );
    let names: Vec<_> = crate_paths(&code).into_iter().map(|(line, name)| format!("{name}{line}")).collect();
    assert_eq!(names, ["b2", "c2", "d3", "e3", "g7"]);
    assert!(has_word("name: String,", "String") && !has_word("StringContent", "String"));
    let tests = test_modules("src/a/mod.rs", "#[cfg(test)]\nmod oracle;\nmod b;\n#[cfg(test)]\nmod tests {");
    assert_eq!(tests, ["src/a/oracle"]);
    assert_eq!(code_of("#[cfg(test)]\nmod oracle;\nuse crate::a;").len(), 3);
    assert!(has_word("x.eprintln!()", "eprintln!(") && !has_word("eprintln!()", "println!("));
    assert!(borrows_text("name: &'a str,") && !borrows_text("-> &'static str {") && !borrows_text("word: &str"));
}
