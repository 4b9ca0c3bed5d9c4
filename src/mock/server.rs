//! [`Server`]: a mock endpoint on a thread of its own.
//!
//! Invariant: when `start` returns, the address accepts connections; when the server is dropped, it no longer does and the
//! recording is written out.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::clock::Clock;
use super::http;
use super::options::{MockError, Options};
use super::shared::{Shared, Snapshot};

/// A running mock endpoint. Dropping it stops it.
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// If the address can't be listened on, the tokenizer can't be loaded, or the recording can't be made.
    pub fn start(options: Options) -> Result<Self, MockError> {
        let failed = |error: std::io::Error| MockError::Runtime(error.kind());
        let address = options.listen;
        let listen = |error: std::io::Error| MockError::Listen { address, kind: error.kind() };
        let listener = StdListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let addr = listener.local_addr().map_err(listen)?;
        let runtime = runtime(options.threads).map_err(failed)?;
        let clock = runtime.block_on(async { Clock::start() });
        let shared = Arc::new(Shared::new(options, clock)?);
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("mock".to_owned()).spawn(move || {
            runtime.block_on(accept(listener, serving, stopped));
            runtime.shutdown_timeout(Duration::from_millis(100));
        });
        Ok(Self { addr, shared, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it has done so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Writes out what was recorded so far. Whether all of it could be written.
    pub fn flush_recording(&self) -> bool {
        self.shared.flush()
    }

    /// Stops it, cutting off what runs, and gives its last snapshot.
    pub fn stop(mut self) -> Snapshot {
        self.end();
        self.snapshot()
    }

    fn end(&mut self) {
        // Where the thread has ended there is nobody to tell.
        self.stop.take().map(|stop| stop.send(()).ok());
        self.thread.take().map(|thread| thread.join().ok());
        self.shared.flush();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn runtime(threads: usize) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}

async fn accept(listener: StdListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(connection(stream, Arc::clone(&shared)));
                }
                // Out of files: let some connections end.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Tokens are small and must not wait for one another.
    stream.set_nodelay(true).ok();
    let reset = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        let (shared, reset) = (Arc::clone(&shared), Arc::clone(&reset));
        Box::pin(
            async move { http::serve(shared, request).await.inspect_err(|_| reset.store(true, Ordering::Relaxed)) },
        )
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).pipeline_flush(true);
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let ended = std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let stream = connection.into_parts().io.into_inner();
    if ended.is_err() && reset.load(Ordering::Relaxed) {
        stream.set_zero_linger().ok();
    }
}
