//! Starts the service: prepares its store, makes the first administrator, the use cases, and what answers requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::http::listeners;
use super::stores::{Opened, make_ready, open};
use super::{Application, StartError, is_compatible};
use crate::admission::Admission;
use crate::auth::Passwords;
use crate::clock::{Clock, SystemClock};
use crate::http::edge::cors::CorsPolicy;
use crate::http::edge::tls::Certificates;
use crate::metrics::Metrics;
use crate::oidc::Issuer;
use crate::outgoing::{Networks, Sender};
use crate::plural::counted;
use crate::service::Services;
use crate::service::accounts::directory::Directory;
use crate::service::accounts::first_start::{FirstAdmin, FirstStart, PASSWORD_FILE};
use crate::service::accounts::identities::Identities;
use crate::service::accounts::{AccountParts, Accounts, sign_on, user_settings};
use crate::service::claims::building;
use crate::service::claims::keeper::Keeper;
use crate::service::history::recorder::Recorder;
use crate::service::objects::companions::Companions;
use crate::service::remembered::Remembered;
use crate::service::search::state::Searched;
use crate::service::types::catalog;
use crate::service::webhooks::parts::Parts;
use crate::settings::{Settings, SettingsError, StoreUri};
use crate::store::collections::OBJECTS;
use crate::store::{FileStore, Measured, Store};

/// Between the first attempts to reach a store.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Between later ones.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Application {
    /// Opens the store and prepares to listen. Waits up to `store.start_wait_s` for an unavailable store.
    ///
    /// # Errors
    /// [`StartError`], with the remedy.
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        look(&settings)?;
        let mut patience = Patience::new(Duration::from_secs(settings.store.start_wait_s));
        loop {
            let attempt = match open(&settings.store).await {
                Ok(Opened { store, file }) => {
                    Self::with_store(settings.clone(), store, file, Arc::new(SystemClock)).await
                }
                Err(error) => Err(error),
            };
            match attempt {
                Err(error) if error.may_pass() => {
                    let Some(pause) = patience.next() else { return Err(error) };
                    log::warn!("{error}; trying again");
                    tokio::time::sleep(pause).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// The same with any store and clock; `file` is the store's file, if it has one.
    ///
    /// # Errors
    /// As [`Application::build`].
    pub async fn with_store(
        settings: Settings,
        store: Arc<dyn Store>,
        file: Option<Arc<dyn FileStore>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        if let Some(file) = &file {
            file.report_to(&metrics);
        }
        let store = Measured::around(store, Arc::clone(&metrics));
        let (services, first_admin) = build_services(&settings, store, clock).await?;
        let application = Self { first_admin, ..Self::with_services(settings, services, file, metrics)? };
        application.prepare_sign_on().await?;
        Ok(application)
    }

    /// Warns of groups that the rules of sign-on name and the store lacks, and fetches the keys of the issuer.
    async fn prepare_sign_on(&self) -> Result<(), StartError> {
        let services = self.services();
        let Some(identities) = &services.identities else { return Ok(()) };
        let issuer = identities.issuer();
        let missing = sign_on::missing_groups(&*services.store, issuer.rules(), services.max_time).await;
        for name in missing.map_err(StartError::of_store(&self.settings.store))? {
            log::warn!("auth.oidc: {}", sign_on::missing_group(&name));
        }
        issuer.get_ready();
        Ok(())
    }
}

/// The pauses between attempts to reach a store: each longer than the one before, all within a bound.
struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    fn new(bound: Duration) -> Self {
        Self { until: Instant::now() + bound, pause: FIRST_PAUSE }
    }

    /// How long to wait before the next attempt; nothing when the time is over.
    fn next(&mut self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        (!left.is_zero()).then_some(pause)
    }
}

/// Checks what a start needs apart from its store, so that a start that fails creates no store.
fn look(settings: &Settings) -> Result<(), StartError> {
    listeners(settings)?;
    settings.server.tls.files()?.map(Certificates::load).transpose()?;
    CorsPolicy::new(&settings.server.cors)?;
    webhook_sender(settings)?;
    Ok(())
}

/// The use cases on a store; creates the first administrator when nobody can sign in yet.
///
/// # Errors
/// As [`Application::build`].
pub async fn build_services(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<(Services, Option<FirstAdmin>), StartError> {
    make_ready(settings, &*store, &*clock).await?;
    if is_compatible(settings) {
        adopt(settings, &*store).await?;
    }
    settle_claims(settings, &*store).await?;
    let first_admin = first_admin(settings, &*store, &*clock).await.map_err(StartError::at(&settings.store))?;
    Ok((services_on(settings, store, clock).await?, first_admin))
}

/// Brings the claims of unique values in line with the types.
async fn settle_claims(settings: &Settings, store: &dyn Store) -> Result<(), StartError> {
    let settled = building::settle(store, settings.query.max_time()).await;
    for complaint in settled.map_err(StartError::of_store(&settings.store))? {
        log::warn!("{complaint}, so the field is not kept unique; change the objects, and start again");
    }
    Ok(())
}

/// Takes over the settings of users that DATAGERRY stored.
async fn adopt(settings: &Settings, store: &dyn Store) -> Result<(), StartError> {
    let adopted = user_settings::adopt_settings(store, settings.query.max_time()).await;
    let adopted = adopted.map_err(|error| StartError::of_store(&settings.store)(error.into()))?;
    if adopted > 0 {
        log::info!("{} of users that DATAGERRY stored can be found here now", counted(adopted, "setting"));
    }
    Ok(())
}

/// Creates the first administrator when nobody can sign in yet.
async fn first_admin(
    settings: &Settings,
    store: &dyn Store,
    clock: &dyn Clock,
) -> Result<Option<FirstAdmin>, StartError> {
    let passwords = Passwords::new(&settings.auth)?;
    let directory_path = password_directory(settings)?;
    let first_start = FirstStart {
        store,
        passwords: &passwords,
        settings: &settings.auth,
        directory: &directory_path,
        now: clock.now(),
        max_time: settings.query.max_time(),
    };
    let first_admin = first_start.run().await?;
    announce(&first_start, first_admin.as_ref()).await?;
    Ok(first_admin)
}

/// Logs how to sign in: at once, because later steps may fail, and at each start while the file with the password exists.
async fn announce(first_start: &FirstStart<'_>, first_admin: Option<&FirstAdmin>) -> Result<(), StartError> {
    if let Some(FirstAdmin { user_name, password: Some(password), .. }) = first_admin {
        log::info!("first administrator: user {user_name} with password {}", password.expose());
    }
    let file = first_start.directory.join(PASSWORD_FILE);
    match first_start.is_password_of(&file).await? {
        Some(true) => log::info!("the password is in {}; sign in, change it, remove the file", file.display()),
        Some(false) => log::info!(
            "{} holds another password than the user's; remove the file, unless another store wrote it there",
            file.display()
        ),
        None => {}
    }
    Ok(())
}

/// Where a made-up first password is written.
///
/// # Errors
/// When `store.uri` is not one.
pub fn password_directory(settings: &Settings) -> Result<PathBuf, SettingsError> {
    let chosen = &settings.auth.initial_admin_password_directory;
    if !chosen.is_empty() {
        return Ok(PathBuf::from(chosen));
    }
    Ok(match settings.store.location()? {
        StoreUri::Embedded(directory) => directory,
        StoreUri::MongoDb(_) => Path::new(".").to_owned(),
    })
}

/// The use cases on a prepared store. If neither the store nor the settings have a key for tokens, they create one.
///
/// # Errors
/// As [`Application::build`].
pub async fn services_on(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Services, StartError> {
    let max_time = settings.query.max_time();
    let (recorded, feed) = Recorder::around(Arc::clone(&store), Arc::clone(&clock), max_time);
    let (types, searched) = (Arc::new(catalog::TypeCatalog::default()), Arc::new(Searched::of(Arc::clone(&store))));
    let store = Keeper::around(recorded, store, Arc::clone(&types), max_time);
    let passwords = Passwords::new(&settings.auth)?;
    let directory = Arc::new(Directory::new(Arc::clone(&store), max_time));
    let parts = AccountParts {
        store: Arc::clone(&store),
        directory: Arc::clone(&directory),
        passwords,
        clock: Arc::clone(&clock),
        max_time,
    };
    let accounts = Accounts::open(parts, &settings.auth).await;
    let accounts = Arc::new(accounts.map_err(StartError::at(&settings.store))?);
    let issuer = issuer(settings, Arc::clone(&clock))?;
    let identities = issuer.map(|issuer| Arc::new(Identities::new(issuer, Arc::clone(&store), max_time)));
    let companions = Arc::new(Companions::default());
    let admission = Admission::new(settings.admission.bounds(store.is_remote()));
    let webhooks = Arc::new(Parts::new(webhook_sender(settings)?, settings.query.limits()));
    Ok(Services {
        store,
        feed,
        types,
        searched,
        counts: Arc::new(Remembered::of(OBJECTS)),
        companions,
        directory,
        accounts,
        identities,
        webhooks,
        admission,
        clock,
        max_time,
        most_together: usize::try_from(settings.api.max_bulk).unwrap_or(usize::MAX),
    })
}

/// What sends the messages of webhooks.
///
/// # Errors
/// A certificate authority cannot be read.
pub(crate) fn webhook_sender(settings: &Settings) -> Result<Sender, SettingsError> {
    let (networks, settings) = (Networks::new(settings.webhooks.networks()?), &settings.webhooks);
    Sender::new(networks, settings.timeout(), &settings.ca_certificates)
        .map_err(|error| SettingsError::Invalid { key: "webhooks.ca_certificates", message: error.to_string() })
}

/// The issuer of OpenID Connect that the settings name, if they do.
fn issuer(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Option<Arc<Issuer>>, StartError> {
    let settings = &settings.auth;
    let invalid = |key, message| SettingsError::Invalid { key, message };
    let rules = settings.oidc.rules().map_err(|error| invalid(error.key, error.message))?;
    let Some(rules) = rules else { return Ok(None) };
    let issuer = Issuer::new(rules, &settings.oidc, settings.token_cache, clock)
        .map_err(|error| invalid("auth.oidc.ca_certificates", error.to_string()))?;
    Ok(Some(issuer))
}
