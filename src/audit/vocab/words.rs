//! Words that names of files, columns and fields may be made of, and the public names of tools.
//!
//! Invariant: the words are generic; a name made of them, of small numbers and of separators tells nothing about anyone.

/// Generic words.
const WORDS: &str = "a abs account acc active after agent agentic agents agentx alt anon api arrival array arrow as at attempt audit aux \
 avg b bailian base baseline batch before begin bench benchmark binary blk block blocks body bool bytes cache cached call calls \
 cancelled card cc ceil channel char chars chat child chunk class classes claude clean clients client code codex col collected \
 column combined common completion completions completed compressed concurrency config content context conv conversation \
 conversations copy cost count counts create creation csv cumulative current d data dataset date day default delay delays delta dep \
 dependencies depth derived dev diff digest dir dispatch done dst duration e edges edge element end ended engine entries entry enum \
 epoch error errors eval event events example examples export extends external extra fail false fast fast25 fanout features field \
 fields file files fingerprint finish first fixed fixture flag flat float flow for format formats fraction frame free from full gap \
 gpu group groups h hash hashes head header headers hf hi hidden history hit hits hour id idle ids idx img import in index info \
 init inner input inputs instance int inter internal interval is item items iteration itl job join json jsonl k key keys kind kv l \
 label labels large last latency layer leak left len length lengths level limit linear list lists llm lo load local log logs long \
 m main manifest map mark marker max maximum md mean median medium message messages meta metadata metric metrics mib min minimum \
 minute mode model models mooncake ms n name names new next no node nodes none note notes ns null num number numbers o object of \
 off offset offsets ok old on one op open openai opencode option options or order orders orig origin other out outer output \
 outputs p p50 p90 p95 p99 page pages pair parallel parent parents part partial parts path per percent phase pid plain plan play \
 pool port position positions prefill prefix priority private probability process profile project prompt prompts provider public q \
 quantum query queue r random range rank rate ratio raw read readme ready reason reasoning received record records recv ref refs \
 relation relative release remaining replay request requests reset response responses result results retry root round rounds row \
 rows rps run runs s sample samples scale scope score sec second seconds seed segment select seq sequence sequences server servegen \
 session sessions set shape shard shared sharegpt short size sizes slo small source span spans spawn split src stage start started \
 stat state stats status step steps stop store stream streaming sub subagent subagents sum summary synthetic sys system t table \
 tables tag tail target task tasks temp temperature test tester tests thinking think thread threads time timed timestamp \
 timestamps timing title to tok token tokenizer tokens tool toolagent tools top total totals trace tracecloak tracelab traces train \
 trial trigger true ttft ttlt tpot turn turns type types u uncached unique unit units unix update upper us usage use used user users \
 uuid v v1 v2 v3 v8 v9 val validation value values veeksha version wait wall warm weight weka width window with work worker workers \
 workload write x y zero thoughts tokenized tps itls gz zst parquet ndjson tar zip license licence txt lz4 planted json5 conversion";

/// Endings of files that are no generic words.
const ENDINGS: &[&str] = &[
    "feather", "tgz", "sqlite", "db", "html", "htm", "yaml", "yml", "toml", "xz", "bz2", "bin", "pdf", "png", "svg",
    "sh", "py", "rs",
];

/// Built-in tools of the public agents; every other name is somebody's own.
const TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillBash",
    "KillShell",
    "LS",
    "ListMcpResources",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "ReadMcpResource",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
    "apply_patch",
    "exec_command",
    "local_shell",
    "shell",
    "shell_command",
    "update_plan",
    "view_image",
    "web_search",
    "write_stdin",
    "bash",
    "edit",
    "glob",
    "grep",
    "list",
    "read",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "write",
];

fn is_word(word: &str) -> bool {
    WORDS.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether a tool of this name is built in.
pub fn is_tool(name: &str) -> bool {
    TOOLS.contains(&name)
}

/// What a name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    /// Nothing: generic words and small numbers.
    Generic,
    /// One short word of its own, such as the name of a data set. It may be somebody's.
    Word,
    /// More: several words, a long one, digits that are no small number, or characters that names of data have no need for.
    Text,
}

/// What the name of a file or folder tells.
pub fn naming(name: &str) -> Naming {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let known = ENDINGS.contains(&ending) && !stem.is_empty();
    let Some(parts) = parts(if known { stem } else { name }.as_bytes()) else { return Naming::Text };
    let own: Vec<&String> = parts.iter().filter(|part| !part.is_generic).map(|part| &part.word).collect();
    let small = parts.iter().all(|part| part.digits <= 5) && parts.iter().filter(|part| part.digits > 0).count() <= 3;
    match *own {
        [] if small => Naming::Generic,
        // Letters as in a word: a key or a hash mixes them with digits.
        [word]
            if small
                && word.len() <= 12
                && word
                    .trim_end_matches(|c: char| c.is_ascii_digit())
                    .bytes()
                    .all(|byte| byte.is_ascii_alphabetic()) =>
        {
            Naming::Word
        }
        _ => Naming::Text,
    }
}

/// Whether a name is made of generic words and numbers of up to five digits.
pub fn is_plain_name(name: &[u8]) -> bool {
    parts(name).is_some_and(|parts| {
        parts.iter().all(|part| part.is_generic && part.digits <= 5)
            && parts.iter().filter(|part| part.digits > 0).count() <= 3
    })
}

/// A part of a name.
struct Part {
    word: String,
    /// Digits at its end.
    digits: usize,
    is_generic: bool,
}

/// The words of a name; none if it has other characters than words and numbers need.
fn parts(name: &[u8]) -> Option<Vec<Part>> {
    let name = std::str::from_utf8(name).ok()?;
    if name.is_empty()
        || name.len() > 64
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    {
        return None;
    }
    // camelCase counts as several words.
    let mut words = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let apart = matches!(c, '_' | '-' | '.');
        if apart || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            words.push(String::new());
        }
        if !apart {
            words.last_mut()?.push(c);
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    // Letters one by one spell anything.
    if words.iter().filter(|word| word.len() == 1 && !word.bytes().all(|byte| byte.is_ascii_digit())).count() > 2 {
        return None;
    }
    let part = |word: String| {
        let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let (digits, is_generic) = (word.len() - stem.len(), stem.is_empty() || is_word(stem) || is_word(&word));
        Part { word, digits, is_generic }
    };
    Some(words.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_generic_words_tell_nothing_and_others_do() {
        for (name, tells) in [
            ("weka-cc-traces.jsonl.zst", Naming::Generic),
            ("mooncake-fast25-conversation-4000.jsonl.zst", Naming::Generic),
            ("trace_0001.json", Naming::Generic),
            ("README.md", Naming::Generic),
            ("trace.html", Naming::Generic),
            ("acme-trace.jsonl", Naming::Word),
            ("kimi2.parquet", Naming::Word),
            ("mcp__hr_payroll.jsonl", Naming::Text),
            ("session-20261129.jsonl", Naming::Text),
            ("project-nightingale-berlin.jsonl", Naming::Text),
            ("7f3a9b2c1d.jsonl", Naming::Text),
            ("d2FscnVz.jsonl", Naming::Text),
            ("x y.csv", Naming::Text),
            ("财务.csv", Naming::Text),
        ] {
            assert_eq!(naming(name), tells, "{name}");
        }
        assert!(is_plain_name(b"inputTokens") && is_plain_name(b"requests.t_ms"));
        assert!(!is_plain_name(b"merger") && !is_plain_name("财务".as_bytes()));
    }
}
