//! Events as engines send them, and the bodies that we send.
//!
//! Invariant: what is read is what engines were seen to send; nothing here does I/O.

use super::*;
use crate::replay::prompt::ChatMessage;

fn prompt() -> PromptForm {
    let message = |role, content: &str| ChatMessage { role, content: content.into() };
    PromptForm::Chat(vec![
        message(Role::System, "be brief"),
        message(Role::User, "one"),
        message(Role::Assistant, ""),
        message(Role::User, "two"),
    ])
}

fn ask(exact: bool) -> Ask<'static> {
    Ask { model: "m", max_tokens: 7, stream: true, exact }
}

fn json(name: &str, exact: bool, prompt: &PromptForm) -> serde_json::Value {
    serde_json::from_slice(&endpoint(name).unwrap().body(&ask(exact), prompt).unwrap().to_vec()).unwrap()
}

/// Which of these events carry content, and what the answer is after them.
fn read(name: &str, events: &[&str]) -> (Vec<bool>, Answer) {
    let mut answer = Answer::new(true);
    let content = events.iter().map(|data| endpoint(name).unwrap().event(data.as_bytes(), &mut answer)).collect();
    (content, answer)
}

fn counts(prompt: u64, cached: u64, output: u64) -> Counts {
    Counts { prompt: Some(prompt), cached: Some(cached), output: Some(output) }
}

#[test]
fn content_is_never_null_and_lengths_are_forced_where_the_api_can() {
    let chat = json("chat", true, &prompt());
    assert_eq!(chat["messages"][2], serde_json::json!({"role": "assistant", "content": ""}));
    assert_eq!((&chat["ignore_eos"], &chat["min_tokens"], &chat["max_tokens"]), (&true.into(), &7.into(), &7.into()));
    assert_eq!(chat["stream_options"]["include_usage"], true);
    assert!(json("chat", false, &prompt()).get("ignore_eos").is_none());
    let messages = json("messages", true, &prompt());
    assert_eq!((&messages["system"], messages["messages"].as_array().unwrap().len()), (&"be brief".into(), 3));
    assert!(messages.get("ignore_eos").is_none());
    assert_eq!(json("responses", true, &prompt())["input"].as_array().unwrap().len(), 4);
    let ids = PromptForm::Tokens(vec![5, 6]);
    assert_eq!(json("completions", true, &ids)["prompt"], serde_json::json!([5, 6]));
    assert_eq!(json("completions", true, &PromptForm::Text("a".into()))["prompt"], "a");
    assert!(endpoint("chat").unwrap().body(&ask(true), &ids).is_none());
}

#[test]
fn a_role_is_not_the_first_token_and_usage_comes_last() {
    let (content, answer) = read(
        "chat",
        &[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"hm"}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":"a\n"}}]}"#,
            r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "[DONE]",
        ],
    );
    assert_eq!(content, [false, true, true, true, false, false, false]);
    assert_eq!((answer.counts(), answer.whole, answer.text.as_deref()), (counts(9, 4, 3), true, Some("a\n")));
}

#[test]
fn usage_of_messages_is_merged_whoever_finishes_it() {
    let stop = r#"{"type":"message_stop"}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    // vLLM: the start states the whole prompt, the delta what was not cached.
    let (content, answer) = read(
        "messages",
        &[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":2004,"output_tokens":0}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            delta,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":84,"cache_read_input_tokens":1920,"output_tokens":5}}"#,
            stop,
            "[DONE]",
        ],
    );
    assert_eq!(content, [false, false, true, false, false, false]);
    assert_eq!((answer.counts(), answer.whole), (counts(2004, 1920, 5), true));
    // llama.cpp: input only at the start.
    let (_, answer) = read(
        "messages",
        &[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_read_input_tokens":93}}}"#,
            delta,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
            stop,
        ],
    );
    assert_eq!(answer.counts(), counts(100, 93, 5));
    // Dynamo: a cache read of 0 is left out.
    let (_, answer) = read("messages", &[r#"{"type":"message_delta","usage":{"input_tokens":7,"output_tokens":5}}"#]);
    assert_eq!((answer.counts(), answer.whole), (counts(7, 0, 5), false));
}

#[test]
fn responses_finish_with_their_usage() {
    let (content, answer) = read(
        "responses",
        &[
            r#"{"type":"response.created","response":{"status":"in_progress","usage":null}}"#,
            r#"{"type":"response.output_text.delta","delta":"a"}"#,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}}}}"#,
        ],
    );
    assert_eq!(content, [false, true, false]);
    assert_eq!((answer.counts(), answer.whole), (counts(9, 4, 3), true));
}

#[test]
fn members_of_another_type_cost_nothing_but_themselves() {
    // Gateways write counts as text, with a decimal point, or not at all; some make lists of texts.
    let finish =
        r#"{"choices":[{"delta":{"content":[{"type":"text"}],"tool_calls":{}},"finish_reason":"stop"}],"usage":"#;
    for (usage, expected) in [
        (
            r#"{"prompt_tokens":"9","completion_tokens":3.0,"prompt_tokens_details":{"cached_tokens":"4"}}"#,
            counts(9, 4, 3),
        ),
        (
            r#"{"prompt_tokens":9,"completion_tokens":null,"prompt_tokens_details":7}"#,
            Counts { prompt: Some(9), ..Counts::default() },
        ),
        (r#""none""#, Counts::default()),
        ("[]", Counts::default()),
    ] {
        let said = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
        let (content, answer) = read("chat", &[said, &format!("{finish}{usage}}}"), "[DONE]"]);
        assert_eq!(
            (answer.counts(), answer.whole, answer.unreadable, content[0]),
            (expected, true, 0, true),
            "{usage}"
        );
    }
    let (_, answer) = read(
        "messages",
        &[r#"{"type":"message_delta","usage":{"input_tokens":"7","cache_read_input_tokens":"2","output_tokens":5.0}}"#],
    );
    assert_eq!((answer.counts(), answer.unreadable), (counts(9, 2, 5), 0));
    let (_, answer) = read(
        "responses",
        &[
            r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":"9","output_tokens":{},"input_tokens_details":[]}}}"#,
        ],
    );
    assert_eq!((answer.counts().prompt, answer.counts().output, answer.whole), (Some(9), None, true));
}

#[test]
fn errors_and_garbage_are_no_answers() {
    for (name, event) in [
        ("chat", r#"{"error":{"message":"no"}}"#),
        ("messages", r#"{"type":"error","error":{"type":"overloaded_error"}}"#),
        ("responses", r#"{"type":"response.failed","response":{"status":"failed"}}"#),
    ] {
        let (content, answer) = read(name, &[event, "[DONE]"]);
        assert!(answer.error && !answer.whole && !content[0], "{name}");
    }
    for endpoint in ENDPOINTS {
        let mut answer = Answer::new(false);
        assert!(!endpoint.event(b"\xff{", &mut answer));
        endpoint.whole(b"[1", &mut answer);
        assert_eq!((answer.unreadable, answer.whole, answer.counts()), (2, false, Counts::default()));
    }
}

#[test]
fn whole_answers_are_read_like_streams() {
    let read = |name: &str, body: &str| {
        let mut answer = Answer::new(true);
        endpoint(name).unwrap().whole(body.as_bytes(), &mut answer);
        (answer.counts(), answer.whole, answer.text.unwrap())
    };
    let usage = r#""usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}"#;
    let chat = format!(r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"stop"}}],{usage}}}"#);
    assert_eq!(read("chat", &chat), (counts(9, 4, 3), true, "a".to_owned()));
    let text = format!(r#"{{"choices":[{{"text":"a","finish_reason":"stop"}}],{usage}}}"#);
    assert_eq!(read("completions", &text), (counts(9, 4, 3), true, "a".to_owned()));
    let messages = r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"cache_read_input_tokens":4,"output_tokens":3}}"#;
    assert_eq!(read("messages", messages), (counts(9, 4, 3), true, "a".to_owned()));
    let responses = r#"{"status":"completed","output":[{"content":[{"text":"a"}]}],"usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}}}"#;
    assert_eq!(read("responses", responses), (counts(9, 4, 3), true, "a".to_owned()));
}
