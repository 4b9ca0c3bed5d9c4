//! What every format keeps: an import of an export, exported again, is the same file.
//!
//! Invariant: sessions are made up and tame: times fit, the main agent comes first, every agent has a request.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::format::TraceFormat;
use crate::format::parquet::Directory;
use crate::format::sample::{dataset, head};
use crate::trace::vocab::{AgentKind, AgentType, RequestKind, Status};
use crate::trace::{Manifest, Session};

fn tame(mut session: Session) -> Session {
    let requests = session.requests.len();
    session.agents.truncate(requests);
    let agents = session.agents.len() as u32;
    for (row, agent) in session.agents.iter_mut().enumerate() {
        agent.parent_agent = (row > 0).then_some(0);
        agent.depth = u16::from(row > 0);
        agent.agent_type = if row == 0 { AgentType::Main } else { AgentType::Explore };
        agent.kind = if row == 0 { AgentKind::Main } else { AgentKind::Subagent };
        (agent.spawn_request, agent.join_request) = (None, None);
    }
    let mut others = 0;
    let mut turns = vec![0; agents as usize];
    for (row, request) in session.requests.iter_mut().enumerate() {
        if row < agents as usize {
            request.agent = row as u32;
        }
        request.agent %= agents;
        request.turn = turns[request.agent as usize];
        turns[request.agent as usize] += 1;
        request.kind = RequestKind::Turn;
        request.status = Status::Ok;
        request.start_ms = Some(row as u64 * 1234);
        request.duration_ms = request.duration_ms.map(|duration| duration % 5000);
        request.ttft_ms = request.ttft_ms.map(|ttft| ttft % 5000);
        if request.model.other_number().is_some() {
            request.model = crate::trace::Model::other(others);
            others += 1;
        }
    }
    for edge in &mut session.edges {
        edge.delay_ms %= 10_000;
    }
    for tool in &mut session.tools {
        tool.child_agent = tool.child_agent.filter(|child| *child < agents);
        tool.start_ms = tool.start_ms.map(|start| start % 10_000);
        tool.duration_ms = tool.duration_ms.map(|duration| duration % 10_000);
    }
    session.start_ms = None;
    session
}

fn store(path: &Path, head: Manifest, sessions: &[Session]) {
    let mut sink = Directory.create(path, head, true).unwrap();
    for session in sessions {
        sink.session(session).unwrap();
    }
    sink.finish().unwrap();
}

fn source(path: &Path) -> Source {
    let path = path.to_owned();
    Source::new(0, true, move || Ok(Box::new(std::fs::File::open(&path)?)))
}

fn export(format: &str, trace: &Path, target: &Path, options: ExportOptions) {
    let mut trace = Directory.open(trace).unwrap();
    exporter(format).unwrap().export(&mut *trace, target, &ExportOptions { replace: true, ..options }).unwrap();
}

fn import(format: &str, file: &Path, trace: &Path, block_size: Option<u32>) -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut frame = None;
    let take = &mut |known, session| {
        frame = Some(known);
        sessions.push(session);
        Ok(())
    };
    importer(format).unwrap().import(&[source(file)], ImportOptions { block_size }, take).unwrap();
    let Frame { block_size, scope } = frame.unwrap();
    let source_formats = vec![importer(format).unwrap().format()];
    store(trace, Manifest { block_size, source_formats, ..head(scope) }, &sessions);
    sessions
}

/// Exports, imports, exports again, and compares the two files.
fn comes_back(format: &str, sessions: &[Session], scope: Scope, options: ExportOptions) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source_formats = vec![importer(format).unwrap().format()];
    store(&at("one"), Manifest { source_formats, ..head(scope) }, sessions);
    export(format, &at("one"), &at("one.jsonl"), options);
    import(format, &at("one.jsonl"), &at("two"), Some(64));
    export(format, &at("two"), &at("two.jsonl"), options);
    let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    prop_assert_eq!(read("one.jsonl"), read("two.jsonl"));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_flat_file_gives_back_every_session(seed: u64, count in 1_usize..6, local: bool) {
        let scope = if local { Scope::Session } else { Scope::Dataset };
        let sessions: Vec<Session> = dataset(seed, count, scope).into_iter().map(tame).collect();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        store(&at("trace"), head(scope), &sessions);
        export("flat", &at("trace"), &at("flat"), ExportOptions::default());
        prop_assert_eq!(import("flat", &at("flat"), &at("back"), None), sessions);
    }

    #[test]
    fn weka_files_come_back(seed: u64, count in 1_usize..4, tester: bool) {
        let sessions: Vec<Session> = dataset(seed, count, Scope::Session).into_iter().map(tame).collect();
        let dialect = if tester { Dialect::Tester } else { Dialect::AgentX };
        // The first pass settles what a reader has to infer.
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let options = ExportOptions { dialect, ..ExportOptions::default() };
        store(&at("trace"), head(Scope::Session), &sessions);
        export("weka", &at("trace"), &at("trace.jsonl"), options);
        let settled = import("weka", &at("trace.jsonl"), &at("settled"), None);
        comes_back("weka", &settled, Scope::Session, options)?;
    }

    #[test]
    fn mooncake_files_come_back(seed: u64, count in 1_usize..6) {
        let mut sessions: Vec<Session> = dataset(seed, count, Scope::Dataset).into_iter().map(tame).collect();
        for (place, session) in (0_u64..).zip(&mut sessions) {
            // Apart in time, so that rows of equal times can't change places.
            session.start_ms = Some(place * 1_000_003);
            session.requests.iter_mut().for_each(|request| request.input_tokens = request.input_tokens.max(1));
        }
        comes_back("mooncake", &sessions, Scope::Dataset, ExportOptions::default())?;
    }
}
