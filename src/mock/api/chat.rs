//! OpenAI chat completions.
//!
//! Invariant: system messages that lead are the system prompt; later ones stay where they are.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::openai::{self, Function, NOT_JSON};
use super::{Api, Call, Refused, Said, data};
use crate::mock::options::Imitate;
use crate::mock::tokens::Counter;
use crate::tokenize::{Block, Content, Message, Prompt, Role, Token};

pub(super) struct Chat;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Vec<Turn<'a>>,
    #[serde(borrow, default)]
    tools: Option<Vec<Defined<'a>>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    min_tokens: Option<u32>,
    #[serde(default)]
    ignore_eos: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Called<'a>>>,
}

#[derive(Deserialize)]
struct Called<'a> {
    #[serde(borrow)]
    function: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Defined<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

/// The tokens of a body's conversation.
pub(super) fn tokens(body: &[u8], counter: &Counter) -> Result<Vec<Token>, Refused> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
    lay(&body, counter)
}

fn lay(body: &Body<'_>, counter: &Counter) -> Result<Vec<Token>, Refused> {
    let mut prompt =
        Prompt { tools: body.tools.iter().flatten().map(|tool| tool.function.tool()).collect(), ..Prompt::default() };
    let thoughts: Vec<Option<Cow<'_, str>>> =
        body.messages.iter().map(|turn| turn.reasoning_content.and_then(openai::text)).collect();
    for (turn, thought) in body.messages.iter().zip(&thoughts) {
        let role = match &*turn.role {
            "system" | "developer" => Role::System,
            "assistant" => Role::Assistant,
            "user" | "tool" | "function" => Role::User,
            _ => return Err(Refused("a message has an unknown role")),
        };
        if role == Role::System && prompt.messages.is_empty() {
            prompt.system.extend(openai::contents(turn.content)?);
            continue;
        }
        let mut blocks: Vec<Block<'_>> = thought.iter().map(|text| Block::Thinking(text)).collect();
        if matches!(&*turn.role, "tool" | "function") {
            blocks.push(Block::ToolResult(openai::contents(turn.content)?));
        } else {
            blocks.extend(openai::blocks(turn.content)?);
        }
        blocks.retain(|block| !matches!(block, Block::Content(Content::Text(text)) if text.is_empty()));
        let calls = turn.tool_calls.iter().flatten().map(|call| &call.function);
        blocks.extend(calls.map(|call| Block::ToolUse { name: &call.name, input: &call.arguments }));
        prompt.messages.push(Message { role, blocks });
    }
    openai::lay(&prompt, counter)
}

impl Api for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn read(&self, body: &[u8], counter: &Counter, imitate: Imitate) -> Result<Call, Refused> {
        let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
        let bare = |turn: &Turn<'_>| turn.content.is_none() && turn.tool_calls.is_some();
        if imitate == Imitate::Dynamo && body.messages.iter().any(bare) {
            return Err(Refused("Invalid request"));
        }
        Ok(Call {
            tokens: lay(&body, counter)?,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.is_some_and(|options| options.include_usage),
            max_tokens: body.max_completion_tokens.or(body.max_tokens),
            min_tokens: body.min_tokens.unwrap_or(0),
            ignore_eos: body.ignore_eos.unwrap_or(false),
            model: openai::model(body.model),
        })
    }

    fn whole(&self, said: &Said, text: &str) -> String {
        format!(
            r#"{{"id":"chatcmpl-{}","object":"chat.completion","created":0,"model":{},"choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"logprobs":null,"finish_reason":"{}"}}],"usage":{}{}}}"#,
            said.number,
            said.model,
            openai::finish_reason(said),
            openai::usage(said),
            openai::timings(said),
        )
    }

    fn open(&self, said: &Said, out: &mut String) {
        match said.imitate {
            Imitate::Vllm => chunk(said, r#"{"role":"assistant","content":""}"#, "null", "", out),
            Imitate::LlamaCpp => chunk(said, r#"{"role":"assistant","content":null}"#, "null", "", out),
            Imitate::Dynamo => {}
        }
    }

    fn piece(&self, said: &Said, text: &str, first: bool, out: &mut String) {
        let role = if first && said.imitate == Imitate::Dynamo { r#""role":"assistant","# } else { "" };
        chunk(said, &format!(r#"{{{role}"content":"{text}"}}"#), "null", "", out);
    }

    fn close(&self, said: &Said, _: &str, out: &mut String) {
        let finish = format!(r#""{}""#, openai::finish_reason(said));
        let usage = format!(r#","usage":{}"#, openai::usage(said));
        match said.imitate {
            Imitate::Dynamo => chunk(said, "{}", &finish, &usage, out),
            Imitate::LlamaCpp => chunk(said, "{}", &finish, &openai::timings(said), out),
            Imitate::Vllm => chunk(said, "{}", &finish, "", out),
        }
        if said.include_usage && said.imitate != Imitate::Dynamo {
            data(
                &format!(
                    r#"{{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":0,"model":{},"choices":[]{usage}}}"#,
                    said.number, said.model,
                ),
                out,
            );
        }
        data("[DONE]", out);
    }
}

fn chunk(said: &Said, delta: &str, finish: &str, rest: &str, out: &mut String) {
    let chunk = format!(
        r#"{{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":0,"model":{},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]{rest}}}"#,
        said.number, said.model,
    );
    data(&chunk, out);
}
