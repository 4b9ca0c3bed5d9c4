//! From a request to its response: the paths, the checks, the faults.
//!
//! Invariant: an error body says which part of a request is wrong, never what it holds.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::api::{self, Api, Call, Refused, Said};
use super::body::{Answer, Broken, GARBAGE, PAUSE, Stream, due};
use super::fault::Fault;
use super::model::Job;
use super::record::{Arrival, HEADERS};
use super::shared::Shared;

/// The largest body that is read.
const MAX_BODY: usize = 256 << 20;

/// Answers a request. An error resets the connection.
pub(super) async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Answer>, Broken> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if head.method == Method::GET {
        return Ok(get(&shared, path));
    }
    let api = api::at(path);
    let error = |status, message: &str| {
        let body = api.map_or_else(|| api::at("/v1/completions"), Some).map(|api| api.error(status, message));
        json(status, body.unwrap_or_default())
    };
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        return Ok(error(413, "the body is too large, or broke off"));
    };
    let body = body.to_bytes();
    let told = match (path, api) {
        (_, Some(api)) => return answer(shared, api, &head.headers, &body).await,
        ("/reset_prefix_cache" | "/flush_cache", _) => {
            shared.reset_cache();
            Ok(String::new())
        }
        ("/tokenize" | "/v1/tokenize", _) => api::tokenize(&body, &shared.counter).map(|tokens| {
            format!(
                r#"{{"count":{},"max_model_len":{},"tokens":{tokens:?}}}"#,
                tokens.len(),
                shared.options.max_model_len
            )
        }),
        ("/v1/messages/count_tokens", _) => {
            api::count_messages(&body, &shared.counter).map(|count| format!(r#"{{"input_tokens":{count}}}"#))
        }
        _ => return Ok(error(404, "there is nothing at this path")),
    };
    Ok(told.map_or_else(|Refused(why)| error(400, why), |body| json(200, body)))
}

fn get(shared: &Shared, path: &str) -> Response<Answer> {
    let model = &shared.options.model;
    match path {
        "/health" | "/ping" => json(200, String::new()),
        "/version" => json(200, format!(r#"{{"version":"{}"}}"#, env!("CARGO_PKG_VERSION"))),
        "/v1/models" | "/models" => {
            let model = serde_json::to_string(model).unwrap_or_default();
            let length = shared.options.max_model_len;
            json(
                200,
                format!(
                    r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":0,"owned_by":"tracecloak","max_model_len":{length}}}]}}"#
                ),
            )
        }
        "/metrics" => {
            let label: String = model.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
            let mut response = json(200, shared.metrics(&label));
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        _ => json(404, r#"{"error":{"message":"there is nothing at this path","code":404}}"#.to_owned()),
    }
}

fn json(status: u16, body: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Some(Bytes::from(body)).filter(|body| !body.is_empty())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Answers a request for a completion.
async fn answer(
    shared: Arc<Shared>,
    api: &'static dyn Api,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response<Answer>, Broken> {
    let options = &shared.options;
    let number = shared.number();
    let fault = options.faults.draw(options.seed, number);
    let refuse = |status: u16, why: &str| {
        shared.failed();
        let mut response = json(status, api.error(status, why));
        if matches!(status, 429 | 503 | 529) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(options.retry_after.as_secs()));
        }
        Ok(response)
    };
    if !options.refuse.is_empty() && has_field(body, &options.refuse) {
        return refuse(422, "Extra inputs are not permitted");
    }
    let call = match api.read(body, &shared.counter, options.imitate) {
        Ok(call) => call,
        Err(Refused(why)) => return refuse(400, why),
    };
    let prompt_tokens = u32::try_from(call.tokens.len()).unwrap_or(u32::MAX);
    let seed = length_seed(&call, options.seed);
    let output_tokens = output_tokens(&call, seed, options.mean_output);
    let (words, tokens) = shared.counter.answer(seed, output_tokens);
    let (hashes, prompt_blocks) = shared.counter.blocks(&call.tokens, &tokens);
    if shared.records() {
        let named = HEADERS.iter().copied().chain(options.record_headers.iter().map(String::as_str));
        shared.record(&Arrival {
            number,
            at: shared.clock.now(),
            api: api.name(),
            stream: call.stream,
            input_tokens: prompt_tokens,
            output_tokens,
            blocks: hashes.get(..prompt_blocks).unwrap_or_default(),
            headers: named.filter_map(|name| Some((name, headers.get(name)?.to_str().ok()?))).collect(),
            fault: fault.map(Fault::word),
        });
    }
    if prompt_tokens == 0 {
        return refuse(400, "the prompt is empty");
    }
    match fault {
        Some(Fault::Status(status)) => return refuse(status, "on purpose"),
        Some(Fault::Reset) => {
            shared.failed();
            return Err(Broken);
        }
        _ => {}
    }
    if u64::from(prompt_tokens) + u64::from(call.max_tokens.unwrap_or(1)) > u64::from(options.max_model_len) {
        return refuse(400, "the prompt and max_tokens are longer than this model's maximum context length");
    }
    let job = Job { prompt_tokens, output_tokens, hashes, prompt_blocks };
    let cacheable_tokens =
        u32::try_from(job.prompt_blocks).unwrap_or(u32::MAX).saturating_mul(options.timing.block_size);
    let Some(mut ticket) = shared.enter(number, job) else {
        return refuse(400, "the prompt and its answer are longer than the KV cache");
    };
    let mut said = Said {
        number,
        by_length: call.max_tokens.is_some_and(|limit| limit <= output_tokens),
        model: if call.model == "\"\"" {
            serde_json::to_string(&options.model).unwrap_or_default()
        } else {
            call.model
        },
        imitate: options.imitate,
        include_usage: call.include_usage,
        prompt_tokens,
        cached_tokens: None,
        cacheable_tokens,
        output_tokens,
        prefill: std::time::Duration::ZERO,
    };
    if call.stream {
        let mut response = Response::new(Answer::Stream(Box::new(Stream::new(ticket, api, said, words, fault))));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        return Ok(response);
    }
    let Some(started) = poll_fn(|context| ticket.poll_start(context)).await else { return Err(Broken) };
    let first_token = due(started, fault, options.slow_start);
    said.prefill = first_token.saturating_sub(shared.clock.now());
    said.cached_tokens = options.report_cached.then_some(started.cached_tokens);
    shared.clock.sleep_until(first_token).await;
    ticket.sent(1);
    let rest = options.timing.per_output_token.saturating_mul(output_tokens.saturating_sub(1));
    shared.clock.sleep_until(first_token + rest).await;
    let body = api.whole(&said, &words.concat());
    match fault {
        Some(Fault::Stall) => std::future::pending().await,
        Some(Fault::Cut) => {
            let half = Bytes::copy_from_slice(body.as_bytes().get(..body.len() / 2).unwrap_or_default());
            let mut response = json(200, String::new());
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            *response.body_mut() =
                Answer::Half(Some(half), Box::pin(shared.clock.sleep_until(shared.clock.now() + PAUSE)));
            return Ok(response);
        }
        _ => {}
    }
    ticket.sent(output_tokens);
    ticket.end(said.by_length);
    let mut response = json(200, body);
    if fault == Some(Fault::Garbage) {
        *response.body_mut() = Answer::Whole(Some(Bytes::from_static(GARBAGE)));
    }
    Ok(response)
}

/// Whether a body has one of these fields.
fn has_field(body: &[u8], fields: &[String]) -> bool {
    serde_json::from_slice::<HashMap<String, &RawValue>>(body)
        .is_ok_and(|body| fields.iter().any(|field| body.contains_key(field)))
}

/// Decides an answer: the prompt's length and its last tokens, under the server's seed.
fn length_seed(call: &Call, seed: u64) -> u64 {
    let last = call.tokens.iter().rev().take(32);
    let bytes: Vec<u8> = last.flat_map(|token| token.to_le_bytes()).chain(call.tokens.len().to_le_bytes()).collect();
    xxh3_64_with_seed(&bytes, seed)
}

/// The length of an answer: forced, or as the model would have it within the limits.
fn output_tokens(call: &Call, seed: u64, mean: u32) -> u32 {
    let natural = u32::try_from(seed % (2 * u64::from(mean.max(1)))).unwrap_or(0) + 1;
    let limit = call.max_tokens.unwrap_or(u32::MAX);
    let wanted = match call.max_tokens {
        Some(limit) if call.ignore_eos => limit,
        _ => natural.max(call.min_tokens),
    };
    wanted.min(limit).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_forced_or_lies_within_the_limits() {
        let call = |max_tokens, min_tokens, ignore_eos| Call { max_tokens, min_tokens, ignore_eos, ..Call::default() };
        for seed in 0..200 {
            assert_eq!(output_tokens(&call(Some(500), 0, true), seed, 100), 500);
            assert_eq!(output_tokens(&call(Some(500), 500, false), seed, 100), 500);
            assert!((1..=50).contains(&output_tokens(&call(Some(50), 0, false), seed, 100)));
            assert!((1..=200).contains(&output_tokens(&call(None, 0, false), seed, 100)));
        }
    }

    #[test]
    fn a_refused_field_is_found_at_the_top_only() {
        let refuse = ["ignore_eos".to_owned()];
        assert!(has_field(br#"{"a":[1],"ignore_eos":true}"#, &refuse));
        assert!(!has_field(br#"{"a":{"ignore_eos":true}}"#, &refuse));
    }
}
