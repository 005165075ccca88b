//! The links of a view.

use bson::spec::ElementType;

use super::line::push_text;
use super::stored::{FieldValues, StoredObject};
use crate::domain::object_type::{LinkSource, LinkTemplate, ObjectType};
use crate::json::write::{array, write_string};
use crate::raw::{CorruptBson, Value};

/// The list of `{name, href, label, icon, fields}`, `fields` being the names of the fields whose values fill the
/// address. A link is left out when its address must not be rendered (see [`LinkTemplate::parse`]) or when there are
/// too few values. It is also left out when a value is missing, null, empty or not a single value.
pub(super) fn write_externals(
    stored: &StoredObject<'_>,
    object_type: &ObjectType,
    values: &FieldValues<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    array(out, |items| {
        for (external, sources) in object_type.externals.iter().zip(&object_type.layout.externals) {
            let Some(link) = &external.link else { continue };
            if let Some(href) = address(link, sources, stored, values)? {
                let item = items.item();
                item.extend_from_slice(&external.fragments.opening);
                write_string(&href, item);
                item.extend_from_slice(&external.fragments.after_href);
                item.push(b'}');
            }
        }
        Ok(())
    })
}

fn address(
    link: &LinkTemplate,
    sources: &[LinkSource],
    stored: &StoredObject<'_>,
    values: &FieldValues<'_>,
) -> Result<Option<String>, CorruptBson> {
    let mut texts = Vec::with_capacity(sources.len());
    for source in sources {
        let mut text = String::new();
        match source {
            LinkSource::ObjectId => text.extend(stored.public_id.map(|id| id.to_string())),
            LinkSource::Field(position) => push_single(values.at(*position), &mut text)?,
            LinkSource::Missing => {}
        }
        texts.push(text);
    }
    Ok(link.fill(&texts))
}

/// Appends the text of a value; nothing for documents and arrays.
fn push_single(value: Value<'_>, text: &mut String) -> Result<(), CorruptBson> {
    match value.element_type() {
        ElementType::EmbeddedDocument | ElementType::Array => Ok(()),
        _ => push_text(value, text),
    }
}
