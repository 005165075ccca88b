//! Schemas of request bodies: made from the tables with which `domain` checks them, and from rules outside the tables.

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::auth::rights;
use crate::domain::schema::{Kind, LONGEST_FIELD_NAME, Member, READ_ONLY, Schema, Unknown};
use crate::domain::type_indexes;
use crate::domain::unique::FOLD;
use crate::domain::user::{
    LOCAL_AUTHENTICATOR, LONGEST_PASSWORD, OIDC_AUTHENTICATOR, PASSWORD_MASK, SHORTEST_PASSWORD,
};
use crate::domain::{
    category_input, group_input, migration_input, object_fields, object_input, report_input, revert_input,
    setting_input, token_input, type_input, user_input, webhook_input,
};
use crate::json::merge;

/// Declares the schemas of bodies by name, so that annotations can refer to them.
macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => {
        $($(#[$doc])* #[derive(Serialize, ToSchema)] pub struct $name;)*

        /// The schemas of bodies by name.
        pub fn schemas() -> Vec<(&'static str, Value)> {
            vec![$((stringify!($name), $schema)),*]
        }
    };
}

bodies! {
    /// A new object.
    NewObject = requiring(body(&object_input::OBJECT, &object_rules()), &["type_id"]);
    /// The new state of an object.
    ObjectBody = body(&object_input::OBJECT, &object_rules());
    /// What to change of an object.
    ObjectPatch = patch(&object_input::OBJECT, &object_rules());
    /// Whether an object becomes active.
    StateBody = state();
    /// The parameters of a list of objects.
    ObjectQuery = object_query();
    /// An aggregation pipeline.
    PipelineBody = pipeline_body();
    /// A new type, or the new state of one.
    TypeBody = body(&type_input::TYPE, &type_rules());
    /// The new state of a type, and what it means for its objects.
    TypeChange = body(&migration_input::TYPE_CHANGE, &type_change_rules());
    /// What to change of a type.
    TypePatch = patch(&migration_input::TYPE_CHANGE, &type_change_rules());
    /// A field of a type.
    TypeField = merged(object(&type_input::FIELD, Use::Answer), &said_of_fields());
    /// How objects of a type are rendered.
    RenderMeta = merged(object(&type_input::RENDER_META, Use::Answer), &said_of_rendering());
    /// A new category, or the new state of one.
    CategoryBody = body(&category_input::CATEGORY, &category_rules());
    /// What to change of a category.
    CategoryPatch = patch(&category_input::CATEGORY, &category_rules());
    /// A new user.
    NewUser = requiring(body(&user_input::USER, &user_rules()), &["password"]);
    /// The new state of a user.
    UserBody = body(&user_input::USER, &user_rules());
    /// What to change of a user.
    UserPatch = patch(&user_input::USER, &user_rules());
    /// A new password.
    PasswordBody = password_body();
    /// A new group, or the new state of one.
    GroupBody = body(&group_input::GROUP, &group_rules());
    /// What to change of a group.
    GroupPatch = patch(&group_input::GROUP, &group_rules());
    /// A new setting.
    NewSetting = requiring(body(&setting_input::SETTING, &setting_rules()), &["identifier"]);
    /// The new state of a setting.
    SettingBody = body(&setting_input::SETTING, &setting_rules());
    /// What to change of a setting.
    SettingPatch = patch(&setting_input::SETTING, &setting_rules());
    /// A new token for a machine.
    NewToken = body(&token_input::TOKEN, &token_rules());
    /// A new webhook, or the new state of one.
    WebhookBody = body(&webhook_input::WEBHOOK, &webhook_rules());
    /// What to change of a webhook.
    WebhookPatch = patch(&webhook_input::WEBHOOK, &webhook_rules());
    /// A report.
    ReportBody = body(&report_input::REPORT, &report_rules());
    /// What to sign in with.
    LoginBody = body(&user_input::LOGIN, &login_rules());
    /// Which state comes back.
    RevertBody = body(&revert_input::REVERT, &revert_rules());
    /// Which request is undone.
    UndoBody = body(&revert_input::UNDO, &undo_rules());
}

fn body(table: &Schema, rules: &Value) -> Value {
    merged(object(table, Use::Body), rules)
}

fn patch(table: &Schema, rules: &Value) -> Value {
    as_patch(body(table, rules))
}

fn undo_rules() -> Value {
    let request_id = json!({
        "minLength": 1,
        "maxLength": revert_input::LONGEST_REQUEST_ID,
        "pattern": "^[A-Za-z0-9._-]+$",
        "description": "The id of a request: the header `X-Request-ID` of its answer, and `request_id` of its log entries.",
        "example": "4f8b5c05",
    });
    let dry_run = json!({"default": false, "description": "Whether to tell what would be undone, and store nothing."});
    json!({"properties": {"request_id": request_id, "dry_run": dry_run}})
}

fn revert_rules() -> Value {
    let to = json!({
        "anyOf": [
            {"type": "string", "minLength": 1, "format": "moment"},
            {"type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX},
        ],
        "description": "A moment: a time of RFC 3339, or the sequence of a log entry.",
        "example": 1,
    });
    let dry_run = json!({"default": false, "description": "Whether to tell what would come of it, and store nothing."});
    json!({"properties": {"to": to, "dry_run": dry_run}})
}

/// The request of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// What is refused counts.
    Body,
    /// Other tools may have stored more than a body can express.
    Answer,
}

fn object(table: &Schema, used: Use) -> Value {
    let mut members = Map::new();
    for member in table.members {
        members.insert(member.name.to_owned(), schema_of(member, used));
    }
    let mut schema = json!({"type": "object", "properties": members});
    let required: Vec<&str> = table.members.iter().filter(|member| member.required).map(|member| member.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if used == Use::Body && table.unknown == Unknown::RefusedUnlessRead {
        let described = json!({"description": "Set by the service, or sent by old clients: taken and not used."});
        for name in READ_ONLY.iter().filter(|name| table.members.iter().all(|member| member.name != **name)) {
            schema["properties"][name] = described.clone();
        }
    }
    if used == Use::Body && table.unknown != Unknown::Dropped {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

fn schema_of(member: &Member, used: Use) -> Value {
    let schema = kind(&member.kind, used);
    if member.nullable { or_null(schema) } else { schema }
}

fn kind(kind: &Kind, used: Use) -> Value {
    match kind {
        Kind::Integer => json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX}),
        Kind::Text => json!({"type": "string"}),
        Kind::FieldName => json!({"type": "string", "maxLength": LONGEST_FIELD_NAME}),
        Kind::Name => json!({"type": "string", "pattern": NAME}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::Version => json!({"type": "string", "pattern": "^[0-9]{1,9}\\.[0-9]{1,9}\\.[0-9]{1,9}$"}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::BooleanOrFold => json!({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": [FOLD]}]}),
        Kind::Moment => json!({"type": "object", "example": {"$date": 1_767_225_600_000_i64}}),
        Kind::Any => json!({}),
        Kind::Map(table) => object(table, used),
        Kind::EmptyOr(table) => json!({"anyOf": [object(table, used), {"type": "object", "maxProperties": 0}]}),
        Kind::OpenMap | Kind::OpenMapOf(_) => open_map(),
        Kind::Stages => stages(),
        Kind::Entries(entry) => {
            let list = json!({"type": "array", "items": object(entry, used)});
            json!({"anyOf": [list, merged(open_map(), &json!({"description": "From name to value."}))]})
        }
        Kind::List(items) => json!({"type": "array", "items": self::kind(items, used)}),
    }
}

/// Generators of clients take an object that says nothing of its members for an empty one.
fn open_map() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// As [`crate::domain::schema::is_kebab_case`] decides; `\w` stands for letters and digits of every script.
const NAME: &str = r"^\w+-*\w[\w-]*$";
/// No control characters, and no space at either end.
const USER_NAME: &str = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$";

fn or_null(mut schema: Value) -> Value {
    match schema.get("type").cloned() {
        Some(Value::String(kind)) => schema["type"] = json!([kind, "null"]),
        None if schema == json!({}) => {}
        _ => schema = json!({"anyOf": [schema, {"type": "null"}]}),
    }
    schema
}

fn merged(mut schema: Value, rules: &Value) -> Value {
    merge::merge(&mut schema, rules);
    schema
}

fn requiring(mut schema: Value, names: &[&str]) -> Value {
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    required.extend(names.iter().map(|name| json!(name)));
    schema["required"] = json!(required);
    schema
}

/// A merge patch of the same resource: nothing has to be there, and null takes what need not be there back to its default.
fn as_patch(mut schema: Value) -> Value {
    let members = schema.as_object_mut().expect("a body is an object");
    let required = members.remove("required").unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
            if !property["type"].is_array() {
                *property = or_null(property.take());
            }
        }
    }
    schema
}

/// An id that a client may choose; see `service::resource::create_with`.
fn chosen_id() -> Value {
    json!({"minimum": 1, "maximum": 9_000_000_000_000_000_i64})
}

fn object_rules() -> Value {
    let said = described(&[
        ("type_id", "The type that the object is of. It cannot change."),
        ("author_id", "The user who made it. An update keeps the stored one."),
        ("fields", "The values: a list of names and values, or a map from name to value."),
        ("active", "Whether the object is in use."),
        ("version", "Three numbers. The service increases it with each change, unless the body has another one."),
        ("status", "Kept, without effect."),
        ("views", "Taken when the object is made, and not used."),
    ]);
    merged(said, &json!({"properties": {"public_id": chosen_id()}}))
}

/// The descriptions of members, each with its name.
fn described(members: &[(&str, &str)]) -> Value {
    let said = |(name, text): &(&str, &str)| ((*name).to_owned(), json!({"description": text}));
    json!({"properties": members.iter().map(said).collect::<Map<_, _>>()})
}

fn said_of_fields() -> Value {
    let known = object_fields::kinds().join(", ");
    let kind = format!("What its values are: {known}. The values of any other kind can be any JSON.");
    described(&[
        ("type", kind.as_str()),
        ("name", "The name by which objects hold the value, and filters ask for it: `f.<name>`."),
        ("label", "What people read."),
        ("required", "Whether objects must have a value."),
        ("description", "What it means, for people."),
        (
            "unique",
            "Whether no two objects of the type may have the same value. `fold` compares texts without case and accents. Null \
             is free.",
        ),
        ("regex", "A pattern that has to match the whole value of a text, or of an address as it is stored."),
        ("placeholder", "What a form shows while there is no value."),
        ("value", "The value of new objects that come without one, as text."),
        ("helperText", "What a form says beside the field."),
        ("default", "Kept, without effect. The default is `value`."),
        ("options", "What a `select` or `radio` can be: objects hold the `name`."),
        ("multiple", "Whether objects hold a list of the options of a `select`."),
        ("ref_types", "The types to whose objects a `ref` or `refs` may lead; any, where the list is empty."),
        (
            "on_delete",
            "What deleting the object of a reference does: the reference stays, is cleared, or refuses it. A request can ask for more, not for less.",
        ),
        ("summaries", "How a `ref` shows its object, for each type; else the summary of that type does."),
    ])
}

fn said_of_rendering() -> Value {
    let sections = described(&[
        ("type", "`section`, or `ref-section`: that one shows fields of the object to which its field leads."),
        ("fields", "The names of its fields, in their order."),
        ("reference", "For a `ref-section`: the type, and which section and fields of it are shown."),
    ]);
    let externals = described(&[
        ("href", "A link. Each `{}` stands for the value of the next field, percent-encoded."),
        ("icon", "The name of an icon."),
        ("fields", "The names of the fields whose values the link takes; also `object_id`."),
    ]);
    json!({"properties": {
        "icon": {"description": "The name of an icon."},
        "sections": {"description": "The groups of fields that a rendered object shows.", "items": sections},
        "externals": {"description": "Links that a rendered object shows.", "items": externals},
        "summary": merged(
            described(&[("fields", "The names of the fields whose values make the line.")]),
            &json!({"description": "The line that stands for an object."}),
        ),
    }})
}

fn type_rules() -> Value {
    let groups = json!({
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]{1,18}$"},
        "additionalProperties": {"type": "array", "items": {"type": "string", "enum": type_input::PERMISSIONS}},
    });
    let field = json!({"properties": {"name": {"minLength": 1}, "regex": {"format": "field-pattern"}}});
    json!({"properties": {
        "public_id": chosen_id(),
        "name": {"description": "Its name for programs, in kebab case."},
        "label": {"description": "What people read; made from the name when nothing is said."},
        "author_id": {"description": "The user who made it. An update keeps the stored one."},
        "active": {"description": "Whether objects can be made and changed. Those of an inactive type can only be read."},
        "description": {"description": "What it means, for people."},
        "version": {"description": "Its version, for people; 1.0.0 when nothing is said."},
        "fields": {
            "description": "What its objects hold. A list that is sent replaces the stored one.",
            "items": merged(said_of_fields(), &field),
        },
        "indexes": {
            "description": "By which fields its objects are found in order. Each list is an index: the fields with one value come \
                            first, then those of the order. Fields of lists, of passwords and of any JSON have no place in one.",
            "example": [["hostname"], ["state", "units"]],
            "maxItems": type_indexes::MOST_INDEXES,
            "uniqueItems": true,
            "items": {"minItems": 1, "maxItems": type_indexes::MOST_FIELDS, "uniqueItems": true},
        },
        "render_meta": merged(said_of_rendering(), &json!({"description": "How its objects are rendered."})),
        "acl": {"description": "Which groups may do what with its objects.", "properties": {
            "activated": {"type": "boolean"},
            "groups": {"type": "object", "properties": {"includes": groups}},
        }},
    }})
}

fn type_change_rules() -> Value {
    let text = |text: &str| json!({"description": text});
    let one = json!({"minProperties": 1, "maxProperties": 1, "properties": {
        "rename": {"description": "The values of one field become those of another.", "properties": {
            "from": text("The name that objects have."),
            "to": merged(text("The name that they get: a field of the new state."), &json!({"minLength": 1})),
        }},
        "convert": {"description": "The values become those of another kind.", "properties": {
            "field": text("The field."),
            "to": text("What the new state says as its `type`."),
            "on_error": merged(text("What happens to a value that cannot be converted."), &json!({"default": "refuse"})),
        }},
        "set_default": {"description": "Objects without a value get one.", "properties": {
            "field": text("The field."),
            "value": {"description": "The value.", "not": {"type": "null"}},
            "where": merged(
                text("`missing`: objects without an entry for the field. `null`: these, and those with null there."),
                &json!({"default": "missing"}),
            ),
        }},
        "map_options": {"description": "Options get other names.", "properties": {
            "field": text("The field."),
            "map": {
                "description": "From name to name; null for an option that goes.",
                "additionalProperties": {"type": ["string", "null"]},
            },
        }},
        "drop": {"description": "The values go.", "properties": {"field": text("The field.")}},
    }});
    let steps = json!({"properties": {
        "migration": {
            "description": "What objects do together with the change, step by step. It is not stored in the type.",
            "maxItems": migration_input::MOST_STEPS,
            "items": one,
        },
        "expected_count": {
            "description": "How many objects the steps should change; another number changes nothing.",
            "minimum": 0,
        },
        "enforce": {
            "description": "`new`: values that are there may break rules that the change makes.",
            "enum": ["new", null],
        },
    }});
    merged(type_rules(), &steps)
}

fn category_rules() -> Value {
    json!({"properties": {"public_id": chosen_id()}})
}

fn password() -> Value {
    json!({"minLength": SHORTEST_PASSWORD, "maxLength": LONGEST_PASSWORD})
}

fn user_rules() -> Value {
    let mut password = password();
    password["description"] = json!(format!("{PASSWORD_MASK}, which reads show, keeps the password as it is"));
    json!({"properties": {
        "public_id": chosen_id(),
        "user_name": {"minLength": 1, "maxLength": 256, "pattern": USER_NAME},
        "authenticator": {"enum": [LOCAL_AUTHENTICATOR, OIDC_AUTHENTICATOR]},
        "password": password,
    }})
}

fn password_body() -> Value {
    merged(object(&user_input::PASSWORD, Use::Body), &json!({"properties": {"password": password()}}))
}

fn group_rules() -> Value {
    let names: Vec<&str> = rights::catalogue().iter().map(|right| right.name).collect();
    let name = json!({"type": "string", "enum": names});
    let record = json!({"type": "object", "properties": {"name": name}, "required": ["name"]});
    json!({"properties": {
        "public_id": chosen_id(),
        "name": {"pattern": r"\S"},
        "rights": {"items": {"anyOf": [name, record]}},
    }})
}

fn setting_rules() -> Value {
    json!({"properties": {
        "identifier": {"minLength": 1},
        "setting_type": {"enum": setting_input::SETTING_TYPES},
    }})
}

fn token_rules() -> Value {
    let names: Vec<&str> = rights::catalogue().iter().map(|right| right.name).collect();
    json!({"properties": {
        "name": {"minLength": 1, "maxLength": 256, "pattern": r"\S"},
        "expires_at": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "in the future; 90 days from now when nothing is said",
        },
        "rights": {"items": {"enum": names}},
        "mongodb": {"description": "whether MongoDB tools may sign in with it, see `wire.address`"},
    }})
}

fn webhook_rules() -> Value {
    let set_here = json!({"description": "Set by the service: taken and not used."});
    json!({"properties": {
        "name": {"minLength": 1, "maxLength": webhook_input::LONGEST_NAME, "pattern": r"\S"},
        "url": {
            "format": "webhook-url",
            "maxLength": webhook_input::LONGEST_URL,
            "description": "Where events go: https://, or http:// in a network of `webhooks.allowed_networks`.",
        },
        "resources": {
            "items": {"enum": webhook_input::RESOURCES},
            "minItems": 1,
            "uniqueItems": true,
            "description": "What to tell of; all that the caller may see when nothing is said.",
        },
        "filter": {
            "format": "mongodb-filter",
            "maxLength": webhook_input::LONGEST_FILTER,
            "description": "A MongoDB filter of objects, as text; it goes with the resource `objects` alone.",
        },
        "view": {"enum": webhook_input::VIEWS, "default": webhook_input::VIEWS[0]},
        "active": {"default": true, "description": "Whether it delivers; true resumes a paused webhook."},
        "state": set_here,
        "reason": set_here,
        "author_id": set_here,
    }})
}

fn state() -> Value {
    json!({"anyOf": [
        {"type": "boolean"},
        object(&object_input::STATE, Use::Body),
    ]})
}

fn login_rules() -> Value {
    let text = json!({"minLength": 1, "maxLength": 1024});
    json!({"properties": {"user_name": text, "password": text}})
}

fn pipeline_body() -> Value {
    json!({
        "type": "object",
        "required": ["pipeline"],
        "properties": {"pipeline": stages()},
        "additionalProperties": false,
    })
}

fn stages() -> Value {
    json!({
        "type": "array",
        "items": {"type": "object", "minProperties": 1, "maxProperties": 1},
        "description": "Stages of MongoDB's aggregation language, in Extended JSON. `f.<name>` is the value of that field.",
    })
}

fn report_rules() -> Value {
    json!({"properties": {
        "title": {"minLength": 1, "maxLength": report_input::LONGEST_NAME, "pattern": r"\S"},
        "format": {
            "enum": report_input::FORMATS,
            "default": report_input::FORMATS[0],
            "description": "The form of the results, where a request names none.",
        },
    }})
}

fn object_query() -> Value {
    json!({
        "type": "object",
        "properties": {
            "filter": {
                "anyOf": [
                    merged(open_map(), &json!({"propertyNames": {"pattern": "^([^$]|$)"}})),
                    {"type": "string", "format": "mongodb-filter"},
                    {"type": "array", "items": {"type": "object", "minProperties": 1, "maxProperties": 1}},
                ],
                "description": "A MongoDB filter: Extended JSON, or a text that holds it. Or a pipeline, which is an array of stages. `f.<name>` is the value of that field.",
            },
            "sort": {
                "anyOf": [
                    {"type": "string", "minLength": 1, "format": "sort-keys"},
                    {
                        "type": "object",
                        "minProperties": 1,
                        "maxProperties": 32,
                        "propertyNames": {"pattern": r"^[^$.]+(\.[^$.]+)*$"},
                        "additionalProperties": {"type": "integer", "enum": [1, -1]},
                    },
                ],
                "description": "Paths separated by commas, `-` before a path for descending; or a sort document of MongoDB. \
                    `f.<name>` is the value of that field.",
            },
            "order": {"type": "integer", "enum": [1, -1]},
            "page": {"type": "integer", "minimum": 1, "maximum": 9_007_199_254_740_991_i64},
            "limit": {"type": "integer", "minimum": 0, "maximum": 10000},
            "after": {"type": "string", "maxLength": 4096},
            "view": {"type": "string", "enum": ["native", "render"]},
            "active": {"type": "boolean"},
            "explain": {"type": "boolean"},
            "projection": {
                "anyOf": [
                    open_map(),
                    {"type": "array", "items": {"type": "string", "minLength": 1}},
                    {"type": "string", "format": "mongodb-projection"},
                ],
                "description": "A MongoDB projection, or a list of names, or a text that holds either. `f.<name>` is the entry of \
                    that field.",
            },
        },
        "additionalProperties": false,
    })
}
