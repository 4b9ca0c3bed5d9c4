//! How an exchange ended.
//!
//! Invariant: what the server said comes before what the recorder saw of the connection; nothing is taken for a failure that
//! nothing shows to be one.

use crate::capture::{Cut, Exchange, ResponseBody};
use crate::trace::vocab::Status;
use crate::wire::anthropic::Answer;

/// How the exchange ended, and whether it was cut without anybody having recorded on which side.
pub(super) fn status(exchange: &Exchange, answer: &Answer) -> (Status, bool) {
    let cut = || match exchange.cut {
        Some(Cut::Client) => (Status::ClientCancelled, false),
        Some(Cut::Upstream) => (Status::NetworkError, false),
        Some(Cut::Unknown) | None => (Status::ClientCancelled, true),
    };
    match exchange.status {
        None | Some(0) => match exchange.cut {
            Some(Cut::Client) => (Status::ClientCancelled, false),
            _ => (Status::NetworkError, false),
        },
        Some(529 | 503) => (Status::Overloaded, false),
        Some(429) => (Status::RateLimited, false),
        Some(500..) => (Status::ServerError, false),
        Some(400..) => (Status::ClientError, false),
        // A client hangs up once it has read an error event, so the error comes before the cut.
        Some(_) => match (&exchange.response, &*answer.error) {
            (_, "overloaded_error") => (Status::Overloaded, false),
            (_, "rate_limit_error") => (Status::RateLimited, false),
            (_, "") if exchange.cut.is_some() => cut(),
            (_, "") if answer.whole => (Status::Ok, false),
            // Nothing was kept of the answer, so nothing says that it failed.
            (ResponseBody::Lost | ResponseBody::Empty, "") => (Status::Ok, false),
            (_, "") => cut(),
            _ => (Status::ServerError, false),
        },
    }
}
