//! Tests of the whole path: sessions to files and back.
//!
//! Invariant: the sessions are made up by a number generator; nothing in them comes from a real trace.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::{Directory, Limits, Reader, Writer};
use crate::format::{Fault, FormatError, TraceFormat, TraceSink};
use crate::trace::manifest::{Named, Quanta, Totals};
use crate::trace::vocab::*;
use crate::trace::*;

/// A plain generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0, below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn any<V: Vocabulary>(&mut self) -> V {
        V::ALL[self.below(V::ALL.len())]
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.next() % 3 > 0).then(|| value(self))
    }

    fn wide(&mut self) -> u32 {
        self.next() as u32 >> (self.next() % 32)
    }
}

fn head(scope: Scope) -> Manifest {
    Manifest {
        format_version: 1,
        tool: manifest::ToolVersion { name: manifest::ToolName::Tracecloak, major: 0, minor: 1, patch: 0 },
        profile: Profile::Public,
        kept: vec![Keep::Usage, Keep::ExactLengths],
        block_size: 64,
        scope,
        k: (scope == Scope::Shared).then_some(3),
        k_unit: (scope == Scope::Shared).then_some(KUnit::Contributor),
        tokenizer: Named { name: TokenizerName::Builtin, sha256: None },
        chat_template: Named { name: TemplateName::Neutral, sha256: None },
        normalizers: vec![Normalizer::CacheControl],
        quanta: Quanta { input_tokens: 1, output_tokens: 1, machine_ms: 10, user_ms: 1000 },
        prompt_scale: PromptScale::None,
        source_formats: vec![SourceFormat::Har],
        totals: Totals::default(),
        loss: Vec::new(),
        skip_counts: None,
        license: Some(License::CcBy4),
        files: Vec::new(),
    }
}

/// Valid sessions of every shape.
fn dataset(seed: u64, count: usize, scope: Scope) -> Vec<Session> {
    let mut numbers = Numbers(seed);
    let (mut tree, mut lengths) = (PrefixTree::new(), Vec::new());
    (0..count).map(|_| session(&mut numbers, &mut tree, &mut lengths, scope)).collect()
}

fn session(numbers: &mut Numbers, tree: &mut PrefixTree, lengths: &mut Vec<u32>, scope: Scope) -> Session {
    let base = lengths.len();
    if scope == Scope::Session {
        tree.begin_session();
    }
    let first_visible = if scope == Scope::Session { base } else { 0 };
    let (agent_count, request_count) = (1 + numbers.below(3), 1 + numbers.below(12));
    let mut agents: Vec<Agent> = Vec::new();
    for row in 0..agent_count {
        let parent_agent = if row == 0 { None } else { numbers.maybe(|numbers| numbers.below(row) as u32) };
        let spawn_request = numbers.maybe(|numbers| numbers.below(request_count) as u32);
        let join_request = spawn_request.map(|spawn| spawn + 1).filter(|join| (*join as usize) < request_count);
        agents.push(Agent {
            parent_agent,
            depth: parent_agent.map_or((row > 0).into(), |parent| agents[parent as usize].depth + 1),
            kind: if row == 0 { AgentKind::Main } else { AgentKind::ALL[1 + numbers.below(5)] },
            agent_type: numbers.any(),
            status: numbers.maybe(Numbers::any),
            spawn_request,
            join_request,
            total_tokens: numbers.maybe(Numbers::wide),
            tool_calls: numbers.maybe(Numbers::wide),
        });
    }
    let (mut start, mut others) = (0, 0);
    let requests: Vec<Request> = (0..request_count)
        .map(|row| {
            let with = (lengths.len() > first_visible && numbers.next() % 8 > 0)
                .then(|| first_visible + numbers.below(lengths.len() - first_visible));
            let theirs = with.map_or(0, |with| lengths[with] / 64);
            let shared = if numbers.next() % 2 == 0 { theirs } else { numbers.below(theirs as usize + 1) as u32 };
            let blocks = shared + numbers.below(6) as u32;
            let mut prefix = tree.insert(with.map(|with| with as u64), shared, blocks);
            let input_tokens = blocks * 64 + numbers.below(64) as u32;
            let whole = prefix.request.is_some_and(|earlier| {
                let length = lengths[earlier as usize];
                earlier >= base as u64 && length / 64 == prefix.shared_blocks && length <= input_tokens
            });
            prefix.extends = whole && numbers.next() % 2 == 0;
            lengths.push(input_tokens);
            start += u64::from(numbers.wide()) * u64::from(row > 0);
            let model = if numbers.next() % 4 == 0 {
                others += 1;
                Model::other(others - 1)
            } else {
                Model::parse(Model::public_names()[numbers.below(Model::public_names().len())]).unwrap()
            };
            Request {
                agent: numbers.below(agent_count) as u32,
                turn: numbers.below(row + 1) as u32,
                kind: numbers.any(),
                model,
                input_tokens,
                output_tokens: numbers.maybe(Numbers::wide),
                prefix,
                start_ms: numbers.maybe(|_| start),
                duration_ms: numbers.maybe(Numbers::wide),
                ttft_ms: numbers.maybe(Numbers::wide),
                stop: numbers.maybe(Numbers::any),
                status: numbers.any(),
                attempt: numbers.next() as u8,
                streaming: numbers.maybe(|numbers| numbers.next() % 2 == 0),
                max_tokens: numbers.maybe(Numbers::wide),
                usage: Usage {
                    input: numbers.maybe(Numbers::wide),
                    reasoning: numbers.maybe(Numbers::wide),
                    ..Usage::default()
                },
                tools_tokens: numbers.maybe(Numbers::wide),
                system_tokens: numbers.maybe(Numbers::wide),
                messages: numbers.maybe(|numbers| numbers.next() as u16),
                input_parts: Parts(numbers.next() as u16 & 127),
                output_parts: Parts(numbers.next() as u16 & 127),
            }
        })
        .collect();
    let mut edges: Vec<Edge> = (1..request_count as u32)
        .map(|to| Edge {
            to,
            from: numbers.below(to as usize) as u32,
            relation: numbers.any(),
            trigger: numbers.any(),
            delay_ms: numbers.next() >> numbers.below(64),
            delay_kind: numbers.any(),
            evidence: numbers.any(),
        })
        .collect();
    edges.sort_unstable();
    let mut tools = Vec::new();
    for request in 0..request_count as u32 {
        for index in 0..numbers.below(3) as u16 {
            tools.push(ToolCall {
                request,
                index,
                class: numbers.any(),
                is_error: numbers.maybe(|numbers| numbers.next() % 2 == 0),
                consumer_request: Some(request + 1).filter(|next| (*next as usize) < request_count),
                child_agent: numbers.maybe(|numbers| numbers.below(agent_count) as u32),
                start_ms: numbers.maybe(Numbers::next),
                duration_ms: numbers.maybe(Numbers::wide),
                input_tokens: numbers.maybe(Numbers::wide),
                output_tokens: numbers.maybe(Numbers::wide),
            });
        }
    }
    let start_ms = numbers.maybe(Numbers::next);
    Session {
        start_ms,
        harness: numbers.any(),
        source_number: numbers.maybe(Numbers::wide),
        agents,
        requests,
        edges,
        tools,
    }
}

fn write(path: &Path, scope: Scope, sessions: &[Session], limits: Limits) -> Manifest {
    let mut writer = Box::new(Writer::create(path, head(scope), false, limits).unwrap());
    sessions.iter().for_each(|session| writer.session(session).unwrap());
    writer.finish().unwrap()
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

const SMALL: Limits = Limits { row_group: 7, groups: 2 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_come_back_equal_and_are_written_again_to_the_same_bytes(seed: u64, count in 0usize..12, scope in 0usize..3, small: bool) {
        let scope = Scope::ALL[scope];
        let sessions = dataset(seed, count, scope);
        let limits = if small { SMALL } else { Limits::default() };
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let manifest = write(&one, scope, &sessions, limits);
        let reader = Reader::open(&one, true).unwrap();
        prop_assert_eq!(crate::format::TraceSource::manifest(&reader), &manifest);
        let read: Vec<Session> = reader.map(Result::unwrap).collect();
        prop_assert_eq!(&read, &sessions);
        write(&two, scope, &read, limits);
        prop_assert_eq!(files(&one), files(&two));
        let parts = crate::format::manifest::files(&manifest, Table::Requests).count();
        prop_assert_eq!(parts, if small { (manifest.totals.requests as usize).div_ceil(14).max(1) } else { 1 });
    }

    #[test]
    fn damaged_files_end_in_an_error_or_in_valid_sessions(seed: u64, rounds in 1usize..4) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        write(&path, Scope::Session, &dataset(seed, 4, Scope::Session), Limits::default());
        let mut numbers = Numbers(seed ^ 1);
        let (name, mut bytes) = {
            let mut files = files(&path);
            files.retain(|(name, _)| name != "README.md");
            files.swap_remove(numbers.below(files.len()))
        };
        for _ in 0..rounds {
            let at = numbers.below(bytes.len());
            match numbers.below(5) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes[at] = numbers.next() as u8,
                2 => drop(bytes.drain(at..(at + 1 + numbers.below(9)).min(bytes.len()))),
                3 => bytes.insert(at, numbers.next() as u8),
                _ => bytes[at] = [0, 127, 128, 255][numbers.below(4)],
            }
            if bytes.is_empty() { break }
        }
        fs::write(path.join(name), &bytes).unwrap();
        if let Ok(reader) = Reader::open(&path, false) {
            reader.for_each(drop);
        }
    }
}
