//! How DATAGERRY's front end shows dates: one setting for everybody, kept where DATAGERRY keeps it.

use bson::{Bson, Document, doc};

use super::error::ServiceError;
use super::resource;
use super::services::Services;
use crate::domain::{Violation, Violations};
use crate::query::Filter;
use crate::store::{Change, FindQuery, StoreError, Unit};

/// Where DATAGERRY keeps its settings.
const COLLECTION: &str = "settings.conf";

/// The key of this one.
const KEY: &str = "date";

/// The maximum number of times that a save looks again when somebody else saves at the same time.
const ATTEMPTS: usize = 5;

/// Longer texts are refused.
const LONGEST: usize = 100;

/// The form of dates and the time zone that count where nothing is stored.
const DEFAULTS: [&str; 2] = ["YYYY-MM-DDThh:mm:ssZ", "UTC"];

/// The names of the members.
const MEMBERS: [&str; 2] = ["date_format", "timezone"];

/// How dates are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regional {
    /// In the notation of moment.js.
    pub date_format: String,
    /// The name of a time zone.
    pub timezone: String,
}

/// The setting, as it is stored or its default.
///
/// # Errors
/// Errors of the store.
pub async fn read(services: &Services) -> Result<Regional, ServiceError> {
    let stored = stored(services).await?.unwrap_or_default();
    let text = |member: usize| stored.get_str(MEMBERS[member]).unwrap_or(DEFAULTS[member]).to_owned();
    Ok(Regional { date_format: text(0), timezone: text(1) })
}

/// Stores the setting; other members of `body` are ignored.
///
/// # Errors
/// Violations of the body, and errors of the store.
pub async fn save(services: &Services, body: &Document) -> Result<Regional, ServiceError> {
    let mut violations = Violations::new();
    for name in MEMBERS {
        let is_right = body.get_str(name).is_ok_and(|text| !text.is_empty() && text.chars().count() <= LONGEST);
        if !is_right {
            let message = format!("must be a text of 1 to {LONGEST} characters");
            violations.push(Violation::new(format!("/{name}"), message));
        }
    }
    violations.none()?;
    for _ in 0..ATTEMPTS {
        let before = stored(services).await?;
        let mut after = before.clone().unwrap_or_else(|| doc! { "_id": KEY });
        after.extend(MEMBERS.map(|name| (name.to_owned(), body.get(name).cloned().unwrap_or(Bson::Null))));
        let before = before.as_ref().map(resource::encode).transpose()?;
        match services.store.commit(Unit::of(Change::put(COLLECTION, before, resource::encode(&after)?))).await {
            Ok(_) => return read(services).await,
            Err(StoreError::Stale | StoreError::Duplicate { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended("the regional settings".to_owned()))
}

async fn stored(services: &Services) -> Result<Option<Document>, ServiceError> {
    let query = FindQuery::new(Filter::equals("_id", KEY), services.max_time);
    services.store.first(COLLECTION, query).await?.as_deref().map(resource::decode).transpose()
}
