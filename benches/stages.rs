//! One benchmark a stage, on made-up data.
//!
//! Invariant: each measures its stage alone; what it needs is made before.

use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput};
use tempfile::tempdir;
use tracecloak::analyze::Accesses;
use tracecloak::anonymize::{Converter, Key, Options, Rules, Selection};
use tracecloak::audit;
use tracecloak::capture::{Exchange, Limits, Records, open_stream};
use tracecloak::format::foreign::session::{agent, request, sequence};
use tracecloak::format::foreign::{ExportOptions, ImportOptions, Source, exporter, importer};
use tracecloak::format::parquet::Directory;
use tracecloak::format::{self, TraceFormat};
use tracecloak::replay::prompt::{Form, PromptSynthesizer, Setup, TreeBase};
use tracecloak::tokenize::{Encoder, Neutral, Tokenizer};
use tracecloak::trace::manifest::{ToolName, ToolVersion};
use tracecloak::trace::vocab::{AgentKind, DelayKind, Evidence, Harness, Profile, PromptScale, Scope};
use tracecloak::trace::{Manifest, PrefixTree, Request, Session};
use tracecloak::wire::anthropic::{AnswerReader, MessagesRequest};

use crate::logs::{Conversation, Format, Plan, Random, stream};

/// A session of 40 turns: 3 MB of log.
const LOG: Plan = Plan { format: Format::ClaudeTrace, sessions: 1, turns: 40, new: 3000 };
const BLOCK: u32 = 64;

fn length(bytes: usize) -> Throughput {
    Throughput::Bytes(bytes as u64)
}

/// Reading each log format: from bytes to exchanges.
pub(crate) fn capture(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("capture");
    for (name, format) in [("claude-trace", Format::ClaudeTrace), ("native", Format::Native), ("har", Format::Har)] {
        let log: Arc<[u8]> = Plan { format, ..LOG }.bytes().into();
        group.throughput(length(log.len()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert_eq!(records(&log).flatten().count(), LOG.turns));
        });
    }
}

fn records(log: &Arc<[u8]>) -> Records {
    open_stream(Box::new(Cursor::new(Arc::clone(log))), 0, Limits::default()).unwrap().1
}

/// Reading bodies: requests, and answers as streams of events.
pub(crate) fn wire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wire");
    let mut conversation = Conversation::new(0, LOG.new);
    (0..LOG.turns).for_each(|_| conversation.advance());
    let body = conversation.body();
    group.throughput(length(body.len()));
    group.bench_function("request", |bencher| {
        bencher.iter(|| MessagesRequest::parse(black_box(body.as_bytes())).unwrap().messages.len());
    });
    let answer = stream(2000);
    group.throughput(length(answer.len()));
    group.bench_function("sse", |bencher| {
        bencher.iter(|| {
            let mut reader = AnswerReader::new();
            answer.as_bytes().chunks(1400).for_each(|piece| reader.push(piece, None));
            assert!(reader.finish().whole);
        });
    });
}

/// From exchanges to sessions: tokens, blocks, chain, lineage.
pub(crate) fn anonymize(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("anonymize");
    let tokenizer = Tokenizer::builtin().unwrap();
    let text = Random(1).text(1 << 18);
    group.throughput(length(text.len()));
    group.bench_function("tokenize", |bencher| {
        bencher.iter(|| {
            let mut tokens = Vec::new();
            tokenizer.encode(black_box(&text), &mut tokens);
            tokens
        });
    });
    for (name, format, reuse) in [
        ("linear", Format::ClaudeTrace, 1 << 30),
        ("nothing reused by bytes", Format::Moving, 1 << 30),
        ("reference", Format::ClaudeTrace, 0),
    ] {
        let log: Arc<[u8]> = Plan { format, ..LOG }.bytes().into();
        let exchanges: Vec<Exchange> = records(&log).collect::<Result<_, _>>().ok().unwrap();
        group.throughput(length(log.len()));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (converter(&tokenizer, reuse), exchanges.clone()),
                |(mut converter, exchanges)| {
                    exchanges.into_iter().for_each(|exchange| converter.push(Ok(exchange)).ok().unwrap());
                    assert_eq!(converter.finish().1.kept, 40);
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn converter(tokenizer: &Tokenizer, reuse: usize) -> Converter {
    let options = Options {
        rules: Rules::new(Profile::Public, &[], BLOCK),
        scope: Scope::Session,
        prompt_scale: PromptScale::None,
        drop_auxiliary: false,
        min_requests: 1,
        selection: Selection::default(),
        reuse,
    };
    let layout = Box::new(Neutral::new(tokenizer.clone()));
    Converter::new(options, &Key::from_bytes([7; 32]), layout, Box::new(tokenizer.clone()))
}

/// 200 sessions of 100 turns that fork now and then: about 13 million block ids.
fn sessions() -> Vec<Session> {
    let (mut random, mut tree) = (Random(3), PrefixTree::new());
    let session = |number: u64| {
        tree.begin_session();
        let mut requests: Vec<Request> = Vec::new();
        for turn in 0..100_u32 {
            let with =
                requests.len().checked_sub(1 + usize::from(random.below(10) == 0)).or(requests.len().checked_sub(1));
            let before = with.map_or(6400, |with| requests[with].input_tokens);
            let mut request = request(before + 40 + random.below(1000) as u32, Some(random.below(900) as u32));
            let shared = with.map_or(0, |_| before / BLOCK);
            request.prefix = tree.insert(with.map(|with| number * 100 + with as u64), shared, request.blocks(BLOCK));
            (request.turn, request.start_ms) = (turn, Some(u64::from(turn) * 9000 + random.below(3000) as u64));
            request.duration_ms = Some(random.below(6000) as u32);
            requests.push(request);
        }
        let edge = |to| sequence(to - 1, to, 500, DelayKind::Tool, Evidence::Stated);
        Session {
            start_ms: None,
            harness: Harness::Other,
            source_number: None,
            agents: vec![agent(AgentKind::Main)],
            edges: (1..100).map(edge).collect(),
            requests,
            tools: Vec::new(),
        }
    };
    (0..200).map(session).collect()
}

fn ids(sessions: &[Session]) -> Throughput {
    let requests = sessions.iter().flat_map(|session| &session.requests);
    Throughput::Elements(requests.map(|request| u64::from(request.blocks(BLOCK))).sum())
}

fn write(sessions: &[Session], path: &Path) {
    let tool = ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 0, patch: 0 };
    let mut sink = Directory.create(path, Manifest::imported(tool, BLOCK, Scope::Session), true).unwrap();
    sessions.iter().for_each(|session| sink.session(session).unwrap());
    sink.finish().unwrap();
}

/// The text-free side; rates are in block ids as a list would hold them.
pub(crate) fn trace(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace");
    let sessions = sessions();
    let folder = tempdir().unwrap();
    let (path, json) = (folder.path().join("trace"), folder.path().join("weka.jsonl"));
    group.throughput(ids(&sessions));
    group.bench_function("tree: insert", |bencher| {
        bencher.iter(|| {
            let mut tree = PrefixTree::new();
            for session in &sessions {
                tree.begin_session();
                for request in &session.requests {
                    let Request { prefix, .. } = request;
                    tree.insert(prefix.request, prefix.shared_blocks, request.blocks(BLOCK));
                }
            }
            tree.unique_blocks()
        });
    });
    group.bench_function("tree: expand", |bencher| {
        bencher.iter(|| {
            let (mut tree, mut ids, mut row) = (PrefixTree::new(), 0, 0);
            for session in &sessions {
                tree.begin_session();
                for request in &session.requests {
                    tree.push(&request.prefix, request.blocks(BLOCK)).unwrap();
                    ids += tree.block_runs(row).iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
                    row += 1;
                }
            }
            ids
        });
    });
    group.bench_function("parquet: write", |bencher| bencher.iter(|| write(&sessions, &path)));
    group.bench_function("parquet: read", |bencher| {
        bencher.iter(|| assert_eq!(format::open(&path).unwrap().flatten().count(), sessions.len()));
    });
    group.bench_function("weka: export", |bencher| {
        let options = ExportOptions { replace: true, ..ExportOptions::default() };
        bencher.iter(|| exporter("weka").unwrap().export(&mut *format::open(&path).unwrap(), &json, &options).unwrap());
    });
    let bytes: Arc<[u8]> = std::fs::read(&json).unwrap().into();
    let source = Source::new(0, true, move || Ok(Box::new(Cursor::new(Arc::clone(&bytes)))));
    group.bench_function("weka: import", |bencher| {
        let import = || {
            let take = &mut |_, session: Session| {
                black_box(session);
                Ok(())
            };
            importer("weka").unwrap().import(std::slice::from_ref(&source), ImportOptions::default(), take).unwrap()
        };
        bencher.iter(import);
    });
    group.bench_function("audit: canonical", |bencher| {
        bencher.iter(|| {
            let options = audit::Options {
                rules: audit::rules::Rules::builtin(),
                allow: Vec::new(),
                baseline: audit::Baseline::default(),
                scratch: folder.path().join("again"),
                limits: audit::view::Limits::default(),
                local: false,
                source: audit::SourceOutcome::default(),
                core_dumps: false,
            };
            assert!(!audit::audit(std::slice::from_ref(&path), &options).unwrap().undecodable);
        });
    });
    group.bench_function("cache curve", |bencher| {
        bencher.iter(|| {
            let mut accesses = Accesses::new(Scope::Session, BLOCK, 1);
            sessions.iter().for_each(|session| accesses.add(session));
            accesses.finish().most()
        });
    });
}

/// Making prompts; rates are in tokens.
pub(crate) fn prompts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prompts");
    let tokenizer = Tokenizer::builtin().unwrap();
    let session = sessions().swap_remove(0);
    let tokens = session.requests.iter().map(|request| u64::from(request.input_tokens)).sum();
    group.throughput(Throughput::Elements(tokens));
    for (name, form) in [("chat", Form::Chat), ("tokens", Form::Tokens)] {
        let setup = Setup { form, ..Setup::new(BLOCK) };
        let layout = Box::new(Neutral::new(tokenizer.clone()));
        let synthesizer = PromptSynthesizer::new(&tokenizer, layout, setup).unwrap();
        let tree = synthesizer.tree(&mut TreeBase::default(), [&session]).unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| (0..100).map(|row| synthesizer.prompt(&tree, row).unwrap().tokens).sum::<u32>());
        });
    }
}
