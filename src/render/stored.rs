//! A stored object, read once: its top-level members, and its values in the order of the type's fields.

use std::cell::OnceCell;

use bson::raw::RawDocument;

use super::RenderContext;
use crate::domain::object_type::ObjectType;
use crate::raw::{CorruptBson, Element, Elements, Value, named_value};

const DEFAULT_VERSION: &str = "1.0.0";

/// The members of a stored object that views show. Malformed members count as absent.
pub(super) struct StoredObject<'a> {
    pub(super) public_id: Option<i64>,
    pub(super) type_id: Option<i64>,
    pub(super) creation_time: Value<'a>,
    pub(super) last_edit_time: Value<'a>,
    pub(super) author_id: Option<i64>,
    pub(super) editor_id: Option<i64>,
    pub(super) active: bool,
    pub(super) version: &'a str,
    fields: Option<Elements<'a>>,
}

impl<'a> StoredObject<'a> {
    const ABSENT: Self = Self {
        public_id: None,
        type_id: None,
        creation_time: Value::NULL,
        last_edit_time: Value::NULL,
        author_id: None,
        editor_id: None,
        active: true,
        version: DEFAULT_VERSION,
        fields: None,
    };

    pub(super) fn read(document: &'a RawDocument) -> Result<Self, CorruptBson> {
        let mut stored = Self::ABSENT;
        let mut elements = Elements::of(document);
        while let Some(element) = elements.next_element()? {
            stored.take(element.name, element.value);
        }
        Ok(stored)
    }

    /// The needed part of a referenced object: its id, its type and its fields. The rest counts as absent.
    pub(super) fn read_referred(document: &'a RawDocument) -> Result<Self, CorruptBson> {
        let (mut stored, mut missing) = (Self::ABSENT, 3);
        let mut elements = Elements::of(document);
        while missing > 0
            && let Some(Element { name, value }) = elements.next_element()?
        {
            match name {
                b"public_id" => stored.public_id = value.as_integer(),
                b"type_id" => stored.type_id = value.as_integer(),
                b"fields" => stored.fields = value.as_array(),
                _ => continue,
            }
            missing -= 1;
        }
        Ok(stored)
    }

    #[inline]
    fn take(&mut self, name: &[u8], value: Value<'a>) {
        match name {
            b"public_id" => self.public_id = value.as_integer(),
            b"type_id" => self.type_id = value.as_integer(),
            b"creation_time" => self.creation_time = value,
            b"last_edit_time" => self.last_edit_time = value,
            b"author_id" => self.author_id = value.as_integer(),
            b"editor_id" => self.editor_id = value.as_integer(),
            b"active" => self.active = value.as_bool().unwrap_or(true),
            b"version" => self.version = value.as_str().unwrap_or(DEFAULT_VERSION),
            b"fields" => self.fields = value.as_array(),
            _ => {}
        }
    }
}

/// An object for a view, read once for both collecting references and rendering.
pub struct Subject<'a> {
    pub(super) stored: StoredObject<'a>,
    pub(super) context: &'a RenderContext,
    values: OnceCell<FieldValues<'a>>,
}

impl<'a> Subject<'a> {
    /// Reads the object for whom the context says.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn read(document: &'a RawDocument, context: &'a RenderContext) -> Result<Self, CorruptBson> {
        Ok(Self { stored: StoredObject::read(document)?, context, values: OnceCell::new() })
    }

    /// Its values, by the object's type, which must be the same at each call.
    pub(super) fn values(&self, object_type: &ObjectType) -> Result<&FieldValues<'a>, CorruptBson> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = FieldValues::read(&self.stored, object_type, self.context.may_edit)?;
        Ok(self.values.get_or_init(|| values))
    }
}

/// The values of an object, one for each field of its type; null where it has none.
///
/// Entries with an unknown name are skipped, and of two with the same name the first one counts. From here on values of
/// password fields are null for callers who may not see them.
pub(super) struct FieldValues<'a>(Vec<Option<Value<'a>>>);

impl<'a> FieldValues<'a> {
    pub(super) fn read(
        stored: &StoredObject<'a>,
        object_type: &ObjectType,
        may_edit: bool,
    ) -> Result<Self, CorruptBson> {
        Self::read_wanted(stored, object_type, may_edit, None)
    }

    /// The same if only the values at these positions are needed: others may be missing.
    pub(super) fn read_some(
        stored: &StoredObject<'a>,
        object_type: &ObjectType,
        may_edit: bool,
        positions: impl Iterator<Item = usize>,
    ) -> Result<Self, CorruptBson> {
        // Beyond the positions of the word: everything is read.
        let bit = |position| u32::try_from(position).ok().and_then(|position| 1_u64.checked_shl(position));
        let wanted = positions.map(bit).try_fold(0, |wanted, bit| Some(wanted | bit?));
        Self::read_wanted(stored, object_type, may_edit, wanted)
    }

    /// Reads until all needed values are found. The bits of the word are the needed positions; if it is missing, all are
    /// needed.
    fn read_wanted(
        stored: &StoredObject<'a>,
        object_type: &ObjectType,
        may_edit: bool,
        mut wanted: Option<u64>,
    ) -> Result<Self, CorruptBson> {
        let mut values = vec![None; object_type.fields.len()];
        let mut expected = 0;
        let mut entries = stored.fields.clone().unwrap_or(Elements::none());
        while wanted != Some(0)
            && let Some(entry) = entries.next_element()?
        {
            let Some((name, value)) = named_value(entry.value)? else { continue };
            let Some(position) = position(object_type, name, expected) else { continue };
            let is_hidden = object_type.fields[position].is_password() && !may_edit;
            values[position].get_or_insert(if is_hidden { Value::NULL } else { value });
            expected = position + 1;
            if position < 64 {
                wanted = wanted.map(|wanted| wanted & !(1 << position));
            }
        }
        Ok(Self(values))
    }

    /// The value of the field at this position in the type.
    pub(super) fn at(&self, position: usize) -> Value<'a> {
        self.0.get(position).copied().flatten().unwrap_or(Value::NULL)
    }
}

/// The position of the field in the type. Most objects keep the order of their type, so the next position is tried
/// first.
fn position(object_type: &ObjectType, name: &[u8], expected: usize) -> Option<usize> {
    match object_type.fields.get(expected) {
        Some(field) if field.name.as_bytes() == name => Some(expected),
        _ => object_type.position(str::from_utf8(name).ok()?),
    }
}
