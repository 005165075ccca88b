//! Makes views of objects, their types and their references.
//!
//! Laws:
//! - Pure and total: no store, no clock, no I/O. Same input, same bytes out.
//! - Missing things have placeholders in the view: a deleted type, a dangling reference, a deleted user. The only error
//!   is a stored document whose bytes are not BSON.
//! - The view never contains data that the caller may not read, on any path.
//!
//! The caller reads the objects of a page as [`Subject`]s and collects with [`Gathering`] what their views need. It
//! fetches that into a [`RenderCatalog`], and renders one object after the other with [`render_subject`].

mod catalog;
mod externals;
mod fields;
mod gathering;
mod line;
mod stored;
mod users;

use bson::raw::RawDocument;

pub use self::catalog::RenderCatalog;
use self::fields::FieldView;
pub use self::gathering::{Gathering, Needed};
pub use self::stored::Subject;
use self::stored::{FieldValues, StoredObject};
pub use self::users::display_name;
use crate::domain::object_type::{ObjectType, TypeFragments};
use crate::json::write::{DateStyle, ObjectWriter, array, object, write_value};
use crate::raw::{CorruptBson, Value};

/// What a view depends on in addition to the data.
#[derive(Debug, Clone, Copy)]
pub struct RenderContext {
    /// The render time in the view, in milliseconds since 1970.
    pub now_ms: i64,
    /// The group whose permissions decide which referenced objects are shown.
    pub group_id: i64,
    /// Whether the access list of some type hides its objects from the group.
    pub hides_types: bool,
    /// Whether the caller may edit objects. Other callers see no value of a password field anywhere.
    pub may_edit: bool,
}

/// Appends the rendered view of an object: docs/api.md, Rendered objects.
///
/// ```text
/// { "current_render_time": {"$date": ms},
///   "object_information": { object_id, creation_time, last_edit_time, author_id, author_name,
///                           editor_id, editor_name, active, version },
///   "type_information":   { type_id, type_name, type_label, creation_time, author_id, author_name, icon, active,
///                           version, acl, fields, sections, summaries, summary_line, externals } }
/// ```
///
/// - Times of the object are `{"$date": ms}`, the type's `creation_time` is ISO 8601, as everywhere.
/// - `editor_name` is null without an editor, and `unknown` if the editor was deleted.
/// - A deleted type: its id, empty texts, `active` false, no fields, `summary_line` "#" and the object's id.
/// - Members of the stored document that the interface does not know are not shown.
///
/// Access to the object itself was checked before, when it was read.
///
/// # Errors
/// When the object, or one of its targets, is not BSON; `out` is then unchanged.
pub fn render_object<C: RenderCatalog + ?Sized>(
    document: &RawDocument,
    catalog: &C,
    context: &RenderContext,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    // Names, labels and references make a view about four times as long as its object.
    out.reserve(document.as_bytes().len() * 4);
    render_subject(&Subject::read(document, context)?, catalog, out)
}

/// The same for an object that was read already.
///
/// # Errors
/// As [`render_object`].
pub fn render_subject<C: RenderCatalog + ?Sized>(
    subject: &Subject<'_>,
    catalog: &C,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    let start = out.len();
    let written = write_view(subject, catalog, out);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// The summary line of an object, as in `summary_line` and in references to it. It joins the values of the type's
/// summary fields with `" | "`. If all are empty, it is the type's label, `#` and the object's id.
///
/// # Errors
/// When the object is not BSON.
pub fn summary_line(document: &RawDocument, object_type: &ObjectType, may_edit: bool) -> Result<String, CorruptBson> {
    let stored = StoredObject::read(document)?;
    let values = FieldValues::read(&stored, object_type, may_edit)?;
    line::of_object(&stored, object_type, &values)
}

fn write_view<C: RenderCatalog + ?Sized>(
    subject: &Subject<'_>,
    catalog: &C,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    let stored = &subject.stored;
    let type_id = stored.type_id.unwrap_or(0);
    let placeholder;
    let object_type = if let Some(object_type) = catalog.object_type(type_id) {
        object_type
    } else {
        placeholder = ObjectType::missing(type_id);
        &placeholder
    };
    object(out, |view| {
        view.date("current_render_time", subject.context.now_ms, DateStyle::Millis);
        view.object("object_information", |members| write_object_information(stored, catalog, members))?;
        view.object("type_information", |members| write_type_information(subject, object_type, catalog, members))
    })
}

fn write_object_information<C: RenderCatalog + ?Sized>(
    stored: &StoredObject<'_>,
    catalog: &C,
    members: &mut ObjectWriter<'_>,
) -> Result<(), CorruptBson> {
    members.optional_integer("object_id", stored.public_id);
    write_stored("creation_time", stored.creation_time, members)?;
    write_stored("last_edit_time", stored.last_edit_time, members)?;
    members.optional_integer("author_id", stored.author_id);
    members.string("author_name", users::name_of(stored.author_id, catalog));
    members.optional_integer("editor_id", stored.editor_id);
    members.optional_string("editor_name", stored.editor_id.map(|id| users::name_of(Some(id), catalog)));
    members.boolean("active", stored.active);
    members.string("version", stored.version);
    Ok(())
}

fn write_type_information<C: RenderCatalog + ?Sized>(
    subject: &Subject<'_>,
    object_type: &ObjectType,
    catalog: &C,
    members: &mut ObjectWriter<'_>,
) -> Result<(), CorruptBson> {
    let (stored, values) = (&subject.stored, subject.values(object_type)?);
    let TypeFragments { before_author_name, after_author_name, sections, .. } = &object_type.fragments;
    members.members(before_author_name);
    members.string("author_name", users::name_of(object_type.author_id, catalog));
    members.members(after_author_name);
    let view = FieldView::new(catalog, subject.context);
    view.write_page_fields(stored, object_type, values, members.name("fields"))?;
    members.json("sections", sections);
    let summary = object_type.layout.summary.iter().copied();
    write_summaries(object_type, summary, values, members.name("summaries"))?;
    members.string("summary_line", &line::of_object(stored, object_type, values)?);
    externals::write_externals(stored, object_type, values, members.name("externals"))
}

/// The list of `{type, name, label, value}` for the fields at these positions.
fn write_summaries(
    object_type: &ObjectType,
    positions: impl Iterator<Item = usize>,
    values: &FieldValues<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    array(out, |items| {
        for position in positions {
            let item = items.item();
            item.extend_from_slice(&object_type.fields[position].fragments.opening);
            write_value(values.at(position), DateStyle::Millis, item)?;
            item.push(b'}');
        }
        Ok(())
    })
}

fn write_stored(name: &str, value: Value<'_>, members: &mut ObjectWriter<'_>) -> Result<(), CorruptBson> {
    write_value(value, DateStyle::Millis, members.name(name))
}
