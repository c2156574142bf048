//! A server from its address to its end.

use crate::access::{self, Access};
use crate::app::App;
use crate::config::ServeConfig;
use crate::error::{Error, Result};
use crate::served_model::ServedModel;
use crate::{connections, openapi, record, routes};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use minigpt_generate::EngineThread;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;

/// Threads that wait for sockets. They don't compute, so a machine's cores are the engine's.
const IO_THREADS: usize = 2;
/// Threads for long prompts and chat templates.
const SIDE_THREADS: usize = 16;

/// A server that has its address and answers nothing yet.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    /// Routes of others, behind the key and before it.
    more: Router<Arc<App>>,
    public: Router<Arc<App>>,
    api: OpenApi,
}

impl Server {
    /// Takes the address.
    pub fn bind(config: ServeConfig) -> Result<Self> {
        let app = Arc::new(App::new(config)?);
        let ServeConfig { host, port, .. } = &app.config;
        let failed = |source| Error::Bind { host: host.clone(), port: *port, source };
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let addresses: Vec<_> = addresses.map_err(|_| Error::UnknownHost { host: host.clone() })?.collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (more, public) = (Router::new(), Router::new());
        Ok(Self { app, listener, more, public, api: openapi::document() })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        let ServeConfig { host, port, .. } = &self.app.config;
        let failed = |source| Error::Bind { host: host.clone(), port: *port, source };
        self.listener.local_addr().map_err(failed)
    }

    /// Adds routes, with their description. Hosts, origins and keys are checked before them as before all others.
    pub fn merge(mut self, routes: Router<Arc<App>>, api: OpenApi) -> Self {
        self.more = self.more.merge(routes);
        self.api.merge(api);
        self
    }

    /// Adds routes that need no key, such as the files of a page on which the key is entered.
    pub fn merge_public(mut self, routes: Router<Arc<App>>) -> Self {
        self.public = self.public.merge(routes);
        self
    }

    /// Begins to answer: that the models are being loaded, until [`Running::serve`] brings them.
    pub fn start(self) -> Result<Running> {
        let address = self.address()?;
        let Self { app, listener, more, public, api } = self;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .max_blocking_threads(SIDE_THREADS)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(Error::Threads)?;
        let router = router(&app, more, public, &api);
        let (stop, stopped) = watch::channel(false);
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Error::Threads)?
        };
        let serving = runtime.spawn(connections::serve(listener, router, Arc::clone(&app), stopped));
        Ok(Running { app, address, runtime, stop, serving, failed: watch::Sender::new(None) })
    }
}

/// All routes behind what is looked at before them, the outermost last.
fn router(app: &Arc<App>, more: Router<Arc<App>>, public: Router<Arc<App>>, api: &OpenApi) -> Router {
    routes::all(api)
        .merge(more)
        .layer(from_fn_with_state(Arc::clone(app), access::check_key))
        .merge(public)
        .fallback(routes::not_found)
        .method_not_allowed_fallback(routes::wrong_method)
        .layer(Access::cors(app))
        .layer(from_fn_with_state(Arc::clone(app), access::check_source))
        .layer(from_fn(connections::check_head))
        .layer(CatchPanicLayer::custom(record::broken))
        .layer(map_response(routes::mark))
        .layer(from_fn_with_state(Arc::clone(app), record::keep))
        .with_state(Arc::clone(app))
}

/// A server that answers. Dropped, it ends at once.
#[derive(Debug)]
pub struct Running {
    app: Arc<App>,
    address: SocketAddr,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    /// The engine that has failed, if one has.
    failed: watch::Sender<Option<(String, String)>>,
}

impl Running {
    /// Serves these models from now on; the first is the one that is meant where none is named.
    pub fn serve(&self, models: Vec<ServedModel>) -> Result<()> {
        self.app.serve(models)?;
        for model in self.app.loaded() {
            let (failed, name) = (self.failed.clone(), model.name.clone());
            model.engine.on_failure(move |why| {
                failed.send_replace(Some((name, why.to_owned())));
            });
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its handlers see.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// From now on requests to stop are kept for [`Self::wait_for_signal`] instead of ending the process. To be called before
    /// anybody is told that the server answers: who reads that may ask it to stop at once.
    pub fn watch_signals(&self) -> Result<Signals> {
        let _inside = self.runtime.enter();
        Signals::watch().map_err(Error::Threads)
    }

    /// Waits until the process is asked to stop: Ctrl-C, or a request to terminate. A second such signal ends the process as
    /// usual if [`Self::stop`] takes too long for somebody.
    ///
    /// # Errors
    /// The engine of a model has failed: its requests have been answered with 503, and nothing more will be.
    pub fn wait_for_signal(&self, mut signals: Signals) -> Result<()> {
        let mut failed = self.failed.subscribe();
        let failure = self.runtime.block_on(async {
            tokio::select! {
                () = signals.next() => None,
                failed = failed.wait_for(Option::is_some) => failed.ok().and_then(|failed| failed.clone()),
            }
        });
        if let Some((model, message)) = failure {
            return Err(Error::EngineFailed { model, message });
        }
        self.runtime.spawn(async move {
            signals.next().await;
            std::process::exit(130);
        });
        Ok(())
    }

    /// Ends: nobody new is answered, running requests get their time, then all is over.
    pub fn stop(self) {
        let Self { app, runtime, stop, serving, .. } = self;
        app.stop();
        let _ = stop.send(true);
        let engines: Vec<_> = app.loaded().iter().map(|model| model.engine.clone()).collect();
        // Not sooner: a request may have more texts than slots, and its next one is nothing new.
        let grace = app.config.shutdown_timeout;
        runtime.spawn(async move {
            tokio::time::sleep(grace).await;
            engines.into_iter().for_each(end);
        });
        let _ = runtime.block_on(serving);
        let inside = runtime.enter();
        app.loaded().iter().for_each(|model| end(model.engine.clone()));
        drop(inside);
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// Ends an engine where it keeps nobody waiting; what it still writes fails.
fn end(engine: EngineThread) {
    tokio::task::spawn_blocking(move || engine.stop(Duration::ZERO));
}

/// Requests to stop that have reached the process since it began to watch for them.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn watch() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Requests to stop that have reached the process since it began to watch for them.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without a handler there is nothing to wait for: the system ends the process by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("app", &self.app).finish_non_exhaustive()
    }
}
