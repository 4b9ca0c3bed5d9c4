//! [`Transport`] over HTTP/1.1: plain or TLS, connections kept and used again.
//!
//! Invariant: no proxy is used unless the URL is one's; a name or address is never part of an error.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::transport::{Call, Piece, Transport, TransportError};

/// Servers that close idle connections do so after 5 seconds and up; ours are given up before.
const KEEP_IDLE: Duration = Duration::from_secs(4);

/// An endpoint by its base URL.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    idle: Duration,
}

/// A base URL that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not `http://host[:port][/path]`.
    #[error("the URL must be http:// or https://, a host, and at most a path")]
    Form,
    /// The system's certificates cannot be read.
    #[error("the certificates of the system cannot be read")]
    Certificates,
}

impl Http {
    /// A client for the endpoint at `url`, with or without `/v1` at its end. `connect` bounds the time until there is a
    /// connection, `idle` the time in which nothing comes.
    ///
    /// # Errors
    /// If the URL is of another form, or the system has no certificates for TLS.
    pub fn new(url: &str, connect: Duration, idle: Duration) -> Result<Self, UrlError> {
        let base = url.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| UrlError::Form)?;
        if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(UrlError::Form);
        }
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError::Form),
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect));
        let provider = rustls::crypto::ring::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let builder = if secure {
            builder.with_provider_and_native_roots(provider).map_err(|_| UrlError::Certificates)?
        } else {
            let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(|_| UrlError::Certificates)?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder.with_tls_config(config)
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP_IDLE)
            .build(connector);
        Ok(Self { client, base, idle })
    }
}

impl Transport for Http {
    async fn send(&self, call: Call, each: &mut (dyn FnMut(Piece<'_>) + Send)) -> Result<(), TransportError> {
        let Call { path, headers, body } = call;
        let method = if body.is_some() { "POST" } else { "GET" };
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let mut request = request.body(Full::new(body.unwrap_or_default())).map_err(|_| TransportError::Protocol)?;
        *request.headers_mut() = headers;
        let timed = |_| TransportError::IdleTimeout;
        let sent = tokio::time::timeout(self.idle, self.client.request(request)).await.map_err(timed)?;
        let (head, mut body) = sent.map_err(|error| reason(&error))?.into_parts();
        each(Piece::Head(head.status.as_u16(), &head.headers));
        while let Some(frame) = tokio::time::timeout(self.idle, body.frame()).await.map_err(timed)? {
            let frame = frame.map_err(|error| broken(&error))?;
            if let Some(bytes) = frame.data_ref() {
                each(Piece::Body(bytes));
            }
        }
        Ok(())
    }
}

/// Which part failed.
fn reason(error: &Error) -> TransportError {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<rustls::Error>() {
            return TransportError::Tls;
        }
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            let tls = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some();
            return match cause.kind() {
                _ if tls => TransportError::Tls,
                io::ErrorKind::TimedOut if error.is_connect() => TransportError::ConnectTimeout,
                _ if error.is_connect() => TransportError::Connect,
                _ => TransportError::Closed,
            };
        }
        if let Some(cause) = cause.downcast_ref::<hyper::Error>() {
            return broken(cause);
        }
        source = cause.source();
    }
    if error.is_connect() { TransportError::Connect } else { TransportError::Closed }
}

fn broken(error: &hyper::Error) -> TransportError {
    if error.is_parse() { TransportError::Protocol } else { TransportError::Closed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const LONG: Duration = Duration::from_secs(20);

    fn call() -> Call {
        Call { path: "/v1/x".to_owned(), headers: HeaderMap::new(), body: Some(Bytes::from_static(b"{}")) }
    }

    /// A server that answers each connection with these bytes and closes it; `hold` keeps it open instead.
    fn serve(answer: &'static [u8], hold: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer).unwrap();
                if hold {
                    held.push(stream);
                }
            }
        });
        url
    }

    async fn send(url: &str, idle: Duration) -> (Result<(), TransportError>, u16, Vec<u8>) {
        let (mut status, mut body) = (0, Vec::new());
        let mut each = |piece: Piece<'_>| match piece {
            Piece::Head(code, _) => status = code,
            Piece::Body(bytes) => body.extend_from_slice(bytes),
        };
        let result = Http::new(url, LONG, idle).unwrap().send(call(), &mut each).await;
        (result, status, body)
    }

    #[tokio::test]
    async fn pieces_come_in_order_and_breaks_are_told_apart() {
        let whole = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false);
        assert_eq!(send(&whole, LONG).await, (Ok(()), 200, b"ok".to_vec()));
        let cut = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", false);
        assert_eq!(send(&cut, LONG).await, (Err(TransportError::Closed), 200, b"ok".to_vec()));
        let nothing = serve(b"", false);
        assert_eq!(send(&nothing, LONG).await.0, Err(TransportError::Closed));
        let garbage = serve(b"\0\x01garbage\r\n\r\n", false);
        assert_eq!(send(&garbage, LONG).await.0, Err(TransportError::Protocol));
        let stalled = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", true);
        assert_eq!(send(&stalled, Duration::from_millis(20)).await.0, Err(TransportError::IdleTimeout));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(send(&format!("http://{closed}"), LONG).await.0, Err(TransportError::Connect));
    }

    #[test]
    fn a_url_is_a_scheme_a_host_and_at_most_a_path() {
        for url in ["http://a", "http://a:8000/v1", "https://a/gateway/v1/"] {
            assert!(Http::new(url, LONG, LONG).is_ok(), "{url}");
        }
        for url in ["", "a:8000", "ftp://a", "http://", "http://a/?x=1", "file:///a"] {
            assert_eq!(Http::new(url, LONG, LONG).unwrap_err(), UrlError::Form, "{url}");
        }
        let base = |url| Http::new(url, LONG, LONG).unwrap().base;
        assert_eq!(base("http://a:8000/v1/"), "http://a:8000");
        assert_eq!(base("http://a/gateway/v1"), "http://a/gateway");
    }
}
