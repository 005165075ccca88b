//! The body of a webhook: docs/api.md, Webhooks.

use std::borrow::Cow;

use bson::{Bson, DateTime, Document, doc};
use url::{Host, Url};
use validator::{Validate, ValidationError};

use super::rules::{broken, not_blank};
use super::schema::{Kind, Member, Schema, Unknown};
use super::violation::quoted;
use super::{Violation, Violations, kept_if_same};

/// The body of a webhook.
pub const WEBHOOK: Schema = Schema {
    members: &[
        Member::required("name", Kind::Text),
        Member::required("url", Kind::Text),
        Member::optional("resources", Kind::List(&Kind::Text)).or_null(),
        Member::optional("filter", Kind::Text).or_null(),
        Member::optional("view", Kind::Text),
        Member::optional("active", Kind::Boolean),
        // Set by the service: taken and not used.
        Member::optional("state", Kind::Any),
        Member::optional("reason", Kind::Any).or_null(),
        Member::optional("author_id", Kind::Any).or_null(),
    ],
    unknown: Unknown::RefusedUnlessRead,
};

/// The members of a stored webhook.
pub const KNOWN: [&str; 12] = [
    "public_id", "name", "url", "resources", "filter", "view", "active", "state", "reason", "author_id",
    "creation_time", "last_edit_time",
];

/// What may be followed.
pub const RESOURCES: [&str; 3] = ["objects", "types", "categories"];
/// What events hold of the document.
pub const VIEWS: [&str; 3] = ["native", "render", "ids"];

/// The state of a webhook that delivers.
pub const ACTIVE: &str = "active";
/// The state of one that its users turned off.
pub const OFF: &str = "off";
/// The state of a webhook that the service turned off, for the reason in `reason`.
pub const PAUSED: &str = "paused";

/// The reason of a pause.
pub const NO_AUTHOR: &str = "its author is locked or gone; whoever saves the webhook becomes its author";

/// In characters.
pub const LONGEST_NAME: u64 = 256;
/// In bytes.
pub const LONGEST_URL: usize = 2048;
/// In bytes.
pub const LONGEST_FILTER: usize = 16 * 1024;

/// Rules for the values of a body.
#[derive(Validate)]
struct Rules<'a> {
    #[validate(
        length(max = "LONGEST_NAME", message = "must have 1 to 256 characters"),
        custom(function = not_blank, message = "must have 1 to 256 characters")
    )]
    name: &'a str,
    #[validate(custom(function = is_address))]
    url: &'a str,
    #[validate(custom(function = is_short))]
    filter: Option<&'a str>,
    #[validate(custom(function = is_view))]
    view: Option<&'a str>,
}

fn wrong(message: impl Into<Cow<'static, str>>) -> ValidationError {
    ValidationError::new("wrong").with_message(message.into())
}

fn is_short(filter: &str) -> Result<(), ValidationError> {
    if filter.len() <= LONGEST_FILTER {
        Ok(())
    } else {
        Err(wrong(format!("must have at most {LONGEST_FILTER} bytes")))
    }
}

fn is_view(view: &str) -> Result<(), ValidationError> {
    if VIEWS.contains(&view) { Ok(()) } else { Err(wrong(format!("must be one of {}", VIEWS.join(", ")))) }
}

/// Whether a name can be that of a host: no part of it is empty or longer than DNS allows.
fn can_be_host(host: &Host<&str>) -> bool {
    let Host::Domain(name) = host else { return true };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && !label.contains('*');
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_address(sent: &str) -> Result<(), ValidationError> {
    if sent.len() > LONGEST_URL {
        return Err(wrong(format!("must have at most {LONGEST_URL} bytes")));
    }
    let url =
        Url::parse(sent).map_err(|_| wrong("is no URL; write for instance https://hooks.example.org/inventory"))?;
    // A URL is read leniently: with three slashes or none, what follows them becomes the host.
    let rest = sent.split_once("://").map(|(_, rest)| rest);
    let is_whole = rest.is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if !["http", "https"].contains(&url.scheme()) || !is_whole {
        return Err(wrong(
            "must start with https:// and a host, or with http:// for a network of webhooks.allowed_networks",
        ));
    }
    if !url.host().is_some_and(|host| can_be_host(&host)) {
        return Err(wrong("must name a host that can exist, for instance hooks.example.org"));
    }
    if url.port() == Some(0) {
        return Err(wrong("must name no port, or one from 1 to 65535"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must name no user and no password; receivers check the signature"));
    }
    if url.fragment().is_some() || sent.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong("must have no fragment, no spaces and no control characters"));
    }
    Ok(())
}

/// Checks a body, and gives it every default but that of `resources`.
///
/// # Errors
/// Everything that is wrong with the body.
pub fn read(body: &Document) -> Result<Document, Violations> {
    let accepted = WEBHOOK.apply(body).map_err(|found| found.map(|violation| of_filter(violation, body)))?;
    let said = |name: &str| accepted.get_str(name).ok();
    let rules = Rules {
        name: said("name").unwrap_or_default(),
        url: said("url").unwrap_or_default(),
        filter: said("filter"),
        view: said("view"),
    };
    let mut violations = broken(&rules, &["name", "url", "filter", "view"]);
    if accepted.get_array("resources").is_ok_and(Vec::is_empty) {
        let message = "must name at least one of objects, types, categories; leave it out for all that you may see";
        violations.push(Violation::new("/resources", message));
    }
    let mut resources: Vec<&str> = Vec::new();
    for (index, name) in accepted.get_array("resources").into_iter().flatten().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if resources.contains(&name) {
            violations.push(Violation::new(format!("/resources/{index}"), "is there twice"));
        } else if !RESOURCES.contains(&name) {
            let message = format!("{} is none of {}", quoted(name), RESOURCES.join(", "));
            violations.push(Violation::new(format!("/resources/{index}"), message));
        }
        resources.push(name);
    }
    let filter = said("filter").filter(|text| !text.trim().is_empty());
    if filter.is_some() && resources != ["objects"] {
        violations.push(Violation::new("/filter", "is about objects; add \"resources\": [\"objects\"]"));
    }
    violations.none()?;
    Ok(doc! {
        "name": rules.name,
        "url": rules.url,
        "resources": resources,
        "filter": filter,
        "view": rules.view.unwrap_or(VIEWS[0]),
        "active": accepted.get_bool("active").unwrap_or(true),
    })
}

/// The message about a filter that is an object, the form that lists take.
fn of_filter(violation: Violation, body: &Document) -> Violation {
    if violation.pointer == "/filter" && matches!(body.get("filter"), Some(Bson::Document(_))) {
        return Violation::new("/filter", "must be a string: the filter as JSON in a text, \"{\\\"type_id\\\": 1}\"");
    }
    violation
}

/// Whether a body names another state than that which it has, or is about to have. `stored` is the webhook that it changes.
pub fn other_state(body: &Document, stored: Option<&Document>) -> Violations {
    let Some(sent) = body.get("state").filter(|sent| **sent != Bson::Null) else { return Violations::new() };
    let is_active = body.get_bool("active").unwrap_or(true);
    let coming = if is_active { ACTIVE } else { OFF };
    if sent.as_str() == Some(coming) || stored.is_some_and(|stored| stored.get("state") == Some(sent)) {
        return Violations::new();
    }
    let message = "is set by the service; \"active\": true has the webhook deliver, \"active\": false stops it";
    Violation::new("/state", message).into()
}

/// A new stored webhook.
pub fn created(accepted: Document, id: i64, author_id: i64, now: DateTime) -> Document {
    stored(accepted, doc! { "public_id": id }, author_id, (now.into(), Bson::Null))
}

/// The stored document after an update by this user. A webhook that stays inactive keeps its state.
pub fn updated(accepted: Document, before: &Document, author_id: i64, now: DateTime) -> Document {
    let is_still_off = !accepted.get_bool("active").unwrap_or(true) && !before.get_bool("active").unwrap_or(true);
    let mut ids = Document::new();
    for name in ["_id", "public_id"] {
        ids.extend(before.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let made = before.get("creation_time").cloned().unwrap_or(Bson::Null);
    let mut after = stored(accepted, ids, author_id, (made, now.into()));
    if is_still_off {
        for name in ["state", "reason"] {
            after.extend(before.get(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    kept_if_same(after, before, &["last_edit_time"])
}

fn stored(accepted: Document, mut document: Document, author_id: i64, times: (Bson, Bson)) -> Document {
    let is_active = accepted.get_bool("active").unwrap_or(true);
    document.extend(accepted);
    document.extend(doc! {
        "state": if is_active { ACTIVE } else { OFF },
        "reason": Bson::Null,
        "author_id": author_id,
        "creation_time": times.0,
        "last_edit_time": times.1,
    });
    document
}

/// The stored document once the service has paused it.
pub fn paused(before: &Document, reason: &str) -> Document {
    let mut after = before.clone();
    after.extend(doc! { "active": false, "state": PAUSED, "reason": reason });
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(body: &Document) -> Vec<String> {
        let found = read(body).expect_err("something is wrong");
        found.into_iter().map(|violation| violation.pointer).collect()
    }

    #[test]
    fn a_name_and_a_url_are_enough() {
        let read = read(&doc! {"name": "a", "url": "https://hooks.example.org/"}).expect("right");
        let expected = doc! {
            "name": "a", "url": "https://hooks.example.org/", "resources": [], "filter": null, "view": "native",
            "active": true,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn everything_wrong_with_a_webhook_is_named_at_once() {
        let body = doc! {"name": " ", "url": "ftp://x", "resources": ["objects", "objects", "users"], "filter": "{}", "view": "x"};
        assert_eq!(pointers(&body), ["/name", "/url", "/view", "/resources/1", "/resources/2", "/filter"]);
    }

    #[test]
    fn addresses_with_users_fragments_or_spaces_are_refused() {
        for url in [
            "", "hooks.example.org", "https://", "https://user@h/", "https://user:word@h/", "https://h/#a",
            "https://h/ a", "\thttps://h/", "file:///etc/passwd", "https:///x", "https:////hooks.example.org/",
            "https:hooks.example.org", "https://h:0/", "https://hooks..example.org/", "https://*.example.org/",
        ] {
            assert_eq!(pointers(&doc! {"name": "a", "url": url}), ["/url"], "{url}");
        }
    }

    #[test]
    fn a_paused_webhook_keeps_its_reason_until_it_is_active_again() {
        let sent = |active: bool| read(&doc! {"name": "a", "url": "https://h/", "active": active}).expect("right");
        let now = DateTime::from_millis(5);
        let made = created(sent(true), 1, 7, now);
        let stopped = paused(&made, "gone");
        let renamed =
            updated(read(&doc! {"name": "b", "url": "https://h/", "active": false}).expect("right"), &stopped, 7, now);
        let state = |webhook: &Document| (webhook.get("state").cloned(), webhook.get("reason").cloned());
        let said = |state: &str, reason: Bson| (Some(Bson::from(state)), Some(reason));
        assert_eq!(state(&renamed), said(PAUSED, "gone".into()));
        let resumed = updated(sent(true), &renamed, 8, now);
        assert_eq!(state(&resumed), said(ACTIVE, Bson::Null));
        assert_eq!(resumed.get("author_id"), Some(&Bson::Int64(8)));
        assert_eq!(state(&updated(sent(false), &resumed, 8, now)), said(OFF, Bson::Null));
    }
}
