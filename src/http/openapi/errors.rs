//! Which operations can answer with which code.
//!
//! The tests compare every error that they see with the description of its operation.

use crate::service::ErrorCode;

/// Operations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// All.
    All,
    /// All below `/rest`.
    Rest,
    /// Those that need a token.
    Protected,
    /// Those that need a right, or are about the caller's own user.
    Rights,
    /// Those below `/rest` without a body.
    Bodiless,
    /// Those with a body.
    Bodies,
    /// Those with a patch for a body.
    Patches,
    /// Those that take a filter.
    Filters,
    /// Those that take `If-Match`.
    Conditional,
    /// Those whose path has this variable.
    Variable(&'static str),
    /// Those whose path begins with this.
    Below(&'static str),
    /// These, by their id.
    Operations(&'static [&'static str]),
}

use Of::{All, Below, Bodies, Bodiless, Conditional, Filters, Operations, Patches, Protected, Rest, Rights, Variable};

/// Operations that store an object.
const OBJECT_WRITES: Of = Operations(&[
    "create_object", "create_objects", "import_objects", "update_object", "patch_object", "patch_selected_objects",
    "set_state", "clean_objects", "delete_object", "delete_objects", "delete_selected_objects", "revert_object",
    "restore_object",
]);
/// The operation that writes an object by a unique value.
const BY_VALUE: Of = Operations(&["write_by_value"]);
/// Operations that store values of objects.
const OBJECT_STORES: Of = Operations(&[
    "write_by_value", "create_object", "create_objects", "update_object", "patch_object", "patch_selected_objects",
    "revert_object", "restore_object",
]);
/// Operations that delete objects and nothing else.
pub(super) const DELETES_OF_OBJECTS: &[&str] = &["delete_object", "delete_objects", "delete_selected_objects"];
const OBJECT_DELETES: Of = Operations(DELETES_OF_OBJECTS);
/// Operations that write many objects.
const BULK_WRITES: Of =
    Operations(&["import_objects", "create_objects", "patch_selected_objects", "delete_selected_objects"]);
/// Operations that write the objects that a filter selects.
const SELECTED_WRITES: Of = Operations(&["patch_selected_objects", "delete_selected_objects"]);
/// Operations that write objects into files.
const EXPORTS: Of = Operations(&["export_objects"]);
/// Operations that look for free addresses.
const FREE: Of = Operations(&["free_address"]);
/// Operations that make objects of files.
const IMPORTS: Of = Operations(&["import_objects"]);
/// Operations that read files.
const FILES: Of = Operations(&["import_objects", "propose_type"]);
/// Operations that look at the past.
const PAST: Of = Operations(&[
    "list_objects", "query_objects", "list_references", "render_object", "get_object", "list_types", "get_type",
    "list_categories", "get_category", "diff_object", "list_changes", "revert_object", "revert_type",
    "revert_category", "replay_webhook",
]);
/// The operation that undoes a request.
const UNDO: Of = Operations(&["undo_request"]);
/// Operations that take an `Idempotency-Key`.
const ONCE: Of = Operations(&[
    "import_objects", "create_objects", "create_object", "create_type", "create_category", "create_user",
    "create_group", "create_setting", "create_token", "create_webhook", "patch_selected_objects",
]);
/// Operations that change a user or a credential.
const USER_CHANGES: Of = Operations(&["update_user", "patch_user", "change_password", "delete_user", "delete_group"]);

/// Operations on objects by their ids.
const OBJECT_BY_ID: Of = Operations(&[
    "render_object", "get_object", "get_state", "list_references", "object_graph", "object_history", "diff_object",
    "revert_object", "restore_object", "update_object", "patch_object", "set_state", "delete_object", "delete_objects",
]);
/// Operations that need a permission of a type which the caller may lack without the objects being hidden.
const OBJECT_PERMITS: Of = Operations(&[
    "create_object", "create_objects", "patch_selected_objects", "delete_selected_objects", "revert_object",
    "restore_object", "export_objects", "import_objects", "clean_objects", "update_object", "patch_object",
    "set_state", "delete_object", "delete_objects", "delete_type",
]);
/// Operations that could raise somebody's rights.
const GRANTS: Of = Operations(&[
    "create_user", "update_user", "patch_user", "change_password", "delete_user", "list_tokens", "create_token",
    "delete_token", "create_setting", "update_setting", "patch_setting", "delete_setting", "create_group",
    "update_group", "patch_group", "delete_group",
]);
const TYPE_WRITES: Of = Operations(&["create_type", "update_type", "patch_type", "revert_type", "restore_type"]);
/// Operations that change a type, and its objects with it.
const TYPE_CHANGES: Of = Operations(&["update_type", "patch_type", "revert_type"]);
const SETTING_WRITES: Of = Operations(&["create_setting", "update_setting", "patch_setting"]);
const USER_WRITES: Of = Operations(&["create_user", "update_user", "patch_user", "change_password"]);
const CATEGORY_WRITES: Of =
    Operations(&["create_category", "update_category", "patch_category", "revert_category", "restore_category"]);
/// Operations that bring back what was deleted.
const RESTORES: Of = Operations(&["restore_object", "restore_type", "restore_category"]);
const GROUP_WRITES: Of = Operations(&["create_group", "update_group", "patch_group"]);

/// The operations that can answer with a code.
pub(super) fn operations(code: ErrorCode) -> &'static [Of] {
    match code {
        ErrorCode::BadRequest => &[All],
        ErrorCode::ParameterInvalid => &[Rest, Operations(&["openapi"])],
        ErrorCode::BodyUnreadable => &[Bodies],
        ErrorCode::BodyUnexpected => &[Bodiless],
        ErrorCode::JsonMalformed => &[Bodies],
        ErrorCode::ValidationFailed => &[Bodies, RESTORES],
        ErrorCode::BodyUnencodable => &[Bodies],
        ErrorCode::PatchNotAnObject => &[Patches],
        ErrorCode::PatchUnreadable => &[Patches],
        ErrorCode::Query(_) => &[Filters, Operations(&["object_graph"])],
        ErrorCode::UnsupportedByEmbeddedStore => &[Filters],
        ErrorCode::ObjectPublicIdTaken => {
            &[Operations(&["create_object", "create_objects", "restore_object"]), BY_VALUE]
        }
        ErrorCode::TypeMissing => &[OBJECT_WRITES, BY_VALUE, UNDO],
        ErrorCode::ObjectReferenced => &[OBJECT_DELETES, Operations(&["delete_type"])],
        ErrorCode::IdInvalid => &[Variable("public_ids"), Operations(&["delete_object"])],
        ErrorCode::TooManyIds => &[OBJECT_DELETES],
        ErrorCode::TooManyObjects => &[BULK_WRITES, UNDO, TYPE_CHANGES],
        ErrorCode::IfMatchOnSeveral => &[OBJECT_DELETES, SELECTED_WRITES],
        ErrorCode::ExportDoesNotFit => &[EXPORTS, Operations(&["aggregate_objects", "read_report"])],
        ErrorCode::ImportRefused => &[FILES],
        ErrorCode::ImportRepeated | ErrorCode::ImportKey => &[IMPORTS],
        ErrorCode::ValuesNotUnique => &[TYPE_CHANGES],
        ErrorCode::ValuesBreakRules | ErrorCode::MigrationRefused => &[Operations(&["update_type", "patch_type"])],
        ErrorCode::TypeMigrating => &[TYPE_CHANGES, UNDO],
        ErrorCode::MigrationNotFound => &[Operations(&["type_migration"])],
        ErrorCode::FieldNotUnique => &[BY_VALUE],
        ErrorCode::ObjectValueTaken => &[OBJECT_STORES],
        ErrorCode::StateInvalid => &[Operations(&["set_state"])],
        ErrorCode::TypePublicIdTaken => &[Operations(&["create_type", "restore_type"])],
        ErrorCode::TypeNameTaken => &[TYPE_WRITES, UNDO],
        ErrorCode::TypeInUse => &[Operations(&["delete_type"])],
        ErrorCode::CategoryPublicIdTaken => &[Operations(&["create_category", "restore_category"])],
        ErrorCode::CategoryNameTaken => &[CATEGORY_WRITES, UNDO],
        ErrorCode::UserPublicIdTaken => &[Operations(&["create_user"])],
        ErrorCode::UserUserNameTaken => &[USER_WRITES],
        ErrorCode::UserNameConfusable => &[USER_WRITES],
        ErrorCode::FirstUserStays => &[USER_CHANGES],
        ErrorCode::OwnUserStays => &[USER_CHANGES],
        ErrorCode::LastAdministrator => &[USER_CHANGES],
        ErrorCode::PasswordNotReadable => &[Operations(&["list_users"])],
        ErrorCode::GroupPublicIdTaken => &[Operations(&["create_group"])],
        ErrorCode::GroupNameTaken => &[GROUP_WRITES],
        ErrorCode::GroupStays => &[Operations(&["delete_group"])],
        ErrorCode::GroupHasUsers => &[Operations(&["delete_group"])],
        ErrorCode::GroupToMoveTo => &[Operations(&["delete_group"])],
        ErrorCode::SettingIdentifierTaken => &[Operations(&["create_setting"])],
        ErrorCode::QuotaExceeded => &[SETTING_WRITES, Operations(&["create_token", "create_webhook", "save_report"])],
        ErrorCode::TokenNameTaken => &[Operations(&["create_token"])],
        ErrorCode::ValueTaken => &[
            OBJECT_WRITES,
            BY_VALUE,
            TYPE_WRITES,
            CATEGORY_WRITES,
            USER_WRITES,
            GROUP_WRITES,
            SETTING_WRITES,
            UNDO,
            Operations(&["create_token"]),
        ],
        ErrorCode::TokenMissing => &[Protected],
        ErrorCode::TokenInvalid => &[Protected],
        ErrorCode::TokenExpired => &[Protected],
        ErrorCode::CredentialsWrong => &[Protected, Operations(&["login"])],
        ErrorCode::RightMissing => &[Rights],
        ErrorCode::RightsExceeded => &[GRANTS],
        ErrorCode::SignOnRefused => &[Protected],
        ErrorCode::AclDenied => &[OBJECT_PERMITS, BY_VALUE, UNDO, TYPE_CHANGES],
        ErrorCode::TypeInactive => &[OBJECT_WRITES, BY_VALUE, UNDO, TYPE_CHANGES, Operations(&["delete_type"])],
        ErrorCode::NotFound => &[Variable("")],
        ErrorCode::ObjectNotFound => &[OBJECT_BY_ID, UNDO],
        ErrorCode::TypeNotFound => &[
            Below("/rest/types/{public_id}"),
            Below("/rest/objects/clean/"),
            Operations(&["list_dangling", "search_objects"]),
            BY_VALUE,
            IMPORTS,
            EXPORTS,
            FREE,
        ],
        ErrorCode::CategoryNotFound => &[Below("/rest/categories/{public_id}")],
        ErrorCode::UserNotFound => &[Below("/rest/users/{public_id}")],
        ErrorCode::SettingNotFound => {
            &[Below("/rest/users/{public_id}/settings/{name}"), Operations(&["create_setting"])]
        }
        ErrorCode::ReportNotFound => &[Below("/rest/reports/{name}")],
        ErrorCode::TokenNotFound => &[Variable("token_id")],
        ErrorCode::GroupNotFound => &[Below("/rest/groups/{public_id}"), Operations(&["save_report"])],
        ErrorCode::RightNotFound => &[Operations(&["get_right"])],
        ErrorCode::WebhookNotFound => &[Below("/rest/webhooks/{public_id}")],
        ErrorCode::RequestNotFound => &[UNDO],
        ErrorCode::ChangedSince => &[UNDO, Operations(&["revert_type"])],
        ErrorCode::RouteNotFound => &[Operations(&["explain_right"])],
        ErrorCode::NetworkFull => &[FREE],
        ErrorCode::HistoryGone => &[PAST],
        ErrorCode::HistoryUnknown => &[PAST, RESTORES, UNDO],
        ErrorCode::MethodNotAllowed => &[Operations(&[])],
        ErrorCode::IdempotencyKeyInUse => &[ONCE],
        ErrorCode::TokenMadeBefore => &[Operations(&["create_token"])],
        ErrorCode::WebhookMadeBefore => &[Operations(&["create_webhook"])],
        ErrorCode::BodyTooSlow => &[Bodies],
        ErrorCode::PreconditionFailed => &[Conditional, SELECTED_WRITES],
        ErrorCode::PreconditionRequired => &[Conditional],
        ErrorCode::BodyTooLarge => &[Bodies],
        ErrorCode::UriTooLong => &[All],
        ErrorCode::ContentEncodingUnknown => &[Bodies],
        ErrorCode::NotAFile => &[FILES],
        ErrorCode::NotJson => &[Bodies],
        ErrorCode::IdempotencyKeyReused => &[ONCE],
        ErrorCode::TooManyAttempts => &[Rest],
        ErrorCode::RateLimited => &[All],
        ErrorCode::HeadersTooLarge => &[All],
        ErrorCode::Internal => &[All],
        ErrorCode::StoreUnavailable => &[All],
        ErrorCode::QueryTimeout => &[Rest],
        ErrorCode::RequestTimeout => &[All],
        ErrorCode::IssuerUnavailable => &[Protected],
        ErrorCode::StoreIncomplete => &[Operations(&["ready"])],
        ErrorCode::StoreDamaged => &[Operations(&["ready"])],
        ErrorCode::StoreNotMigrated => &[Operations(&["ready"])],
        ErrorCode::Busy => &[Protected],
        ErrorCode::ImportsBusy => &[FILES],
        ErrorCode::BodiesBusy => &[Bodies],
        ErrorCode::Contended => &[Rest],
    }
}
