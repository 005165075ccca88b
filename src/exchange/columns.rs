//! The columns of a type's table: what every object has, then the fields of the type in their order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::cell::{self, Cell};
use crate::domain::object_fields::ValueKind;
use crate::domain::object_member::{MEMBERS, ObjectMember};
use crate::domain::object_type::{Field, ObjectType};
use crate::raw::{CorruptBson, Elements, Value};

/// The optional prefix of the column of a field.
const FIELDS: &str = "fields.";
/// The prefix of the column of what every object has, if a field has the same name.
const OBJECT: &str = "object.";

/// The columns in which objects of a type are written.
#[derive(Debug, Clone)]
pub struct Columns {
    object_type: Arc<ObjectType>,
    list: Vec<Column>,
    /// What people see is written in place of names.
    labels: Labels,
}

/// Where labels are written in place of names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Labels {
    /// In the header.
    pub in_header: bool,
    /// For options.
    pub of_options: bool,
}

#[derive(Debug, Clone)]
enum Column {
    /// What every object has, at this position in [`MEMBERS`].
    Own(usize),
    /// The field of the type at this position.
    Field(usize, ValueKind),
    /// A value of the object to which the field at this position refers.
    Link { position: usize, target: Arc<ObjectType>, field: usize, is_further: bool },
}

/// Objects to which others refer, by their types and ids.
pub type Referenced = HashMap<(i64, i64), RawDocumentBuf>;

impl Columns {
    /// The columns of a type; with `all` also those that are not fields. Password fields only for callers who may see
    /// their values.
    pub fn of(object_type: &Arc<ObjectType>, all: bool, passwords: bool) -> Self {
        let own = columns().filter(|(_, member)| all || member.is_exported).map(|(place, _)| Column::Own(place));
        let fields = object_type.fields.iter().enumerate();
        let shown = fields.filter(|(_, field)| passwords || !field.is_password());
        let fields = shown.map(|(position, field)| Column::Field(position, ValueKind::of(field)));
        Self { object_type: Arc::clone(object_type), list: own.chain(fields).collect(), labels: Labels::default() }
    }

    /// These columns in their order. `target` has the type that a [`Heading::Link`] names.
    ///
    /// # Errors
    /// What is wrong with a heading, for people.
    pub fn named(
        object_type: &Arc<ObjectType>,
        headings: &[Heading],
        target: impl Fn(&str) -> Option<Arc<ObjectType>>,
    ) -> Result<Self, String> {
        let mut list = Vec::with_capacity(headings.len());
        for heading in headings {
            list.push(match heading {
                Heading::Own(own) => Column::Own(MEMBERS.iter().position(|member| member == *own).unwrap_or_default()),
                Heading::Field(position) => Column::Field(*position, ValueKind::of(&object_type.fields[*position])),
                Heading::Link { position, type_name, field, is_further } => {
                    let target = target(type_name).ok_or_else(|| format!("there is no type {type_name}"))?;
                    let place = target.position(field).ok_or_else(|| target.lack_of(field, &[]))?;
                    if target.fields[place].is_password() {
                        return Err(format!("{field} is a password field, and nobody is found by a password"));
                    }
                    Column::Link { position: *position, target, field: place, is_further: *is_further }
                }
            });
        }
        let columns = Self { object_type: Arc::clone(object_type), list, labels: Labels::default() };
        match columns.list.iter().find(|column| columns.lacks_its_first(column)) {
            Some(Column::Link { position, target, field, .. }) => {
                let (name, field) = (&object_type.fields[*position].name, &target.fields[*field].name);
                let to = &target.name;
                Err(format!(
                    "{name}.{field} is a further value of {name}; it needs a column {name}={to}/<field> beside it"
                ))
            }
            _ => Ok(columns),
        }
    }

    /// Whether a column adds a value to a reference that no column has.
    fn lacks_its_first(&self, column: &Column) -> bool {
        let Column::Link { position, target, is_further: true, .. } = column else { return false };
        let is_first = |other: &Column| match other {
            Column::Link { position: its, target: to, is_further: false, .. } => {
                its == position && to.public_id == target.public_id
            }
            _ => false,
        };
        !self.list.iter().any(is_first)
    }

    /// The same columns with labels in place of names.
    #[must_use]
    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    /// The cells of the header.
    pub fn header(&self) -> Vec<String> {
        let header = |column: &Column| match column {
            Column::Own(place) => own_header(&MEMBERS[*place], &self.object_type),
            Column::Field(position, _) => cell::guarded(self.called(*position)).into_owned(),
            Column::Link { position, target, field, is_further } => {
                let (left, field) = (self.called(*position), &target.fields[*field].name);
                let further = if *is_further { format!(".{field}") } else { String::new() };
                cell::guarded(&format!("{left}{further}={}/{field}", target.name)).into_owned()
            }
        };
        self.list.iter().map(header).collect()
    }

    /// The label of a field, if it is wanted and means the field; else its name.
    fn called(&self, position: usize) -> &str {
        let Field { name, label, .. } = &self.object_type.fields[position];
        let is_wanted = self.labels.in_header && !label.contains('=') && !label.trim().is_empty();
        let means_it = || Heading::read(&cell::guarded(label), &self.object_type) == Ok(Heading::Field(position));
        if is_wanted && means_it() { label } else { name }
    }

    /// The objects of other types that rows of these objects show values of, by their types and ids.
    pub fn referenced<'a>(&self, objects: impl Iterator<Item = &'a RawDocument>) -> BTreeSet<(i64, i64)> {
        let links = |column: &Column| match column {
            Column::Link { position, target, is_further: false, .. } => Some((*position, target.public_id)),
            _ => None,
        };
        let links: Vec<(usize, i64)> = self.list.iter().filter_map(links).collect();
        let mut found = BTreeSet::new();
        for object in objects.filter(|_| !links.is_empty()) {
            let Ok((_, fields)) = self.values(object) else { continue };
            let ids = links.iter().filter_map(|(place, type_id)| Some((*type_id, fields[*place]?.as_integer()?)));
            found.extend(ids);
        }
        found
    }

    /// The cells of an object.
    ///
    /// # Errors
    /// When its bytes are not BSON.
    pub fn row<'a>(&self, object: &'a RawDocument, referenced: &'a Referenced) -> Result<Vec<Cell<'a>>, CorruptBson> {
        let (own, fields) = self.values(object)?;
        let cell = |column: &Column| match column {
            Column::Own(place) => Cell::of(MEMBERS[*place].kind, own[*place]),
            Column::Field(position, kind) => {
                let Some(value) = fields[*position] else { return Ok(Cell::Empty) };
                let field = &self.object_type.fields[*position];
                let labels = if self.labels.of_options { cell::labelled(field, value)? } else { None };
                labels.map_or_else(|| Cell::of(*kind, value), Ok)
            }
            Column::Link { position, target, field, is_further } => match fields[*position] {
                Some(value) => self.link_cell((*position, value), target, (*field, *is_further), referenced),
                None => Ok(Cell::Empty),
            },
        };
        self.list.iter().map(cell).collect()
    }

    /// A value of the object that is referred to. Where it lacks one by which it would be found, its id takes the place.
    fn link_cell<'a>(
        &self,
        (position, value): (usize, Value<'a>),
        target: &ObjectType,
        (field, is_further): (usize, bool),
        referenced: &'a Referenced,
    ) -> Result<Cell<'a>, CorruptBson> {
        let Some(id) = value.as_integer() else { return Cell::of(ValueKind::Reference, value) };
        let cells = match referenced.get(&(target.public_id, id)) {
            Some(object) => fields_of(object, target)?,
            None => vec![None; target.fields.len()],
        };
        let text = |place: usize| {
            let cell = Cell::of(ValueKind::of(&target.fields[place]), cells[place]?).ok()?;
            let text = cell.as_text().into_owned();
            (!text.is_empty() && text != "'" && id_of_cell(&text).is_none()).then_some(text)
        };
        let is_part = |column: &Column| match column {
            Column::Link { position: other, target: its, field, .. }
                if *other == position && its.name == target.name =>
            {
                Some(*field)
            }
            _ => None,
        };
        let is_found = self.list.iter().filter_map(is_part).all(|place| text(place).is_some());
        Ok(match text(field) {
            Some(text) if is_found => Cell::Text(text.into()),
            _ if is_further => Cell::Empty,
            _ => Cell::Text(id_cell(id).into()),
        })
    }

    /// The values of [`MEMBERS`] and of the fields.
    fn values<'a>(&self, object: &'a RawDocument) -> Result<(Vec<Value<'a>>, Vec<Option<Value<'a>>>), CorruptBson> {
        let mut own = vec![Value::NULL; MEMBERS.len()];
        let mut members = Elements::of(object);
        while let Some(member) = members.next_element()? {
            if let Some(place) = MEMBERS.iter().position(|own| own.name.as_bytes() == member.name) {
                own[place] = member.value;
            }
        }
        Ok((own, fields_of(object, &self.object_type)?))
    }
}

/// The values of the fields of a type. Of several entries of one name the first counts, as everywhere.
fn fields_of<'a>(object: &'a RawDocument, object_type: &ObjectType) -> Result<Vec<Option<Value<'a>>>, CorruptBson> {
    let mut values: Vec<Option<Value<'a>>> = vec![None; object_type.fields.len()];
    let Some(entries) = Elements::of(object).member("fields")? else { return Ok(values) };
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
        let position = name.and_then(|name| object_type.position(name));
        if let (Some(position), Some(value)) = (position, value) {
            values[position].get_or_insert(value);
        }
    }
    Ok(values)
}

/// The members of objects that tables have. A table has objects of one type.
fn columns() -> impl Iterator<Item = (usize, &'static ObjectMember)> {
    MEMBERS.iter().enumerate().filter(|(_, member)| member.name != "type_id")
}

/// The member of objects whose column has this name.
fn own(name: &str) -> Option<&'static ObjectMember> {
    columns().map(|(_, member)| member).find(|member| member.name == name)
}

/// The header cell of what every object has. A name alone means the field of the type.
fn own_header(own: &ObjectMember, object_type: &ObjectType) -> String {
    let mut name = own.name.to_owned();
    while object_type.position(&name).is_some() {
        name.insert_str(0, OBJECT);
    }
    name
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
        /// Whether this adds a condition: `rack.site=rack/site` in addition to `rack=rack/name`.
        is_further: bool,
    },
}

impl Heading {
    /// Whether a header cell is like no column of the type, not even like a misspelt one.
    pub fn is_strange(cell: &str, object_type: &ObjectType) -> bool {
        let bare = format!("the type {} has no field {}", object_type.name, cell::name(cell).trim());
        cell.trim().is_empty() || Self::read(cell, object_type).is_err_and(|reason| reason == bare)
    }

    /// The meaning of a header cell of a type's table: the name of a field, then of what every object has, then a label.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read(cell: &str, object_type: &ObjectType) -> Result<Self, String> {
        let name = &*cell::name(cell);
        // A space at the edge of a cell is no part of a name, unless a field is called so.
        for name in [name, name.trim()] {
            if let Some(position) = object_type.position(name) {
                return Ok(Self::Field(position));
            }
            if let Some(own) = own(name.trim_start_matches(OBJECT)) {
                return Ok(Self::Own(own));
            }
        }
        let name = name.trim();
        if let Some(position) = field_called(name, object_type)? {
            return Ok(Self::Field(position));
        }
        match name.split_once('=') {
            Some((left, target)) => Self::read_link(left, target, object_type),
            None => Err(unknown(name, object_type)),
        }
    }

    /// The meaning of `left=target`.
    fn read_link(left: &str, target: &str, object_type: &ObjectType) -> Result<Self, String> {
        let target = target.split_once('/').filter(|(type_name, field)| !type_name.is_empty() && !field.is_empty());
        let further = target.and_then(|(_, field)| left.strip_suffix(field)?.strip_suffix('.'));
        let (position, left, is_further) = match (field_called(left, object_type)?, further) {
            (Some(position), _) => (position, left, false),
            (None, Some(left)) => {
                (field_called(left, object_type)?.ok_or_else(|| unknown(left, object_type))?, left, true)
            }
            (None, None) => return Err(unknown(left, object_type)),
        };
        let (type_name, field) = target
            .ok_or_else(|| format!("write {left}=<type>/<field>: the type that {left} refers to, and a field of it"))?;
        if !object_type.fields[position].is_reference() {
            return Err(format!("the field {left} does not refer to objects"));
        }
        if object_type.fields[position].refers_to_several() {
            return Err(format!("the field {left} refers to several objects; write their ids under {left}, as 7, 9"));
        }
        Ok(Self::Link { position, type_name: type_name.to_owned(), field: field.to_owned(), is_further })
    }
}

/// What to say of a header cell that is no column.
fn unknown(name: &str, object_type: &ObjectType) -> String {
    match name {
        "id" | "_id" | "object_id" => "is no column; did you mean public_id?".to_owned(),
        "type_id" | "type" => "is no column; a table has objects of one type, which the request names".to_owned(),
        _ => {
            let labels = object_type.fields.iter().map(|field| field.label.as_str());
            let others: Vec<&str> = columns().map(|(_, member)| member.name).chain(labels).collect();
            object_type.lack_of(name.strip_prefix(FIELDS).unwrap_or(name), &others)
        }
    }
}

/// The field that people call so: by its name, with or without prefix and in any Unicode form, or by its label.
///
/// # Errors
/// When several fields have this label.
fn field_called(name: &str, object_type: &ObjectType) -> Result<Option<usize>, String> {
    let bare = name.strip_prefix(FIELDS).unwrap_or(name);
    let named = object_type.position(name).or_else(|| object_type.position(bare));
    if let Some(position) = named.or_else(|| same_name(object_type, bare)) {
        return Ok(Some(position));
    }
    let label = cell::tidy_name(name);
    let labelled: Vec<usize> = places(object_type, |field| cell::tidy_name(&field.label) == label).collect();
    match labelled[..] {
        [] => Ok(None),
        [position] => Ok(Some(position)),
        _ => {
            let names: Vec<&str> = labelled.iter().map(|place| object_type.fields[*place].name.as_str()).collect();
            Err(format!("is the label of several fields; write the name of one: {}", names.join(", ")))
        }
    }
}

/// What is wrong with a column without a heading; columns count from 0.
pub fn nameless(column: usize) -> String {
    format!("column {} has no name; give it one, or leave the column out", column + 1)
}

/// The cell of a column [`Heading::Link`] with the id of the object.
pub fn id_cell(id: i64) -> String {
    format!("{ID_CELL}{id}")
}

/// The id in such a cell.
pub fn id_of_cell(cell: &str) -> Option<i64> {
    cell.strip_prefix(ID_CELL)?.parse().ok()
}

/// How the cell of a reference by value begins if it has the id.
const ID_CELL: &str = "public_id=";

/// The field of this name in another Unicode form. Some programs write letters and their accents apart.
fn same_name(object_type: &ObjectType, name: &str) -> Option<usize> {
    if name.is_ascii() {
        return None;
    }
    only(object_type, |field| cell::tidy_name(&field.name) == cell::tidy_name(name))
}

/// The position of the one field for which this holds.
fn only(object_type: &ObjectType, holds: impl Fn(&Field) -> bool) -> Option<usize> {
    let mut places = places(object_type, holds);
    places.next().filter(|_| places.next().is_none())
}

/// The positions of the fields for which this holds.
fn places(object_type: &ObjectType, holds: impl Fn(&Field) -> bool) -> impl Iterator<Item = usize> {
    object_type.fields.iter().enumerate().filter(move |(_, field)| holds(field)).map(|(place, _)| place)
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
        assert_eq!(columns.header(), ["public_id", "object.active", "name", "active", "'=cmd", "room", "pin"]);
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
        for (member, cells) in
            [("active", &["object.active", " object.active"][..]), ("views", &["views", "object.views"])]
        {
            for cell in cells {
                assert_eq!(Heading::read(cell, &rack), Ok(Heading::Own(own(member).unwrap())), "{cell}");
            }
        }
        for cell in ["active", "active ", "fields.active"] {
            assert_eq!(Heading::read(cell, &rack), Ok(Heading::Field(1)), "{cell}");
        }
        let link = |field: &str, is_further| {
            Ok(Heading::Link { position: 3, type_name: "room".to_owned(), field: field.to_owned(), is_further })
        };
        assert_eq!(Heading::read("room=room/name", &rack), link("name", false));
        assert_eq!(Heading::read("room.site=room/site", &rack), link("site", true));
        assert_eq!(Heading::read(" room ", &rack), Ok(Heading::Field(3)));
        assert_eq!(Heading::read("public_id ", &rack), Ok(Heading::Own(own("public_id").unwrap())));
        for (said, told) in [("id", "did you mean public_id?"), ("type_id", "which the request names")] {
            assert!(Heading::read(said, &rack).unwrap_err().ends_with(told), "{said}");
        }
        for wrong in ["colour", "name=room/name", "room=room", "room=/x", "room.x=room/y", "colour.y=room/y", ""] {
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
        let told = "is the label of several fields; write the name of one: nom \u{e9}, re\u{301}f";
        assert_eq!(Heading::read("Name", &host), Err(told.to_owned()));
        let told = "the type host has no field Serail number, did you mean Serial number?";
        assert_eq!(Heading::read("Serail number", &host), Err(told.to_owned()));
    }

    #[test]
    fn a_row_takes_the_first_entry_of_a_name_and_leaves_missing_ones_empty() {
        let object = rawdoc! { "public_id": 7_i64, "active": true, "fields": [
            { "name": "name", "value": "a" }, { "name": "name", "value": "b" }, { "name": "gone", "value": 1 },
        ] };
        let row: Vec<String> = Columns::of(&rack(), false, false)
            .row(&object, &Referenced::new())
            .unwrap()
            .iter()
            .map(|cell| cell.as_text().into_owned())
            .collect();
        assert_eq!(row, ["7", "true", "a", "", "", ""]);
    }
}
