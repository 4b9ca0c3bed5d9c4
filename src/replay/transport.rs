//! One HTTP exchange, piece by piece.
//!
//! Invariant: the only async trait. An error says which part of the exchange failed, never what was sent or received.

use std::future::Future;

use hyper::HeaderMap;

use super::chunks::Chunks;

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Below the base URL, from its `/v1` on if it has one.
    pub path: String,
    /// Names and values.
    pub headers: HeaderMap,
    /// A body is posted; without one, the path is got.
    pub body: Option<Chunks>,
}

/// A piece of the response, as it comes.
#[derive(Debug)]
pub enum Piece<'a> {
    /// The status and the headers.
    Head(u16, &'a HeaderMap),
    /// Bytes of the body.
    Body(&'a [u8]),
    /// Before the head: the connection was closed as the request was sent, so it is sent again.
    Again,
}

/// Why an exchange broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection.
    #[error("cannot connect")]
    Connect,
    /// No connection in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// No TLS: a certificate or a version.
    #[error("no secure connection")]
    Tls,
    /// Nothing came for too long.
    #[error("nothing came for too long")]
    IdleTimeout,
    /// The connection closed before the response was whole.
    #[error("the connection closed too early")]
    Closed,
    /// What came is not HTTP.
    #[error("what came is not HTTP")]
    Protocol,
}

/// Sends requests.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request and gives each piece of the response as it comes. Dropping the future closes the connection.
    fn send(
        &self,
        call: Call,
        each: &mut (dyn FnMut(Piece<'_>) + Send),
    ) -> impl Future<Output = Result<(), TransportError>> + Send;
}
