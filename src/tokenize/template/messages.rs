//! A prompt as a chat template expects it: message dicts and OpenAI function tools.
//!
//! Invariant: the dicts of a message follow from it and the messages before it alone. The texts of a message are joined by
//! line breaks; tool results go before the user's own text; calls get ids by their number, since a prompt has none.

use std::collections::VecDeque;

use minijinja::Value;

use super::super::{Block, Content, Message, Prompt, Role, Tool};
use super::guard::Guard;

/// How a call is passed to a template.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    /// Arguments as JSON text instead of an object.
    text_arguments: bool,
    /// `content` is none instead of empty where a message only calls tools.
    no_content: bool,
}

impl Shape {
    /// In order of preference.
    pub(super) const ALL: [Self; 4] = [
        Self { text_arguments: false, no_content: false },
        Self { text_arguments: false, no_content: true },
        Self { text_arguments: true, no_content: false },
        Self { text_arguments: true, no_content: true },
    ];
}

const PROBE: [&str; 4] = ["probecall", "probekey", "probevalue", "proberesult"];

/// A prompt with a call that only calls, and its result.
pub(super) fn probe() -> Prompt<'static> {
    let text = |text: &'static str| Content::Text(text.into());
    let call = Block::ToolUse { name: "probecall", input: r#"{"probekey":"probevalue"}"# };
    let message = |role, block| Message { role, blocks: vec![block] };
    Prompt {
        tools: vec![Tool { name: "probecall", description: "", schema: r#"{"type":"object","properties":{}}"# }],
        system: Vec::new(),
        messages: vec![
            message(Role::User, Block::Content(text("question"))),
            message(Role::Assistant, call),
            message(Role::User, Block::ToolResult(vec![text("proberesult")])),
        ],
    }
}

/// Whether a rendered probe shows all of the call and its result.
pub(super) fn probe_shown(text: &str) -> bool {
    PROBE.iter().all(|word| text.contains(word))
}

/// The tools as OpenAI function tools.
pub(super) fn tools(prompt: &Prompt<'_>, guard: &Guard<'_>) -> Value {
    let tool = |tool: &Tool<'_>| {
        let function = [
            ("name", text(tool.name, guard)),
            ("description", text(tool.description, guard)),
            ("parameters", json(tool.schema, guard)),
        ];
        Value::from_iter([("type", Value::from("function")), ("function", Value::from_iter(function))])
    };
    prompt.tools.iter().map(tool).collect()
}

/// The system prompt and the messages as dicts.
pub(super) fn messages(prompt: &Prompt<'_>, shape: Shape, guard: &mut Guard<'_>) -> Value {
    let mut dicts = Dicts { out: Vec::new(), open: VecDeque::new(), calls: 0, shape, guard };
    if !prompt.system.is_empty() {
        let text = dicts.joined(&prompt.system);
        dicts.push("system", [("content", text)]);
    }
    for message in &prompt.messages {
        match message.role {
            Role::System => dicts.plain("system", message),
            Role::User => dicts.plain("user", message),
            Role::Assistant => dicts.assistant(message),
        }
    }
    dicts.out.into()
}

struct Dicts<'a, 'b> {
    out: Vec<Value>,
    /// Ids and names of the calls without a result so far.
    open: VecDeque<(String, Value)>,
    calls: usize,
    shape: Shape,
    guard: &'a mut Guard<'b>,
}

impl Dicts<'_, '_> {
    fn push(&mut self, role: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) {
        self.out.push(std::iter::once(("role", Value::from(role))).chain(fields).collect());
    }

    fn joined<'c, 'd: 'c>(&mut self, contents: impl IntoIterator<Item = &'c Content<'d>>) -> Value {
        let mut out = String::new();
        for (n, content) in contents.into_iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            match content {
                Content::Text(text) => self.guard.text(text, &mut out),
                Content::Media { key, tokens } => self.guard.media(*key, *tokens, &mut out),
            }
        }
        out.into()
    }

    /// What a message says beside thinking, calls and results.
    fn said(&mut self, message: &Message<'_>) -> Option<Value> {
        let contents: Vec<_> = message
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Content(content) => Some(content.clone()),
                Block::Other(json) => Some(Content::Text((*json).into())),
                _ => None,
            })
            .collect();
        (!contents.is_empty()).then(|| self.joined(&contents))
    }

    fn plain(&mut self, role: &str, message: &Message<'_>) {
        for block in &message.blocks {
            if let Block::ToolResult(contents) = block {
                let content = self.joined(contents);
                let (id, name) = self.open.pop_front().unwrap_or_default();
                self.push("tool", [("content", content), ("tool_call_id", id.into()), ("name", name)]);
            }
        }
        let only_results = message.blocks.iter().any(|block| matches!(block, Block::ToolResult(_)));
        match self.said(message) {
            None if only_results => {}
            said => self.push(role, [("content", said.unwrap_or_else(|| "".into()))]),
        }
    }

    fn assistant(&mut self, message: &Message<'_>) {
        let mut thinking = Vec::new();
        let mut calls = Vec::new();
        for block in &message.blocks {
            match block {
                Block::Thinking(text) => thinking.push(Content::Text((*text).into())),
                Block::ToolUse { name, input } => calls.push(self.call(name, input)),
                _ => {}
            }
        }
        let said = self.said(message);
        let none = if self.shape.no_content && !calls.is_empty() { Value::from(()) } else { "".into() };
        let mut fields = vec![("content", said.unwrap_or(none))];
        if !thinking.is_empty() {
            fields.push(("reasoning_content", self.joined(&thinking)));
        }
        if !calls.is_empty() {
            fields.push(("tool_calls", calls.into()));
        }
        self.push("assistant", fields);
    }

    fn call(&mut self, name: &str, input: &str) -> Value {
        // Nine digits: what the strictest template (Mistral's) takes for an id.
        let id = format!("{:09}", self.calls);
        self.calls += 1;
        let name = text(name, self.guard);
        self.open.push_back((id.clone(), name.clone()));
        let arguments = if self.shape.text_arguments { text(input, self.guard) } else { json(input, self.guard) };
        let function = Value::from_iter([("name", name), ("arguments", arguments)]);
        Value::from_iter([("type", Value::from("function")), ("id", id.into()), ("function", function)])
    }
}

fn text(text: &str, guard: &Guard<'_>) -> Value {
    let mut out = String::with_capacity(text.len());
    guard.text(text, &mut out);
    out.into()
}

/// JSON as a value whose strings are guarded; what is not JSON is a string.
fn json(source: &str, guard: &Guard<'_>) -> Value {
    serde_json::from_str::<Value>(source).map_or_else(|_| text(source, guard), |value| guarded(&value, guard))
}

fn guarded(value: &Value, guard: &Guard<'_>) -> Value {
    use minijinja::value::ValueKind;
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::String => text(value.as_str().unwrap_or_default(), guard),
        ValueKind::Seq => items().map(|item| guarded(&item, guard)).collect(),
        ValueKind::Map => items()
            .map(|key| (guarded(&key, guard), guarded(&value.get_item(&key).unwrap_or_default(), guard)))
            .collect(),
        _ => value.clone(),
    }
}
