//! The look-up tables of rendering.

use std::collections::HashMap;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::display_name;
use crate::domain::object_type::ObjectType;
use crate::raw::{CorruptBson, Elements, Value};

/// Borrowed look-ups by `public_id`. `None` means that there is no such thing.
pub trait RenderCatalog {
    /// The type, compiled.
    fn object_type(&self, id: i64) -> Option<&ObjectType>;

    /// The stored object.
    fn object(&self, id: i64) -> Option<&RawDocument>;

    /// The user's name as [`display_name`] gives it.
    fn user_name(&self, id: i64) -> Option<&str>;
}

/// A catalog that owns the fetched documents of one page.
#[derive(Debug, Clone, Default)]
pub struct PageCatalog {
    types: HashMap<i64, Arc<ObjectType>>,
    objects: HashMap<i64, RawDocumentBuf>,
    users: HashMap<i64, String>,
}

impl PageCatalog {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type.
    pub fn add_type(&mut self, object_type: Arc<ObjectType>) {
        self.types.insert(object_type.public_id, object_type);
    }

    /// Adds a copy of a stored object. One without a `public_id` is skipped, because nothing can refer to it.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn add_object(&mut self, document: &RawDocument) -> Result<(), CorruptBson> {
        if let Some(id) = public_id(document)? {
            self.objects.insert(id, document.to_owned());
        }
        Ok(())
    }

    /// Adds the name of a stored user.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn add_user(&mut self, document: &RawDocument) -> Result<(), CorruptBson> {
        if let Some(id) = public_id(document)? {
            self.users.insert(id, display_name(document)?);
        }
        Ok(())
    }

    /// Adds a user whose name is known already.
    pub fn add_user_name(&mut self, id: i64, name: String) {
        self.users.insert(id, name);
    }
}

impl RenderCatalog for PageCatalog {
    fn object_type(&self, id: i64) -> Option<&ObjectType> {
        self.types.get(&id).map(Arc::as_ref)
    }

    fn object(&self, id: i64) -> Option<&RawDocument> {
        self.objects.get(&id).map(|document| &**document)
    }

    fn user_name(&self, id: i64) -> Option<&str> {
        self.users.get(&id).map(String::as_str)
    }
}

fn public_id(document: &RawDocument) -> Result<Option<i64>, CorruptBson> {
    Ok(Elements::of(document).member("public_id")?.and_then(Value::as_integer))
}
