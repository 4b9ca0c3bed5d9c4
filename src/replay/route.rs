//! The way to an endpoint: straight, or through a proxy.
//!
//! Invariant: a proxy sees a plain request as it is sent to a proxy, and of a secure one only the name of the host (CONNECT). The
//! endpoint never sees what the proxy is told of the user.

use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// Which proxies a user has, as the usual environment variables name them; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://`.
    pub http: String,
    /// For `https://`.
    pub https: String,
    /// Hosts, domains and networks that are reached without.
    pub except: String,
}

/// Connects.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// To the endpoint itself.
    Direct(HttpConnector),
    /// To a proxy that is sent each request.
    Forward(HttpConnector, Uri),
    /// Through a proxy that sees nothing.
    Tunnel(Tunnel<HttpConnector>),
}

impl Route {
    /// The way to `target`, and what the proxy wants to know of the user with each request.
    pub(super) fn new(connector: HttpConnector, target: &Uri, proxies: &Proxies) -> (Self, Option<HeaderValue>) {
        let Proxies { http, https, except } = proxies;
        let matcher = Matcher::builder().http(http.as_str()).https(https.as_str()).no(except.as_str()).build();
        let Some(proxy) = matcher.intercept(target) else { return (Self::Direct(connector), None) };
        let user = proxy.basic_auth().cloned();
        if target.scheme_str() == Some("https") {
            let tunnel = Tunnel::new(proxy.uri().clone(), connector);
            return (Self::Tunnel(user.into_iter().fold(tunnel, Tunnel::with_auth)), None);
        }
        (Self::Forward(connector, proxy.uri().clone()), user)
    }
}

type Failure = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Route {
    type Response = Way;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Way, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self {
            Self::Direct(connector) | Self::Forward(connector, _) => {
                Service::poll_ready(connector, context).map_err(Into::into)
            }
            Self::Tunnel(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => {
                let connecting = connector.call(target);
                Box::pin(async move { Ok(Way::new(connecting.await?, false)) })
            }
            Self::Forward(connector, proxy) => {
                let connecting = connector.call(proxy.clone());
                Box::pin(async move { Ok(Way::new(connecting.await?, true)) })
            }
            Self::Tunnel(tunnel) => {
                let connecting = tunnel.call(target);
                Box::pin(async move { Ok(Way::new(connecting.await?, false)) })
            }
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Way {
    stream: TokioIo<TcpStream>,
    /// Whether requests name the whole URL, as proxies want.
    forwarded: bool,
    answered: Answered,
}

/// Whether a connection has brought an answer before.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(pub(super) Arc<AtomicBool>);

impl Way {
    fn new(stream: TokioIo<TcpStream>, forwarded: bool) -> Self {
        Self { stream, forwarded, answered: Answered::default() }
    }
}

impl Connection for Way {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.forwarded).extra(self.answered.clone())
    }
}

impl Read for Way {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl Write for Way {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, bytes)
    }
}
