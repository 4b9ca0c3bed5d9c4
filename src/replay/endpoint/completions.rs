//! OpenAI completions: one text, or token ids.
//!
//! Invariant: as the module's.

use super::openai::{Rest, read};
use super::{Answer, Ask, Endpoint};
use crate::replay::chunks::{Chunks, Writer};
use crate::replay::prompt::PromptForm;

/// `/v1/completions`.
pub(super) struct Completions;

impl Endpoint for Completions {
    fn name(&self) -> &'static str {
        "completions"
    }

    fn path(&self) -> &'static str {
        "/v1/completions"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Chunks> {
        let mut writer = Writer::default();
        writer.raw("{\"prompt\":");
        match prompt {
            PromptForm::Text(text) => writer.text(text)?,
            PromptForm::Tokens(tokens) => writer.json(tokens)?,
            PromptForm::Chat(_) => return None,
        }
        writer.rest(&Rest::new(ask))
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
