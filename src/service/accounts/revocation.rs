//! What a promotion revokes: passwords and tokens of the user that others know.
//!
//! Another user could set a user's password, or make a token in the user's name, because the user's group did not exceed
//! them. When the user gains rights, by a move or a change of the group, this is checked again:
//!
//! | what | ends, unless |
//! |---|---|
//! | sessions (the epoch moves) | the user set the password |
//! | the password | the user set it, or somebody whom the group as it is now does not exceed |
//! | a token for machines | the user made it under a self-set password, or somebody whom the group as it is now does not exceed |
//!
//! Data of earlier versions does not say who made it. Then passwords and tokens stay, and sessions end. A change of an
//! access list counts only when users are moved, not when it is made.

use std::collections::BTreeSet;

use bson::{Bson, doc};

use super::credentials;
use super::delegation::{self, Standing};
use super::directory::Caller;
use super::directory::OPERATOR;
use crate::domain::document::integer;
use crate::query::{Filter, Update};
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::store::collections::{CREDENTIALS, TOKENS};
use crate::store::{Change, FindQuery};

/// What ends for these users when they get the group in its new form.
///
/// # Errors
/// What the store reports.
pub(crate) async fn ends(
    services: &Services,
    caller: &Caller,
    user_ids: &[i64],
    group: &Standing,
) -> Result<Vec<Change>, ServiceError> {
    let users = Bson::from(user_ids.to_vec());
    let trusted = trusted(services, caller, &users, group).await?;
    let of = |maker: &str, not_by: &[Bson]| {
        let others = doc! {"$ne": [format!("${maker}"), "$user_id"]};
        Filter::ours(&doc! {"user_id": {"$in": users.clone()}, maker: {"$nin": not_by}, "$expr": others})
    };
    let fresh = Update::set("epoch", credentials::fresh_epoch());
    let forgotten = Update::set("hash", Bson::Null);
    Ok(vec![
        Change::UpdateMany { collection: CREDENTIALS, filter: of("set_by", &[]), update: fresh },
        Change::UpdateMany { collection: CREDENTIALS, filter: of("set_by", &trusted), update: forgotten },
        Change::DeleteMany { collection: TOKENS, filter: of("made_by", &trusted) },
    ])
}

/// The makers whose passwords and tokens stay: the caller, and users whom the group does not exceed.
async fn trusted(
    services: &Services,
    caller: &Caller,
    users: &Bson,
    group: &Standing,
) -> Result<Vec<Bson>, ServiceError> {
    let of_users = Filter::ours(&doc! {"user_id": {"$in": users.clone()}});
    let mut makers = BTreeSet::new();
    for (collection, maker) in [(CREDENTIALS, "set_by"), (TOKENS, "made_by")] {
        let found = services.store.find(collection, &FindQuery::new(of_users.clone(), services.max_time)).await?;
        makers.extend(found.iter().filter_map(|stored| integer(stored, maker)));
    }
    let mut trusted = vec![Bson::Null, Bson::Int64(OPERATOR), Bson::Int64(caller.user_id)];
    for maker in makers {
        let account = services.directory.account(maker).await?;
        let Some(account) = account.filter(|account| account.active) else { continue };
        if delegation::excess(services, (&*account.caller).into(), group).await?.is_none() {
            trusted.push(Bson::Int64(maker));
        }
    }
    Ok(trusted)
}
