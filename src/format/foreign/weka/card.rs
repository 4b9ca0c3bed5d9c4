//! The card of a dataset folder in AgentX's layout.
//!
//! Invariant: it is made of counts and listed words alone.

use crate::format::foreign::{ExportOptions, ExportReport};
use crate::trace::Manifest;
use crate::trace::vocab::Vocabulary;

/// Its file name.
pub(super) const NAME: &str = "README.md";

/// The card, with Hugging Face's front matter.
pub(super) fn render(manifest: &Manifest, report: &ExportReport, options: &ExportOptions) -> String {
    let license = manifest.license.map_or_else(|| "unknown".to_owned(), |license| license.word().to_lowercase());
    let size = match report.requests {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        _ => "n>1M",
    };
    let selected = if options.select_agentx {
        "Sessions were chosen by the published rules of the AgentX dataset: Claude models, whole answers, no side requests, at \
         least 20 requests, at most 10 subagents at once, prompts of at most 990,016 tokens.\n\n"
    } else {
        ""
    };
    format!(
        "---\nlicense: {license}\nsize_categories:\n- {size}\ntags:\n- llm-traces\n- coding-agents\n- prefix-caching\nconfigs:\n\
         - config_name: default\n  data_files:\n  - split: train\n    path: \"trace_*.json\"\n---\n\n# Coding-agent sessions in \
         WEKA JSON\n\n{} sessions, {} requests. One JSON object a session; block ids local to it, {} tokens a block; times in \
         seconds since the session's first request. The files hold no text: lengths, times and which prompts begin alike.\n\n\
         {selected}Written by tracecloak {}.{}.{} from a trace of profile {}. What this format cannot carry: explicit edges, \
         tool calls, agents below the first level, partial blocks, what the provider counted.\n",
        report.sessions,
        report.requests,
        manifest.block_size,
        manifest.tool.major,
        manifest.tool.minor,
        manifest.tool.patch,
        manifest.profile.word(),
    )
}
