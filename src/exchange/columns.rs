//! The columns of a type's table: what every object has, then the fields of the type in their order.

use std::sync::Arc;

use bson::raw::RawDocument;

use super::cell::{self, Cell};
use crate::domain::object_fields::ValueKind;
use crate::domain::object_member::{MEMBERS, ObjectMember};
use crate::domain::object_type::{Field, ObjectType};
use crate::raw::{CorruptBson, Elements, Value};

/// The prefix of a field's column if the field has the name of another column.
const FIELDS: &str = "fields.";

/// The columns in which objects of a type are written.
#[derive(Debug, Clone)]
pub struct Columns {
    object_type: Arc<ObjectType>,
    own: Vec<&'static ObjectMember>,
    /// Positions of the fields in the type, with their kinds.
    fields: Vec<(usize, ValueKind)>,
}

impl Columns {
    /// The columns of a type; with `all` also those that are not fields. Password fields only for callers who may see
    /// their values.
    pub fn of(object_type: &Arc<ObjectType>, all: bool, passwords: bool) -> Self {
        let own = columns().filter(|member| all || member.is_exported).collect();
        let fields = object_type.fields.iter().enumerate();
        let shown = fields.filter(|(_, field)| passwords || !field.is_password());
        let fields = shown.map(|(position, field)| (position, ValueKind::of(field))).collect();
        Self { object_type: Arc::clone(object_type), own, fields }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.own.len() + self.fields.len()
    }

    /// The cells of the header.
    pub fn header(&self) -> Vec<String> {
        let own = self.own.iter().map(|own| own.name.to_owned());
        let fields = self.fields.iter().map(|(position, _)| header_of(&self.object_type.fields[*position].name));
        own.chain(fields).collect()
    }

    /// The cells of an object.
    ///
    /// # Errors
    /// When its bytes are not BSON.
    pub fn row<'a>(&self, object: &'a RawDocument) -> Result<Vec<Cell<'a>>, CorruptBson> {
        let mut own = vec![Value::NULL; self.own.len()];
        let mut fields: Vec<Option<Value<'a>>> = vec![None; self.object_type.fields.len()];
        let mut members = Elements::of(object);
        while let Some(member) = members.next_element()? {
            if member.name == b"fields" {
                self.read_fields(member.value, &mut fields)?;
            } else if let Some(place) = self.own.iter().position(|own| own.name.as_bytes() == member.name) {
                own[place] = member.value;
            }
        }
        let own = self.own.iter().zip(own).map(|(own, value)| Cell::of(own.kind, value));
        let fields = self
            .fields
            .iter()
            .map(|&(position, kind)| fields[position].map_or(Ok(Cell::Empty), |value| Cell::of(kind, value)));
        own.chain(fields).collect()
    }

    /// Of several entries of one name the first counts, as everywhere.
    fn read_fields<'a>(&self, entries: Value<'a>, values: &mut [Option<Value<'a>>]) -> Result<(), CorruptBson> {
        for entry in entries.elements() {
            let (mut name, mut value) = (None, None);
            let mut members = entry.value.elements();
            while let Some(member) = members.next_element()? {
                match member.name {
                    b"name" => name = member.value.as_str(),
                    b"value" => value = Some(member.value),
                    _ => {}
                }
            }
            let position = name.and_then(|name| self.object_type.position(name));
            if let (Some(position), Some(value)) = (position, value) {
                values[position].get_or_insert(value);
            }
        }
        Ok(())
    }
}

/// The members of objects that tables have. A table has objects of one type.
fn columns() -> impl Iterator<Item = &'static ObjectMember> {
    MEMBERS.iter().filter(|member| member.name != "type_id")
}

/// The member of objects whose column has this name.
fn own(name: &str) -> Option<&'static ObjectMember> {
    columns().find(|member| member.name == name)
}

/// The header cell of a field.
pub fn header_of(name: &str) -> String {
    if own(name).is_some() || name.starts_with(FIELDS) {
        return cell::guarded(&format!("{FIELDS}{name}")).into_owned();
    }
    cell::guarded(name).into_owned()
}

/// What a header cell refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heading {
    /// What objects have in addition to their fields.
    Own(&'static ObjectMember),
    /// The field of the type at this position.
    Field(usize),
    /// The field at this position, which refers to the object of the type `type_name` whose `field` has the cell's value.
    Link {
        /// The position of the field.
        position: usize,
        /// The name of the type that is referred to.
        type_name: String,
        /// The name of a field of that type.
        field: String,
    },
}

impl Heading {
    /// Whether a header cell is like no column of the type, not even like a misspelt one.
    pub fn is_strange(cell: &str, object_type: &ObjectType) -> bool {
        let bare = format!("the type {} has no field {}", object_type.name, cell::name(cell).trim());
        cell.trim().is_empty() || Self::read(cell, object_type).is_err_and(|reason| reason == bare)
    }

    /// The meaning of a header cell of a type's table.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read(cell: &str, object_type: &ObjectType) -> Result<Self, String> {
        let name = &*cell::name(cell);
        let position = |name: &str| {
            let name = name.strip_prefix(FIELDS).unwrap_or(name);
            object_type.position(name).or_else(|| same_name(object_type, name))
        };
        // A space at the edge of a cell is no part of a name, unless a field is called so.
        for name in [name, name.trim()] {
            if let Some(own) = own(name) {
                return Ok(Self::Own(own));
            }
            if let Some(position) = position(name) {
                return Ok(Self::Field(position));
            }
        }
        if let Some(position) = only(object_type, |field| cell::tidy_name(&field.label) == cell::tidy_name(name)) {
            return Ok(Self::Field(position));
        }
        let name = name.trim();
        let unknown = |name: &str| match name {
            "id" | "_id" | "object_id" => "is no column; did you mean public_id?".to_owned(),
            "type_id" | "type" => "is no column; a table has objects of one type, which the request names".to_owned(),
            _ => object_type.lack_of(
                name.strip_prefix(FIELDS).unwrap_or(name),
                &columns().map(|member| member.name).collect::<Vec<_>>(),
            ),
        };
        let (left, target) = name.split_once('=').ok_or_else(|| unknown(name))?;
        let position = position(left).ok_or_else(|| unknown(left))?;
        let (type_name, field) = target
            .split_once('/')
            .filter(|(type_name, field)| !type_name.is_empty() && !field.is_empty())
            .ok_or_else(|| format!("write {left}=<type>/<field>: the type that {left} refers to, and a field of it"))?;
        if !object_type.fields[position].is_reference() {
            return Err(format!("the field {left} does not refer to objects"));
        }
        if object_type.fields[position].refers_to_several() {
            return Err(format!("the field {left} refers to several objects; write their ids under {left}, as 7, 9"));
        }
        Ok(Self::Link { position, type_name: type_name.to_owned(), field: field.to_owned() })
    }
}

/// The field of this name in another Unicode form. Some programs write letters and their accents apart.
fn same_name(object_type: &ObjectType, name: &str) -> Option<usize> {
    if name.is_ascii() {
        return None;
    }
    only(object_type, |field| cell::tidy_name(&field.name) == cell::tidy_name(name))
}

/// The position of the one field for which this holds.
fn only(object_type: &ObjectType, holds: impl Fn(&Field) -> bool) -> Option<usize> {
    let mut fields = object_type.fields.iter().enumerate().filter(|(_, field)| holds(field)).map(|(place, _)| place);
    fields.next().filter(|_| fields.next().is_none())
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    fn rack() -> Arc<ObjectType> {
        let document = doc! { "public_id": 1, "name": "rack", "fields": [
            { "name": "name", "type": "text" },
            { "name": "active", "type": "checkbox" },
            { "name": "=cmd", "type": "text" },
            { "name": "room", "type": "ref" },
            { "name": "pin", "type": "password" },
        ] };
        let raw = bson::RawDocumentBuf::try_from(document).unwrap();
        Arc::new(ObjectType::from_document(&raw).unwrap())
    }

    #[test]
    fn fields_keep_their_order_and_stay_apart_from_own_columns() {
        let columns = Columns::of(&rack(), false, true);
        assert_eq!(columns.header(), ["public_id", "active", "name", "fields.active", "'=cmd", "room", "pin"]);
        let all = Columns::of(&rack(), true, false).header();
        assert_eq!(
            all[2..9],
            ["status", "version", "author_id", "editor_id", "creation_time", "last_edit_time", "views"]
        );
        assert!(!all.contains(&"pin".to_owned()));
    }

    #[test]
    fn every_header_cell_is_understood_again() {
        let rack = rack();
        for (place, cell) in Columns::of(&rack, false, true).header().iter().enumerate().skip(2) {
            assert_eq!(Heading::read(cell, &rack), Ok(Heading::Field(place - 2)), "{cell}");
        }
        assert_eq!(Heading::read("active", &rack), Ok(Heading::Own(own("active").unwrap())));
        let link = Heading::Link { position: 3, type_name: "room".to_owned(), field: "name".to_owned() };
        assert_eq!(Heading::read("room=room/name", &rack), Ok(link));
        assert_eq!(Heading::read(" room ", &rack), Ok(Heading::Field(3)));
        assert_eq!(Heading::read("public_id ", &rack), Ok(Heading::Own(own("public_id").unwrap())));
        for (said, told) in [("id", "did you mean public_id?"), ("type_id", "which the request names")] {
            assert!(Heading::read(said, &rack).unwrap_err().ends_with(told), "{said}");
        }
        for wrong in ["colour", "name=room/name", "room=room", "room=/x", ""] {
            assert!(Heading::read(wrong, &rack).is_err(), "{wrong}");
        }
    }

    #[test]
    fn labels_are_headings_where_they_name_one_field_and_unicode_forms_are_one() {
        let document = doc! { "public_id": 1, "name": "host", "fields": [
            { "name": "sn", "label": "Serial number", "type": "text" },
            { "name": "nom \u{e9}", "label": "Name", "type": "text" },
            { "name": "re\u{301}f", "label": "Name", "type": "text" },
            { "name": "rack", "label": "sn", "type": "text" },
        ] };
        let raw = bson::RawDocumentBuf::try_from(document).unwrap();
        let host = ObjectType::from_document(&raw).unwrap();
        for (cell, place) in [
            ("Serial number", 0),
            (" Serial number ", 0),
            ("sn", 0),
            ("nom e\u{301}", 1),
            ("nom \u{e9}", 1),
            ("r\u{e9}f", 2),
            ("re\u{301}f", 2),
            ("fields.nom e\u{301}", 1),
        ] {
            assert_eq!(Heading::read(cell, &host), Ok(Heading::Field(place)), "{cell}");
        }
        assert!(Heading::read("Name", &host).is_err(), "two fields have this label");
    }

    #[test]
    fn a_row_takes_the_first_entry_of_a_name_and_leaves_missing_ones_empty() {
        let object = rawdoc! { "public_id": 7_i64, "active": true, "fields": [
            { "name": "name", "value": "a" }, { "name": "name", "value": "b" }, { "name": "gone", "value": 1 },
        ] };
        let row: Vec<String> = Columns::of(&rack(), false, false)
            .row(&object)
            .unwrap()
            .iter()
            .map(|cell| cell.as_text().into_owned())
            .collect();
        assert_eq!(row, ["7", "true", "a", "", "", ""]);
    }
}
