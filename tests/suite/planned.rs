//! What a prompt is planned to find in a cache is what the prompts sent before it really have in common with it.

use proptest::prelude::*;
use tracecloak::replay::PromptSource;
use tracecloak::replay::prompt::{
    Answer, Calibration, Form, History, Prompt as Made, PromptError, PromptForm, PromptSynthesizer, Sample, Setup,
    TreeBase,
};
use tracecloak::replay::source::Planner;
use tracecloak::tokenize::{Block, Content, Layout, Message, Prompt, Tokenizer};
use tracecloak::trace::vocab::Scope;

use super::prompts::{
    CHANNELS, FORGETFUL, MARKED, Shape, THINKING, TIGHT, TRIMMED, cache, grown, shapes, synthesizer, template,
};

/// Two prompts that part may still have so many of the template's own tokens in common; a plan may leave them out.
const TEMPLATE: u32 = 16;

/// The rendered tokens of a prompt.
fn rendered(layout: &mut dyn Layout, form: &PromptForm) -> Vec<u32> {
    let messages = match form {
        PromptForm::Chat(messages) => messages,
        PromptForm::Tokens(tokens) => return tokens.clone(),
        PromptForm::Text(_) => unreachable!(),
    };
    let messages = messages.iter().map(|message| Message {
        role: message.role,
        blocks: vec![Block::Content(Content::Text((&*message.content).into()))],
    });
    layout.lay(&Prompt { messages: messages.collect(), ..Prompt::default() }).unwrap().tokens
}

/// Sends what `sends` says, in order; gives for each request sent what was planned, what is true, and the template's head.
fn sent(
    form: Form,
    source: &str,
    shapes: &[Vec<Shape>],
    block_size: u32,
    scope: Scope,
    sends: &[bool],
) -> Vec<(u32, u32, u32)> {
    let sessions = grown(shapes, block_size);
    let made = synthesizer(template(source), block_size, form).unwrap();
    let head = made.head_tokens();
    let mut planner = Planner::new(made, scope, false, 0);
    let mut flags = sends.iter().copied().cycle();
    let flags: Vec<Vec<bool>> =
        sessions.iter().map(|session| flags.by_ref().take(session.requests.len()).collect()).collect();
    for (session, flags) in sessions.iter().zip(&flags) {
        planner.add(session, Some(flags)).unwrap();
    }
    if planner.wants_all() {
        planner.all(&sessions).unwrap();
    }
    let prompts = planner.finish();
    let (mut before, mut found, mut layout) = (Vec::<Vec<u32>>::new(), Vec::new(), template(source));
    for (at, flags) in (0..).zip(&flags) {
        for (row, _) in (0..).zip(flags).filter(|(_, sent)| **sent) {
            // Too short for the template: there is no prompt.
            let Ok(prompt) = prompts.prompt(at, row) else { continue };
            let tokens = rendered(&mut *layout, &prompt.form);
            let common = |other: &Vec<u32>| other.iter().zip(&tokens).take_while(|(one, two)| one == two).count();
            let most = before.iter().map(common).max().unwrap_or(0);
            found.push((prompt.planned_shared, u32::try_from(most).unwrap(), head));
            before.push(tokens);
        }
    }
    found
}

/// A plan is never more than what is true, and at most so many tokens less.
fn check(found: &[(u32, u32, u32)], slack: u32) -> Result<(), String> {
    let off = found.iter().position(|&(planned, most, head)| {
        // What all prompts begin with is no plan.
        planned > most.max(head) || (most > head && most - planned.min(most) > slack)
    });
    off.map_or(Ok(()), |at| Err(format!("prompt {at} of {found:?}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_plan_is_the_longest_prefix_of_all_that_was_sent_before(
        shapes in shapes(),
        block_size in prop_oneof![Just(16u32), Just(64)],
        sends in prop_oneof![2 => Just(vec![true]), 1 => prop::collection::vec(prop::bool::weighted(0.8), 1..12)],
    ) {
        for (name, source) in [("marked", MARKED), ("trimmed", TRIMMED), ("channels", CHANNELS), ("tight", TIGHT), ("thinking", THINKING), ("forgetful", FORGETFUL)] {
            for scope in [Scope::Session, Scope::Dataset] {
                let checked = check(&sent(Form::Chat, source, &shapes, block_size, scope, &sends), TEMPLATE);
                prop_assert!(checked.is_ok(), "{} {:?}: {:?}", name, scope, checked);
            }
        }
        let checked = check(&sent(Form::Tokens, MARKED, &shapes, block_size, Scope::Session, &sends), TEMPLATE);
        prop_assert!(checked.is_ok(), "tokens: {:?}", checked);
    }
}

/// The second request grows by less than the template's own tokens, so what is sent of it parts earlier than the trace says. The
/// third goes on with the second by the trace, and shares more with the first.
#[test]
fn behind_a_request_that_was_too_small_the_best_predecessor_is_the_one_before() {
    let shapes = [vec![(0, 0, 160, 10, false), (0, u32::MAX, 3, 10, true), (0, u32::MAX, 200, 10, true)]];
    let found = sent(Form::Chat, MARKED, &shapes, 16, Scope::Session, &[true]);
    assert!(found.iter().all(|(planned, most, _)| planned == most || *most <= found[0].2), "{found:?}");
    assert!(found[1].0 < 160 && found[2].0 == 160, "{found:?}");
}

/// Cases that were found: the end of the template is shared by who goes on behind it, and a prompt may be sent again as it was.
#[test]
fn the_templates_own_tokens_count_where_prompts_share_them() {
    const ALL: u32 = u32::MAX;
    let short = [(0, ALL, 0, 0, false); 3];
    let growing = [(0, ALL, 67, 0, false), (0, 1, 3, 0, false), (0, ALL, 1, 0, true), (0, ALL, 0, 0, true)];
    let shapes = [[&short[..], &growing, &[(0, ALL, 5, 10, true), (0, ALL, 53, 32, true)]].concat()];
    assert_eq!(check(&sent(Form::Chat, CHANNELS, &shapes, 64, Scope::Session, &[true]), 0), Ok(()));
    let small = [(0, ALL, 0, 0, false), (0, ALL, 0, 0, false), (0, ALL, 2, 0, false), (0, ALL, 0, 0, false)];
    let long = [(0, ALL, 62, 0, false), (0, ALL, 13, 0, false), (0, ALL, 0, 0, false), (0, ALL, 16, 37, false)];
    let shapes = [[&small[..], &long, &[(0, ALL, 10, 18, false)]].concat()];
    let sends = [false, false, true, true, true, true, true, false, true];
    assert_eq!(check(&sent(Form::Chat, CHANNELS, &shapes, 64, Scope::Session, &sends), 0), Ok(()));
    let same = [(0, ALL, 32, 0, false), (0, ALL, 0, 0, false), (0, ALL, 17, 0, false), (0, 3, 1, 0, false)];
    let shapes = [[&same[..], &[(1, ALL, 0, 0, false), (1, ALL, 0, 0, false), (2, 3, 1, 0, false)]].concat()];
    for source in [TIGHT, MARKED, CHANNELS] {
        assert_eq!(check(&sent(Form::Chat, source, &shapes, 16, Scope::Session, &[true]), 0), Ok(()));
    }
}

/// The prompts of all requests in order, some of which were answered; `alone` makes each in a tree of its own, in which nothing
/// was made before.
fn made(
    made: &mut PromptSynthesizer,
    shapes: &[Vec<Shape>],
    answers: &[Option<u8>],
    alone: bool,
) -> Vec<Result<Made, PromptError>> {
    let (sessions, mut prompts) = (grown(shapes, 16), Vec::new());
    let mut base = TreeBase::default();
    for session in &sessions {
        let begin = base;
        let mut tree = made.tree(&mut base, [session]).unwrap();
        let mut said: Vec<(u64, String)> = Vec::new();
        for (row, answer) in tree.requests().zip(answers.iter().cycle()) {
            if alone {
                tree = made.tree(&mut { begin }, [session]).unwrap();
                for (row, text) in &said {
                    made.answered(&mut tree, *row, &Answer { text, tokens: None });
                }
            }
            prompts.push(made.prompt(&tree, row));
            if let Some(words) = answer {
                let text = vec!["\"yes\""; usize::from(*words)].join(" ");
                made.answered(&mut tree, row, &Answer { text: &text, tokens: None });
                said.push((row, text));
            }
        }
    }
    prompts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_made_before_changes_no_prompt(shapes in shapes(), answers in prop::collection::vec(prop::option::of(0u8..70), 1..6)) {
        let tokenizer = Tokenizer::builtin().unwrap();
        let setup = |form, history| Setup { form, history, cache_dir: Some(cache()), ..Setup::new(16) };
        for (form, history) in [(Form::Chat, History::Synthetic), (Form::Chat, History::Generated), (Form::Text, History::Generated)] {
            for source in [MARKED, THINKING] {
                let mut one = PromptSynthesizer::new(&tokenizer, template(source), setup(form, history)).unwrap();
                prop_assert_eq!(made(&mut one, &shapes, &answers, false), made(&mut one, &shapes, &answers, true));
            }
        }
        // Fewer words than tokens: where the words of a block stand depends on those before.
        let sample = |(answers, words)| Sample { answers, words, counted: 8 + 10 * answers + words + words / 3 };
        let fit = Calibration::fit(&[(0, 20), (0, 1000), (1, 90), (3, 500)].map(sample)).unwrap();
        let mut one = PromptSynthesizer::calibrated(&fit, setup(Form::Chat, History::Synthetic)).unwrap();
        prop_assert_eq!(made(&mut one, &shapes, &answers, false), made(&mut one, &shapes, &answers, true));
    }
}
