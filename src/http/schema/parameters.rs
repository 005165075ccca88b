//! Parameters in queries and headers, as the description shows them; `http::params` and the handlers read them.
//!
//! A parameter with `schema_with` has its description in the schema, because the macro ignores its comment.
//! [`openapi`](crate::http::openapi) moves it to the parameter.

use utoipa::IntoParams;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

/// The parameters of every list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Listing {
    /// A MongoDB filter as Extended JSON (relaxed or canonical). On objects `f.<name>` is the value of that field:
    /// `{"f.city": "Berlin"}`. There it may also be a pipeline: `[{"$match": {"f.city": "Berlin"}}, {"$unwind": "$fields"}]`.
    #[param(required = false, format = "mongodb-filter", default = "{}")]
    pub filter: String,
    /// A path, or several ones separated by commas; `-` before a path means descending. Or a sort document of MongoDB:
    /// `{"type_id": 1, "public_id": -1}`. On objects `f.<name>` is the value of that field.
    #[param(required = false, min_length = 1, format = "sort-keys")]
    pub sort: String,
    /// Upwards or downwards.
    #[param(required = false, schema_with = order)]
    pub order: i64,
    /// The page.
    #[param(required = false, schema_with = page)]
    pub page: u64,
    /// Items on a page; 0 is the maximum, which is the setting `api.max_limit`, 10000 by default.
    #[param(required = false, minimum = 0, maximum = 10000, default = 10)]
    pub limit: u64,
    /// Where the page begins, in place of `page`: the cursor in the link `next` of the page before it. An empty one begins
    /// the list. Filter, sort, order and `active` stay as they were; `limit` is at most 1000.
    #[param(required = false, max_length = 4096)]
    pub after: String,
    /// `true` answers how the list is found, in place of the list: a `ListExplanation`.
    #[param(required = false, default = false)]
    pub explain: bool,
}

/// The parameters of the list of a user's settings.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// A path, or several ones separated by commas; `-` before a path means descending. Or a sort document of MongoDB.
    #[param(required = false, min_length = 1, format = "sort-keys")]
    pub sort: String,
    /// Upwards or downwards.
    #[param(required = false, schema_with = order)]
    pub order: i64,
    /// The page.
    #[param(required = false, schema_with = page)]
    pub page: u64,
    /// Items on a page; 0 is the maximum, which is the setting `api.max_limit`, 10000 by default.
    #[param(required = false, minimum = 0, maximum = 10000)]
    pub limit: u64,
    /// Where the page begins, in place of `page`: the cursor in the link `next` of the page before it. An empty one begins
    /// the list. Filter, sort, order and `active` stay as they were; `limit` is at most 1000.
    #[param(required = false, max_length = 4096)]
    pub after: String,
    /// `true` answers how the list is found, in place of the list: a `ListExplanation`.
    #[param(required = false, default = false)]
    pub explain: bool,
}

/// What happens to the name of a deleted user.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Forget {
    /// `true` replaces the user's name in all log entries.
    #[param(required = false, default = false)]
    pub forget: bool,
}

/// Reads that look at the past.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct At {
    /// A moment of the past: a time of RFC 3339, or the `sequence` of a log entry. The answer is what it was then.
    #[param(required = false, min_length = 1, format = "moment")]
    pub at: String,
}

/// What can be asked of changes.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Following {
    /// `objects`, `types` or `categories`, or several with commas between them; all that the caller may see without it.
    #[param(required = false, min_length = 1, format = "resources")]
    pub resource: String,
    /// A MongoDB filter of objects. An event says whether the object came to match, changed, or no longer matches.
    #[param(required = false, format = "mongodb-filter")]
    pub filter: String,
    /// What events hold of the document: as stored, rendered, or nothing.
    #[param(required = false, schema_with = changes_view)]
    pub view: String,
    /// The cursor to continue from: the id of an event, or `next` of a page; or a time of RFC 3339. From now on without it.
    #[param(required = false, min_length = 1, format = "cursor")]
    pub since: String,
    /// The maximum number of events of a page; not for streams.
    #[param(required = false, minimum = 1, maximum = 10000, default = 100)]
    pub limit: u64,
}

/// Where a webhook begins again.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Replay {
    /// The cursor after which it continues: the id of an event, `next` of a page of changes, a `sequence`, or a time of RFC
    /// 3339.
    #[param(min_length = 1, format = "cursor")]
    pub since: String,
}

/// Which addresses are looked at.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OfAddresses {
    /// The type whose objects use addresses.
    #[param(minimum = 1, example = 1)]
    pub type_id: i64,
    /// The name of a field of the kind `ip`.
    #[param(min_length = 1, example = "ip")]
    pub field: String,
    /// A network with the length of its prefix.
    #[param(min_length = 3, format = "network", example = "10.0.0.0/24")]
    pub network: String,
}

/// The form of the description.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DescriptionVersion {
    /// The version of OpenAPI. In 3.1 the method QUERY is under `x-query`.
    #[param(required = false, schema_with = openapi_version)]
    pub version: String,
}

/// The two moments of a difference.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Moments {
    /// The earlier moment: a time of RFC 3339, or the `sequence` of a log entry.
    #[param(min_length = 1, format = "moment")]
    pub from: String,
    /// The later moment; now if it is left out.
    #[param(required = false, min_length = 1, format = "moment")]
    pub to: String,
}

/// The parameters of an export of objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExportParameters {
    /// The type whose objects are written; optional for lines of JSON, which then have objects of all types.
    #[param(required = false, minimum = 1, example = 1)]
    pub type_id: i64,
    /// A table as text, lines of JSON, or a table for spreadsheets.
    #[param(required = false, schema_with = export_format)]
    pub format: String,
    /// A MongoDB filter as Extended JSON (relaxed or canonical). `f.<name>` is the value of that field.
    #[param(required = false, format = "mongodb-filter", default = "{}")]
    pub filter: String,
    /// As in a list of objects.
    #[param(required = false, min_length = 1, format = "sort-keys")]
    pub sort: String,
    /// 1 ascending, which is the default, or -1 descending; not together with several paths, a `-` or a sort document.
    #[param(required = false, schema_with = order)]
    pub order: i64,
    /// `true` leaves out inactive objects.
    #[param(required = false, default = false)]
    pub active: bool,
    /// For tables: `fields` (id, state and fields; the default), `all` (all members of objects, too), or headings with
    /// commas between them: `hostname,rack=rack/name`.
    #[param(required = false, min_length = 1, format = "columns")]
    pub columns: String,
    /// For tables: whether headings are names of fields, or labels where these are unambiguous.
    #[param(required = false, schema_with = names_or_labels)]
    pub headings: String,
    /// For tables: whether options are written by their names, or by their labels where these are unambiguous.
    #[param(required = false, schema_with = names_or_labels)]
    pub values: String,
    /// For Ansible and Prometheus, and needed there: the field with the name of the host, or with the address of the target.
    #[param(required = false, min_length = 1)]
    pub host: String,
    /// For Ansible: the field with the address to connect to (`ansible_host`).
    #[param(required = false, min_length = 1)]
    pub address: String,
    /// For Ansible: a field whose values make groups.
    #[param(required = false, min_length = 1)]
    pub group_by: String,
    /// For Prometheus: the port of the targets.
    #[param(required = false, minimum = 0, maximum = 65535)]
    pub port: u16,
}

/// How CSV is written.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CsvParameters {
    /// For CSV: the character between two cells.
    #[param(required = false, schema_with = delimiter)]
    pub delimiter: String,
    /// For CSV: which cells are in quotes.
    #[param(required = false, schema_with = quoting)]
    pub quoting: String,
    /// For CSV: how characters are bytes.
    #[param(required = false, schema_with = encoding)]
    pub encoding: String,
    /// For CSV: whether the file begins with a byte-order mark.
    #[param(required = false)]
    pub bom: bool,
}

/// How tables are read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TableParameters {
    /// For CSV: the delimiter of cells; by default the most frequent one in the header.
    #[param(required = false, schema_with = delimiter)]
    pub delimiter: String,
    /// For CSV: the encoding; by default that of the byte-order mark, else UTF-8.
    #[param(required = false, schema_with = encoding)]
    pub encoding: String,
    /// For xlsx: the name of the sheet, or its number from 1; by default the first one.
    #[param(required = false, min_length = 1)]
    pub sheet: String,
    /// For tables: the sign before decimals; a point by default.
    #[param(required = false, schema_with = decimal)]
    pub decimal: String,
    /// For tables: the order of dates (`dmy`: 31.01.2026), or a pattern of strftime (`%d.%m.%Y`). ISO 8601 is always read.
    #[param(required = false, min_length = 1, max_length = 200, format = "date-form")]
    pub dates: String,
    /// For tables: words for yes, with commas between them, in any case, in addition to `true`, `yes` and `1`.
    #[param(required = false, min_length = 1, max_length = 200, format = "words")]
    pub r#true: String,
    /// For tables: words for no, with commas between them, in any case, in addition to `false`, `no` and `0`.
    #[param(required = false, min_length = 1, max_length = 200, format = "words")]
    pub r#false: String,
    /// For tables: `false` keeps the blanks at the edges of cells, and the Unicode form of their letters.
    #[param(required = false, default = true)]
    pub trim: bool,
}

/// The parameters of results.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ResultParameters {
    /// JSON, a table as text, or a table for spreadsheets: a column for each member, those of documents with dots.
    #[param(required = false, schema_with = result_format)]
    pub format: String,
}

/// Whose a report is.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ReportOwner {
    /// The group of the report. Without it: the caller's own report; to read, else that of the caller's group.
    #[param(required = false, minimum = 1)]
    pub group_id: i64,
}

/// The parameters of an import of objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ImportParameters {
    /// The type of all objects in the file.
    #[param(minimum = 1)]
    pub type_id: i64,
    /// A table as text, lines of JSON, or a sheet of a spreadsheet.
    #[param(required = false, schema_with = import_format)]
    pub format: String,
    /// The field whose value identifies objects; without it their id does.
    #[param(required = false)]
    pub key: String,
    /// `true` changes nothing and reports what would happen.
    #[param(required = false, default = false)]
    pub dry_run: bool,
    /// `true` creates the objects of a file without ids and key again, although it was imported within the last day.
    #[param(required = false, default = false)]
    pub again: bool,
}

/// The parameters of a proposal of a type.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ProposalParameters {
    /// The name of the type.
    #[param(required = false, default = "imported", pattern = r"^\w+-*\w[\w-]*$")]
    pub name: String,
    /// A table as text, or a sheet of a spreadsheet.
    #[param(required = false, schema_with = table_format)]
    pub format: String,
}

/// The parameters of lists without pages.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Explain {
    /// `true` answers how the list is found, in place of the list: a `ListExplanation`.
    #[param(required = false, default = false)]
    pub explain: bool,
}

/// Further parameters of lists of objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ObjectListing {
    /// What the items look like.
    #[param(required = false, schema_with = object_view)]
    pub view: String,
    /// `true` leaves out inactive objects.
    #[param(required = false, default = false)]
    pub active: bool,
    /// A MongoDB projection as Extended JSON, or names as a list or separated by commas; applies to the items of the chosen
    /// view. `f.<name>` is the entry of that field: `public_id,f.city`.
    #[param(required = false, format = "mongodb-projection")]
    pub projection: String,
}

/// The parameters of the list of categories in addition to [`Listing`].
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CategoryListing {
    /// A list or a tree.
    #[param(required = false, schema_with = tree_view)]
    pub view: String,
}

/// The parameters of the list of rights in addition to [`Listing`].
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RightListing {
    /// A list or a tree.
    #[param(required = false, schema_with = tree_view)]
    pub view: String,
    /// Another name of `view`.
    #[param(required = false, schema_with = other_tree_view)]
    pub optional: String,
}

/// The parameters for changing a type.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DryRun {
    /// `true` changes nothing and answers the plan of the change: what differs, and which objects would not fit.
    #[param(required = false, default = false)]
    pub dry_run: bool,
}

/// The parameters for deleting a type.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Cascade {
    /// Delete the objects of the type too; needs `base.framework.object.delete` and the ACL permission DELETE.
    #[param(required = false, default = false)]
    pub cascade: bool,
}

/// The parameters for deleting objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct References {
    /// What is done with references to the object.
    #[param(required = false, schema_with = on_references)]
    pub on_references: String,
}

/// The parameters of the list of references that lead nowhere.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DanglingParameters {
    /// Only those that objects of this type have.
    #[param(required = false, minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub type_id: i64,
    /// How many references a page has, and the further ones of its last object.
    #[param(required = false, minimum = 1, maximum = 1000, default = 100)]
    pub limit: u64,
    /// `next` of the page before.
    #[param(required = false, pattern = "^[0-9]{1,19}-[0-9]{1,19}$")]
    pub after: String,
}

/// The parameters of a search.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParameters {
    /// The words to look for, at most 8. The last one may be the beginning of a word.
    #[param(min_length = 1, max_length = 500)]
    pub q: String,
    /// Only objects of this type.
    #[param(required = false, minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub type_id: i64,
    /// How many objects a page has at most.
    #[param(required = false, minimum = 1, maximum = 100, default = 20)]
    pub limit: u64,
    /// `next` of the page before.
    #[param(required = false, pattern = "^[0-2]-[0-9]{1,19}-[0-9]{1,19}$")]
    pub cursor: String,
}

/// The parameters of a graph.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GraphParameters {
    /// Which references are followed.
    #[param(required = false, schema_with = graph_direction)]
    pub direction: String,
    /// How many references a node is away at most.
    #[param(required = false, minimum = 1, maximum = 8, default = 2)]
    pub depth: u64,
    /// Only objects of these types: ids with commas between them. The object itself is always there.
    #[param(required = false, pattern = "^[1-9][0-9]{0,17}(,[1-9][0-9]{0,17}){0,99}$")]
    pub types: String,
    /// The maximum number of nodes.
    #[param(required = false, minimum = 1, maximum = 1000, default = 200)]
    pub max_nodes: u64,
    /// The format of the answer.
    #[param(required = false, schema_with = graph_format)]
    pub format: String,
}

/// The parameters of writes to many objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Selected {
    /// Which objects, as a MongoDB filter in Extended JSON; `{}` for all. `f.<name>` is the value of that field.
    #[param(format = "mongodb-filter")]
    pub filter: String,
    /// The expected number of matching objects. With another number nothing changes, and the answer is 412. At most the
    /// setting `api.max_bulk`, 10000 by default.
    #[param(minimum = 0, maximum = 10000)]
    pub expected_count: u64,
}

/// The parameters for creating many objects.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Atomic {
    /// `true` creates all of them or none.
    #[param(required = false, default = false)]
    pub atomic: bool,
}

/// The parameters for deleting a group.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GroupMembers {
    /// What happens to the users of the group.
    #[param(required = false, schema_with = member_action)]
    pub action: String,
    /// The group that the users are moved to; needed with `action=MOVE`.
    #[param(required = false, minimum = 1)]
    pub group_id: i64,
}

/// The route to explain.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RouteInQuestion {
    /// A method.
    #[param(example = "DELETE", pattern = "^[A-Za-z]+$")]
    pub method: String,
    /// A path, with or without `/rest`.
    #[param(example = "/objects/7", pattern = "^/")]
    pub path: String,
}

/// The condition of a change.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatch {
    /// Change the resource only if it has one of these entity tags; otherwise 412.
    #[param(required = false, rename = "If-Match")]
    pub if_match: String,
}

/// The condition of a read.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfNoneMatch {
    /// Send the resource only if it has none of these entity tags; otherwise 304.
    #[param(required = false, rename = "If-None-Match")]
    pub if_none_match: String,
}

/// The key of a repeatable request.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyHeader {
    /// A text that is new for each request. For a day, the same request under the same key gets the first answer, and
    /// nothing is written twice. Another request under the key is 422.
    #[param(required = false, rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    pub idempotency_key: String,
}

fn order() -> Schema {
    let order = ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([1, -1]));
    let said = "1 ascending, which is the default, or -1 descending; not together with several paths, a `-` or a sort document.";
    order.description(Some(said)).into()
}

fn page() -> Schema {
    let page = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).default(Some(1.into()));
    page.maximum(Some(9_007_199_254_740_991_i64)).description(Some("The page, from 1.")).into()
}

/// A function for each parameter that is one of some words.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident: $words:expr, $(default $default:literal,)? $said:literal;)*) => {
        $($(#[$doc])* fn $name() -> Schema {
            let word = ObjectBuilder::new().schema_type(Type::String).description(Some($said));
            word.enum_values(Some($words.iter().copied()))$(.default(Some($default.into())))?.into()
        })*
    };
}

choices! {
    object_view: &["native", "render"], default "native", "Objects as they are stored, or rendered.";
    tree_view: &["list", "tree"], default "list",
        "Items one after the other, or as a tree. `filter`, `sort` and `order` do not go with the tree of rights.";
    /// Without a default, because it must not be sent together with `view`.
    other_tree_view: &["list", "tree"], "Another name of `view`; send one of them.";
    on_references: &["keep", "refuse", "clear"], default "keep",
        "What becomes of references to the object: they stay and lead nowhere, keep it from being deleted, or become null. `on_delete` of their field counts if it is stricter.";
    graph_direction: &["in", "out", "both"], default "both",
        "Which references are followed: those that lead out of objects, those that lead in, or both.";
    graph_format: &["json", "dot", "mermaid", "graphml"], default "json",
        "JSON, the language of Graphviz, that of Mermaid, or GraphML.";
    member_action: &["MOVE", "DELETE"], "What becomes of the users of the group; needed when it has some.";
    export_format: &["csv", "ndjson", "xlsx", "ansible", "prometheus-sd"], default "csv",
        "A table as text, lines of JSON, a table for spreadsheets, an inventory of Ansible, or targets of Prometheus.";
    result_format: &["json", "csv", "xlsx"], default "json", "The form of the results.";
    table_format: &["csv", "xlsx"],
        "A table as text, or a sheet of a spreadsheet; what `Content-Type` says when nothing is said.";
    import_format: &["csv", "ndjson", "xlsx"],
        "A table as text, lines of JSON, or the first sheet of a spreadsheet; what `Content-Type` says when nothing is said.";
    openapi_version: &["3.1", "3.2"], default "3.2",
        "The version of OpenAPI. In 3.1 the method QUERY stands under `x-query`.";
    changes_view: &["native", "render", "ids"], default "native",
        "What events hold of the document: as stored, rendered, or nothing.";
    names_or_labels: &["names", "labels"], default "names", "For tables: names or labels.";
    delimiter: &[",", ";", "\t", "|", "comma", "semicolon", "tab", "pipe"],
        "For CSV: what stands between two cells; a comma when nothing is said.";
    decimal: &[".", ","], "For tables: the sign before decimals; a point when nothing is said.";
    quoting: &["necessary", "all"], "For CSV: which cells are in quotes; those that need it when nothing is said.";
    encoding: &crate::exchange::encoding::NAMES, "For CSV: how characters are bytes; UTF-8 when nothing is said.";
}
