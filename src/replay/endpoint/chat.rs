//! OpenAI chat completions.
//!
//! Invariant: as the module's.

use super::openai::{Rest, read};
use super::{Answer, Ask, Endpoint, messages};
use crate::replay::chunks::Chunks;
use crate::replay::prompt::PromptForm;

/// `/v1/chat/completions`.
pub(super) struct Chat;

impl Endpoint for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn path(&self) -> &'static str {
        "/v1/chat/completions"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Chunks> {
        messages("messages", prompt)?.rest(&Rest::new(ask))
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
