//! The finding about what the user of the URI may do in the database.

use bson::{Bson, Document, doc};

use super::Inner;
use super::error::command_error;
use crate::store::StoreError;
use crate::store::inspection::Finding;

/// What the service does in its database, by MongoDB's names for actions. The role `readWrite` has all of them.
const NEEDED: [&str; 7] = ["find", "insert", "update", "remove", "createCollection", "createIndex", "dropCollection"];

/// The finding; none where the server requires no user.
pub(super) async fn rights(inner: &Inner) -> Result<Option<Finding>, StoreError> {
    let status = inner.database.run_command(doc! { "connectionStatus": 1, "showPrivileges": true });
    let status = status.await.map_err(|error| command_error(&error))?;
    Ok(status.get_document("authInfo").ok().and_then(|info| finding(info, inner.database.name())))
}

fn finding(info: &Document, database: &str) -> Option<Finding> {
    let documents = |name: &str| info.get_array(name).into_iter().flatten().filter_map(Bson::as_document);
    let user = documents("authenticatedUsers").next()?.get_str("user").unwrap_or_default();
    // Rights on single collections would have to be compared one by one: they are not checked.
    if documents("authenticatedUserPrivileges").any(|privilege| is_on_a_collection(privilege, database)) {
        return None;
    }
    let may = |action: &str| documents("authenticatedUserPrivileges").any(|it| grants(it, database, action));
    let lacking: Vec<&str> = NEEDED.into_iter().filter(|action| !may(action)).collect();
    Some(if lacking.is_empty() {
        Finding::good("rights", format!("the user {user} may read and write the database {database}"))
    } else {
        let lacking = lacking.join(", ");
        let text = format!(
            "the user {user} may not {lacking} in the database {database}; give it the role readWrite on this database"
        );
        Finding::wrong("rights", text)
    })
}

fn is_on_a_collection(privilege: &Document, database: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    let name = |key| resource.get_str(key).unwrap_or_default();
    // MongoDB gives every role its own collections whose names begin so.
    let collection = name("collection");
    name("db") == database && !collection.is_empty() && !collection.starts_with("system.")
}

fn grants(privilege: &Document, database: &str, action: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    let covers = resource.get_bool("anyResource").unwrap_or(false)
        || resource.get_str("db").is_ok_and(|db| db.is_empty() || db == database)
            && resource.get_str("collection").is_ok_and(str::is_empty);
    let has = |actions: &Vec<Bson>| {
        actions.iter().any(|it| matches!(it.as_str(), Some(it) if it == action || it == "anyAction"))
    };
    covers && privilege.get_array("actions").is_ok_and(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::inspection::Verdict;

    const READ: [&str; 3] = ["find", "listIndexes", "listCollections"];
    const WRITE: [&str; 7] = NEEDED;

    fn on(resource: Document, actions: &[&str]) -> Document {
        doc! { "resource": resource, "actions": actions.to_vec() }
    }

    fn of(privileges: Vec<Document>) -> Option<Finding> {
        let info = doc! { "authenticatedUsers": [{ "user": "app", "db": "admin" }], "authenticatedUserPrivileges": privileges };
        finding(&info, "inventory")
    }

    #[test]
    fn a_user_who_may_only_read_is_wrong_with_the_remedy() {
        let found = of(vec![on(doc! { "db": "inventory", "collection": "" }, &READ)]).expect("a finding");
        assert_eq!(found.verdict, Verdict::Wrong);
        assert!(found.text.starts_with("the user app may not insert, update, remove, "), "{}", found.text);
        assert!(found.text.ends_with("give it the role readWrite on this database"), "{}", found.text);
    }

    #[test]
    fn a_user_who_may_write_here_or_everywhere_is_good() {
        let resources = [
            doc! { "db": "inventory", "collection": "" },
            doc! { "db": "", "collection": "" },
            doc! { "anyResource": true },
        ];
        for resource in resources {
            let found = of(vec![on(resource.clone(), &WRITE)]).expect("a finding");
            assert_eq!(found.verdict, Verdict::Good, "{resource}");
        }
        assert_eq!(
            of(vec![on(doc! { "anyResource": true }, &["anyAction"])]).expect("a finding").verdict,
            Verdict::Good
        );
    }

    #[test]
    fn rights_on_another_database_do_not_count() {
        let found = of(vec![on(doc! { "db": "elsewhere", "collection": "" }, &WRITE)]).expect("a finding");
        assert_eq!(found.verdict, Verdict::Wrong);
    }

    #[test]
    fn nothing_is_said_without_users_or_of_rights_on_single_collections() {
        assert_eq!(finding(&doc! { "authenticatedUsers": [], "authenticatedUserPrivileges": [] }, "inventory"), None);
        assert_eq!(of(vec![on(doc! { "db": "inventory", "collection": "objects" }, &WRITE)]), None);
    }
}
