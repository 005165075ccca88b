//! The look-up tables of rendering.

use bson::raw::RawDocument;

use crate::domain::object_type::ObjectType;

/// Borrowed look-ups by `public_id`. `None` means that there is no such thing.
pub trait RenderCatalog {
    /// The type, compiled.
    fn object_type(&self, id: i64) -> Option<&ObjectType>;

    /// The stored object.
    fn object(&self, id: i64) -> Option<&RawDocument>;

    /// The user's name as [`display_name`](super::display_name) gives it.
    fn user_name(&self, id: i64) -> Option<&str>;
}
