//! The list of fields in a view, with the targets of `ref` and `ref-section-field` fields.

use std::cell::Cell;

use super::catalog::RenderCatalog;
use super::reference::Trail;
use super::stored::{FieldValues, StoredObject};
use super::{RenderContext, reference};
use crate::domain::object_type::ObjectType;
use crate::json::write::{DateStyle, array, write_value};
use crate::raw::CorruptBson;

/// How many sections of other objects one view includes; further ones show no fields. It is far above normal use, and
/// bounds the memory for types that refer to each other by hundreds of fields.
const MAX_SECTIONS: u32 = 200;

/// The context of all fields of a view, on every level.
pub(super) struct FieldView<'a, C: ?Sized> {
    pub(super) catalog: &'a C,
    pub(super) context: &'a RenderContext,
    sections_left: Cell<u32>,
}

impl<'a, C: RenderCatalog + ?Sized> FieldView<'a, C> {
    pub(super) fn new(catalog: &'a C, context: &'a RenderContext) -> Self {
        Self { catalog, context, sections_left: Cell::new(MAX_SECTIONS) }
    }

    /// The fields of the object itself.
    pub(super) fn write_page_fields(
        &self,
        stored: &StoredObject<'_>,
        object_type: &ObjectType,
        values: &FieldValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBson> {
        let trail = Trail::start(stored.public_id);
        self.write_fields(object_type, object_type.layout.shown.iter().copied(), values, &trail, out)
    }

    /// A list of fields, each `{type, name, label, value}` followed by what applies of
    ///
    /// - `options`: `[{name, label}]`, for fields that have options;
    /// - `ref_types`: type ids, for fields that refer;
    /// - `reference`: see [`reference::write_reference`].
    pub(super) fn write_fields(
        &self,
        object_type: &ObjectType,
        positions: impl Iterator<Item = usize>,
        values: &FieldValues<'_>,
        trail: &Trail<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBson> {
        array(out, |items| {
            for position in positions {
                let field = &object_type.fields[position];
                let value = values.at(position);
                let item = items.item();
                item.extend_from_slice(&field.fragments.opening);
                write_value(value, DateStyle::Millis, item)?;
                item.extend_from_slice(&field.fragments.after_value);
                if field.is_reference() {
                    reference::write_reference(self, object_type, field, value, trail, item)?;
                }
                item.push(b'}');
            }
            Ok(())
        })
    }

    /// Counts an included section; `false` when there are too many.
    pub(super) fn may_take_in_section(&self) -> bool {
        let left = self.sections_left.get();
        self.sections_left.set(left.saturating_sub(1));
        left > 0
    }
}
