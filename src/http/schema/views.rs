//! Schemas of answers. Resources are sent as the store holds them, so no other struct describes them. Tests and
//! generated requests compare these schemas with real answers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::bodies::{RenderMeta, TypeField};
use crate::auth::rights::Right;
use crate::domain::Violation;
use crate::http::envelope::{ListTail, Tail};
use crate::service::objects::nowhere::LostReference;
use crate::service::search::Hit;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub struct ListOf<T: ToSchema> {
    /// The items of the page.
    pub results: Vec<T>,
    #[serde(flatten)]
    tail: ListTail<'static>,
}

/// Items of a list that has no pages.
#[derive(Serialize, ToSchema)]
pub struct Results<T: ToSchema> {
    /// The items.
    pub results: Vec<T>,
    #[serde(flatten)]
    tail: Tail,
}

/// One resource.
#[derive(Serialize, ToSchema)]
pub struct Single<T: ToSchema> {
    /// The resource.
    pub result: T,
    #[serde(flatten)]
    tail: Tail,
}

/// A resource that was made.
#[derive(Serialize, ToSchema)]
pub struct Inserted<T: ToSchema> {
    /// Its id.
    pub result_id: i64,
    /// The resource.
    pub raw: T,
    #[serde(flatten)]
    tail: Tail,
}

/// A setting that was made.
#[derive(Serialize, ToSchema)]
pub struct InsertedSetting {
    /// Its identifier.
    pub result_id: String,
    /// The setting.
    pub raw: UserSetting,
    #[serde(flatten)]
    tail: Tail,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
pub struct InsertedToken {
    /// Its id.
    pub result_id: i64,
    /// What is kept of it.
    pub raw: UserToken,
    /// The token itself, shown this once.
    pub token: String,
    #[serde(flatten)]
    tail: Tail,
}

/// A webhook that was made.
#[derive(Serialize, ToSchema)]
pub struct InsertedWebhook {
    /// Its id.
    pub result_id: i64,
    /// What is kept of it.
    pub raw: Webhook,
    /// The secret that its signatures are made with, shown this once.
    pub secret: String,
    #[serde(flatten)]
    tail: Tail,
}

/// A resource that was changed.
#[derive(Serialize, ToSchema)]
pub struct Updated<T: ToSchema> {
    /// The resource as it is now.
    pub result: T,
    #[serde(flatten)]
    tail: Tail,
}

/// What a change of a type would do. Nothing is changed.
#[derive(Serialize, ToSchema)]
pub struct TypePlan {
    /// The type.
    pub type_id: i64,
    /// The most serious class of the differences: `allowed`, `needs_check`, `needs_migration` or `refused`.
    pub class: String,
    /// What differs.
    pub differences: Vec<TypeDifference>,
    /// How many objects were compared with the new type; null for a caller who may not read them.
    #[schema(required)]
    pub objects: Option<ComparedObjects>,
    /// Objects that do not fit the new type for a reason that no difference explains.
    pub misfits: Vec<Misfits>,
    /// How often further fields were met that the type does not have.
    pub misfits_left_out: u64,
    /// What the steps of `migration` would do; null where there are none, and for a caller who may not read the objects. Misfits
    /// are those after the steps.
    #[schema(required)]
    pub migration: Option<PlannedMigration>,
}

/// What the steps of a migration would do.
#[derive(Serialize, ToSchema)]
pub struct PlannedMigration {
    /// How many objects they change.
    pub objects: u64,
    /// Each step.
    pub steps: Vec<PlannedStep>,
}

/// What a step of a migration would do.
#[derive(Serialize, ToSchema)]
pub struct PlannedStep {
    /// `rename`, `convert`, `set_default`, `map_options` or `drop`.
    pub step: String,
    /// The field that it is about.
    pub field: String,
    /// How many objects it changes.
    pub objects: u64,
    /// How many objects refuse it. Then the change is refused.
    pub refused: u64,
    /// The first 100 of these by their ids.
    pub first: Vec<Misfit>,
}

/// The last change of a type that changed its objects, too.
#[derive(Serialize, ToSchema)]
pub struct TypeMigration {
    /// The type.
    pub type_id: i64,
    /// `running`, `done`, or `refused`: objects that others changed at the last moment cannot make the steps, so nothing changed.
    pub state: String,
    /// Its steps.
    pub steps: Vec<MigrationStep>,
    /// How many objects it changes; null for a caller who may not read them.
    #[schema(required)]
    pub objects: Option<u64>,
    /// How many of them are changed.
    #[schema(required)]
    pub done: Option<u64>,
    /// Who began it.
    pub user_id: i64,
    /// The request.
    #[schema(required)]
    pub request_id: Option<String>,
    /// When it began.
    pub begun: String,
    /// When it ended.
    #[schema(required)]
    pub ended: Option<String>,
}

/// A step of a migration, and the field that it is about.
#[derive(Serialize, ToSchema)]
pub struct MigrationStep {
    /// `rename`, `convert`, `set_default`, `map_options` or `drop`.
    pub step: String,
    /// The name of the field before the step.
    pub field: String,
}

/// How many objects were compared with a type.
#[derive(Serialize, ToSchema)]
pub struct ComparedObjects {
    /// How many there are.
    pub total: u64,
    /// How many of them do not fit.
    pub unfit: u64,
}

/// A difference between a type and its new state.
#[derive(Serialize, ToSchema)]
pub struct TypeDifference {
    /// What differs, for instance `kind`, `required` or `field_removed`.
    pub change: String,
    /// The name of the field, the section or the link; null for the type itself.
    #[schema(required)]
    pub name: Option<String>,
    /// `allowed`, `needs_check`, `needs_migration` or `refused`.
    pub class: String,
    /// What it was.
    pub from: Value,
    /// What it becomes.
    pub to: Value,
    /// For a removed field: the new field that it may have become.
    #[schema(required)]
    pub may_be_renamed_to: Option<String>,
    /// Why it is refused.
    #[schema(required)]
    pub reason: Option<String>,
    /// How many objects it keeps from fitting; null for a caller who may not read them.
    #[schema(required)]
    pub objects: Option<u64>,
    /// These objects, by field and rule.
    pub misfits: Vec<Misfits>,
    /// What names the field or section that it takes away.
    pub dependents: Vec<Dependent>,
}

/// The objects that break one rule of a field.
#[derive(Serialize, ToSchema)]
pub struct Misfits {
    /// The name of the field.
    pub field: String,
    /// `kind`, `form`, `options`, `regex`, `required`, `ref_types`, `unknown` or `twice`.
    pub rule: String,
    /// How many objects break it.
    pub objects: u64,
    /// The first 100 of them by their ids.
    pub first: Vec<Misfit>,
}

/// An object that breaks a rule of a field.
#[derive(Serialize, ToSchema)]
pub struct Misfit {
    /// Its id.
    pub public_id: i64,
    /// What it has there; null for nothing.
    pub value: Value,
    /// Why the type does not take it.
    pub reason: String,
}

/// Something that names what a difference takes away.
#[derive(Serialize, ToSchema)]
pub struct Dependent {
    /// `types` or `webhooks`.
    pub resource: String,
    /// Its id.
    pub public_id: i64,
    /// `summaries` of a field, a `ref-section`, or the `filter` of a webhook.
    pub place: String,
    /// The name of that field, section or webhook.
    pub name: String,
}

/// A resource that was deleted.
#[derive(Serialize, ToSchema)]
pub struct Deleted<T: ToSchema> {
    /// The resource as it was.
    pub deleted_entry: T,
    #[serde(flatten)]
    tail: Tail,
}

/// A type or category that was deleted, and what else changed.
#[derive(Serialize, ToSchema)]
pub struct DeletedWith<T: ToSchema> {
    /// The resource as it was.
    pub deleted_entry: T,
    /// How many others changed, by kind.
    pub also_changed: BTreeMap<String, u64>,
    #[serde(flatten)]
    tail: Tail,
}

/// Objects that were deleted together.
#[derive(Serialize, ToSchema)]
pub struct DeletedObjects {
    /// The objects as they were.
    pub deleted_entries: Vec<WrittenObject>,
    /// Ids that lead nowhere.
    pub not_found: Vec<i64>,
    #[serde(flatten)]
    tail: Tail,
}

/// A page of references that lead nowhere.
#[derive(Serialize, ToSchema)]
pub struct DanglingReferences {
    /// The references, by type and id of their objects.
    pub results: Vec<LostReference>,
    /// How many there are on this page.
    pub count: u64,
    /// `after` for the next page; null at the end of the list. A page may be empty and not be the last one.
    #[schema(required)]
    pub next: Option<String>,
    #[serde(flatten)]
    tail: Tail,
}

/// Objects that have all words.
#[derive(Serialize, ToSchema)]
pub struct FoundObjects {
    /// The objects. First come those with a value that is the whole question, then those with all words. Last come those with a
    /// word that begins like the last one. Within each group they are in the order of types and ids.
    pub results: Vec<Hit>,
    /// How many there are on this page.
    pub count: u64,
    /// `cursor` for the next page; null at the end of the list. A page may be empty and not be the last one.
    #[schema(required)]
    pub next: Option<String>,
    /// Words that too many objects have: objects that only refer to one with such a word are not found.
    pub too_common: Vec<String>,
    #[serde(flatten)]
    tail: Tail,
}

/// The outcome of each object of one request, in order.
#[derive(Serialize, ToSchema)]
pub struct CreatedObjects {
    /// One outcome an object.
    pub results: Vec<CreatedObject>,
    /// How many there are.
    pub count: u64,
    /// How many of them were stored.
    pub created: u64,
    /// How many were not.
    pub failed: u64,
    #[serde(flatten)]
    tail: Tail,
}

/// The results of a pipeline.
#[derive(Serialize, ToSchema)]
pub struct Aggregated {
    /// What the last stage gives.
    pub results: Vec<std::collections::BTreeMap<String, serde_json::Value>>,
    /// How many there are.
    pub count: u64,
    #[serde(flatten)]
    tail: Tail,
}

/// The outcome of one object of a request.
#[derive(Serialize, ToSchema)]
pub struct CreatedObject {
    /// The status that a request with only this object would have.
    pub status: u16,
    /// Its id, when it was stored.
    #[schema(required = false)]
    pub result_id: i64,
    /// Why it was not stored, as a stable name.
    #[schema(required = false)]
    pub code: String,
    /// Why it was not stored, for people.
    #[schema(required = false)]
    pub message: String,
    /// The wrong places of the object.
    #[schema(required = false)]
    pub errors: Vec<Violation>,
    /// How many more places of the object are wrong.
    #[schema(required = false)]
    pub errors_left_out: u64,
}

/// Objects that were changed together.
#[derive(Serialize, ToSchema)]
pub struct ChangedObjects {
    /// Their ids.
    pub result_ids: Vec<i64>,
    /// How many there are.
    pub count: u64,
    #[serde(flatten)]
    tail: Tail,
}

/// Objects that a filter selected and that were deleted together.
#[derive(Serialize, ToSchema)]
pub struct RemovedObjects {
    /// Their ids.
    pub deleted_ids: Vec<i64>,
    /// How many there were.
    pub count: u64,
    #[serde(flatten)]
    tail: Tail,
}

/// Objects that were cleaned.
#[derive(Serialize, ToSchema)]
pub struct Cleaned {
    /// The objects as they are now.
    pub results: Vec<WrittenObject>,
    /// Ids of objects with too many concurrent changes.
    pub failed: Vec<i64>,
    #[serde(flatten)]
    tail: Tail,
}

/// An address that no object uses.
#[derive(Serialize, ToSchema)]
pub struct FreeAddress {
    /// The address, as objects hold it.
    pub address: String,
}

/// A moment, in milliseconds since 1970.
#[derive(Serialize, ToSchema)]
pub struct Moment {
    /// Milliseconds.
    #[serde(rename = "$date")]
    pub milliseconds: i64,
}

/// A value of an object.
#[derive(Serialize, ToSchema)]
pub struct FieldEntry {
    /// The name of the field.
    pub name: String,
    /// The value; its kind depends on the field.
    pub value: Value,
}

/// An object as it is stored.
#[derive(Serialize, ToSchema)]
pub struct StoredObject {
    /// Its id.
    pub public_id: i64,
    /// The id of its type.
    pub type_id: i64,
    /// Kept as it comes.
    pub status: bool,
    /// Three numbers.
    pub version: String,
    /// The user who made it.
    pub author_id: i64,
    /// When it was made.
    pub creation_time: Moment,
    /// When it was last changed.
    #[schema(required)]
    pub last_edit_time: Option<Moment>,
    /// Whether it is in use.
    pub active: bool,
    /// Its values, in the order of the type's fields.
    pub fields: Vec<FieldEntry>,
    /// The user who changed it last.
    #[schema(required)]
    pub editor_id: Option<i64>,
    /// A counter of the client's.
    pub views: i64,
}

/// A written object: as it is stored, or only its id if the caller may write but not read it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum WrittenObject {
    /// For callers who may read it.
    Whole(StoredObject),
    /// For all others.
    Hidden(HiddenObject),
}

/// An object that the caller may not read.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HiddenObject {
    /// Its id.
    pub public_id: i64,
}

/// An object in a list: as it is stored, rendered, or what a projection leaves of either.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ListedObject {
    /// With `view=native`.
    Native(StoredObject),
    /// With `view=render`.
    Rendered(Box<RenderedObject>),
    /// With `projection`, or with a pipeline as the filter.
    Projected(BTreeMap<String, Value>),
}

/// An object with names, labels and references.
#[derive(Serialize, ToSchema)]
pub struct RenderedObject {
    /// When this was made.
    pub current_render_time: Moment,
    /// The object itself.
    pub object_information: ObjectInformation,
    /// Its type, with the object's values.
    pub type_information: TypeInformation,
}

/// The facts about the object in a rendered view.
#[derive(Serialize, ToSchema)]
pub struct ObjectInformation {
    /// Its id.
    pub object_id: i64,
    /// When it was made.
    pub creation_time: Moment,
    /// When it was last changed.
    #[schema(required)]
    pub last_edit_time: Option<Moment>,
    /// The user who made it.
    pub author_id: i64,
    /// What to call that user.
    pub author_name: String,
    /// The user who changed it last.
    #[schema(required)]
    pub editor_id: Option<i64>,
    /// What to call that user.
    #[schema(required)]
    pub editor_name: Option<String>,
    /// Whether it is in use.
    pub active: bool,
    /// Three numbers.
    pub version: String,
}

/// The facts about the type in a rendered view; empty if the type was deleted.
#[derive(Serialize, ToSchema)]
pub struct TypeInformation {
    /// The type's id.
    pub type_id: i64,
    /// Its name.
    pub type_name: String,
    /// Its name for people.
    pub type_label: String,
    /// When it was made.
    #[schema(required)]
    pub creation_time: Option<String>,
    /// The user who made it.
    #[schema(required)]
    pub author_id: Option<i64>,
    /// What to call that user.
    pub author_name: String,
    /// A class of an icon font.
    #[schema(required)]
    pub icon: Option<String>,
    /// Whether objects can be made.
    pub active: bool,
    /// Three numbers.
    pub version: String,
    /// Who may do what with objects of the type.
    pub acl: AccessList,
    /// The fields with their values.
    pub fields: Vec<RenderedField>,
    /// The fields in groups.
    pub sections: Vec<BTreeMap<String, Value>>,
    /// The fields that sum the object up.
    pub summaries: Vec<SummaryField>,
    /// Their values in one line.
    pub summary_line: String,
    /// Links.
    pub externals: Vec<External>,
}

/// A field with its value.
#[derive(Serialize, ToSchema)]
pub struct RenderedField {
    /// What kind of field it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The value; null where there is none.
    pub value: Value,
    /// The options to choose from.
    #[serde(default)]
    pub options: Vec<FieldOption>,
    /// The types that it may refer to.
    #[serde(default)]
    pub ref_types: Vec<i64>,
    /// The object that it refers to; `{"protected": true}` when the caller may not read it.
    #[schema(nullable = false)]
    pub reference: Option<BTreeMap<String, Value>>,
    /// The objects that a list refers to, in its order, each as in `reference`.
    #[schema(nullable = false)]
    pub references: Option<Vec<BTreeMap<String, Value>>>,
}

/// Something to choose.
#[derive(Serialize, ToSchema)]
pub struct FieldOption {
    /// What is stored.
    pub name: String,
    /// What people see.
    pub label: String,
}

/// A field of a summary.
#[derive(Serialize, ToSchema)]
pub struct SummaryField {
    /// What kind of field it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The value; null where there is none.
    pub value: Value,
}

/// A link.
#[derive(Serialize, ToSchema)]
pub struct External {
    /// Its name.
    pub name: String,
    /// The address.
    pub href: String,
    /// What to show.
    pub label: String,
    /// A class of an icon font.
    #[schema(required)]
    pub icon: Option<String>,
    /// The fields whose values are in the address.
    pub fields: Vec<String>,
}

/// Who may do what with objects of a type.
#[derive(Serialize, ToSchema)]
pub struct AccessList {
    /// Whether the list counts.
    pub activated: bool,
    /// The groups in it.
    pub groups: AccessGroups,
}

/// The groups of an access list.
#[derive(Serialize, ToSchema)]
pub struct AccessGroups {
    /// Group ids with what each may do: `CREATE`, `READ`, `UPDATE`, `DELETE`.
    pub includes: BTreeMap<String, Vec<String>>,
}

/// A type of objects.
#[derive(Serialize, ToSchema)]
pub struct Type {
    /// Its id.
    pub public_id: i64,
    /// Its unique name, in kebab case.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The user who made it.
    pub author_id: i64,
    /// The user who changed it last.
    #[schema(required)]
    pub editor_id: Option<i64>,
    /// Whether objects can be made.
    pub active: bool,
    /// What its objects have.
    pub fields: Vec<TypeField>,
    /// By which of these its objects are found in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub indexes: Vec<Vec<String>>,
    /// Three numbers.
    pub version: String,
    /// For people.
    #[schema(required)]
    pub description: Option<String>,
    /// How its objects are rendered.
    pub render_meta: RenderMeta,
    /// Who may do what with its objects.
    pub acl: AccessList,
    /// When it was made.
    pub creation_time: String,
    /// When it was last changed.
    #[schema(required)]
    pub last_edit_time: Option<String>,
}

/// An entry of the history: one change of an object, a type or a category.
#[derive(Serialize, ToSchema)]
pub struct LogEntry {
    /// Orders all entries.
    pub sequence: i64,
    /// When it happened.
    pub time: String,
    /// `objects`, `types` or `categories`.
    pub resource: String,
    /// The id of what was changed.
    pub public_id: i64,
    /// The type of a changed object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_id: Option<i64>,
    /// Counts the entries of this resource, from 1.
    pub number: i64,
    /// The version after the change, of what has versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `CREATE`, `EDIT`, `DELETE`, `ACTIVE_CHANGE`, `CLEAN`, `MIGRATE`, `IMPORT`, `REVERT` or `OUTSIDE`.
    pub action: String,
    /// The user who did it, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<i64>,
    /// The user's name at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The user's comment from `Inventory-Comment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// For an object that changed together with its type: the sequence of the type's entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<i64>,
    /// How to go back: `was` has earlier values by their JSON pointers.
    pub changes: Value,
}

/// What an undo did.
#[derive(Serialize, ToSchema)]
pub struct UndoneRequest {
    /// The request that was undone.
    pub request_id: String,
    /// Whether nothing was stored.
    pub dry_run: bool,
    /// How many resources became what they were.
    pub reverted: u64,
    /// How many came back that the request deleted.
    pub restored: u64,
    /// How many went that the request created.
    pub deleted: u64,
    /// How many were already as they had been.
    pub unchanged: u64,
    /// In how many units it was stored; 0 when nothing was.
    pub units: u64,
    /// The first 1,000 of the changed resources.
    pub resources: Vec<UndoneResource>,
}

/// What an undo did to a resource.
#[derive(Serialize, ToSchema)]
pub struct UndoneResource {
    /// `objects`, `types` or `categories`.
    pub resource: String,
    /// Its id.
    pub public_id: i64,
    /// `reverted`, `restored` or `deleted`.
    pub action: String,
}

/// A page of changes.
#[derive(Serialize, ToSchema)]
pub struct Changes {
    /// The events in their order.
    pub results: Vec<ChangeEvent>,
    /// The cursor to continue from.
    pub next: String,
}

/// A change, as a follower receives it.
#[derive(Serialize, ToSchema)]
pub struct ChangeEvent {
    /// `objects`, `types` or `categories`. Streams have it as the name of the event.
    pub resource: String,
    /// `enter`, `change` or `leave`.
    pub kind: String,
    /// The sequence of its log entry.
    pub sequence: i64,
    /// What was done, as in log entries.
    pub action: String,
    /// The id of what was changed.
    pub public_id: i64,
    /// Its version after the change.
    #[schema(required)]
    pub version: Option<String>,
    /// When it happened.
    pub time: String,
    /// Who did it, if it is known.
    #[schema(required)]
    pub user_id: Option<i64>,
    /// The document after the change; null when it went, absent with `view=ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
}

/// What differs between two moments of an object.
#[derive(Serialize, ToSchema)]
pub struct Diff {
    /// The fields that differ.
    pub fields: Vec<FieldDiff>,
    /// The operations of RFC 6902 that turn the earlier native view into the later one.
    pub patch: Vec<Value>,
}

/// A field that differs.
#[derive(Serialize, ToSchema)]
pub struct FieldDiff {
    /// Its name.
    pub name: String,
    /// Its label.
    pub label: String,
    /// Its value at the earlier moment.
    pub from: Value,
    /// Its value at the later moment.
    pub to: Value,
}

/// A category of types.
#[derive(Serialize, ToSchema)]
pub struct Category {
    /// Its id.
    pub public_id: i64,
    /// Its unique name, in kebab case.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The category above it.
    #[schema(required)]
    pub parent: Option<i64>,
    /// Ids of its types.
    pub types: Vec<i64>,
    /// How to show it.
    pub meta: CategoryMeta,
    /// When it was made.
    pub creation_time: String,
    /// When it was last changed.
    #[schema(required)]
    pub last_edit_time: Option<String>,
}

/// How to show a category.
#[derive(Serialize, ToSchema)]
pub struct CategoryMeta {
    /// A class of an icon font.
    pub icon: String,
    /// Its place among its siblings.
    #[schema(required)]
    pub order: Option<i64>,
}

/// A category in a tree.
#[derive(Serialize, ToSchema)]
pub struct CategoryNode {
    /// The category.
    pub category: Category,
    /// Its place among its siblings.
    #[schema(required)]
    pub node_order: Option<i64>,
    /// The categories below it.
    #[schema(no_recursion)]
    pub children: Vec<CategoryNode>,
    /// Its types.
    pub types: Vec<Type>,
}

/// A category in a list, with `view=tree` in a tree.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum CategoryOrNode {
    /// With `view=list`.
    Category(Category),
    /// With `view=tree`.
    Node(CategoryNode),
}

/// A user.
#[derive(Serialize, ToSchema)]
pub struct User {
    /// Its id.
    pub public_id: i64,
    /// The name for signing in; unique, ignoring case.
    pub user_name: String,
    /// Whether it may sign in.
    pub active: bool,
    /// The group whose rights it has.
    pub group_id: i64,
    /// When it came to be.
    pub registration_time: String,
    /// Who signs it in.
    pub authenticator: String,
    /// Mail address.
    #[schema(required)]
    pub email: Option<String>,
    /// Always the same text, independent of the password.
    pub password: String,
    /// A picture.
    #[schema(required)]
    pub image: Option<String>,
    /// Given name.
    #[schema(required)]
    pub first_name: Option<String>,
    /// Family name.
    #[schema(required)]
    pub last_name: Option<String>,
}

/// A group of users.
#[derive(Serialize, ToSchema)]
pub struct Group {
    /// Its id.
    pub public_id: i64,
    /// Its unique name.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// What its users may do.
    pub rights: Vec<Right>,
}

/// A right in a list; with `view=tree` a list.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum RightOrBranch {
    /// One right.
    Right(Right),
    /// A master right, then what is below it: rights and such lists.
    Branch(Vec<Value>),
}

/// Names of security levels with their numbers.
#[derive(Serialize, ToSchema)]
pub struct SecurityLevels(BTreeMap<String, i64>);

/// A setting that a user keeps.
#[derive(Serialize, ToSchema)]
pub struct UserSetting {
    /// Its name, unique for the user.
    pub identifier: String,
    /// The user.
    pub user_id: i64,
    /// Whatever the client keeps.
    pub payload: BTreeMap<String, Value>,
    /// What it is a setting of.
    pub setting_type: String,
}

/// A saved report.
#[derive(Serialize, ToSchema)]
pub struct Report {
    /// Its id.
    pub public_id: i64,
    /// Whose it is: `user` or `group`.
    pub of: String,
    /// The user or the group.
    pub owner_id: i64,
    /// Its name, unique for the owner.
    pub name: String,
    /// Its title for people.
    #[schema(required)]
    pub title: Option<String>,
    /// The form of the results, where a request names none: `json`, `csv` or `xlsx`.
    pub format: String,
    /// The stages of its pipeline.
    pub pipeline: Vec<BTreeMap<String, Value>>,
    /// The last user who saved it.
    pub author_id: i64,
    /// When that was.
    pub last_edit_time: Moment,
}

/// A stored token for machines.
#[derive(Serialize, ToSchema)]
pub struct UserToken {
    /// Its id.
    pub public_id: i64,
    /// The user for whom it acts.
    pub user_id: i64,
    /// Its name; unique for the user.
    pub name: String,
    /// Its rights, as far as its user has them.
    pub rights: Vec<String>,
    /// When it was made.
    pub created_at: String,
    /// When it ends.
    pub expires_at: String,
    /// When it was used last, about.
    #[schema(required)]
    pub last_used_at: Option<String>,
    /// `true` if MongoDB tools may sign in with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    pub mongodb: Option<bool>,
}

/// A webhook.
#[derive(Serialize, ToSchema)]
pub struct Webhook {
    /// Its id.
    pub public_id: i64,
    /// Its name for people.
    pub name: String,
    /// Where events go.
    pub url: String,
    /// The resources whose changes it sends: `objects`, `types`, `categories`.
    pub resources: Vec<String>,
    /// A MongoDB filter of objects, as text.
    #[schema(required)]
    pub filter: Option<String>,
    /// What events hold of the document: `native`, `render` or `ids`.
    pub view: String,
    /// Whether it delivers.
    pub active: bool,
    /// `active`, `off` when a user turned it off, `paused` when the service did.
    pub state: String,
    /// Why it is paused.
    #[schema(required)]
    pub reason: Option<String>,
    /// The user whose rights and access lists decide what it sends: the last one who saved it.
    pub author_id: i64,
    /// When it was made.
    pub creation_time: String,
    /// When it was last changed.
    #[schema(required)]
    pub last_edit_time: Option<String>,
}

/// An attempt to deliver an event.
#[derive(Serialize, ToSchema)]
pub struct Delivery {
    /// The webhook.
    pub webhook_id: i64,
    /// Counts the attempts of the webhook.
    pub number: i64,
    /// The header `webhook-id`: the same for all attempts for one event.
    pub message_id: String,
    /// Counts the attempts since the last delivery.
    pub attempt: i64,
    /// When it began.
    pub time: String,
    /// How long it took.
    pub duration_ms: i64,
    /// Whether the receiver has the event.
    pub delivered: bool,
    /// The status of the answer, if one came.
    #[schema(required)]
    pub status: Option<i64>,
    /// What came of it, in a few words.
    pub outcome: String,
}

/// What came of a test.
#[derive(Serialize, ToSchema)]
pub struct Tested {
    /// Whether the receiver has the event.
    pub delivered: bool,
    /// The status of the answer, if one came.
    #[schema(required)]
    pub status: Option<i64>,
    /// What came of it, in a few words.
    pub outcome: String,
    /// How long it took.
    pub duration_ms: i64,
}

/// What the service is.
#[derive(Serialize, ToSchema)]
pub struct ServiceInfo {
    /// `inventory-service`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of MongoDB whose answers filters, expressions and pipelines give.
    pub query_language: String,
    /// Where the data is stored.
    pub store: StoreInfo,
    /// Links by name: the lists, the API description and its page.
    pub links: BTreeMap<String, String>,
}

/// Where the data is stored.
#[derive(Serialize, ToSchema)]
pub struct StoreInfo {
    /// `embedded` or `mongodb`.
    pub kind: String,
    /// Whether it answers now.
    pub reachable: bool,
}

/// How the service is.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `live` or `ready`.
    pub status: String,
    /// Why only reads are answered, while there is no room for writes.
    #[schema(required = false, value_type = String)]
    pub read_only: Option<String>,
}
