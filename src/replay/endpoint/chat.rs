//! OpenAI chat completions.
//!
//! Invariant: as the module's.

use serde::Serialize;

use super::openai::{Rest, read};
use super::{Answer, Ask, Endpoint, Turn, json, turns};
use crate::replay::prompt::PromptForm;

/// `/v1/chat/completions`.
pub(super) struct Chat;

#[derive(Serialize)]
struct Body<'a> {
    messages: Vec<Turn<'a>>,
    #[serde(flatten)]
    rest: Rest<'a>,
}

impl Endpoint for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn path(&self) -> &'static str {
        "/v1/chat/completions"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Vec<u8>> {
        json(prompt, &Body { messages: turns(prompt)?, rest: Rest::new(ask) })
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
