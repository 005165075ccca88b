//! Serves: listeners, certificates, the tasks next to the requests, and the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, LocalSet};

use super::Application;
use super::http::warn_of_its_time;
use crate::clock::Clock;
use crate::http::edge::tls::Certificates;
use crate::moving::control::{Control, Served, Users};
use crate::plural::counted;
use crate::service::Services;
use crate::service::history::outside;
use crate::service::history::prune::prune;
use crate::service::search::building;
use crate::service::types::migrator;
use crate::service::webhooks::worker;
use crate::settings::StoreUri;

/// The first requests come before old changes are removed.
const BEFORE_PRUNING: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// How long the end of the service waits for requests to webhooks that are under way.
const LAST_DELIVERIES: Duration = Duration::from_secs(10);

impl Application {
    /// Answers requests until SIGTERM or SIGINT; then finishes running requests, for at most 10 s. `users` carries out
    /// commands about users.
    ///
    /// It logs `listening on http://HOST:PORT` (`https` with TLS) as soon as it accepts requests and signals. With TLS,
    /// SIGHUP reloads certificate and key; without TLS it does nothing.
    ///
    /// # Errors
    /// When the server cannot be started.
    pub async fn run(self, users: Users) -> io::Result<()> {
        let address = self.address()?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        reload_on_hangup(self.certificates.clone(), Arc::clone(&self.state.services.clock))?;
        let control = self.control(users);
        self.prune_daily();
        let (_search, _others) = (self.in_background(building::run), self.in_background(outside::run));
        self.feed_watchdog();
        let webhooks = Deliverer::start(&self.state.services)?;
        let (feed, file) = (Arc::clone(&self.state.services.feed), self.file.clone());
        let (server, tools) = self.server()?;
        let handle = server.handle();
        let no_more_webhooks = webhooks.stop.clone();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            log::info!("{name}: finishing what is under way");
            tell_systemd(NotifyState::Stopping);
            // Tools only read, and begin again.
            tools.inspect(AbortHandle::abort);
            feed.end();
            let _ = no_more_webhooks.send(true);
            handle.stop(true).await;
        });
        log::info!("listening on {scheme}://{address}");
        log::info!("the interface is described on {scheme}://{address}/docs/");
        tell_systemd(NotifyState::Ready);
        let ended = server.await;
        webhooks.stop().await;
        drop(control);
        // Tasks that were cut off may hold the store until the process has ended.
        let closing = tokio::task::spawn_blocking(move || file.inspect(|file| file.close()));
        ended.and(closing.await.map(drop).map_err(io::Error::other))
    }

    /// Removes old changes from the history as the settings say: soon after the start, and then once a day.
    fn prune_daily(&self) {
        let days = i64::from(self.settings.history.keep_days);
        if days == 0 {
            return;
        }
        let services = Arc::clone(&self.state.services);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEFORE_PRUNING).await;
                let limit = services.clock.now() - chrono::TimeDelta::days(days);
                let limit = bson::DateTime::from_chrono(limit);
                match prune(&*services.store, limit, services.max_time).await {
                    Ok(0) => {}
                    Ok(removed) => log::info!("history.keep_days: {} removed", counted(removed, "log line")),
                    Err(error) => log::warn!("old changes were not all removed: {error}"),
                }
                tokio::time::sleep(DAY).await;
            }
        });
    }

    /// Feeds the watchdog of systemd, if there is one. Each thread that answers requests must give signs of life, and an
    /// embedded store must have its writing thread. It does not look at MongoDB.
    fn feed_watchdog(&self) {
        let Some(period) = sd_notify::watchdog_enabled() else { return };
        let (services, pulse, has_file) =
            (Arc::clone(&self.state.services), Arc::clone(&self.pulse), self.file.is_some());
        tokio::spawn(async move {
            let mut before = Vec::new();
            loop {
                let signs = pulse.signs();
                let is_alive = signs.iter().enumerate().all(|(thread, now)| before.get(thread) != Some(now));
                let has_writer = !has_file || services.store.health().await.is_ok();
                if is_alive && has_writer {
                    tell_systemd(NotifyState::Watchdog);
                } else {
                    log::error!(
                        "no sign for the watchdog: threads that answer requests {is_alive}, store {has_writer}"
                    );
                }
                before = signs;
                tokio::time::sleep((period / 4).max(Duration::from_secs(2))).await;
            }
        });
    }

    /// Does work in the background, until the returned value is dropped.
    fn in_background<F>(&self, work: fn(Arc<Services>, watch::Receiver<bool>) -> F) -> watch::Sender<bool>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(work(Arc::clone(&self.state.services), stopped));
        stop
    }

    /// Answers `inventory-service backup` and `user`, if the store is a file.
    fn control(&self, users: Users) -> Option<Control> {
        let Ok(StoreUri::Embedded(directory)) = self.settings.store.location() else { return None };
        let store = Arc::clone(self.file.as_ref()?);
        let (services, metrics) = (Arc::clone(&self.state.services), Arc::clone(&self.state.metrics));
        let started = Control::start(Served { store, services, users, metrics }, &directory);
        started
            .inspect_err(|error| {
                let place = directory.display();
                log::warn!("stop the service for backup and user: the socket in {place}: {error}");
            })
            .ok()
    }

    /// The same without signals and log line, for a process with several services.
    ///
    /// # Errors
    /// As [`Application::run`].
    pub async fn run_without_signals(self) -> io::Result<()> {
        let _search = self.in_background(building::run);
        let webhooks = Deliverer::start(&self.state.services)?;
        let ended = self.server()?.0.await;
        webhooks.stop().await;
        ended
    }
}

/// Says how the service is; nothing happens without systemd.
fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        log::warn!("systemd did not hear how the service is: {error}");
    }
}

/// The thread that delivers to webhooks, and changes objects after their type; without this it ends after what is under way.
struct Deliverer {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl Deliverer {
    fn start(services: &Arc<Services>) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let services = Arc::clone(services);
        std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            let work = async {
                let objects = migrator::run(Arc::clone(&services), stopped.clone());
                tokio::join!(worker::run(Arc::clone(&services), stopped), objects)
            };
            LocalSet::new().block_on(&runtime, work);
            // Look-ups of names that hang do not hold up the end.
            runtime.shutdown_background();
            let _ = end.send(());
        })?;
        Ok(Self { stop, ended })
    }

    /// Waits for the end of what is under way, for at most 10 s.
    async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(LAST_DELIVERIES, &mut self.ended).await;
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// Reloads certificate and key at each SIGHUP; the old ones stay if the new ones are wrong. Without TLS the signal has
/// no effect, instead of ending the process.
fn reload_on_hangup(certificates: Option<Arc<Certificates>>, clock: Arc<dyn Clock>) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some(certificates) = certificates.clone() else {
                log::info!("SIGHUP: there is no certificate to read again");
                continue;
            };
            let reloaded = Arc::clone(&certificates);
            match tokio::task::spawn_blocking(move || reloaded.reload()).await {
                Ok(Ok(())) => {
                    log::info!("SIGHUP: new connections get the certificate that was read now");
                    warn_of_its_time(Some(&certificates), &*clock);
                }
                Ok(Err(error)) => log::error!("SIGHUP: the certificate in use stays: {error}"),
                Err(error) => log::error!("SIGHUP: the certificate in use stays: {error}"),
            }
        }
    });
    Ok(())
}
