//! The dataset card: `README.md`, with Hugging Face front matter.
//!
//! Invariant: it is a function of the manifest alone, so that an auditor can render it again and compare.

use std::fmt;

use super::parquet::meaning;
use super::schemas::columns_markdown;
use crate::trace::manifest::Manifest;
use crate::trace::vocab::{License, Profile, PromptScale, Scope, Table, Vocabulary};

/// The card of a trace.
pub fn render(manifest: &Manifest) -> String {
    Card(manifest).to_string()
}

struct Card<'a>(&'a Manifest);

impl fmt::Display for Card<'_> {
    fn fmt(&self, card: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(manifest) = *self;
        front_matter(manifest, card)?;
        about(manifest, card)?;
        made(manifest, card)?;
        writeln!(card, "{LOADING}")?;
        blocks(manifest, card)?;
        writeln!(card, "{RISK}\n## Columns")?;
        Table::ALL.iter().try_for_each(|&table| {
            let (name, rows) = (table.word(), rows(manifest, table));
            write!(card, "\n### {name}\n\n{} {rows} rows.\n\n{}", meaning(table), columns_markdown(table))
        })
    }
}

fn front_matter(manifest: &Manifest, card: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(card, "---")?;
    match manifest.license {
        Some(License::OdcBy) => writeln!(card, "license: odc-by")?,
        Some(license) => writeln!(card, "license: {}", license.word().to_lowercase())?,
        None => (),
    }
    writeln!(card, "pretty_name: Coding-agent traces without text")?;
    writeln!(card, "tags:\n- llm-inference\n- kv-cache\n- coding-agent\n- trace\n- tracecloak")?;
    writeln!(card, "size_categories:\n- {}\nconfigs:", size(manifest.totals.requests))?;
    for table in [Table::Requests, Table::Sessions, Table::Agents, Table::Edges, Table::Tools] {
        let name = table.word();
        writeln!(card, "- config_name: {name}\n  data_files: {name}*.parquet")?;
        if table == Table::Requests {
            writeln!(card, "  default: true")?;
        }
    }
    writeln!(card, "---\n")
}

fn size(requests: u64) -> &'static str {
    match requests {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        1_000_000..10_000_000 => "1M<n<10M",
        10_000_000..100_000_000 => "10M<n<100M",
        100_000_000..1_000_000_000 => "100M<n<1B",
        _ => "n>1B",
    }
}

fn rows(manifest: &Manifest, table: Table) -> u64 {
    let totals = &manifest.totals;
    match table {
        Table::Sessions => totals.sessions,
        Table::Agents => totals.agents,
        Table::Requests => totals.requests,
        Table::Edges => totals.edges,
        Table::Tools => totals.tools,
    }
}

fn about(manifest: &Manifest, card: &mut fmt::Formatter<'_>) -> fmt::Result {
    let totals = &manifest.totals;
    writeln!(
        card,
        "# Coding-agent traces without text\n\n\
        What coding agents asked of an inference server: {} requests of {} sessions, {} prompt tokens, {} answer tokens. For each \
        request it says how long the prompt and the answer were, how much of the prompt had been sent before and in which request, \
        when it went out and what it had waited for. It holds no text, no hash of text, no wall-clock time and no identifier taken \
        from a log: every value is a count, a duration, a position in a graph, or a word from a closed list.\n\n\
        Of {} full blocks in all prompts, {} are distinct: the rest could have come from a prefix cache.\n",
        totals.requests,
        totals.sessions,
        totals.input_tokens,
        totals.output_tokens,
        totals.blocks,
        totals.unique_blocks
    )
}

fn made(manifest: &Manifest, card: &mut fmt::Formatter<'_>) -> fmt::Result {
    let profile = match manifest.profile {
        Profile::Public => "numbers are rounded, and what identifies most is left out",
        Profile::Private => "lengths and times are as measured; it was not meant for everyone",
        Profile::Imported => "made from a trace in another format, with whatever that held",
    };
    let quanta = &manifest.quanta;
    let pauses = if quanta.user_ms > 1 { " up to a minute, more coarsely beyond, cut off at an hour" } else { "" };
    let scaled = match manifest.prompt_scale {
        PromptScale::None => "",
        PromptScale::Usage => ", then scaled to what the provider had counted",
    };
    writeln!(card, "## How it was made\n\n- Profile `{}`: {profile}.", manifest.profile.word())?;
    list(card, "Kept beyond that profile", &manifest.kept)?;
    writeln!(card, "- Prompt lengths: {}.", step("rounded down to", quanta.input_tokens, "tokens"))?;
    writeln!(card, "- Answer lengths: {}.", step("rounded up to", quanta.output_tokens, "tokens"))?;
    writeln!(card, "- Times of machines: {}.", step("rounded to", quanta.machine_ms, "ms"))?;
    writeln!(card, "- Pauses of people: {}{pauses}.", step("rounded to", quanta.user_ms, "ms"))?;
    let (tokenizer, template) = (manifest.tokenizer.name.word(), manifest.chat_template.name.word());
    writeln!(card, "- Tokens: counted by tokenizer `{tokenizer}` over template `{template}`{scaled}.")?;
    list(card, "Rewritten first", &manifest.normalizers)?;
    list(card, "Made from", &manifest.source_formats)?;
    list(card, "Not carried over from there", &manifest.loss)?;
    writeln!(card)
}

fn list<V: Vocabulary>(card: &mut fmt::Formatter<'_>, label: &str, words: &[V]) -> fmt::Result {
    if words.is_empty() {
        return Ok(());
    }
    let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.word())).collect();
    writeln!(card, "- {label}: {}.", words.join(", "))
}

fn step(rounded: &str, quantum: u32, unit: &str) -> String {
    match quantum {
        0 => "as the source had them".to_owned(),
        1 => "exact".to_owned(),
        _ => format!("{rounded} multiples of {quantum} {unit}"),
    }
}

fn blocks(manifest: &Manifest, card: &mut fmt::Formatter<'_>) -> fmt::Result {
    let size = manifest.block_size;
    let scope = match manifest.scope {
        Scope::Session => "Each session has its own tree: no id occurs in two sessions.".to_owned(),
        Scope::Shared => format!(
            "The tools and system blocks at the head of a prompt keep one id across sessions where at least {} contributors \
            hold them; everything else is of its session alone.",
            manifest.k.unwrap_or(0)
        ),
        Scope::Dataset => "Equal prefixes have equal ids across all sessions.".to_owned(),
    };
    writeln!(
        card,
        "## Block ids\n\n\
        A prompt is cut into blocks of {size} tokens; a last, partial block has no id. The block ids of a request (`hash_ids` in \
        other formats) are the first `shared_blocks` ids of `prefix_request`, then `first_block`, `first_block` + 1 and so on, \
        `input_tokens` // {size} in all. Equal ids mean equal prefixes, and nothing else. {scope}\n\n\
        ```python\n\
        # pandas\n\
        ids = []\n\
        for r in requests.itertuples():\n\
        \x20   shared = ids[int(r.prefix_request)][: r.shared_blocks] if r.shared_blocks else []\n\
        \x20   new = r.input_tokens // {size} - r.shared_blocks\n\
        \x20   ids.append(shared + list(range(r.first_block, r.first_block + new)))\n\
        ```\n"
    )
}

const LOADING: &str = "## Loading\n\n\
    A large table is split into parts; the patterns below find one or many.\n\n\
    ```sql\n\
    -- DuckDB\n\
    SELECT session, count(*), sum(input_tokens) FROM 'requests*.parquet' GROUP BY session;\n\
    ```\n\n\
    ```python\n\
    # pandas\n\
    import glob, pandas\n\
    requests = pandas.concat(map(pandas.read_parquet, sorted(glob.glob(\"requests*.parquet\"))), ignore_index=True)\n\
    ```\n\n\
    ```python\n\
    # Polars\n\
    import polars\n\
    requests = polars.read_parquet(\"requests*.parquet\")\n\
    ```\n";

const RISK: &str = "## What risk remains\n\n\
    Lengths and times identify. Whoever knows the numbers of a session already (the one who ran it, the provider that served it, \
    anyone who holds its logs) can find it here, and then sees the rest of it: when it paused, which tools it called, how it ended. \
    Rounding makes it harder to confirm a guess about what was said; it does not hide a session from someone who knows its \
    numbers. Whoever knows none of them learns how much was sent, and in what order, but not what.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;

    #[test]
    fn a_card_names_licence_scope_rounding_and_every_column() {
        let mut manifest = sample::head(Scope::Shared);
        manifest.quanta.output_tokens = 16;
        manifest.totals.requests = 12_000;
        let card = render(&manifest);
        for part in [
            "---\nlicense: cc-by-4.0\n",
            "- 10K<n<100K\n",
            "- config_name: requests\n  data_files: requests*.parquet\n  default: true\n",
            "at least 3 contributors hold them",
            "rounded up to multiples of 16 tokens",
            "Kept beyond that profile: `usage`, `exact-lengths`.",
            "### tools\n",
            "What risk remains",
        ] {
            assert!(card.contains(part), "{part}");
        }
        for column in Table::ALL.iter().flat_map(|&table| crate::format::parquet::columns(table)) {
            assert!(card.contains(&format!("| `{}` |", column.name)));
        }
    }
}
