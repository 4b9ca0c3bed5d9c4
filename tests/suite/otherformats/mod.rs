//! Formats of other projects from outside: fixtures, round trips, broken files.

mod broken;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::tempdir;
use tracecloak::analyze::compare::Aspect;
use tracecloak::format::foreign::session::{agent, request, sequence};
use tracecloak::format::foreign::{ExportOptions, Frame, ImportOptions, ImportReport, exporter, recognize};
use tracecloak::format::tokens::{Fresh, Planter, Prompt};
use tracecloak::trace::vocab::{AgentKind, DelayKind, Evidence, Harness, Relation, Scope, Trigger, Vocabulary};
use tracecloak::trace::{Edge, Parts, Session};

use super::imported::{Trace, fixture, import, sources};

fn export(format: &str, trace: &Trace, name: &str) -> (Vec<u8>, Vec<&'static str>) {
    let folder = tempdir().unwrap();
    let target = folder.path().join(name);
    let report = exporter(format).unwrap().export(&mut trace.source(), &target, &ExportOptions::default()).unwrap();
    let never = exporter(format).unwrap().loss();
    assert!(report.lost.iter().all(|(word, _)| never.contains(&word)), "{format}: {:?}", report.lost);
    (fs::read(&target).unwrap(), report.lost.iter().map(|(word, _)| word.word()).collect())
}

/// Every fixture: format, file.
fn fixtures() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trace");
    let mut found: Vec<(String, PathBuf)> = walkdir::WalkDir::new(&root)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl" || end == "csv"))
        .map(|path| (path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned(), path))
        .filter(|(format, _)| OURS.contains(&format.as_str()))
        .collect();
    found.sort();
    found
}

const OURS: &[&str] =
    &["bailian", "dynamo", "dynamo-trace", "litellm", "servegen", "tracelab", "veeksha", "veeksha-shared-prefix"];

/// A trace as text, as far as fixtures tell.
fn shown(trace: &Trace, report: &ImportReport) -> String {
    let mut text = format!("{} tokens a block, scope {}\n", trace.frame.block_size, trace.frame.scope.word());
    for (number, session) in trace.sessions.iter().enumerate() {
        text += &format!("session {number}, from {:?}, {}\n", session.start_ms, session.harness.word());
        for agent in &session.agents[1..] {
            let spawned = (agent.parent_agent, agent.depth, agent.spawn_request, agent.join_request);
            text += &format!("  agent of {spawned:?}\n");
        }
        for (row, request) in session.requests.iter().enumerate() {
            let prefix = &request.prefix;
            text += &format!(
                "  {row}: agent {} turn {}, {} in, {:?} out, {}; shares {} blocks with {:?}{}; at {:?} for {:?}, {:?}, {:?}\n",
                request.agent,
                request.turn,
                request.input_tokens,
                request.output_tokens,
                request.model,
                prefix.shared_blocks,
                prefix.request,
                if prefix.extends { ", whole" } else { "" },
                request.start_ms,
                request.duration_ms,
                request.usage.cache_read,
                request.input_parts,
            );
        }
        for edge in &session.edges {
            let words = (edge.relation.word(), edge.trigger.word(), edge.delay_kind.word(), edge.evidence.word());
            text += &format!("  {} -> {} after {} ms: {words:?}\n", edge.from, edge.to, edge.delay_ms);
        }
        for tool in &session.tools {
            text += &format!("  {tool:?}\n");
        }
    }
    text + &serde_json::to_string(report).unwrap() + "\n"
}

#[test]
fn fixtures_become_the_sessions_that_were_accepted() {
    for (format, path) in fixtures() {
        let bytes = fs::read(&path).unwrap();
        let (found, kept) = recognize(sources(&bytes)).unwrap();
        assert_eq!((found.format().word(), kept.len()), (format.as_str(), 1), "{}", path.display());
        let (trace, report) = import(&format, &bytes, ImportOptions::default()).unwrap();
        let name = format!("{format}_{}", path.file_name().unwrap().to_str().unwrap().replace('.', "_"));
        insta::assert_snapshot!(name, shown(&trace, &report));
    }
}

#[test]
fn what_can_be_written_comes_back_byte_by_byte() {
    for (format, path) in fixtures() {
        let name = path.file_name().unwrap().to_str().unwrap();
        // Bailian's own ids are numbered anew.
        if exporter(&format).is_none() || format == "bailian" {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let (trace, _) = import(&format, &bytes, ImportOptions::default()).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&export(&format, &trace, name).0),
            String::from_utf8_lossy(&bytes),
            "{name}"
        );
    }
}

#[test]
fn a_table_and_lines_say_the_same() {
    let lines = import("veeksha", &fixture("veeksha/merge.jsonl"), ImportOptions::default()).unwrap();
    assert_eq!(lines, import("veeksha", &fixture("veeksha/merge.csv"), ImportOptions::default()).unwrap());
}

#[test]
fn no_hash_and_no_name_of_a_source_comes_through() {
    for file in ["dynamo-trace/agents.jsonl", "litellm/spend.jsonl"] {
        let (format, _) = file.split_once('/').unwrap();
        let (trace, _) = import(format, &fixture(file), ImportOptions::default()).unwrap();
        let text = format!("{trace:?}");
        for word in ["a1b2c3d4e5f6", "\"one", "\"sub", "\"s1", "1729382256910", "1760000000"] {
            assert!(!text.contains(word), "{file}: {word}");
        }
        assert!(trace.sessions.iter().flat_map(|s| &s.requests).all(|request| request.prefix.first_block < 1000));
    }
}

/// What one more request does: which agent goes on or spawns, how much it keeps and adds, joins, pause.
#[derive(Clone, Debug)]
struct Step {
    pick: prop::sample::Index,
    spawns: bool,
    joins: bool,
    new: u32,
    output: u32,
    pause: u64,
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step =
        (any::<prop::sample::Index>(), prop::bool::weighted(0.3), any::<bool>(), 1u32..400, 1u32..60, 0u64..5000)
            .prop_map(|(pick, spawns, joins, new, output, pause)| Step { pick, spawns, joins, new, output, pause });
    prop::collection::vec(prop::collection::vec(step, 1..12), 1..4)
}

/// Sessions of agents that spawn and join; every prompt carries the answer before it.
fn trace_of(shapes: &[Vec<Step>], frame: Frame, timed: bool) -> Trace {
    let mut planter = Planter::new(frame.block_size, true);
    let mut fresh = Fresh::default();
    let mut sessions = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        if frame.scope == Scope::Session {
            planter.begin_session();
        }
        let (mut requests, mut prompts, mut edges): (Vec<_>, Vec<Prompt>, Vec<Edge>) = Default::default();
        // Latest request and answer of each agent, and whether its end was waited for.
        let mut agents: Vec<(u32, Prompt, bool)> = Vec::new();
        let mut rows = vec![agent(AgentKind::Main)];
        for (row, step) in (0u32..).zip(shape) {
            let mut this = request(0, Some(step.output));
            let mut prompt = Prompt::default();
            if agents.is_empty() {
                agents.push((row, Prompt::default(), false));
            } else {
                let open: Vec<usize> = (0..agents.len()).filter(|agent| !agents[*agent].2).collect();
                let who = open[step.pick.index(open.len())];
                let (last, answer, _) = agents[who].clone();
                if step.spawns {
                    this.agent = u32::try_from(agents.len()).unwrap();
                    let above = rows[who].depth;
                    rows.push(tracecloak::trace::Agent {
                        parent_agent: Some(u32::try_from(who).unwrap()),
                        depth: above + 1,
                        spawn_request: Some(last),
                        ..agent(AgentKind::Subagent)
                    });
                    edges.push(Edge {
                        relation: Relation::Spawn,
                        delay_kind: DelayKind::Agent,
                        ..sequence(last, row, step.pause, DelayKind::None, Evidence::Stated)
                    });
                    agents.push((row, Prompt::default(), false));
                } else {
                    this.agent = u32::try_from(who).unwrap();
                    prompt = prompts[last as usize].clone().with(&answer);
                    edges.push(sequence(last, row, step.pause, DelayKind::None, Evidence::Stated));
                    let waits = (0..agents.len()).find(|child| {
                        step.joins
                            && !agents[*child].2
                            && rows[*child].parent_agent == Some(u32::try_from(who).unwrap())
                    });
                    if let Some(child) = waits {
                        agents[child].2 = true;
                        rows[child].join_request = Some(row);
                        edges.push(Edge {
                            relation: Relation::Join,
                            delay_kind: DelayKind::Agent,
                            ..sequence(agents[child].0, row, step.pause, DelayKind::None, Evidence::Stated)
                        });
                    }
                    agents[who].0 = row;
                }
            }
            prompt = prompt.with(&fresh.tokens(step.new));
            agents[this.agent as usize].1 = fresh.tokens(step.output);
            this.turn =
                u32::try_from(requests.iter().filter(|r: &&tracecloak::trace::Request| r.agent == this.agent).count())
                    .unwrap();
            if timed {
                this.start_ms = Some(u64::from(row) * 700);
                this.input_parts = Parts::TEXT;
            }
            requests.push(this);
            prompts.push(prompt);
        }
        planter.fill(&mut requests, &prompts);
        edges.sort_by_key(|edge| (edge.to, edge.from, edge.relation));
        sessions.push(Session {
            start_ms: timed.then_some(number as u64 * 1500),
            harness: Harness::Other,
            source_number: None,
            agents: rows,
            requests,
            edges,
            tools: Vec::new(),
        });
    }
    let trace = Trace { frame, sessions };
    trace.check();
    trace
}

/// Out, in, out and in again: the second time nothing changes. Gives what came back the first time.
fn settles(format: &str, trace: &Trace, name: &str, block_size: u32) -> Trace {
    let options = ImportOptions { block_size: Some(block_size) };
    let (first, _) = export(format, trace, name);
    let (once, _) = import(format, &first, options).unwrap();
    let (second, _) = export(format, &once, name);
    assert_eq!(String::from_utf8_lossy(&first), String::from_utf8_lossy(&second), "{format}");
    assert_eq!(import(format, &second, options).unwrap().0, once, "{format}");
    once
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dynamo_carries_lengths_prefixes_agents_edges_and_delays(shapes in steps()) {
        let trace = trace_of(&shapes, Frame { block_size: 32, scope: Scope::Session }, false);
        let back = settles("dynamo", &trace, "out.jsonl", 32);
        prop_assert!(trace.compare(&back).equal(), "{:?}", trace.compare(&back).first);
    }

    #[test]
    fn veeksha_carries_lengths_history_and_waits(shapes in steps(), table in any::<bool>()) {
        let trace = trace_of(&shapes, Frame { block_size: 32, scope: Scope::Session }, false);
        let back = settles("veeksha", &trace, if table { "out.csv" } else { "out.jsonl" }, 32);
        let comparison = trace.compare(&back);
        prop_assert!(comparison.equal_in(Aspect::Lengths), "{:?}", comparison.first);
        // Every wait is a wait for all parents, so each edge is still there with its delay.
        let waits = |trace: &Trace| -> Vec<(u32, u32, u64)> {
            trace.sessions.iter().flat_map(|session| &session.edges).map(|edge| (edge.from, edge.to, edge.delay_ms)).collect()
        };
        prop_assert_eq!(waits(&trace), waits(&back));
        // Those that go on from one that they wait for share as much as before.
        for (one, other) in trace.sessions.iter().zip(&back.sessions) {
            for (one, other) in one.requests.iter().zip(&other.requests) {
                prop_assert!(other.prefix.shared_blocks >= one.prefix.shared_blocks);
            }
        }
    }

    #[test]
    fn shared_prefix_carries_lines_and_the_blocks_of_first_turns(lengths in prop::collection::vec((0u32..200, 1u32..200), 1..8), turns in 0usize..4) {
        // First turns that share any number of tokens with the first of all, and turns in line.
        let mut planter = Planter::new(16, true);
        let (mut fresh, mut sessions, mut first): (_, Vec<Session>, Option<Prompt>) = (Fresh::default(), Vec::new(), None);
        for (kept, new) in lengths {
            let head = first.as_ref().map_or_else(Prompt::default, |first| first.head(kept - kept % 16));
            let mut prompts = vec![head.with(&fresh.tokens(16 + new))];
            first.get_or_insert(prompts[0].clone());
            for _ in 0..turns {
                let next = prompts[prompts.len() - 1].clone().with(&fresh.tokens(7)).with(&fresh.tokens(new));
                prompts.push(next);
            }
            let mut requests: Vec<_> = (0..).zip(&prompts).map(|(turn, _)| { let mut row = request(0, Some(7)); row.turn = turn; row }).collect();
            planter.fill(&mut requests, &prompts);
            let edges = (1..).take(turns).map(|to| sequence(to - 1, to, 250, DelayKind::None, Evidence::Stated)).collect();
            sessions.push(Session { start_ms: None, harness: Harness::Other, source_number: None, agents: vec![agent(AgentKind::Main)], requests, edges, tools: Vec::new() });
        }
        let trace = Trace { frame: Frame { block_size: 16, scope: Scope::Dataset }, sessions };
        let back = settles("veeksha-shared-prefix", &trace, "out.jsonl", 16);
        prop_assert!(trace.compare(&back).equal(), "{:?}", trace.compare(&back).first);
    }

    #[test]
    fn bailian_carries_lengths_prefixes_times_and_links(shapes in steps()) {
        let trace = trace_of(&shapes, Frame { block_size: 16, scope: Scope::Dataset }, true);
        let back = settles("bailian", &trace, "out.jsonl", 16);
        let comparison = trace.compare(&back);
        prop_assert!(comparison.equal_in(Aspect::Lengths) && comparison.equal_in(Aspect::Prefix), "{:?}", comparison.first);
        let times = comparison.columns.iter().filter(|column| column.name.column == "start_ms");
        prop_assert!(times.map(|column| column.counts).all(|counts| counts.equal()));
    }

    #[test]
    fn blocks_of_64_tokens_are_cut_for_bailian_without_loss_of_sharing(shapes in steps()) {
        let trace = trace_of(&shapes, Frame { block_size: 64, scope: Scope::Dataset }, true);
        let (file, _) = export("bailian", &trace, "out.jsonl");
        let (back, _) = import("bailian", &file, ImportOptions::default()).unwrap();
        for (one, other) in trace.sessions.iter().zip(&back.sessions) {
            for (one, other) in one.requests.iter().zip(&other.requests) {
                prop_assert!(other.prefix.shared_blocks * 16 >= one.prefix.shared_blocks * 64);
                prop_assert!(other.prefix.shared_blocks / 4 <= one.prefix.shared_blocks);
            }
        }
    }
}

#[test]
fn a_dispatch_that_dynamo_has_no_word_for_is_counted() {
    let mut trace = import("dynamo", &fixture("dynamo/spawn-join.jsonl"), ImportOptions::default()).unwrap().0;
    assert_eq!(export("dynamo", &trace, "a.jsonl").1, ["partial-blocks"]);
    let last = trace.sessions[0].edges.len() - 1;
    trace.sessions[0].edges[last].trigger = Trigger::Dispatch;
    assert_eq!(export("dynamo", &trace, "a.jsonl").1, ["edges", "partial-blocks"]);
}

#[test]
fn what_a_format_needs_and_a_trace_lacks_is_said() {
    let trace = import("veeksha", &fixture("veeksha/linear.jsonl"), ImportOptions::default()).unwrap().0;
    let folder = tempdir().unwrap();
    let error = exporter("bailian")
        .unwrap()
        .export(&mut trace.source(), &folder.path().join("out.jsonl"), &ExportOptions::default())
        .unwrap_err();
    assert!(error.to_string().contains("time of each session"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_broken_file_is_refused_with_file_row_and_field() {
    let mut variants = std::collections::BTreeMap::new();
    let mut wrong = Vec::new();
    for (file, good, bad, expected) in broken::BROKEN {
        let (format, _) = file.split_once('/').unwrap();
        *variants.entry(format).or_insert(0) += 1;
        let text = String::from_utf8(fixture(file)).unwrap();
        assert!(text.contains(good), "{file} does not hold {good}");
        let broken = text.replacen(good, bad, 1);
        match import(format, broken.as_bytes(), ImportOptions::default()) {
            Ok(_) => wrong.push(format!("{file}: {bad} was read")),
            Err(error) if error.to_string() != format!("file 1, {expected}") => {
                wrong.push(format!("{file}: {bad}: {error}"));
            }
            Err(_) => (),
        }
    }
    assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
    assert!(OURS.iter().all(|format| variants[format] >= 10), "{variants:?}");
}

#[test]
fn a_file_that_ends_early_says_so() {
    for (format, path) in fixtures() {
        let bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|end| end == "jsonl") {
            let error = import(&format, &bytes[..bytes.len() - 3], ImportOptions::default()).unwrap_err();
            assert!(error.to_string().ends_with("cut off"), "{}: {error}", path.display());
        }
    }
}

#[test]
fn the_program_writes_nothing_of_a_broken_file_and_names_it() {
    let mut tried = std::collections::BTreeSet::new();
    for (file, good, bad, expected) in broken::BROKEN {
        let (format, name) = file.split_once('/').unwrap();
        if !tried.insert(format) {
            continue;
        }
        let folder = tempdir().unwrap();
        fs::write(folder.path().join(name), String::from_utf8(fixture(file)).unwrap().replacen(good, bad, 1)).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tracecloak"))
            .env_clear()
            .current_dir(folder.path())
            .args(["import", name, "--from", format, "-o", "trace"])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{file}: {errors}");
        assert!(errors.contains(name) && errors.contains(expected), "{file}: {errors}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{file}");
    }
    assert_eq!(tried.len(), OURS.len());
}
