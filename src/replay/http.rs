//! [`Transport`] over HTTP/1.1: plain or TLS, connections kept and used again.
//!
//! Invariant: a proxy is used only if the caller names one; a name or address is never part of an error. A request is sent again
//! only if it met a connection that the server had just closed.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header::{HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::chunks::Chunks;
use super::route::{Answered, Proxies, Route};
use super::transport::{Call, Piece, Transport, TransportError};

/// Servers that close idle connections do so after 5 seconds and up; ours are given up before.
const KEEP_IDLE: Duration = Duration::from_secs(4);

/// A kept connection that the server has closed shows that at once. What fails later may have been worked on.
const STALE: Duration = Duration::from_millis(100);

/// An endpoint by its base URL.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client<HttpsConnector<Route>, Chunks>,
    base: String,
    idle: Duration,
    /// What a proxy is told of the user.
    user: Option<HeaderValue>,
}

/// How an endpoint is reached.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The most time until there is a connection.
    pub connect: Duration,
    /// The most time in which nothing comes.
    pub idle: Duration,
    /// Proxies on the way.
    pub proxies: Proxies,
    /// Certificates (PEM) that are trusted in place of the system's.
    pub trusted: Option<Vec<u8>>,
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
    /// No certificate is in what is to be trusted.
    #[error("the file of certificates holds none in PEM form, or one that cannot be used")]
    Trusted,
}

impl Http {
    /// A client for the endpoint at `url`, with or without `/v1` at its end.
    ///
    /// # Errors
    /// If the URL is of another form, or there are no certificates for TLS.
    pub fn new(url: &str, reach: &Reach) -> Result<Self, UrlError> {
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
        connector.set_connect_timeout(Some(reach.connect));
        let (route, user) = Route::new(connector, &uri, &reach.proxies);
        let provider = rustls::crypto::ring::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let builder = if secure && reach.trusted.is_none() {
            builder.with_provider_and_native_roots(provider).map_err(|_| UrlError::Certificates)?
        } else {
            let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(|_| UrlError::Certificates)?
                .with_root_certificates(roots(reach.trusted.as_deref())?)
                .with_no_client_auth();
            builder.with_tls_config(config)
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(route);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP_IDLE)
            .build(connector);
        Ok(Self { client, base, idle: reach.idle, user })
    }
}

/// The certificates in a PEM text.
fn roots(trusted: Option<&[u8]>) -> Result<rustls::RootCertStore, UrlError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.unwrap_or_default()) {
        roots.add(certificate.map_err(|_| UrlError::Trusted)?).map_err(|_| UrlError::Trusted)?;
    }
    if trusted.is_some() && roots.is_empty() { Err(UrlError::Trusted) } else { Ok(roots) }
}

impl Transport for Http {
    async fn send(&self, call: Call, each: &mut (dyn FnMut(Piece<'_>) + Send)) -> Result<(), TransportError> {
        let Call { path, mut headers, body } = call;
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.unwrap_or_default();
        if let Some(user) = &self.user {
            headers.insert(PROXY_AUTHORIZATION, user.clone());
        }
        let timed = |_| TransportError::IdleTimeout;
        let (head, mut body) = loop {
            let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
            let mut request = request.body(body.clone()).map_err(|_| TransportError::Protocol)?;
            request.headers_mut().clone_from(&headers);
            let connection = capture_connection(&mut request);
            let sent = tokio::time::Instant::now();
            let answer = tokio::time::timeout(self.idle, self.client.request(request)).await.map_err(timed)?;
            let answered = answered(&connection);
            match answer.map_err(|error| reason(&error)) {
                Ok(answer) => {
                    answered.store(true, Ordering::Relaxed);
                    break answer.into_parts();
                }
                // The server closed the connection of an earlier answer while it was taken for this request.
                Err(TransportError::Closed) if answered.load(Ordering::Relaxed) && sent.elapsed() < STALE => {
                    each(Piece::Again);
                }
                Err(error) => return Err(error),
            }
        };
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

/// Whether a request's connection has brought an answer before.
fn answered(connection: &CaptureConnection) -> Arc<AtomicBool> {
    let mut extras = hyper::http::Extensions::new();
    if let Some(connected) = connection.connection_metadata().as_ref() {
        connected.get_extras(&mut extras);
    }
    extras.remove::<Answered>().unwrap_or_default().0
}

/// Which part failed.
fn reason(error: &Error) -> TransportError {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<rustls::Error>() {
            return TransportError::Tls;
        }
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return match cause.kind() {
                _ if holds_tls(cause) => TransportError::Tls,
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

/// Whether an error of TLS stands in this one, however often it was wrapped.
fn holds_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>() || inner.downcast_ref::<io::Error>().is_some_and(holds_tls))
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

    fn reach(idle: Duration) -> Reach {
        Reach { connect: LONG, idle, proxies: Proxies::default(), trusted: None }
    }

    fn call() -> Call {
        Call { path: "/v1/x".to_owned(), headers: HeaderMap::new(), body: Some("{}".to_owned().into()) }
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
            Piece::Again => {}
        };
        let result = Http::new(url, &reach(idle)).unwrap().send(call(), &mut each).await;
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

    #[tokio::test]
    async fn a_server_that_closes_kept_connections_loses_no_request() {
        // As llama.cpp does after each stream, though it says keep-alive.
        let url = serve(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false);
        let http = Http::new(&url, &reach(LONG)).unwrap();
        let mut again = 0;
        for _ in 0..50 {
            let mut each = |piece: Piece<'_>| again += u32::from(matches!(piece, Piece::Again));
            assert_eq!(http.send(call(), &mut each).await, Ok(()));
        }
        assert!(again < 50, "each is sent again at most once");
    }

    #[test]
    fn a_url_is_a_scheme_a_host_and_at_most_a_path() {
        for url in ["http://a", "http://a:8000/v1", "https://a/gateway/v1/"] {
            assert!(Http::new(url, &reach(LONG)).is_ok(), "{url}");
        }
        for url in ["", "a:8000", "ftp://a", "http://", "http://a/?x=1", "file:///a"] {
            assert_eq!(Http::new(url, &reach(LONG)).unwrap_err(), UrlError::Form, "{url}");
        }
        let base = |url| Http::new(url, &reach(LONG)).unwrap().base;
        assert_eq!(base("http://a:8000/v1/"), "http://a:8000");
        assert_eq!(base("http://a/gateway/v1"), "http://a/gateway");
    }

    async fn status(url: &str, reach: &Reach) -> Result<u16, TransportError> {
        let mut status = 0;
        let mut each = |piece: Piece<'_>| {
            if let Piece::Head(code, _) = piece {
                status = code;
            }
        };
        Http::new(url, reach).unwrap().send(call(), &mut each).await?;
        Ok(status)
    }

    /// A TLS server on loopback whose certificate the test authority signed; its port.
    fn secure(address: &str) -> u16 {
        use rustls::pki_types::PrivateKeyDer;
        let chain =
            CertificateDer::pem_slice_iter(include_bytes!("../../fixtures/tls/server.pem")).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../fixtures/tls/server.key")).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.unwrap(), key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = rustls::StreamOwned::new(session, stream);
                // A client that does not trust the certificate closes the connection.
                if stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok();
                }
            }
        });
        port
    }

    /// A proxy that tells what it was asked and answers 203, or connects as asked; gives its address and what it saw.
    fn proxy() -> (String, std::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                let tunnel = head.starts_with("CONNECT ");
                tell.send(head).unwrap();
                if !tunnel {
                    stream.write_all(b"HTTP/1.1 203 Proxied\r\ncontent-length: 0\r\n\r\n").unwrap();
                    continue;
                }
                let behind = std::net::TcpStream::connect(target).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut there, mut back) = (stream.try_clone().unwrap(), behind.try_clone().unwrap());
                std::thread::spawn(move || io::copy(&mut there, &mut &behind).ok());
                std::thread::spawn(move || io::copy(&mut back, &mut stream).ok());
            }
        });
        (address, told)
    }

    #[tokio::test]
    async fn a_private_authority_is_trusted_only_if_it_is_named() {
        let url = format!("https://127.0.0.1:{}", secure("127.0.0.1"));
        let trusted = Some(include_bytes!("../../fixtures/tls/ca.pem").to_vec());
        let mine = Reach { trusted, ..reach(LONG) };
        assert_eq!(status(&url, &mine).await, Ok(204));
        let unnamed = format!("https://127.0.0.2:{}", secure("127.0.0.2"));
        assert_eq!(status(&unnamed, &mine).await, Err(TransportError::Tls));
        let other = Some(include_bytes!("../../fixtures/tls/server.pem").to_vec());
        assert_eq!(status(&url, &Reach { trusted: other, ..reach(LONG) }).await, Err(TransportError::Tls));
        let none = Reach { trusted: Some(b"nothing".to_vec()), ..reach(LONG) };
        assert_eq!(Http::new(&url, &none).unwrap_err(), UrlError::Trusted);
    }

    #[tokio::test]
    async fn plain_requests_are_sent_to_the_proxy_and_secure_ones_through_it() {
        let (address, told) = proxy();
        let proxy = format!("http://me:secret@{address}");
        let proxies = Proxies { http: proxy.clone(), https: proxy, except: "127.0.0.3".to_owned() };
        let trusted = Some(include_bytes!("../../fixtures/tls/ca.pem").to_vec());
        let reach = Reach { proxies, trusted, ..reach(LONG) };
        assert_eq!(status("http://endpoint.invalid:8000/v1", &reach).await, Ok(203));
        let head = told.recv().unwrap();
        assert!(head.starts_with("POST http://endpoint.invalid:8000/v1/x HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("proxy-authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
        let port = secure("127.0.0.1");
        assert_eq!(status(&format!("https://127.0.0.1:{port}"), &reach).await, Ok(204));
        let head = told.recv().unwrap().to_ascii_lowercase();
        assert!(head.starts_with(&format!("connect 127.0.0.1:{port} http/1.1\r\n")), "{head}");
        assert!(head.contains("proxy-authorization: basic "), "{head}");
        assert_eq!(status("http://127.0.0.3:1", &reach).await, Err(TransportError::Connect), "nobody is there");
        assert!(told.try_recv().is_err());
    }
}
