//! Quotas of one user: settings need no right, so their number and their bytes have bounds.
//!
//! The bounds hold under concurrency: a change that adds something commits only if the same user added nothing else
//! since the check. A user with more than that from earlier times can read, shrink and delete it.

use std::borrow::Cow;

use futures::TryStreamExt;

use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::services::Services;
use crate::query::Filter;
use crate::store::{Condition, FindQuery, scope_version};

/// The maximum number of settings of a user.
pub const SETTINGS: usize = 200;
/// The maximum number of bytes of a setting, as it is stored.
pub const SETTING_BYTES: usize = 256 * 1024;
/// The maximum number of bytes of all settings of a user.
pub const SETTINGS_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of tokens of a user, expired ones included.
pub const TOKENS: usize = 200;

/// What a user keeps in a collection.
pub(super) struct Quota {
    user_id: i64,
    count: usize,
    bytes: usize,
    /// That this is still so, or less.
    pub(super) condition: Condition,
}

impl Quota {
    /// Reads what the user keeps, up to the bounds.
    pub(super) async fn read(
        services: &Services,
        collection: &'static str,
        user_id: i64,
    ) -> Result<Self, ServiceError> {
        let scope: Cow<'static, str> = format!("{collection}/{user_id}").into();
        let at = scope_version(&*services.store, &scope, services.max_time).await?;
        let query = FindQuery::new(Filter::equals("user_id", user_id), services.max_time);
        let mut chunks = services.store.chunks(collection, &query).await?.documents;
        let (mut count, mut bytes) = (0, 0);
        while let Some(chunk) = chunks.try_next().await? {
            count += chunk.len();
            bytes += chunk.bytes();
            if bytes > SETTINGS_BYTES {
                break;
            }
        }
        Ok(Self { user_id, count, bytes, condition: Condition::Unchanged { scope, at } })
    }

    /// Whether a setting of this many bytes may replace one of `before` bytes, or be added.
    pub(super) fn allow_setting(&self, before: Option<usize>, after: usize) -> Result<(), ServiceError> {
        let user = self.user_id;
        if after > SETTING_BYTES {
            return Err(exceeded(format!("the setting has {after} bytes; a setting has at most {SETTING_BYTES}")));
        }
        if before.is_none() && self.count >= SETTINGS {
            return Err(exceeded(format!(
                "user {user} has {SETTINGS} settings, the most there may be; delete one first"
            )));
        }
        if self.bytes.saturating_sub(before.unwrap_or_default()) + after > SETTINGS_BYTES {
            let message =
                format!("the settings of user {user} would have more than {SETTINGS_BYTES} bytes; delete some first");
            return Err(exceeded(message));
        }
        Ok(())
    }

    /// Whether a token may be added.
    pub(super) fn allow_token(&self) -> Result<(), ServiceError> {
        if self.count < TOKENS {
            return Ok(());
        }
        Err(exceeded(format!("user {} has {TOKENS} tokens, the most there may be; delete one first", self.user_id)))
    }
}

fn exceeded(message: String) -> ServiceError {
    ServiceError::refused(ErrorCode::QuotaExceeded, message)
}
