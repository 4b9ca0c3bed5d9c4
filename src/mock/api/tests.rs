//! The bodies that each API reads, and what its answers say.
//!
//! Invariant: every answer and every event is JSON.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::mock::options::Counting;

fn counter() -> Counter {
    Counter::new(&Counting::Words, 16).unwrap()
}

fn read(path: &str, body: &str) -> Result<Call, Refused> {
    at(path).unwrap().read(body.as_bytes(), &counter(), Imitate::Vllm)
}

fn said(imitate: Imitate) -> Said {
    Said {
        number: 7,
        model: "\"m\"".to_owned(),
        imitate,
        include_usage: true,
        prompt_tokens: 100,
        cached_tokens: Some(64),
        cacheable_tokens: 96,
        output_tokens: 2,
        by_length: true,
        prefill: Duration::from_millis(9),
    }
}

/// The events of a streamed answer of two words.
fn streamed(path: &str, imitate: Imitate) -> Vec<Value> {
    let (api, said, mut out) = (at(path).unwrap(), said(imitate), String::new());
    api.open(&said, &mut out);
    api.piece(&said, " one", true, &mut out);
    api.piece(&said, " two", false, &mut out);
    api.close(&said, " one two", &mut out);
    out.split("\n\n")
        .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::from(data)))
        .collect()
}

#[test]
fn a_conversation_means_the_same_in_every_api() {
    let chat = read(
        "/v1/chat/completions",
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"a b c"}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"1","content":"done"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{}}}],
            "stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"ignore_eos":true,"min_tokens":9}"#,
    )
    .unwrap();
    let responses = read(
        "/v1/responses",
        r#"{"model":"m","instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"a b c"}]},
            {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"done"}],
            "tools":[{"type":"function","name":"f","description":"d","parameters":{}}],"stream":true,"max_output_tokens":9,"ignore_eos":true,"min_tokens":9}"#,
    )
    .unwrap();
    let messages = read(
        "/v1/messages",
        r#"{"model":"m","max_tokens":9,"stream":true,"system":"be brief","messages":[{"role":"user","content":"a b c"},
            {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"done"}]}],
            "tools":[{"name":"f","description":"d","input_schema":{}}],"ignore_eos":true}"#,
    )
    .unwrap();
    assert_eq!(chat.tokens, responses.tokens);
    assert_eq!(chat.tokens, messages.tokens);
    assert_eq!((chat.max_tokens, chat.ignore_eos, chat.min_tokens, chat.stream), (Some(9), true, 9, true));
    assert_eq!((responses.max_tokens, responses.ignore_eos), (Some(9), true));
    assert_eq!((messages.max_tokens, messages.ignore_eos), (Some(9), false), "no engine forces lengths here");
}

#[test]
fn a_text_completion_takes_text_or_token_ids() {
    let tokens = |prompt: &str| {
        read("/v1/completions", &format!(r#"{{"model":"m","prompt":{prompt}}}"#)).map(|call| call.tokens)
    };
    assert_eq!(tokens("[5,6,7]"), Ok(vec![5, 6, 7]));
    assert_eq!(tokens("[[5,6,7]]"), Ok(vec![5, 6, 7]));
    assert_eq!(tokens(r#""a b""#), tokens(r#"["a b"]"#));
    assert_eq!(tokens(r#""a b""#).unwrap().len(), 2);
    assert!(tokens(r#"["a","b"]"#).is_err() && tokens("[[[1]]]").is_err() && tokens("1").is_err());
}

#[test]
fn a_body_of_another_form_is_refused_without_a_word_of_it() {
    for (path, body) in [
        ("/v1/chat/completions", r#"{"messages":"sk-secret"}"#),
        ("/v1/chat/completions", r#"{"messages":[{"role":"sk-secret","content":"x"}]}"#),
        ("/v1/responses", r#"{"input":{"sk-secret":1}}"#),
        ("/v1/responses", r#"{"input":"x","previous_response_id":"sk-secret"}"#),
        ("/v1/messages", r#"{"messages":[],"model":"sk-secret"}"#),
        ("/v1/completions", "sk-secret"),
    ] {
        let Refused(why) = read(path, body).unwrap_err();
        assert!(!why.contains("sk-secret"), "{path}");
        assert!(serde_json::from_str::<Value>(&at(path).unwrap().error(400, why)).is_ok());
    }
}

#[test]
fn every_whole_answer_says_its_usage() {
    for (path, cached) in [
        ("/v1/chat/completions", "/usage/prompt_tokens_details/cached_tokens"),
        ("/v1/completions", "/usage/prompt_tokens_details/cached_tokens"),
        ("/v1/responses", "/usage/input_tokens_details/cached_tokens"),
        ("/v1/messages", "/usage/cache_read_input_tokens"),
    ] {
        for imitate in [Imitate::Vllm, Imitate::LlamaCpp, Imitate::Dynamo] {
            let whole: Value = serde_json::from_str(&at(path).unwrap().whole(&said(imitate), " one two")).unwrap();
            assert_eq!(whole.pointer(cached), Some(&Value::from(64)), "{path}");
        }
    }
}

#[test]
fn usage_stands_in_a_stream_where_the_engine_puts_it() {
    let chat = |imitate| streamed("/v1/chat/completions", imitate);
    let vllm = chat(Imitate::Vllm);
    assert_eq!(vllm[0]["choices"][0]["delta"], serde_json::json!({"role":"assistant","content":""}));
    assert_eq!(vllm[1]["choices"][0]["delta"], serde_json::json!({"content":" one"}));
    assert_eq!(vllm[3]["choices"][0]["finish_reason"], "length");
    assert_eq!((&vllm[4]["choices"], &vllm[4]["usage"]["prompt_tokens"]), (&serde_json::json!([]), &Value::from(100)));
    assert_eq!(vllm[5], "[DONE]");
    let dynamo = chat(Imitate::Dynamo);
    assert_eq!(dynamo[0]["choices"][0]["delta"], serde_json::json!({"role":"assistant","content":" one"}));
    assert_eq!(dynamo[2]["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
    assert_eq!(chat(Imitate::LlamaCpp)[3]["timings"]["prompt_n"], 36);

    let messages = |imitate| streamed("/v1/messages", imitate);
    let vllm = messages(Imitate::Vllm);
    assert_eq!(vllm[0]["message"]["usage"]["input_tokens"], 100, "the whole prompt");
    assert_eq!(
        vllm[5]["usage"],
        serde_json::json!({"input_tokens":4,"cache_creation_input_tokens":32,"cache_read_input_tokens":64,"output_tokens":2})
    );
    let llama = messages(Imitate::LlamaCpp);
    assert_eq!(
        llama[0]["message"]["usage"],
        serde_json::json!({"input_tokens":36,"cache_read_input_tokens":64,"output_tokens":0})
    );
    assert_eq!(llama[5]["usage"], serde_json::json!({"output_tokens":2}));
    assert_eq!(messages(Imitate::Dynamo).last().unwrap(), "[DONE]");
}

#[test]
fn a_responses_stream_ends_with_the_whole_response() {
    let events = streamed("/v1/responses", Imitate::Vllm);
    assert_eq!(events[0]["response"]["status"], "in_progress");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], " one two");
    assert_eq!(last["response"]["usage"]["input_tokens_details"]["cached_tokens"], 64);
}

#[test]
fn tokenize_takes_text_and_conversations() {
    let tokens = |body: &str| tokenize(body.as_bytes(), &counter()).map(|tokens| tokens.len());
    assert_eq!(tokens(r#"{"prompt":"a b c"}"#), Ok(3));
    assert_eq!(tokens(r#"{"content":"a b c"}"#), Ok(3));
    assert_eq!(tokens(r#"{"messages":[{"role":"user","content":"a b c"}]}"#), Ok(5));
    assert!(tokens("{}").is_err());
}
