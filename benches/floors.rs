//! What conversion is compared with: how fast bytes are copied, read and scanned, and pipelines as one would first write them.
//!
//! Invariant: the two naive pipelines say the same, whatever their tokenizer; so neither leaves anything out.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufWriter, Read};
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use tracecloak::format::parquet::Directory;
use tracecloak::format::{self, TraceFormat};
use tracecloak::tokenize::{Encoder, Tokenizer};
use tracecloak::wire::anthropic::{Block, ContentBlock, MessagesRequest};

use crate::logs::{Format, Plan};

/// Runs what the arguments ask for; false if that is nothing of this file.
pub(crate) fn run(arguments: &[&str]) -> bool {
    match arguments {
        ["make", format, sessions, turns, new] => {
            let number = |text: &str| text.parse().unwrap();
            let format = Format::named(format).unwrap();
            let plan = Plan { format, sessions: number(sessions), turns: number(turns), new: number(new) };
            plan.write(&mut BufWriter::with_capacity(1 << 20, io::stdout().lock())).unwrap();
        }
        ["copy", file] => {
            let bytes = fs::read(file).unwrap();
            let mut copy = vec![0; bytes.len()];
            rate(bytes.len(), || black_box(&mut copy).copy_from_slice(black_box(&bytes)));
        }
        ["read", file] => {
            let mut buffer = vec![0; 1 << 20];
            rate(fs::read(file).unwrap().len(), || {
                let mut file = File::open(file).unwrap();
                while file.read(&mut buffer).unwrap() > 0 {}
            });
        }
        ["scan", file] => {
            let log = fs::read_to_string(file).unwrap();
            rate(log.len(), || assert!(log.lines().map(scan).sum::<usize>() > 0));
        }
        ["naive", file] => {
            let tokenizer = Tokenizer::builtin().unwrap();
            naive(file, |text| {
                let mut tokens = Vec::new();
                tokenizer.encode(text, &mut tokens);
                tokens
            });
        }
        ["naive-0.23", file] => {
            let json = zstd::decode_all(&include_bytes!("../src/tokenize/builtin/claude-legacy.json.zst")[..]).unwrap();
            let mut tokenizer = tokenizers_oracle::Tokenizer::from_bytes(json).unwrap();
            tokenizer.set_encode_special_tokens(true);
            naive(file, |text| tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec());
        }
        ["parquet", trace] => {
            let manifest = format::open(Path::new(trace)).unwrap().manifest().clone();
            let read = || format::open(Path::new(trace)).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            let sessions = read();
            let folder = tempfile::tempdir().unwrap();
            let write = median(|| {
                let mut sink = Directory.create(&folder.path().join("trace"), manifest.clone(), true).unwrap();
                sessions.iter().for_each(|session| sink.session(session).unwrap());
                sink.finish().unwrap();
            });
            println!("{write:.6} {:.6}", median(|| drop(black_box(read()))));
        }
        _ => return false,
    }
    true
}

/// Prints megabytes a second.
fn rate(bytes: usize, run: impl FnMut()) {
    println!("{:.0}", bytes as f64 / 1e6 / median(run));
}

/// The median of five runs, in seconds on a processor where the system tells, else of the clock.
fn median(mut run: impl FnMut()) -> f64 {
    run();
    let mut seconds: Vec<f64> = (0..5)
        .map(|_| {
            let (start, spent) = (Instant::now(), on_processor());
            run();
            match spent.zip(on_processor()) {
                Some((before, after)) => (after - before) as f64 / 1e9,
                None => start.elapsed().as_secs_f64(),
            }
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[2]
}

/// Nanoseconds that this thread has run.
fn on_processor() -> Option<u64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// A line of claude-trace.
#[derive(Deserialize)]
struct Line<Body> {
    request: Sent<Body>,
}

#[derive(Deserialize)]
struct Sent<Body> {
    body: Body,
}

/// A body whose blocks are found and not read.
#[derive(Deserialize)]
struct Scanned<'a> {
    #[serde(borrow)]
    messages: Vec<Unread<'a>>,
}

#[derive(Deserialize)]
struct Unread<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// Bytes in the blocks of a line.
fn scan(line: &str) -> usize {
    let line: Line<Scanned<'_>> = serde_json::from_str(line).unwrap();
    line.request.body.messages.iter().flat_map(|message| &message.content).map(|block| block.get().len()).sum()
}

/// Each turn from its start: parse, render, tokenize, and chain a keyed hash over blocks of 64 tokens.
fn naive(file: &str, encode: impl Fn(&str) -> Vec<u32>) {
    let log = fs::read_to_string(file).unwrap();
    let (mut requests, mut tokens, mut last) = (0, 0, [0; 32]);
    for line in log.lines() {
        let line: Line<&RawValue> = serde_json::from_str(line).unwrap();
        let request = MessagesRequest::parse(line.request.body.get().as_bytes()).unwrap();
        let prompt = encode(&render(&request));
        last = [0; 32];
        for block in prompt.chunks_exact(64) {
            let bytes: Vec<u8> = block.iter().flat_map(|token| token.to_le_bytes()).collect();
            last = blake3::Hasher::new_keyed(&[7; 32]).update(&last).update(&bytes).finalize().into();
        }
        requests += 1;
        tokens += prompt.len();
    }
    println!("{requests} {tokens} {}", blake3::Hash::from(last));
}

/// A prompt as one text.
fn render(request: &MessagesRequest<'_>) -> String {
    let mut text = String::new();
    let mut add = |part: &str| {
        text.push('\n');
        text.push_str(part);
    };
    for tool in &request.tools {
        [&tool.name, &tool.description, &tool.schema].into_iter().for_each(|part| add(part));
    }
    for block in request.system.iter().chain(request.messages.iter().flat_map(|message| &message.blocks)) {
        match block {
            Block::Content(content) => add(said(content)),
            Block::Thinking(thinking) => add(thinking),
            Block::ToolUse { name, input, .. } => [name, input].into_iter().for_each(|part| add(part)),
            Block::ToolResult { content, .. } => content.iter().for_each(|content| add(said(content))),
        }
    }
    text
}

fn said<'a>(content: &'a ContentBlock<'_>) -> &'a str {
    match content {
        ContentBlock::Text(text)
        | ContentBlock::Image(text)
        | ContentBlock::Document(text)
        | ContentBlock::Other(text) => text,
    }
}
