//! All error codes, in one table.
//!
//! A refusal carries one of them through all layers, so a code that is not in the table does not compile. The table has
//! the HTTP status of each code, and `http::openapi` the operations that can answer with it.

use std::borrow::Cow;

macro_rules! error_codes {
    ($($status:literal $variant:ident $name:literal: $meaning:literal,)*) => {
        /// The kind of an error, as a name that is stable from version to version.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorCode {
            $(
                #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                $variant,
            )*
            /// `query_<number>`: MongoDB's number for what is wrong with a filter, a sort or a projection.
            Query(i32),
        }

        impl ErrorCode {
            /// Every code once; [`Self::Query`] is listed with the number 0.
            pub const ALL: &[Self] = &[$(Self::$variant,)* Self::Query(0)];

            /// The status of an answer that has this code.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)*
                    Self::Query(_) => 400,
                }
            }

            /// The code as lists of codes write it, with `<number>` for digits.
            pub fn pattern(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Query(_) => "query_<number>",
                }
            }

            /// What it means, as half a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                    Self::Query(_) => "filter, sort or projection cannot be understood; the number is MongoDB's",
                }
            }
        }
    };
}

error_codes! {
    400 BadRequest "bad_request": "the request cannot be understood",
    400 ParameterInvalid "parameter_invalid": "a parameter is unknown, is there twice, or has a value that cannot be meant",
    400 BodyUnreadable "body_unreadable": "the body could not be read to its end",
    400 BodyUnexpected "body_unexpected": "a body comes where none is taken",
    400 JsonMalformed "json_malformed": "the body is no JSON, a key is in it twice, or it has too many values",
    400 ValidationFailed "validation_failed": "the body breaks its schema; `errors` names the places, `errors_left_out` counts those behind the first 100",
    400 BodyUnencodable "body_unencodable": "the body is too deep or too large to be stored",
    400 PatchNotAnObject "patch_not_an_object": "a merge patch has to be an object",
    400 PatchUnreadable "patch_unreadable": "the patch makes a resource that cannot be read",
    400 UnsupportedByEmbeddedStore "unsupported_by_embedded_store": "an operator that needs a MongoDB server",
    400 ObjectPublicIdTaken "object_public_id_taken": "another object has this id",
    400 TypeMissing "type_missing": "the type of the object does not exist",
    400 ObjectReferenced "object_referenced": "others refer to the object, and `on_references=refuse` or `on_delete` of their field refuses it",
    400 IdInvalid "id_invalid": "the path is no list of ids",
    400 TooManyIds "too_many_ids": "more than 1000 ids at once",
    400 TooManyObjects "too_many_objects": "more objects than `api.max_bulk` allows in one request",
    400 IfMatchOnSeveral "if_match_on_several": "`If-Match` speaks of one object",
    400 ExportDoesNotFit "export_does_not_fit": "the form has no room for these objects, or no such character",
    400 ImportRefused "import_refused": "lines of the file cannot be taken; `report` names them",
    400 ImportKey "import_key": "nothing is found by such a field",
    400 ValuesNotUnique "values_not_unique": "objects of the type have the same value of a field that is to be unique; `errors` names them",
    400 ValuesBreakRules "values_break_rules": "objects break rules that the change makes; `errors` names the first 100 of each, and the remedies",
    400 MigrationRefused "migration_refused": "steps of the migration cannot be made with some objects; `errors` names the first 100 for each step",
    400 FieldNotUnique "field_not_unique": "the values of the field are not unique, so none of them leads to one object",
    400 StateInvalid "state_invalid": "the body is neither true nor false",
    400 TypePublicIdTaken "type_public_id_taken": "another type has this id",
    400 TypeNameTaken "type_name_taken": "another type has this name",
    400 TypeInUse "type_in_use": "the type has objects, and `cascade` was not asked for",
    400 CategoryPublicIdTaken "category_public_id_taken": "another category has this id",
    400 CategoryNameTaken "category_name_taken": "another category has this name",
    400 UserPublicIdTaken "user_public_id_taken": "another user has this id",
    400 UserUserNameTaken "user_user_name_taken": "another user has this name, whatever the case",
    400 UserNameConfusable "user_name_confusable": "another user has a name that looks the same",
    400 FirstUserStays "first_user_stays": "the first user cannot be deleted",
    400 OwnUserStays "own_user_stays": "nobody deletes himself",
    400 LastAdministrator "last_administrator": "the last active administrator stays one",
    400 PasswordNotReadable "password_not_readable": "nothing of a password can be asked",
    400 GroupPublicIdTaken "group_public_id_taken": "another group has this id",
    400 GroupNameTaken "group_name_taken": "another group has this name",
    400 GroupStays "group_stays": "the groups 1 and 2 cannot be deleted",
    400 GroupHasUsers "group_has_users": "the group has users, and `action` does not say what becomes of them",
    400 GroupToMoveTo "group_to_move_to": "there is no such other group to move the users to",
    400 SettingIdentifierTaken "setting_identifier_taken": "the user has a setting with this identifier",
    400 QuotaExceeded "quota_exceeded": "the user would keep more settings or tokens, or more bytes of them, than one may; or there are as many webhooks, or reports of a user or a group, as there may be",
    400 TokenNameTaken "token_name_taken": "the user has a token with this name",
    400 ValueTaken "value_taken": "another one has the same value under a unique index that an operator added",
    401 TokenMissing "token_missing": "there is no token",
    401 TokenInvalid "token_invalid": "the token is none of this service, or is no longer good",
    401 TokenExpired "token_expired": "the token has come to its end",
    401 CredentialsWrong "credentials_wrong": "user name or password are wrong",
    403 RightMissing "right_missing": "the caller does not hold the right",
    403 RightsExceeded "rights_exceeded": "the caller would give or change what goes beyond his own rights, or a user whose group does",
    403 SignOnRefused "sign_on_refused": "the issuer of OpenID Connect knows the caller, but the service has no place for him; the message says why",
    403 AclDenied "acl_denied": "the access list of the type does not let the caller's group do this",
    403 TypeInactive "type_inactive": "the type is not active",
    404 NotFound "not_found": "the path cannot lead to anything",
    404 ObjectNotFound "object_not_found": "there is no such object",
    404 TypeNotFound "type_not_found": "there is no such type",
    404 CategoryNotFound "category_not_found": "there is no such category",
    404 UserNotFound "user_not_found": "there is no such user",
    404 SettingNotFound "setting_not_found": "the user has no such setting",
    404 TokenNotFound "token_not_found": "the user has no such token",
    404 GroupNotFound "group_not_found": "there is no such group",
    404 RightNotFound "right_not_found": "there is no such right",
    404 WebhookNotFound "webhook_not_found": "there is no such webhook",
    404 ReportNotFound "report_not_found": "neither the caller nor the group has a report of this name",
    404 RequestNotFound "request_not_found": "no entry of the history that the caller may read is of such a request",
    404 MigrationNotFound "migration_not_found": "no change of the type has changed its objects",
    404 RouteNotFound "route_not_found": "there is no such route",
    405 MethodNotAllowed "method_not_allowed": "the path does not know the method; `Allow` names those it does",
    408 BodyTooSlow "body_too_slow": "the head or the body took longer to arrive than `server.limits.head_timeout_ms` or `body_timeout_ms`",
    409 IdempotencyKeyInUse "idempotency_key_in_use": "a request under the same `Idempotency-Key` is under way",
    409 TokenMadeBefore "token_made_before": "a token was made under this `Idempotency-Key`, and it was shown then",
    409 WebhookMadeBefore "webhook_made_before": "a webhook was made under this `Idempotency-Key`, and its secret was shown then",
    409 ImportRepeated "import_repeated": "the same file was imported within the last day; `report` is the outcome then, and `again=true` imports it once more",
    409 NetworkFull "network_full": "no address of the network is free",
    409 TypeMigrating "type_migrating": "the objects of the type are still changing after an earlier change of it",
    409 ObjectValueTaken "object_value_taken": "another object of the type has this value of a field whose values are unique",
    409 ChangedSince "changed_since": "what the request changed was changed again since; `conflicts` names the first 100 of these changes, `conflicts_left_out` counts the others",
    410 HistoryGone "history_gone": "the history does not go back that far",
    410 HistoryUnknown "history_unknown": "nobody knows what the resource was: another tool changed it since then, or it was deleted on a full disk",
    412 PreconditionFailed "precondition_failed": "the resource has changed, or the filter matches another number of objects than expected",
    413 BodyTooLarge "body_too_large": "the body is larger than the setting that the message names, or than 8 KiB on a route without a token",
    414 UriTooLong "uri_too_long": "path and query are longer than `server.limits.max_uri_bytes`",
    415 ContentEncodingUnknown "content_encoding_unknown": "the body is compressed in a way that the service does not know",
    415 NotAFile "not_a_file": "the body is not said to be a file of objects",
    415 NotJson "not_json": "the body is not said to be JSON",
    422 IdempotencyKeyReused "idempotency_key_reused": "another request came under this `Idempotency-Key`",
    428 PreconditionRequired "precondition_required": "the service asks for an `If-Match` here",
    429 TooManyAttempts "too_many_attempts": "too many failed sign-ins; `Retry-After` says when to come again",
    429 RateLimited "rate_limited": "too many requests; `Retry-After` says when to come again",
    431 HeadersTooLarge "headers_too_large": "the headers are larger than `server.limits.max_header_bytes`",
    500 Internal "internal": "something went wrong in the service; its log names the cause",
    503 StoreUnavailable "store_unavailable": "the store cannot be reached, or is not ready for this: the log of the service tells why; `Retry-After` says when to come again",
    503 QueryTimeout "query_timeout": "the query took longer than `query.max_time_ms`",
    503 RequestTimeout "request_timeout": "the request took longer than `server.request_timeout_s`, a transfer than `api.transfer_timeout_s`; it may have taken effect",
    503 IssuerUnavailable "issuer_unavailable": "the issuer of OpenID Connect does not answer, so its token cannot be checked now; `Retry-After` says when to come again",
    503 StoreIncomplete "store_incomplete": "another tool dropped a unique index; the next start makes it again",
    503 StoreDamaged "store_damaged": "a damaged page of the store was met since the start; stop the service and run inventory-service check --deep, or restore a backup",
    503 StoreNotMigrated "store_not_migrated": "the store is not as this version of the service needs it",
    503 Busy "busy": "there is no memory or no turn for the request now; `Retry-After` says when to come again",
    503 ImportsBusy "imports_busy": "two imports of the same user are under way",
    503 BodiesBusy "bodies_busy": "as many bytes of bodies are on their way in as there may be",
    503 Contended "contended": "others change the same thing again and again",
}

impl ErrorCode {
    /// The code as clients get it.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Query(number) => Cow::Owned(format!("query_{number}")),
            known => Cow::Borrowed(known.pattern()),
        }
    }

    /// The code that clients get under this name.
    pub fn named(name: &str) -> Option<Self> {
        let named = Self::ALL.iter().copied().find(|code| code.name() == name);
        let numbered = || name.strip_prefix("query_")?.parse().ok().map(Self::Query).filter(|code| code.name() == name);
        named.or_else(numbered)
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn every_code_is_found_by_its_name() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::named(&code.name()), Some(*code));
        }
    }

    #[test]
    fn a_number_of_a_question_is_digits() {
        assert_eq!(ErrorCode::named("query_2"), Some(ErrorCode::Query(2)));
        assert_eq!(ErrorCode::named("query_two"), None);
        assert_eq!(ErrorCode::named("query_+2"), None);
    }
}
