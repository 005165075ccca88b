//! The codes of errors: all there are, with their status, and which operations can answer with them.
//!
//! `ApiError` takes no other code (a debug build panics), and the tests hold every error that they see against the
//! description of its operation.

/// A code.
#[derive(Debug, Clone, Copy)]
pub struct ErrorCode {
    /// The status that it comes with.
    pub status: u16,
    /// The code; `<number>` stands for digits.
    pub code: &'static str,
    /// Which operations can answer with it.
    pub of: Of,
    /// What it means.
    pub meaning: &'static str,
}

/// Operations.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// All.
    All,
    /// All below `/rest`.
    Rest,
    /// Those that need a token.
    Protected,
    /// Those that need a right, or to be about oneself.
    Rights,
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

const fn code(status: u16, code: &'static str, of: Of, meaning: &'static str) -> ErrorCode {
    ErrorCode { status, code, of, meaning }
}

use Of::{All, Below, Bodies, Conditional, Filters, Operations, Patches, Protected, Rest, Rights, Variable};

/// Operations that store an object.
const OBJECT_WRITES: Of = Operations(&[
    "create_object",
    "create_objects",
    "import_objects",
    "update_object",
    "patch_object",
    "patch_selected_objects",
    "set_state",
    "clean_objects",
    "delete_object",
    "delete_objects",
    "delete_selected_objects",
]);
/// Operations that delete objects.
const OBJECT_DELETES: Of = Operations(&["delete_object", "delete_objects", "delete_selected_objects"]);
/// Operations that write many objects.
const BULK_WRITES: Of =
    Operations(&["import_objects", "create_objects", "patch_selected_objects", "delete_selected_objects"]);
/// Operations that write the objects that a filter selects.
const SELECTED_WRITES: Of = Operations(&["patch_selected_objects", "delete_selected_objects"]);
/// Operations that write objects into files.
const EXPORTS: Of = Operations(&["export_objects"]);
/// Operations that make objects of files.
const IMPORTS: Of = Operations(&["import_objects"]);
/// Operations that take an `Idempotency-Key`.
const ONCE: Of = Operations(&["import_objects", "create_objects"]);
/// Operations that change a user or what he signs in with.
const USER_CHANGES: Of = Operations(&["update_user", "patch_user", "change_password", "delete_user", "delete_group"]);

/// Operations that read, write or delete one object, or all of a type.
const OBJECT_ACCESS: Of = Operations(&[
    "create_object",
    "create_objects",
    "patch_selected_objects",
    "delete_selected_objects",
    "render_object",
    "get_object",
    "get_state",
    "list_references",
    "list_unclean",
    "export_objects",
    "import_objects",
    "clean_objects",
    "update_object",
    "patch_object",
    "set_state",
    "delete_object",
    "delete_objects",
    "delete_type",
]);
/// Operations by which somebody could lift himself or others.
const GRANTS: Of = Operations(&[
    "create_user",
    "update_user",
    "patch_user",
    "change_password",
    "delete_user",
    "list_tokens",
    "create_token",
    "delete_token",
    "create_setting",
    "update_setting",
    "patch_setting",
    "delete_setting",
    "create_group",
    "update_group",
    "patch_group",
    "delete_group",
]);
const TYPE_WRITES: Of = Operations(&["create_type", "update_type", "patch_type"]);
const CATEGORY_WRITES: Of = Operations(&["create_category", "update_category", "patch_category"]);
const GROUP_WRITES: Of = Operations(&["create_group", "update_group", "patch_group"]);

/// All codes, by status.
pub const CODES: &[ErrorCode] = &[
    code(400, "bad_request", All, "the request cannot be understood"),
    code(400, "parameter_invalid", Rest, "a parameter is unknown, is there twice, or has a value that cannot be meant"),
    code(400, "body_unreadable", Bodies, "the body could not be read to its end"),
    code(400, "json_malformed", Bodies, "the body is no JSON, a key is in it twice, or it has too many values"),
    code(
        400,
        "validation_failed",
        Bodies,
        "the body breaks its schema; `errors` names the places, `errors_left_out` counts those behind the first 100",
    ),
    code(400, "body_unencodable", Bodies, "the body is too deep or too large to be stored"),
    code(400, "patch_not_an_object", Patches, "a merge patch has to be an object"),
    code(400, "patch_unreadable", Patches, "the patch makes a resource that cannot be read"),
    code(400, "query_<number>", Filters, "filter, sort or projection cannot be understood; the number is MongoDB's"),
    code(400, "unsupported_by_embedded_store", Filters, "an operator that needs a MongoDB server"),
    code(400, "object_public_id_taken", Operations(&["create_object", "create_objects"]), "another object has this id"),
    code(400, "type_missing", OBJECT_WRITES, "the type of the object does not exist"),
    code(
        400,
        "object_referenced",
        OBJECT_DELETES,
        "others refer to the object, and `on_references=refuse` was asked for",
    ),
    code(400, "id_invalid", Variable("public_ids"), "the path is no list of ids"),
    code(400, "id_invalid", Operations(&["delete_object"]), "the path is no list of ids"),
    code(400, "too_many_ids", OBJECT_DELETES, "more than 1000 ids at once"),
    code(400, "too_many_objects", BULK_WRITES, "more objects than `api.max_bulk` allows in one request"),
    code(400, "if_match_on_several", OBJECT_DELETES, "`If-Match` speaks of one object"),
    code(400, "if_match_on_several", SELECTED_WRITES, "`If-Match` speaks of one object"),
    code(400, "export_does_not_fit", EXPORTS, "the form has no room for these objects, or no such character"),
    code(400, "import_refused", IMPORTS, "lines of the file cannot be taken; `report` names them"),
    code(400, "import_key", IMPORTS, "nothing is found by such a field"),
    code(400, "state_invalid", Operations(&["set_state"]), "the body is neither true nor false"),
    code(400, "type_public_id_taken", Operations(&["create_type"]), "another type has this id"),
    code(400, "type_name_taken", TYPE_WRITES, "another type has this name"),
    code(400, "type_in_use", Operations(&["delete_type"]), "the type has objects, and `cascade` was not asked for"),
    code(400, "category_public_id_taken", Operations(&["create_category"]), "another category has this id"),
    code(400, "category_name_taken", CATEGORY_WRITES, "another category has this name"),
    code(400, "user_public_id_taken", Operations(&["create_user"]), "another user has this id"),
    code(
        400,
        "user_user_name_taken",
        Operations(&["create_user", "update_user", "patch_user", "change_password"]),
        "another user has this name, whatever the case",
    ),
    code(
        400,
        "user_name_confusable",
        Operations(&["create_user", "update_user", "patch_user", "change_password"]),
        "another user has a name that looks the same",
    ),
    code(400, "first_user_stays", USER_CHANGES, "the first user cannot be deleted"),
    code(400, "own_user_stays", USER_CHANGES, "nobody deletes himself"),
    code(400, "last_administrator", USER_CHANGES, "the last active administrator stays one"),
    code(400, "password_not_readable", Operations(&["list_users"]), "nothing of a password can be asked"),
    code(400, "group_public_id_taken", Operations(&["create_group"]), "another group has this id"),
    code(400, "group_name_taken", GROUP_WRITES, "another group has this name"),
    code(400, "group_stays", Operations(&["delete_group"]), "the groups 1 and 2 cannot be deleted"),
    code(
        400,
        "group_has_users",
        Operations(&["delete_group"]),
        "the group has users, and `action` does not say what becomes of them",
    ),
    code(400, "group_to_move_to", Operations(&["delete_group"]), "there is no such other group to move the users to"),
    code(
        400,
        "setting_identifier_taken",
        Operations(&["create_setting"]),
        "the user has a setting with this identifier",
    ),
    code(
        400,
        "quota_exceeded",
        Operations(&["create_setting", "update_setting", "patch_setting", "create_token"]),
        "the user would keep more settings or tokens, or more bytes of them, than one may",
    ),
    code(400, "token_name_taken", Operations(&["create_token"]), "the user has a token with this name"),
    code(401, "token_missing", Protected, "there is no token"),
    code(401, "token_invalid", Protected, "the token is none of this service, or is no longer good"),
    code(401, "token_expired", Protected, "the token has come to its end"),
    code(401, "credentials_wrong", Protected, "user name or password are wrong"),
    code(401, "credentials_wrong", Operations(&["login"]), "user name or password are wrong"),
    code(403, "right_missing", Rights, "the caller does not hold the right"),
    code(
        403,
        "rights_exceeded",
        GRANTS,
        "the caller would give or change what goes beyond his own rights, or a user whose group does",
    ),
    code(403, "acl_denied", OBJECT_ACCESS, "the access list of the type does not let the caller's group do this"),
    code(403, "type_inactive", OBJECT_WRITES, "the type is not active"),
    code(404, "not_found", Variable(""), "the path cannot lead to anything"),
    code(404, "object_not_found", OBJECT_ACCESS, "there is no such object"),
    code(404, "type_not_found", Below("/rest/types/{public_id}"), "there is no such type"),
    code(404, "type_not_found", Below("/rest/objects/clean/"), "there is no such type"),
    code(404, "type_not_found", IMPORTS, "there is no such type"),
    code(404, "type_not_found", EXPORTS, "there is no such type"),
    code(404, "category_not_found", Below("/rest/categories/{public_id}"), "there is no such category"),
    code(404, "user_not_found", Below("/rest/users/{public_id}"), "there is no such user"),
    code(404, "setting_not_found", Variable("name"), "the user has no such setting"),
    code(404, "token_not_found", Variable("token_id"), "the user has no such token"),
    code(404, "group_not_found", Below("/rest/groups/{public_id}"), "there is no such group"),
    code(404, "right_not_found", Operations(&["get_right"]), "there is no such right"),
    code(404, "route_not_found", Operations(&["explain_right"]), "there is no such route"),
    code(405, "method_not_allowed", Operations(&[]), "the path does not know the method; `Allow` names those it does"),
    code(408, "body_too_slow", Bodies, "the body took longer to arrive than `server.limits.body_timeout_ms`"),
    code(412, "precondition_failed", Conditional, "the resource has changed"),
    code(412, "precondition_failed", SELECTED_WRITES, "the filter matches another number of objects than expected"),
    code(
        413,
        "body_too_large",
        Bodies,
        "the body is larger than the setting that the message names, or than 8 KiB on a route without a token",
    ),
    code(414, "uri_too_long", All, "path and query are longer than `server.limits.max_uri_bytes`"),
    code(415, "content_encoding_unknown", Bodies, "the body is compressed in a way that the service does not know"),
    code(415, "not_a_file", IMPORTS, "the body is not said to be a file of objects"),
    code(415, "not_json", Bodies, "the body is not said to be JSON"),
    code(422, "idempotency_key_reused", ONCE, "another request came under this `Idempotency-Key`"),
    code(429, "too_many_attempts", Rest, "too many failed sign-ins; `Retry-After` says when to come again"),
    code(429, "rate_limited", All, "too many requests; `Retry-After` says when to come again"),
    code(431, "headers_too_large", All, "the headers are larger than `server.limits.max_header_bytes`"),
    code(500, "internal", All, "something went wrong in the service; its log names the cause"),
    code(503, "store_unavailable", All, "the store cannot be reached; `Retry-After` says when to come again"),
    code(503, "query_timeout", Rest, "the query took longer than `query.max_time_ms`"),
    code(
        503,
        "request_timeout",
        All,
        "the request took longer than `server.request_timeout_s`, a transfer than `api.transfer_timeout_s`; it may have taken effect",
    ),
    code(503, "store_not_migrated", Operations(&["ready"]), "the store is not as this version of the service needs it"),
    code(
        503,
        "busy",
        Protected,
        "there is no memory or no turn for the request now; `Retry-After` says when to come again",
    ),
    code(503, "imports_busy", IMPORTS, "two imports of the same user are under way"),
    code(503, "bodies_busy", Bodies, "as many bytes of bodies are on their way in as there may be"),
    code(503, "contended", Rest, "others change the same thing again and again"),
];

/// Whether there is such a code with this status.
pub fn is_known(status: u16, code: &str) -> bool {
    CODES.iter().any(|known| known.status == status && is(known.code, code))
}

/// Whether a code is the one of this pattern.
pub fn is(pattern: &str, code: &str) -> bool {
    match pattern.strip_suffix("<number>") {
        None => pattern == code,
        Some(head) => code.strip_prefix(head).is_some_and(|number| number.parse::<u64>().is_ok()),
    }
}
