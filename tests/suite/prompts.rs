//! Prompts made for replay share exactly what the trace says, whatever template renders them.
//!
//! The templates here are of our own, one for each habit that real ones have. The public traces and real tokenizers are too
//! large to be included: that test is run by hand (`cargo test --release prompts -- --ignored --nocapture`).
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests may convert freely"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tracecloak::replay::prompt::{
    Answer, Calibration, ChatMessage, Form, History, PromptError, PromptForm, PromptSynthesizer, Sample, Setup,
    TemplateError, TreeBase, Verifier, VerifyReport, probes,
};
use tracecloak::tokenize::{
    Block, ChatTemplate, Content, Layout, Message, Neutral, Prompt, Tokenizer, TokenizerSpec, load,
};
use tracecloak::trace::vocab::{Harness, RequestKind, Status, Vocabulary};
use tracecloak::trace::{Model, Parts, Prefix, PrefixTree, Request, Session, Usage};

/// `<META_START>role` and a line break, nothing trimmed.
pub(super) const MARKED: &str = "{% for m in messages %}<META_START>{{ m.role }}\n{{ m.content }}<META_END>\n{% endfor %}\
    {% if add_generation_prompt %}<META_START>assistant\n{% endif %}";
/// A token at the beginning, content trimmed, a blank line before it.
pub(super) const TRIMMED: &str = "<SOS>{% for m in messages %}<META_START>{{ m.role }}<META_END>\n\n{{ m.content | trim }}<EOT>{% endfor %}\
    {% if add_generation_prompt %}<META_START>assistant<META_END>\n\n{% endif %}";
/// A long head; answers are marked as final in history, where the generation prompt leaves that open.
pub(super) const CHANNELS: &str = "<META_START>system\nThis is a head that every prompt has, in front of all that is said.<META_END>\n\
    {% for m in messages %}<META_START>{{ m.role }}{{ '(final)' if m.role == 'assistant' }}\n{{ m.content }}<META_END>{% endfor %}\
    {% if add_generation_prompt %}<META_START>assistant{% endif %}";
/// No line breaks; the role is a token or two.
pub(super) const TIGHT: &str = "<SOS>{% for m in messages %}{% if m.role == 'user' %}<META_START>{{ m.content }}\
    {% else %}<META_END>{{ m.content }}<EOT>{% endif %}{% endfor %}{% if add_generation_prompt %}<META_END>{% endif %}";
/// The generation prompt opens the reasoning; history shows what stands behind it.
pub(super) const THINKING: &str = "{% for m in messages %}<META_START>{{ m.role }}\n{{ m.content.split('(/think)')[-1] }}<META_END>\n{% endfor %}\
    {% if add_generation_prompt %}<META_START>assistant\n(think)\n{% endif %}";
/// The same, and history is cleaned of it in any case.
pub(super) const FORGETFUL: &str = "{% for m in messages %}<META_START>{{ m.role }}\n{{ m.content.replace('(think)\n', '') }}<META_END>\n{% endfor %}\
    {% if add_generation_prompt %}<META_START>assistant\n(think)\n{% endif %}";

pub(super) fn template(source: &str) -> Box<dyn Layout> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("chat_template.jinja"), source).unwrap();
    Box::new(ChatTemplate::from_dir(dir.path(), Tokenizer::builtin().unwrap()).unwrap())
}

fn neutral() -> Box<dyn Layout> {
    Box::new(Neutral::new(Tokenizer::builtin().unwrap()))
}

/// One cache for the whole run: finding the vocabulary once is enough.
pub(super) fn cache() -> PathBuf {
    std::env::temp_dir().join("tracecloak-test-vocabulary")
}

pub(super) fn synthesizer(
    layout: Box<dyn Layout>,
    block_size: u32,
    form: Form,
) -> Result<PromptSynthesizer, PromptError> {
    let setup = Setup { form, cache_dir: Some(cache()), ..Setup::new(block_size) };
    PromptSynthesizer::new(&Tokenizer::builtin().unwrap(), layout, setup)
}

fn request(prefix: Prefix, input_tokens: u32, output_tokens: u32) -> Request {
    Request {
        agent: 0,
        turn: 0,
        kind: RequestKind::ALL[0],
        model: Model::other(0),
        input_tokens,
        output_tokens: Some(output_tokens),
        prefix,
        start_ms: None,
        duration_ms: None,
        ttft_ms: None,
        stop: None,
        status: Status::ALL[0],
        attempt: 0,
        streaming: None,
        max_tokens: None,
        usage: Usage::default(),
        tools_tokens: None,
        system_tokens: None,
        messages: None,
        input_parts: Parts::default(),
        output_parts: Parts::default(),
    }
}

fn session(requests: Vec<Request>) -> Session {
    Session {
        start_ms: None,
        harness: Harness::ALL[0],
        source_number: None,
        agents: Vec::new(),
        requests,
        edges: Vec::new(),
        tools: Vec::new(),
    }
}

/// Grows sessions as the format has them.
struct Grower {
    tree: PrefixTree,
    block_size: u32,
    next: u64,
    first: u64,
    requests: Vec<Request>,
    extended: std::collections::HashSet<u64>,
}

impl Grower {
    fn new(block_size: u32) -> Self {
        let (tree, requests) = (PrefixTree::new(), Vec::new());
        Self { tree, block_size, next: 0, first: 0, requests, extended: std::collections::HashSet::new() }
    }

    /// A request that shares as many blocks with an earlier one as can be, up to `shared`.
    fn push(&mut self, with: Option<u64>, shared: u32, input: u32, output: u32, extend: bool) -> &Prefix {
        let blocks = input / self.block_size;
        let mut prefix = self.tree.insert(with, shared.min(blocks), blocks);
        if let Some(before) = prefix.request {
            let earlier = &self.requests[usize::try_from(before - self.first).unwrap()];
            let whole = earlier.blocks(self.block_size) == prefix.shared_blocks && input >= earlier.input_tokens;
            prefix.extends = extend && whole && self.extended.insert(before);
        }
        self.next += 1;
        self.requests.push(request(prefix, input, output));
        &self.requests.last().unwrap().prefix
    }

    fn finish(&mut self) -> Session {
        self.tree.begin_session();
        self.first = self.next;
        session(std::mem::take(&mut self.requests))
    }
}

fn verified(synthesizer: &mut PromptSynthesizer, sessions: &[Session]) -> VerifyReport {
    let (mut verifier, mut base) = (Verifier::new(synthesizer), TreeBase::default());
    for session in sessions {
        let tree = synthesizer.tree(&mut base, [session]).unwrap();
        verifier.scope(synthesizer, &tree, [session], |_| true).unwrap();
    }
    verifier.finish()
}

pub(super) type Shape = (usize, u32, u32, u32, bool);

/// Requests as (which earlier one, how many blocks of it, tokens beyond, tokens of the answer, extends it).
pub(super) fn shapes() -> impl Strategy<Value = Vec<Vec<Shape>>> {
    let growth = prop_oneof![3 => 0u32..200, 1 => (0u32..8).prop_map(|blocks| blocks * 16), 1 => 0u32..12];
    let shared = prop_oneof![3 => Just(u32::MAX), 2 => 0u32..12];
    let request = (0usize..4, shared, growth, 0u32..60, any::<bool>());
    prop::collection::vec(prop::collection::vec(request, 1..25), 1..3)
}

pub(super) fn grown(shapes: &[Vec<Shape>], block_size: u32) -> Vec<Session> {
    let mut grower = Grower::new(block_size);
    let mut sessions = Vec::new();
    for shape in shapes {
        for &(back, shared, growth, output, extend) in shape {
            let before = grower.requests.len().checked_sub(1 + back);
            let (with, own) = match before {
                Some(at) => (Some(grower.first + at as u64), grower.requests[at].input_tokens),
                None => (None, 0),
            };
            let kept = (shared.min(own / block_size)) * block_size;
            let start = if shared == u32::MAX { own } else { kept };
            grower.push(with, shared, (start + growth).max(1), output, extend);
        }
        sessions.push(grower.finish());
    }
    sessions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_tree_is_met_exactly_or_the_request_is_named(shapes in shapes(), block_size in prop_oneof![Just(16u32), Just(64)]) {
        let sessions = grown(&shapes, block_size);
        let all: u64 = sessions.iter().map(|session| session.requests.len() as u64).sum();
        for (name, source) in [("marked", MARKED), ("trimmed", TRIMMED), ("channels", CHANNELS), ("tight", TIGHT), ("thinking", THINKING), ("forgetful", FORGETFUL)] {
            let report = verified(&mut synthesizer(template(source), block_size, Form::Chat).unwrap(), &sessions);
            prop_assert!(report.is_exact(), "{}: {:?}", name, report);
            prop_assert_eq!(report.requests + report.too_small + report.too_short, all);
            prop_assert_eq!(report.roots_alike, 0);
        }
        for form in [Form::Chat, Form::Text, Form::Tokens] {
            let report = verified(&mut synthesizer(neutral(), block_size, form).unwrap(), &sessions);
            prop_assert!(report.is_exact(), "{:?}: {:?}", form, report);
            if form != Form::Chat {
                prop_assert_eq!(report.requests, all, "nothing is too small without a template");
                prop_assert_eq!(report.prefix_to_the_token, all);
            }
        }
    }
}

/// The builtin tokenizer writes a blank line at the very end as one token, before a word as two: that token is forgotten, and
/// a prompt that extends another may begin where that one's own part begins.
#[test]
fn what_extends_a_prompt_without_words_of_its_own_still_parts_from_others() {
    let sessions = grown(&[vec![(0, 0, 37, 0, false), (0, 1, 1, 0, false), (0, u32::MAX, 20, 0, true)]], 16);
    let mut synthesizer = synthesizer(template(TRIMMED), 16, Form::Chat).unwrap();
    assert_eq!(synthesizer.wrapping().forgotten, 1);
    let report = verified(&mut synthesizer, &sessions);
    assert!(report.is_exact() && report.requests == 3, "{report:?}");
}

fn messages(form: PromptForm) -> Vec<String> {
    match form {
        PromptForm::Chat(messages) => messages.into_iter().map(|message| message.content.to_string()).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_conversation_keeps_its_messages_and_adds_answer_and_input() {
    let mut grower = Grower::new(64);
    grower.push(None, 0, 1000, 100, false);
    grower.push(Some(0), u32::MAX, 1500, 50, true);
    grower.push(Some(1), u32::MAX, 1600, 50, true);
    let session = grower.finish();
    let synthesizer = synthesizer(template(MARKED), 64, Form::Chat).unwrap();
    let tree = synthesizer.tree(&mut TreeBase::default(), [&session]).unwrap();
    let said: Vec<_> = (0..3).map(|row| messages(synthesizer.prompt(&tree, row).unwrap().form)).collect();
    assert_eq!([said[0].len(), said[1].len(), said[2].len()], [1, 3, 5]);
    assert!(said[1].starts_with(&said[0]) && said[2].starts_with(&said[1]));
    assert_eq!(said[1][1].split(' ').count(), 100, "the answer is as long as the trace says");
    let prompt = synthesizer.prompt(&tree, 1).unwrap();
    assert_eq!((prompt.tokens, prompt.planned_shared), (1500, 1000));
    assert_eq!(prompt, synthesizer.prompt(&tree, 1).unwrap(), "and again");
}

#[test]
fn what_cannot_be_met_is_said() {
    let refused = |source: &str| synthesizer(template(source), 64, Form::Chat).err();
    let numbered = MARKED.replace("{{ m.role }}", "{{ loop.length }} {{ m.role }}");
    assert_eq!(refused(&numbered), Some(PromptError::Template(TemplateError::Rewrites)));
    assert_eq!(
        refused(&MARKED.replace("m.content", "m.content|upper")),
        Some(PromptError::Template(TemplateError::Changes))
    );
    let strict = "{{ raise_exception('no') }}";
    assert_eq!(refused(strict), Some(PromptError::Template(TemplateError::Refuses)));
    let thinking = synthesizer(template(THINKING), 64, Form::Chat).unwrap();
    assert_eq!((thinking.wrapping().forgotten, thinking.wrapping().echo.as_str()), (0, "(think)\n"));
    assert!(synthesizer(template(FORGETFUL), 64, Form::Chat).unwrap().wrapping().forgotten > 0);
}

#[test]
fn a_request_without_room_for_the_template_is_named_and_as_long_as_it_must_be() {
    let mut grower = Grower::new(64);
    grower.push(None, 0, 640, 10, false);
    grower.push(Some(0), u32::MAX, 645, 10, true);
    grower.push(None, 0, 3, 10, false);
    let session = grower.finish();
    let mut synthesizer = synthesizer(template(MARKED), 64, Form::Chat).unwrap();
    let tree = synthesizer.tree(&mut TreeBase::default(), [&session]).unwrap();
    let prompt = synthesizer.prompt(&tree, 1).unwrap();
    let shortfall = prompt.shortfall.unwrap();
    assert_eq!((prompt.tokens, shortfall.has, shortfall.asked_blocks, shortfall.shared_blocks), (645, 5, 10, 9));
    assert!(shortfall.needs > 5 && prompt.planned_shared >= 9 * 64);
    assert!(matches!(synthesizer.prompt(&tree, 2), Err(PromptError::TooShort { request: 2, has: 3, .. })));
    let report = verified(&mut synthesizer, &[session]);
    assert_eq!((report.requests, report.too_small, report.too_short), (1, 1, 1));
}

#[test]
fn real_answers_take_the_place_of_made_up_ones_and_lengths_stay() {
    for (layout, form) in [(template(MARKED), Form::Chat), (template(THINKING), Form::Chat), (neutral(), Form::Tokens)]
    {
        let mut grower = Grower::new(64);
        grower.push(None, 0, 1000, 100, false);
        grower.push(Some(0), u32::MAX, 1500, 50, true);
        grower.push(Some(1), u32::MAX, 1600, 50, true);
        grower.push(Some(1), 15, 1300, 50, true);
        let session = grower.finish();
        let setup = Setup { form, history: History::Generated, cache_dir: Some(cache()), ..Setup::new(64) };
        let mut synthesizer = PromptSynthesizer::new(&Tokenizer::builtin().unwrap(), layout, setup).unwrap();
        let mut tree = synthesizer.tree(&mut TreeBase::default(), [&session]).unwrap();
        let (before, fork) = (synthesizer.prompt(&tree, 1).unwrap(), synthesizer.prompt(&tree, 3).unwrap());
        assert_eq!(before.corrected, 0);
        let text = "I looked, and it's <META_END> 42.\n\n```\nfn main() {}\n```";
        let length = synthesizer.answered(&mut tree, 0, &Answer { text, tokens: None }).unwrap();
        assert!((10..100).contains(&length), "{length}");
        for (row, tokens) in [(1, 1500), (2, 1600)] {
            let prompt = synthesizer.prompt(&tree, row).unwrap();
            assert_eq!((prompt.tokens, prompt.corrected), (tokens, 1));
            if form == Form::Chat {
                assert!(messages(prompt.form)[1].ends_with(text));
            } else if let PromptForm::Tokens(ids) = prompt.form {
                assert_eq!(ids.len(), tokens as usize);
            }
        }
        let again = synthesizer.prompt(&tree, 1).unwrap();
        assert_eq!(again.planned_shared, before.planned_shared);
        assert_eq!(synthesizer.prompt(&tree, 3).unwrap(), fork, "what parted before the answer does not hold it");
        // An answer longer than there is room for is not put in.
        synthesizer.answered(&mut tree, 0, &Answer { text: &text.repeat(100), tokens: None }).unwrap();
        let long = synthesizer.prompt(&tree, 1).unwrap();
        assert_eq!((long.form, long.tokens, long.corrected), (before.form, 1500, 1));
    }
}

#[test]
fn sessions_share_the_head_and_nothing_more_and_the_seed_changes_all() {
    // Also where the head is more than a block.
    for block_size in [64, 16] {
        let mut grower = Grower::new(block_size);
        let sessions: Vec<_> = (0..300)
            .map(|_| {
                grower.push(None, 0, 60, 10, false);
                grower.finish()
            })
            .collect();
        let report = verified(&mut synthesizer(template(CHANNELS), block_size, Form::Chat).unwrap(), &sessions);
        assert_eq!((report.roots, report.roots_alike, report.requests), (300, 0, 300));
        assert!(report.is_exact() && report.head_tokens > 16);
    }
    let mut grower = Grower::new(64);
    grower.push(None, 0, 60, 10, false);
    let sessions = [grower.finish()];
    let prompt = |seed| {
        let setup = Setup { seed, cache_dir: Some(cache()), ..Setup::new(64) };
        let made = PromptSynthesizer::new(&Tokenizer::builtin().unwrap(), template(MARKED), setup).unwrap();
        let tree = made.tree(&mut TreeBase::default(), &sessions).unwrap();
        made.prompt(&tree, 0).unwrap()
    };
    assert_ne!(prompt(1), prompt(2));
    assert_eq!(prompt(1), prompt(1));
}

#[test]
fn without_a_tokenizer_the_endpoints_counts_are_enough_for_lengths_that_are_nearly_right() {
    let mut endpoint = template(MARKED);
    let mut count = |form: &[ChatMessage]| {
        let messages = form.iter().map(|message| Message {
            role: message.role,
            blocks: vec![Block::Content(Content::Text((&*message.content).into()))],
        });
        endpoint.lay(&Prompt { messages: messages.collect(), ..Prompt::default() }).unwrap().tokens.len() as u32
    };
    let samples = probes(true).unwrap().into_iter().map(|(messages, sample)| {
        // An endpoint whose tokens are smaller than ours.
        let more = sample.words / 8;
        Sample { counted: count(&messages) + more, ..sample }
    });
    let calibration = Calibration::fit(&samples.collect::<Vec<_>>()).unwrap();
    assert!(calibration.error_max <= 3 && calibration.rate.abs_diff(1_125_000) < 1000, "{calibration:?}");
    let sessions = grown(&[vec![(0, 0, 5000, 300, false), (0, u32::MAX, 2000, 100, true)]], 64);
    let synthesizer =
        PromptSynthesizer::calibrated(&calibration, Setup { cache_dir: Some(cache()), ..Setup::new(64) }).unwrap();
    let tree = synthesizer.tree(&mut TreeBase::default(), &sessions).unwrap();
    let made: Vec<_> = (0..2).map(|row| synthesizer.prompt(&tree, row).unwrap()).collect();
    for (prompt, expected) in made.iter().zip([5000u32, 7000]) {
        let PromptForm::Chat(messages) = &prompt.form else { unreachable!() };
        let words: usize = messages.iter().map(|message| message.content.split(' ').count()).sum();
        let tokens = count(messages) + words as u32 / 8;
        assert!(tokens.abs_diff(expected) <= 5, "{tokens} for {expected}");
    }
    let [PromptForm::Chat(first), PromptForm::Chat(second)] = [&made[0].form, &made[1].form] else { unreachable!() };
    assert!(second.starts_with(first), "and prefixes are kept");
}

/// A session of a public trace, subagents in place. Partial blocks are taken as shared where they can be; `rounded` does what
/// the public profile does.
fn public(line: &str, grower: &mut Grower, rounded: bool) -> Session {
    fn flatten<'a>(requests: &'a [serde_json::Value], out: &mut Vec<&'a serde_json::Value>) {
        for request in requests {
            match request["requests"].as_array() {
                Some(inner) => flatten(inner, out),
                None => out.push(request),
            }
        }
    }
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    let mut rows = Vec::new();
    flatten(json["requests"].as_array().unwrap(), &mut rows);
    let mut holders: HashMap<u64, u64> = HashMap::new();
    for row in rows {
        let ids: Vec<u64> = row["hash_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        let shared = ids.iter().take_while(|id| holders.contains_key(id)).count();
        let with = shared.checked_sub(1).map(|last| holders[&ids[last]]);
        let number = |name: &str| row[name].as_u64().unwrap_or(0) as u32;
        let at = grower.next;
        let (input, output) = (number("in"), number("out"));
        if rounded {
            grower.push(with, shared as u32, input / 64 * 64, output.next_multiple_of(16), false);
        } else {
            grower.push(with, shared as u32, input, output, true);
        }
        holders.extend(ids.into_iter().map(|id| (id, at)));
    }
    grower.finish()
}

fn public_sessions(count: usize, rounded: bool) -> Vec<Session> {
    use std::io::BufRead as _;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/weka-cc-traces.jsonl.zst");
    let mut decoder = zstd::Decoder::new(std::fs::File::open(path).unwrap()).unwrap();
    decoder.window_log_max(27).unwrap();
    let mut grower = Grower::new(64);
    let lines = std::io::BufReader::new(decoder).lines();
    lines.take(count).map(|line| public(&line.unwrap(), &mut grower, rounded)).collect()
}

/// Set `TRACECLOAK_TEST_TOKENIZERS` to a folder of model folders to have them tried beside the builtin tokenizer.
#[test]
#[ignore = "needs the public traces; takes minutes"]
#[expect(clippy::disallowed_methods, reason = "a measurement by hand, of tokenizers that lie somewhere")]
fn public_traces_are_met_exactly() {
    let count = std::env::var("TRACECLOAK_TEST_SESSIONS").map_or(40, |count| count.parse().unwrap());
    let [exact, rounded] = [false, true].map(|rounded| public_sessions(count, rounded));
    let mut specs = vec![
        ("builtin, chat".to_owned(), TokenizerSpec::Builtin, Form::Chat),
        ("builtin, text".to_owned(), TokenizerSpec::Builtin, Form::Text),
        ("builtin, tokens".to_owned(), TokenizerSpec::Builtin, Form::Tokens),
    ];
    if let Ok(folder) = std::env::var("TRACECLOAK_TEST_TOKENIZERS") {
        specs.extend(std::fs::read_dir(folder).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), TokenizerSpec::Dir(path), Form::Chat)
        }));
    }
    for (name, spec, form) in specs {
        let (tokenizer, layout, _) = load(&spec).unwrap();
        let before = cpu_seconds();
        let made = PromptSynthesizer::new(&tokenizer, layout, Setup { form, ..Setup::new(64) });
        let found = cpu_seconds() - before;
        let mut synthesizer = match made {
            Ok(synthesizer) => synthesizer,
            Err(error) => {
                println!("{name}: {error}");
                continue;
            }
        };
        let wrapping = synthesizer.wrapping().clone();
        println!(
            "{name}: made ready in {found:.2} s; head {} open {} turn {} end {} forgotten {} echo {:?} keeps thinking {}",
            wrapping.head.len(),
            wrapping.open.len(),
            wrapping.turn.len(),
            wrapping.end.len(),
            wrapping.forgotten,
            wrapping.echo,
            wrapping.keeps_thinking
        );
        let (mut base, mut tokens, mut prompts) = (TreeBase::default(), 0, 0u64);
        let (mut planning, before) = (0.0, cpu_seconds());
        for session in &exact {
            let start = cpu_seconds();
            let tree = synthesizer.tree(&mut base, [session]).unwrap();
            planning += cpu_seconds() - start;
            for row in tree.requests() {
                if let Ok(prompt) = synthesizer.prompt(&tree, row) {
                    tokens += u64::from(prompt.tokens);
                    prompts += 1;
                }
            }
        }
        let spent = cpu_seconds() - before;
        let rate = tokens as f64 / 1e6 / spent;
        println!(
            "  {prompts} prompts of {tokens} tokens in {spent:.2} s ({planning:.2} s of it to plan): {rate:.1} Mtok/s"
        );
        println!("  peak {} MB, traces included", peak_mb());
        for (profile, sessions) in [("exact", &exact), ("public profile", &rounded)] {
            let before = cpu_seconds();
            let mut report = verified(&mut synthesizer, sessions);
            let named: Vec<_> = std::mem::take(&mut report.named).into_iter().take(5).collect();
            println!("  {profile}, {:.2} s: {report:?}\n    named first: {named:?}", cpu_seconds() - before);
            assert!(report.is_exact(), "{name}");
        }
    }
}

/// Time that this thread was at work: the machine may be busy with other things.
fn cpu_seconds() -> f64 {
    let nanoseconds = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    nanoseconds.split(' ').next().and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
