//! The collections of the service with their indexes: declared once, created by every store.

use bson::{Bson, doc};

/// A collection and the indexes that the service's own queries need.
#[derive(Debug, Clone, Copy)]
pub struct CollectionSpec {
    /// The name that MongoDB tools see.
    pub name: &'static str,
    /// Its indexes, in addition to the one on `_id`.
    pub indexes: &'static [IndexSpec],
}

/// An index: a name and the paths it orders documents by.
#[derive(Debug, Clone, Copy)]
pub struct IndexSpec {
    /// Unique in its collection; [`StoreError::Duplicate`](super::StoreError::Duplicate) names it.
    pub name: &'static str,
    /// Paths in order of significance; at most one of them leads through an array.
    pub keys: &'static [IndexKey],
    /// Whether two documents with equal keys are refused.
    pub unique: bool,
    /// The index holds only documents with all these values. Without values it holds all documents.
    pub partial: &'static [Equals],
}

impl IndexSpec {
    /// An index that refuses equal keys.
    pub const fn unique(name: &'static str, keys: &'static [IndexKey]) -> Self {
        Self { name, keys, unique: true, partial: &[] }
    }

    /// An index that takes equal keys.
    pub const fn plain(name: &'static str, keys: &'static [IndexKey]) -> Self {
        Self { name, keys, unique: false, partial: &[] }
    }

    /// The same index over the documents that have these values. It serves only queries for the same values.
    #[must_use]
    pub const fn only(mut self, partial: &'static [Equals]) -> Self {
        self.partial = partial;
        self
    }
}

/// A value that the documents of a partial index have, as `{path: value}` in a filter.
#[derive(Debug, Clone, Copy)]
pub struct Equals {
    /// A dotted path.
    pub path: &'static str,
    /// The value at its end.
    pub value: Literal,
}

/// A value in a declaration of an index.
#[derive(Debug, Clone, Copy)]
pub enum Literal {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(&'static str),
    /// Any value: the member is there, whatever it holds.
    Present,
}

impl From<Literal> for Bson {
    fn from(literal: Literal) -> Self {
        match literal {
            Literal::Bool(value) => Self::Boolean(value),
            Literal::Int(value) => Self::Int64(value),
            Literal::Text(value) => Self::String(value.to_owned()),
            Literal::Present => Self::Document(doc! { "$exists": true }),
        }
    }
}

/// One path of an index.
#[derive(Debug, Clone, Copy)]
pub struct IndexKey {
    /// A dotted path, for instance `fields.value`.
    pub path: &'static str,
    /// Largest first.
    pub descending: bool,
}

/// A path of an index, smallest first.
pub const fn up(path: &'static str) -> IndexKey {
    IndexKey { path, descending: false }
}

/// A path of an index, largest first.
pub const fn down(path: &'static str) -> IndexKey {
    IndexKey { path, descending: true }
}

const fn unique(name: &'static str, keys: &'static [IndexKey]) -> IndexSpec {
    IndexSpec::unique(name, keys)
}

const fn plain(name: &'static str, keys: &'static [IndexKey]) -> IndexSpec {
    IndexSpec::plain(name, keys)
}

/// The stored objects.
pub const OBJECTS: &str = "framework.objects";
/// The types of objects.
pub const TYPES: &str = "framework.types";
/// The categories of types.
pub const CATEGORIES: &str = "framework.categories";
/// The collections whose changes have entries in [`LOGS`].
pub const WITH_HISTORY: [&str; 3] = [OBJECTS, TYPES, CATEGORIES];
/// The users.
pub const USERS: &str = "management.users";
/// The groups of users.
pub const GROUPS: &str = "management.groups";
/// The settings of users.
pub const SETTINGS: &str = "management.users.settings";
/// What users sign in with; no route reads it.
pub const CREDENTIALS: &str = "service.credentials";
/// The keys that tokens are signed with; no route reads it.
pub const KEYS: &str = "service.keys";
/// Secrets of the store that sign nothing; no route reads it.
pub const SECRETS: &str = "service.secrets";
/// The tokens of machines, as hashes.
pub const TOKENS: &str = "service.tokens";

/// The sessions of people who signed in to the page, as hashes; no route reads it.
pub const SESSIONS: &str = "service.sessions";

/// The history: an entry for each change of an object, a type or a category. DATAGERRY stores entries of its own here.
pub const LOGS: &str = "framework.logs";

/// What is known of the history as a whole; its counter gives the sequences of entries.
pub const HISTORY: &str = "service.history";

/// Ids that running imports gave to lines of their files, and outcomes of requests with an idempotency key.
pub const IMPORTS: &str = "service.imports";

/// The values of unique fields, each with the object that has it.
pub const CLAIMS: &str = "service.claims";

/// The fields whose values are unique; one document.
pub const UNIQUE: &str = "service.unique";

/// The words of each object, for search.
pub const SEARCH: &str = "service.search";

/// The values of objects in the indexes of their types.
pub const INDEXED: &str = "service.indexed";

/// The members of such a document, one for each index of a type. Each has `t`, its type, then the values `a`, `b` and `c`, and the
/// id of the object as `o` and, negative, as `n`.
pub const SLOTS: [&str; 4] = ["i0", "i1", "i2", "i3"];

/// Whether all objects are in these two, and what is left to be made.
pub const SEARCH_WORK: &str = "service.search.work";
/// The last change of each type that changed its objects, too: what was done, by the id of the type.
pub const TYPE_MIGRATIONS: &str = "service.type_migrations";

/// The webhooks, as clients see them.
pub const WEBHOOKS: &str = "service.webhooks";

/// The secret and the cursor of each webhook, under the id of the webhook; no route reads it.
pub const WEBHOOK_CURSORS: &str = "service.webhooks.cursors";

/// The last deliveries of each webhook.
pub const WEBHOOK_DELIVERIES: &str = "service.webhooks.deliveries";

/// Saved reports of users and groups.
pub const REPORTS: &str = "service.reports";

/// The completed migrations.
pub const MIGRATIONS: &str = "service.migrations";

/// An index of one of the [`SLOTS`].
macro_rules! slot_index {
    ($name:literal, $slot:literal, $id:literal) => {
        plain(
            $name,
            &[
                up(concat!($slot, ".t")),
                up(concat!($slot, ".a")),
                up(concat!($slot, ".b")),
                up(concat!($slot, ".c")),
                up(concat!($slot, ".", $id)),
            ],
        )
        .only(&[Equals { path: concat!($slot, ".t"), value: Literal::Present }])
    };
}

const PUBLIC_ID: IndexSpec = unique("public_id", &[up("public_id")]);

/// Every collection of the service.
pub const ALL: &[CollectionSpec] = &[
    CollectionSpec {
        name: OBJECTS,
        indexes: &[
            PUBLIC_ID,
            plain("type_id", &[up("type_id"), up("public_id")]),
            plain("fields", &[up("fields.name"), up("fields.value")]),
        ],
    },
    CollectionSpec { name: TYPES, indexes: &[PUBLIC_ID, unique("name", &[up("name")])] },
    CollectionSpec {
        name: CATEGORIES,
        indexes: &[
            PUBLIC_ID,
            unique("name", &[up("name")]),
            plain("parent", &[up("parent")]),
            plain("types", &[up("types")]),
        ],
    },
    CollectionSpec {
        name: LOGS,
        indexes: &[
            // Entries of DATAGERRY have none of these members.
            unique("of_resource", &[up("resource"), up("public_id"), up("number")])
                .only(&[Equals { path: "resource", value: Literal::Present }]),
            unique("sequence", &[up("sequence")]).only(&[Equals { path: "sequence", value: Literal::Present }]),
            plain("newest", &[up("time"), up("sequence")]),
            plain("request", &[up("request_id")]).only(&[Equals { path: "request_id", value: Literal::Present }]),
            plain("cause", &[up("cause")]).only(&[Equals { path: "cause", value: Literal::Present }]),
            // DATAGERRY declares it without a condition; then a resource could have one entry only.
            unique("public_id", &[up("public_id")]).only(&[Equals { path: "log_type", value: Literal::Present }]),
        ],
    },
    CollectionSpec { name: HISTORY, indexes: &[] },
    CollectionSpec { name: USERS, indexes: &[PUBLIC_ID, plain("group_id", &[up("group_id")])] },
    CollectionSpec { name: GROUPS, indexes: &[PUBLIC_ID, unique("name", &[up("name")])] },
    CollectionSpec {
        name: SETTINGS,
        indexes: &[
            // Other tools store settings without an identifier.
            unique("identifier", &[up("user_id"), up("identifier")])
                .only(&[Equals { path: "identifier", value: Literal::Present }]),
            // DATAGERRY declares it without a condition; then a user could have one setting without a `resource` only.
            unique("resource-user", &[up("resource"), up("user_id")])
                .only(&[Equals { path: "resource", value: Literal::Present }]),
            // The order of an export, which is one of all settings.
            plain("of_user", &[up("user_id"), up("identifier")]),
        ],
    },
    CollectionSpec {
        name: CREDENTIALS,
        indexes: &[
            unique("user_name", &[up("login")]),
            unique("user_id", &[up("user_id")]),
            unique("identity", &[up("identity")]).only(&[Equals { path: "identity", value: Literal::Present }]),
            unique("looks", &[up("looks")]).only(&[Equals { path: "is_distinct", value: Literal::Bool(true) }]),
        ],
    },
    CollectionSpec { name: KEYS, indexes: &[] },
    CollectionSpec { name: SECRETS, indexes: &[] },
    CollectionSpec {
        name: TOKENS,
        indexes: &[PUBLIC_ID, unique("hash", &[up("hash")]), unique("name", &[up("user_id"), up("name")])],
    },
    CollectionSpec {
        name: SESSIONS,
        indexes: &[plain("user_id", &[up("user_id")]), plain("expires_at", &[up("expires_at")])],
    },
    CollectionSpec {
        name: IMPORTS,
        indexes: &[
            plain("of", &[up("of")]),
            plain("done_at", &[up("done_at")]),
            plain("of_user", &[up("user_id"), up("done_at")]),
        ],
    },
    CollectionSpec { name: CLAIMS, indexes: &[] },
    CollectionSpec { name: UNIQUE, indexes: &[] },
    CollectionSpec { name: SEARCH, indexes: &[plain("terms", &[up("terms"), up("type_id"), up("_id")])] },
    CollectionSpec {
        name: INDEXED,
        indexes: &[
            slot_index!("i0", "i0", "o"),
            slot_index!("i0_down", "i0", "n"),
            slot_index!("i1", "i1", "o"),
            slot_index!("i1_down", "i1", "n"),
            slot_index!("i2", "i2", "o"),
            slot_index!("i2_down", "i2", "n"),
            slot_index!("i3", "i3", "o"),
            slot_index!("i3_down", "i3", "n"),
        ],
    },
    CollectionSpec { name: SEARCH_WORK, indexes: &[] },
    CollectionSpec { name: TYPE_MIGRATIONS, indexes: &[] },
    CollectionSpec { name: WEBHOOKS, indexes: &[PUBLIC_ID] },
    CollectionSpec { name: WEBHOOK_CURSORS, indexes: &[PUBLIC_ID] },
    CollectionSpec { name: WEBHOOK_DELIVERIES, indexes: &[unique("of_webhook", &[up("webhook_id"), up("number")])] },
    CollectionSpec { name: REPORTS, indexes: &[PUBLIC_ID, unique("name", &[up("of"), up("owner_id"), up("name")])] },
    CollectionSpec { name: MIGRATIONS, indexes: &[] },
    CollectionSpec { name: super::SCOPES, indexes: &[] },
];
