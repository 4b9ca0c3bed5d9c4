//! The cache-hit curve against what a cache really does: the mock endpoint, asked with the same prompts.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tracecloak::analyze::CurveBuilder;
use tracecloak::mock::{Counting, Options, Server, Timing};

/// A session, the runs of block ids of a prompt, and its length in tokens.
type Prompt = (u32, Vec<(u64, u32)>, u32);

/// Prompts of 16 sessions that grow and share a head.
fn prompts(block: u32) -> Vec<Prompt> {
    (0..6_u32)
        .flat_map(|turn| (0..16_u32).map(move |session| (turn, session)))
        .map(|(turn, session)| {
            let own = 3 + turn * 2 + session % 3;
            (session, vec![(0, 5), (1_000 * u64::from(session + 1), own)], (5 + own) * block + 7)
        })
        .collect()
}

#[test]
fn the_curve_says_what_a_cache_of_any_size_finds() {
    const BLOCK: u32 = 16;
    let mut builder = CurveBuilder::new(BLOCK);
    for (session, runs, tokens) in prompts(BLOCK) {
        builder.take(session, &runs, tokens);
    }
    let curve = builder.finish();
    for size in [24, 40, 70, 150, 1_000] {
        let timing = Timing {
            ttft_base: Duration::ZERO,
            per_uncached_token: Duration::ZERO,
            per_output_token: Duration::ZERO,
            block_size: BLOCK,
            cache_blocks: Some(size),
            ..Timing::default()
        };
        let server = Server::start(Options { timing, counting: Counting::Words, ..Options::default() }).unwrap();
        for (session, runs, tokens) in prompts(BLOCK) {
            // Each block id stands for its own tokens; the rest belongs to the request alone.
            let ids = runs.iter().flat_map(|&(first, count)| first..first + u64::from(count));
            let mut prompt: Vec<u64> = ids.flat_map(|id| (0..u64::from(BLOCK)).map(move |at| id * 64 + at)).collect();
            prompt.resize(usize::try_from(tokens).unwrap(), 4_000_000 + u64::from(session));
            let body = serde_json::json!({"prompt": prompt, "max_tokens": 1}).to_string();
            assert_eq!(super::mock::ask(server.addr(), "POST", "/v1/completions", &body, "").0, 200);
        }
        let cached = server.stop().cached_tokens / u64::from(BLOCK);
        // The engine's partial last blocks take room too, one a prompt; the curve leaves them out.
        let (least, most) = (curve.found(u64::from(size).saturating_sub(16)), curve.found(u64::from(size)));
        assert!((least..=most).contains(&cached), "size {size}: {cached} not in {least} to {most}");
    }
    assert_eq!(curve.found(1_000), curve.most());
}

#[test]
fn inspect_shows_the_curve_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tracecloak")).args(arguments).env_clear().output().unwrap()
    };
    assert!(
        run(&["convert", "fixtures/capture/native/fanout.jsonl", "-o", &path("trace"), "--block-size", "16"])
            .status
            .success()
    );
    let shown = run(&["inspect", &path("trace"), "--bytes-per-token", "1024", "--html", &path("page.html")]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.status.success() && text.contains("prefix cache, 1 session at a time") && text.contains("in flight"),
        "{text}"
    );
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("Session 0"));
    assert_eq!(run(&["inspect", &path("trace"), "--html", &path("page.html")]).status.code(), Some(2), "it exists");
    let json: Value =
        serde_json::from_slice(&run(&["inspect", &path("trace"), "--json", "--concurrency", "2"]).stdout).unwrap();
    let points = json["cache"]["curve"].as_array().unwrap();
    assert!(points.windows(2).all(|pair| pair[0]["found_blocks"].as_u64() <= pair[1]["found_blocks"].as_u64()));
    assert_eq!(points.last().unwrap()["found_blocks"], json["cache"]["most"]["found_blocks"]);
}
