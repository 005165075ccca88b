//! Objects as lines of JSON, in their stored form, which can be sent back.

use bson::raw::RawDocument;
use bson::{Bson, Document, RawDocumentBuf};

use super::WriteError;
use crate::json::write::{DateStyle, Shape, write_document};
use crate::raw::CorruptBson;

/// Writes a line for each object; `hidden` says which fields of an object, by its `type_id`, are left out.
///
/// # Errors
/// When an object is damaged.
pub fn lines<'a>(
    objects: impl Iterator<Item = &'a RawDocument>,
    hidden: impl Fn(i64) -> Vec<String>,
) -> Result<Vec<u8>, WriteError> {
    let mut out = Vec::new();
    for object in objects {
        let type_id = crate::domain::document::integer(object, "type_id").unwrap_or_default();
        let hidden = hidden(type_id);
        if hidden.is_empty() {
            write_document(object, Shape::new(DateStyle::Millis), &mut out)?;
        } else {
            write_document(&without(object, &hidden)?, Shape::new(DateStyle::Millis), &mut out)?;
        }
        out.push(b'\n');
    }
    Ok(out)
}

fn without(object: &RawDocument, hidden: &[String]) -> Result<RawDocumentBuf, CorruptBson> {
    const CORRUPT: CorruptBson = CorruptBson("a stored object that cannot be read");
    let mut object = Document::try_from(object).map_err(|_| CORRUPT)?;
    if let Some(Bson::Array(fields)) = object.get_mut("fields") {
        let name = |entry: &Bson| entry.as_document().and_then(|entry| entry.get_str("name").ok().map(str::to_owned));
        fields.retain(|entry| name(entry).is_none_or(|name| !hidden.contains(&name)));
    }
    RawDocumentBuf::try_from(&object).map_err(|_| CORRUPT)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn hidden_fields_are_left_out_of_lines() {
        let object = rawdoc! { "_id": 1, "public_id": 7_i64, "type_id": 3_i64, "fields": [
            { "name": "name", "value": "a" }, { "name": "pin", "value": "1234" },
        ] };
        let text = |hidden: &[&str]| {
            let hidden: Vec<String> = hidden.iter().map(|name| (*name).to_owned()).collect();
            String::from_utf8(lines(std::iter::once(&*object), |_| hidden.clone()).unwrap()).unwrap()
        };
        let whole =
            r#"{"public_id":7,"type_id":3,"fields":[{"name":"name","value":"a"},{"name":"pin","value":"1234"}]}"#;
        assert_eq!(text(&[]), format!("{whole}\n"));
        assert_eq!(
            text(&["pin"]),
            "{\"public_id\":7,\"type_id\":3,\"fields\":[{\"name\":\"name\",\"value\":\"a\"}]}\n"
        );
    }
}
