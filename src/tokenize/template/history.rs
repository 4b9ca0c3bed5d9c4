//! Does a template leave what it wrote alone? Found by rendering probes.
//!
//! Invariant: only the rendered text of probes is compared, without the generation prompt, which is no part of the history.

use super::super::{Block, Content, Message, Prompt, Role};
use super::guard::Guard;
use super::{ChatTemplate, messages};

/// Whether the prompt of each turn begins with that of the turn before; none where the template refuses such prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// When answers are text.
    pub text: Option<bool>,
    /// When answers think before they speak. `false` for templates that drop earlier reasoning, such as Qwen3's.
    pub thinking: Option<bool>,
    /// When answers call tools.
    pub tools: Option<bool>,
}

impl ChatTemplate {
    /// How this template treats history.
    pub fn history(&self) -> History {
        let text = || Block::Content(Content::Text("said".into()));
        let call = || Block::ToolUse { name: "probecall", input: r#"{"probekey":"probevalue"}"# };
        let result = || Block::ToolResult(vec![Content::Text("proberesult".into())]);
        let thought = || Block::Thinking("thought");
        let talk = || (vec![text()], text());
        // Reasoning is dropped, if at all, once the user speaks again after a round of calls.
        let thinking = [(vec![thought(), call()], result()), (vec![thought(), text()], text()), talk()];
        History {
            text: self.extends(&[talk(), talk()]),
            thinking: self.extends(&thinking).or_else(|| self.extends(&[(vec![thought(), text()], text()), talk()])),
            tools: self.extends(&[(vec![call()], result()), (vec![call()], result()), talk()]),
        }
    }

    /// Whether the prompts of a conversation of these answers and replies begin with one another.
    fn extends(&self, turns: &[(Vec<Block<'static>>, Block<'static>)]) -> Option<bool> {
        let calls = turns.iter().any(|(_, reply)| matches!(reply, Block::ToolResult(_)));
        let tools = if calls { messages::probe().tools } else { Vec::new() };
        let asked = Message { role: Role::User, blocks: vec![Block::Content(Content::Text("asked".into()))] };
        let mut prompt = Prompt { tools, system: Vec::new(), messages: vec![asked] };
        let mut before = self.probed(&prompt)?;
        let mut extends = true;
        for (answer, reply) in turns {
            prompt.messages.push(Message { role: Role::Assistant, blocks: answer.clone() });
            prompt.messages.push(Message { role: Role::User, blocks: vec![reply.clone()] });
            let after = self.probed(&prompt)?;
            extends &= after.starts_with(&before);
            before = after;
        }
        Some(extends)
    }

    fn probed(&self, prompt: &Prompt<'_>) -> Option<String> {
        let mut guard = Guard::new(self.tokenizer.specials());
        self.render(prompt, self.shape, false, &mut guard).ok().map(|text| text.to_string())
    }
}
