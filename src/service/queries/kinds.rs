//! The kinds of resources of the interface: their collections and names.

use std::borrow::Cow;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use crate::auth::rights::{self, Right};
use crate::domain::document::raw;
use crate::domain::{category_input, type_input, user, webhook_input};
use crate::service::error_code::ErrorCode;
use crate::store::collections;

/// A kind of resource of the interface: its collection and its names.
pub trait Resource {
    /// The collection of its documents.
    const COLLECTION: &'static str;
    /// The `model` of its envelopes: docs/api.md, Envelopes.
    const MODEL: &'static str;
    /// Its name in messages.
    const NAME: &'static str;
    /// The code for an unknown id.
    const NOT_FOUND: ErrorCode;
    /// The codes for duplicates of unique keys; [`ErrorCode::ValueTaken`] for all other keys.
    const TAKEN: &[(&'static str, ErrorCode)] = &[];

    /// The members that its documents have; none for resources about whose lists there is no advice of this kind.
    const MEMBERS: &[&'static str] = &[];

    /// The members that hold one of some texts.
    const VALUES: &[(&'static str, &'static [&'static str])] = &[];

    /// What clients see of a stored document; entity tags are made of this too.
    fn view(stored: &RawDocument) -> Cow<'_, RawDocument> {
        Cow::Borrowed(stored)
    }
}

/// Stored objects.
pub struct Objects;
/// Types of objects.
pub struct Types;
/// Categories of types.
pub struct Categories;
/// Users, with a mask in place of their password.
pub struct Users;
/// Groups of users, with their rights as records.
pub struct Groups;
/// Settings that users keep for themselves.
pub struct UserSettings;
/// Tokens of machines, without their hashes.
pub struct UserTokens;
/// Webhooks.
pub struct Webhooks;
/// The last deliveries of webhooks.
pub struct Deliveries;
/// Saved reports.
pub struct Reports;

impl Resource for Objects {
    const COLLECTION: &'static str = collections::OBJECTS;
    const MODEL: &'static str = "Object";
    const NAME: &'static str = "object";
    const NOT_FOUND: ErrorCode = ErrorCode::ObjectNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] = &[("public_id", ErrorCode::ObjectPublicIdTaken)];
}

impl Resource for Types {
    const COLLECTION: &'static str = collections::TYPES;
    const MODEL: &'static str = "Type";
    const NAME: &'static str = "type";
    const NOT_FOUND: ErrorCode = ErrorCode::TypeNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] =
        &[("public_id", ErrorCode::TypePublicIdTaken), ("name", ErrorCode::TypeNameTaken)];
    const MEMBERS: &[&'static str] = &type_input::KNOWN;
}

impl Resource for Categories {
    const COLLECTION: &'static str = collections::CATEGORIES;
    const MODEL: &'static str = "Category";
    const NAME: &'static str = "category";
    const NOT_FOUND: ErrorCode = ErrorCode::CategoryNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] =
        &[("public_id", ErrorCode::CategoryPublicIdTaken), ("name", ErrorCode::CategoryNameTaken)];
    const MEMBERS: &[&'static str] = &category_input::KNOWN;
}

impl Resource for Users {
    const COLLECTION: &'static str = collections::USERS;
    const MODEL: &'static str = "User";
    const NAME: &'static str = "user";
    const NOT_FOUND: ErrorCode = ErrorCode::UserNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] = &[
        ("public_id", ErrorCode::UserPublicIdTaken),
        ("user_name", ErrorCode::UserUserNameTaken),
        ("looks", ErrorCode::UserNameConfusable),
    ];
    const MEMBERS: &[&'static str] = &[
        "public_id", "user_name", "active", "group_id", "registration_time", "authenticator", "email", "image",
        "first_name", "last_name",
    ];

    fn view(stored: &RawDocument) -> Cow<'_, RawDocument> {
        Cow::Owned(user::shown(stored))
    }
}

impl Resource for Groups {
    const COLLECTION: &'static str = collections::GROUPS;
    const MODEL: &'static str = "Group";
    const NAME: &'static str = "group";
    const NOT_FOUND: ErrorCode = ErrorCode::GroupNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] =
        &[("public_id", ErrorCode::GroupPublicIdTaken), ("name", ErrorCode::GroupNameTaken)];
    const MEMBERS: &[&'static str] = &["public_id", "name", "label", "rights"];

    fn view(stored: &RawDocument) -> Cow<'_, RawDocument> {
        Cow::Owned(group(stored))
    }
}

impl Resource for UserSettings {
    const COLLECTION: &'static str = collections::SETTINGS;
    const MODEL: &'static str = "UserSetting";
    const NAME: &'static str = "setting";
    const NOT_FOUND: ErrorCode = ErrorCode::SettingNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] = &[("identifier", ErrorCode::SettingIdentifierTaken)];
}

impl Resource for UserTokens {
    const COLLECTION: &'static str = collections::TOKENS;
    const MODEL: &'static str = "UserToken";
    const NAME: &'static str = "token";
    const NOT_FOUND: ErrorCode = ErrorCode::TokenNotFound;
    const TAKEN: &[(&'static str, ErrorCode)] = &[("name", ErrorCode::TokenNameTaken)];

    fn view(stored: &RawDocument) -> Cow<'_, RawDocument> {
        Cow::Owned(token(stored))
    }
}

impl Resource for Webhooks {
    const COLLECTION: &'static str = collections::WEBHOOKS;
    const MODEL: &'static str = "Webhook";
    const NAME: &'static str = "webhook";
    const NOT_FOUND: ErrorCode = ErrorCode::WebhookNotFound;
    const MEMBERS: &[&'static str] = &webhook_input::KNOWN;
}

impl Resource for Deliveries {
    const COLLECTION: &'static str = collections::WEBHOOK_DELIVERIES;
    const MODEL: &'static str = "Delivery";
    const NAME: &'static str = "delivery";
    const NOT_FOUND: ErrorCode = ErrorCode::WebhookNotFound;
}

impl Resource for Reports {
    const COLLECTION: &'static str = collections::REPORTS;
    const MODEL: &'static str = "Report";
    const NAME: &'static str = "report";
    const NOT_FOUND: ErrorCode = ErrorCode::ReportNotFound;
}

/// A stored group with its rights as records. The name of a former right becomes a record without a description.
pub(crate) fn group(stored: &RawDocument) -> RawDocumentBuf {
    let Ok(mut shown) = Document::try_from(stored) else { return stored.to_owned() };
    let gone = |name: &str| {
        doc! {"level": 0, "name": name, "label": name, "description": "", "is_master": name.ends_with(".*")}
    };
    let records = crate::domain::group::right_names(stored)
        .into_iter()
        .map(|name| rights::find(name).map_or_else(|| gone(name), right));
    shown.insert("rights", records.collect::<Vec<Document>>());
    raw(&shown)
}

pub(crate) fn right(right: &Right) -> Document {
    doc! {
        "level": right.level,
        "name": right.name,
        "label": right.label,
        "description": right.description,
        "is_master": right.is_master,
    }
}

/// A stored token without its hashes, its maker and what was noted of it.
pub(crate) fn token(stored: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, value) in stored
        .iter()
        .flatten()
        .filter(|(name, _)| !["hash", "made_by", "scram", "tool_refused_at"].contains(&name.as_str()))
    {
        shown.append(name, value);
    }
    shown
}
