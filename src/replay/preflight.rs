//! What an endpoint can do, found out before anything is measured.
//!
//! Invariant: three small requests at most; what is missing is named, and what makes a run pointless is an error.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use super::call::{Setup, retry_after};
use super::endpoint::{Answer, Ask, Counts};
use super::prompt::{ChatMessage, Form, PromptForm};
use super::transport::{Call, Piece, Transport, TransportError};
use crate::tokenize::Role;
use crate::wire::Sse;

/// Before a run nobody wants to wait longer.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Tokens that the probe asks for.
const PROBED: u32 = 4;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of its own")]
pub struct Preflight {
    /// Whether `/v1/models` lists the model; none if there is no such list.
    pub lists_model: Option<bool>,
    /// Whether the answer came in events.
    pub streams: bool,
    /// Whether the prompt's tokens are counted.
    pub counts_tokens: bool,
    /// Whether cached tokens are reported.
    pub reports_cached: bool,
    /// Whether the answer had the length asked for; none if nothing was counted.
    pub forces_length: Option<bool>,
    /// Whether the fields that force lengths were refused.
    pub refuses_fields: bool,
}

/// Why a run would be pointless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// Nothing answers.
    #[error("the endpoint does not answer")]
    Transport(#[source] TransportError),
    /// It answers, but not with an answer.
    #[error("the endpoint answers a small request with status {0}")]
    Status(u16),
    /// It lists models, and not this one.
    #[error("the endpoint does not list the model")]
    NoModel,
    /// What it answers is not an answer of the API.
    #[error("the endpoint's answer is not one of this API")]
    NotThisApi,
}

impl Preflight {
    /// Asks the endpoint.
    ///
    /// # Errors
    /// Where a run would be pointless.
    pub async fn ask<T: Transport>(transport: &T, setup: &Setup, form: Form) -> Result<Self, PreflightError> {
        let mut found = Self { lists_model: models(transport, setup).await?, ..Self::default() };
        if found.lists_model == Some(false) {
            return Err(PreflightError::NoModel);
        }
        let prompt = small(form);
        let ask = |exact| Ask { model: &setup.model, max_tokens: PROBED, stream: true, exact };
        let mut exact = setup.exact && setup.endpoint.forces_lengths();
        let mut first = probe(transport, setup, &prompt, &ask(exact)).await?;
        if matches!(first.status, 400 | 422) && exact {
            (exact, found.refuses_fields) = (false, true);
            first = probe(transport, setup, &prompt, &ask(exact)).await?;
        }
        if first.status != 200 {
            return Err(PreflightError::Status(first.status));
        }
        if !first.whole {
            return Err(PreflightError::NotThisApi);
        }
        // Some servers report cached tokens only where there are any.
        let second = probe(transport, setup, &prompt, &ask(exact)).await?;
        found.streams = first.streams;
        found.counts_tokens = first.counts.prompt.is_some();
        found.reports_cached = second.counts.cached.is_some();
        found.forces_length = first.counts.output.map(|output| output == u64::from(PROBED));
        Ok(found)
    }

    /// What is missing, in words.
    pub fn missing(&self, wants_exact: bool) -> Vec<&'static str> {
        let mut missing = Vec::new();
        let mut say = |is: bool, what| missing.extend(is.then_some(what));
        say(self.lists_model.is_none(), "there is no list of models to check the model's name against");
        say(!self.streams, "answers do not come in events: there is no time to first token and between tokens");
        say(!self.counts_tokens, "tokens are not counted: prompt lengths and time between tokens cannot be checked");
        say(
            !self.reports_cached,
            "cached tokens are not reported: the hit ratio can only be planned or counted by the server",
        );
        say(wants_exact && self.refuses_fields, "fields that force answer lengths are refused and left out");
        say(
            wants_exact && !self.refuses_fields && self.forces_length == Some(false),
            "answer lengths cannot be forced: answers may be shorter than recorded",
        );
        missing
    }
}

/// How a prompt was answered.
pub(super) struct Probed {
    pub(super) status: u16,
    streams: bool,
    whole: bool,
    pub(super) counts: Counts,
}

fn small(form: Form) -> PromptForm {
    let text = "one two three four five six seven eight ".repeat(40);
    match form {
        Form::Chat => PromptForm::Chat(vec![ChatMessage { role: Role::User, content: text.into() }]),
        Form::Text => PromptForm::Text(text.into()),
        Form::Tokens => PromptForm::Tokens((100..400).collect()),
    }
}

/// Sends one prompt; again after a while, as often as the setup allows, while the server is too busy.
pub(super) async fn probe<T: Transport>(
    transport: &T,
    setup: &Setup,
    prompt: &PromptForm,
    ask: &Ask<'_>,
) -> Result<Probed, PreflightError> {
    let mut attempts = 0;
    loop {
        let (probed, wait) = probe_once(transport, setup, prompt, ask).await?;
        attempts += 1;
        let busy = probed.status == 429 || (probed.status >= 500 && wait.is_some());
        if !busy || attempts > setup.retries {
            return Ok(probed);
        }
        tokio::time::sleep(wait.unwrap_or(Duration::from_secs(1)).min(LONGEST_WAIT)).await;
    }
}

async fn probe_once<T: Transport>(
    transport: &T,
    setup: &Setup,
    prompt: &PromptForm,
    ask: &Ask<'_>,
) -> Result<(Probed, Option<Duration>), PreflightError> {
    let body = setup.endpoint.body(ask, prompt).ok_or(PreflightError::NotThisApi)?;
    let mut headers = headers(setup);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let call = Call { path: setup.endpoint.path().to_owned(), headers, body: Some(body) };
    let (mut status, mut streams, mut sse, mut whole, mut wait) = (0, false, Sse::new(), Vec::new(), None);
    let mut answer = Answer::new(false);
    let mut each = |piece: Piece<'_>| match piece {
        Piece::Head(code, headers) => {
            (status, wait) = (code, retry_after(headers));
            streams = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        }
        Piece::Body(bytes) if streams => sse.push(bytes, |event| {
            setup.endpoint.event(event.data, &mut answer);
        }),
        Piece::Body(bytes) => whole.extend_from_slice(bytes),
        Piece::Again => {}
    };
    transport.send(call, &mut each).await.map_err(PreflightError::Transport)?;
    if !streams {
        setup.endpoint.whole(&whole, &mut answer);
    }
    Ok((Probed { status, streams, whole: answer.whole, counts: answer.counts() }, wait))
}

/// Whether `/v1/models` lists the model.
async fn models<T: Transport>(transport: &T, setup: &Setup) -> Result<Option<bool>, PreflightError> {
    #[derive(serde::Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(serde::Deserialize)]
    struct Model {
        id: String,
    }
    let (mut status, mut body) = (0, Vec::new());
    let mut each = |piece: Piece<'_>| match piece {
        Piece::Head(code, _) => status = code,
        Piece::Body(bytes) => body.extend_from_slice(bytes),
        Piece::Again => {}
    };
    let call = Call { path: "/v1/models".to_owned(), headers: headers(setup), body: None };
    transport.send(call, &mut each).await.map_err(PreflightError::Transport)?;
    let list = serde_json::from_slice::<List>(&body).ok().filter(|_| status == 200);
    Ok(list.map(|list| list.data.iter().any(|model| model.id == setup.model)))
}

fn headers(setup: &Setup) -> HeaderMap {
    let mut headers = setup.headers.clone();
    for (name, value) in setup.endpoint.headers() {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    headers
}
