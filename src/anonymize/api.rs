//! Which API an exchange speaks, and requests that go on from an earlier response of theirs.
//!
//! Invariant: a request that names a response before it is read with all that came before, or not at all.

use std::collections::HashMap;

use super::key::{Tag, Tagger};
use crate::capture::{Body, Exchange, ResponseBody, SkipReason, Text};
use crate::wire::anthropic::Answer;
use crate::wire::openai_responses;

/// The API that an exchange speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Messages,
    CountTokens,
    Chat,
    Responses,
}

impl Api {
    /// The API that an exchange speaks; none for one that is not read.
    pub(super) fn of(exchange: &Exchange) -> Option<Self> {
        let path = exchange.path.as_str()?;
        let path = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
        let posted = exchange.method.is_empty() || exchange.method.as_bytes().eq_ignore_ascii_case(b"POST");
        match () {
            () if !posted => None,
            () if path.ends_with("/v1/messages") => Some(Self::Messages),
            () if path.ends_with("/v1/messages/count_tokens") => Some(Self::CountTokens),
            () if path.ends_with("/chat/completions") => Some(Self::Chat),
            () if path.ends_with("/responses") => Some(Self::Responses),
            () => None,
        }
    }
}

/// Of the Responses API: each response's own items, and the response that it went on from.
#[derive(Default)]
pub(super) struct Responses(HashMap<Tag, (Option<Tag>, Text)>);

impl Responses {
    /// Whether an exchange goes on from a response that was not read yet: logs that were rotated may come newest first.
    pub(super) fn lacks(&self, exchange: &Exchange, tagger: &Tagger) -> bool {
        let from = match &exchange.body {
            Body::Bytes(body) if Api::of(exchange) == Some(Api::Responses) => {
                openai_responses::goes_on_from(body.as_bytes())
            }
            _ => None,
        };
        from.is_some_and(|id| !self.0.contains_key(&tagger.text(&id)))
    }

    /// The body of a Responses request with what came before the response that it goes on from. Its own items and those of its
    /// answer are kept for requests that go on from it.
    pub(super) fn whole(
        &mut self,
        exchange: &Exchange,
        body: Text,
        answer: &Answer,
        tagger: &Tagger,
    ) -> Result<Text, SkipReason> {
        let from = openai_responses::goes_on_from(body.as_bytes()).map(|id| tagger.text(&id));
        if let (ResponseBody::Pieces(pieces), true) = (&exchange.response, answer.whole && !answer.id.is_empty()) {
            let text: Vec<u8> = pieces.iter().flat_map(|piece| piece.text.as_bytes()).copied().collect();
            let own = openai_responses::input_items(body.as_bytes()).unwrap_or_default();
            let items = [own, openai_responses::output_items(&text)];
            let items: Vec<String> = items.into_iter().filter(|items| !items.is_empty()).collect();
            self.0.insert(tagger.text(&answer.id), (from, Text::from(items.join(","))));
        }
        if from.is_none() {
            return Ok(body);
        }
        let mut before = Vec::new();
        let mut next = from;
        while let Some(id) = next {
            // A log may say that responses go round in a circle.
            let known = self.0.get(&id).filter(|_| before.len() < 100_000);
            let (earlier, items) = known.ok_or(SkipReason::BodyLost)?;
            before.push(items.as_str().unwrap_or_default());
            next = *earlier;
        }
        before.reverse();
        openai_responses::continued(body.as_bytes(), &before).map(Text::from).ok_or(SkipReason::BadBody)
    }
}
