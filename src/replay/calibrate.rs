//! Lengths without the endpoint's tokenizer: prompts that it counts itself, and a fit to its counts.
//!
//! Invariant: `/tokenize` is believed only where it agrees with what the API itself says of a prompt.

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;

use super::call::Setup;
use super::chunks::Writer;
use super::endpoint::{Ask, messages};
use super::preflight::{PreflightError, probe};
use super::prompt::{Calibration, Form, PromptForm, Sample, probes};
use super::transport::{Call, Piece, Transport};

/// Why lengths cannot be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrateError {
    /// The endpoint broke off.
    #[error(transparent)]
    Endpoint(#[from] PreflightError),
    /// It does not count, or its counts do not grow with the prompt.
    #[error("the endpoint's counts of prompt tokens do not tell how long its tokens are")]
    NoFit,
}

/// Has prompts counted, and fits lengths to them. A prompt that the endpoint refuses, as one that is too long for it, is left out.
///
/// # Errors
/// Where the endpoint does not answer, or its counts fit nothing.
pub async fn calibrate<T: Transport>(transport: &T, setup: &Setup, form: Form) -> Result<Calibration, CalibrateError> {
    let (mut samples, mut believed) = (Vec::new(), None);
    for (mut messages, sample) in probes(form == Form::Chat).map_err(|_| CalibrateError::NoFit)? {
        let prompt = match form {
            Form::Chat => PromptForm::Chat(messages),
            _ => PromptForm::Text(messages.pop().map(|message| message.content).unwrap_or_default()),
        };
        let tokenized = if believed == Some(false) { None } else { tokenize(transport, setup, &prompt).await };
        let counted = match tokenized {
            Some(counted) if believed == Some(true) => Some(counted),
            _ => {
                let ask = Ask { model: &setup.model, max_tokens: 1, stream: true, exact: false };
                let probed = probe(transport, setup, &prompt, &ask).await?;
                let counted = probed.counts.prompt.filter(|_| probed.status == 200);
                believed = counted.map(|counted| tokenized == Some(counted)).or(believed);
                counted
            }
        };
        samples.extend(
            counted.and_then(|counted| u32::try_from(counted).ok()).map(|counted| Sample { counted, ..sample }),
        );
    }
    Calibration::fit(&samples).ok_or(CalibrateError::NoFit)
}

/// What `/tokenize` counts, where there is one that knows the prompt's form.
async fn tokenize<T: Transport>(transport: &T, setup: &Setup, prompt: &PromptForm) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Counted {
        count: u64,
    }
    #[derive(Serialize)]
    struct Rest<'a> {
        model: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        add_generation_prompt: Option<bool>,
    }
    let model = &setup.model;
    let body = match prompt {
        PromptForm::Text(text) => {
            let mut writer = Writer::default();
            writer.raw("{\"prompt\":");
            writer.text(text)?;
            writer.rest(&Rest { model, add_generation_prompt: None })?
        }
        _ => messages("messages", prompt)?.rest(&Rest { model, add_generation_prompt: Some(true) })?,
    };
    let mut headers: HeaderMap = setup.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let call = Call { path: "/tokenize".to_owned(), headers, body: Some(body) };
    let (mut status, mut whole) = (0, Vec::new());
    let mut each = |piece: Piece<'_>| match piece {
        Piece::Head(code, _) => status = code,
        Piece::Body(bytes) => whole.extend_from_slice(bytes),
        Piece::Again => {}
    };
    transport.send(call, &mut each).await.ok()?;
    serde_json::from_slice::<Counted>(&whole).ok().filter(|_| status == 200).map(|counted| counted.count)
}
