//! OpenAI completions: one text, or token ids.
//!
//! Invariant: as the module's.

use serde::Serialize;

use super::openai::{Rest, read};
use super::{Answer, Ask, Endpoint, json};
use crate::replay::prompt::PromptForm;

/// `/v1/completions`.
pub(super) struct Completions;

#[derive(Serialize)]
struct Body<'a> {
    prompt: Prompt<'a>,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Prompt<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

impl Endpoint for Completions {
    fn name(&self) -> &'static str {
        "completions"
    }

    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Vec<u8>> {
        let sent = match prompt {
            PromptForm::Text(text) => Prompt::Text(text),
            PromptForm::Tokens(tokens) => Prompt::Tokens(tokens),
            PromptForm::Chat(_) => return None,
        };
        json(prompt, &Body { prompt: sent, rest: Rest::new(ask) })
    }

    fn event(&self, data: &[u8], answer: &mut Answer) -> bool {
        read(data, answer)
    }

    fn whole(&self, data: &[u8], answer: &mut Answer) {
        read(data, answer);
    }

    fn forces_lengths(&self) -> bool {
        true
    }
}
