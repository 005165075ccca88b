//! The rendered view of an object, as the page reads it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::http::error::ApiError;
use crate::service::objects::rendering::{Views, render_objects};
use crate::service::types::catalog::Types;
use crate::service::{Caller, ErrorCode, Services};
use crate::store::Documents;

/// An object with its type, its values and what they refer to.
#[derive(Debug, Clone, Deserialize)]
pub struct ObjectView {
    /// The object.
    pub object_information: ObjectInformation,
    /// Its type and its values.
    pub type_information: TypeInformation,
}

/// The object apart from its values.
#[derive(Debug, Clone, Deserialize)]
pub struct ObjectInformation {
    /// Its number.
    #[serde(default)]
    pub object_id: Option<i64>,
    /// When it was made.
    #[serde(default)]
    pub creation_time: Value,
    /// When it was changed.
    #[serde(default)]
    pub last_edit_time: Value,
    /// Who made it.
    #[serde(default)]
    pub author_name: String,
    /// Who changed it.
    #[serde(default)]
    pub editor_name: Option<String>,
    /// Whether it is in use.
    #[serde(default)]
    pub active: bool,
    /// Three numbers with dots.
    #[serde(default)]
    pub version: String,
}

/// The type and the values.
#[derive(Debug, Clone, Deserialize)]
pub struct TypeInformation {
    /// The type's number.
    pub type_id: i64,
    /// The type's name for people.
    #[serde(default)]
    pub type_label: String,
    /// Whether its objects may be changed.
    #[serde(default)]
    pub active: bool,
    /// The fields in the order of the sections.
    #[serde(default)]
    pub fields: Vec<FieldView>,
    /// The sections in order.
    #[serde(default)]
    pub sections: Vec<SectionView>,
    /// What the object is called.
    #[serde(default)]
    pub summary_line: String,
    /// Links to other places.
    #[serde(default)]
    pub externals: Vec<ExternalView>,
}

/// A field with its value.
#[derive(Debug, Clone, Deserialize)]
pub struct FieldView {
    /// Its kind.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub label: String,
    /// Its value.
    #[serde(default)]
    pub value: Value,
    /// What can be chosen.
    #[serde(default)]
    pub options: Vec<OptionView>,
    /// What the value refers to.
    #[serde(default)]
    pub reference: Option<ReferenceView>,
    /// What the values refer to.
    #[serde(default)]
    pub references: Vec<ReferenceView>,
}

/// A value that can be chosen.
#[derive(Debug, Clone, Deserialize)]
pub struct OptionView {
    /// What is stored.
    #[serde(default)]
    pub name: String,
    /// What people see.
    #[serde(default)]
    pub label: String,
}

/// An object that is referred to.
#[derive(Debug, Clone, Deserialize)]
pub struct ReferenceView {
    /// Whether it is hidden from the visitor.
    #[serde(default)]
    pub protected: bool,
    /// Its number; 0 where there is none.
    #[serde(default)]
    pub object_id: i64,
    /// Its type's name for people.
    #[serde(default)]
    pub type_label: String,
    /// What it is called.
    #[serde(default)]
    pub line: String,
    /// Whether the type's name belongs before the line.
    #[serde(default)]
    pub prefix: bool,
    /// The fields of its section that are shown too.
    #[serde(default)]
    pub fields: Vec<FieldView>,
}

/// A section of the object's page.
#[derive(Debug, Clone, Deserialize)]
pub struct SectionView {
    /// Its name for people.
    #[serde(default)]
    pub label: String,
    /// The names of its fields.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// A link to another place.
#[derive(Debug, Clone, Deserialize)]
pub struct ExternalView {
    /// Where it leads.
    #[serde(default)]
    pub href: String,
    /// Its name for people.
    #[serde(default)]
    pub label: String,
}

/// The views of objects that the caller may read, with the types before the objects were read.
///
/// # Errors
/// What the store reports.
pub async fn views(
    services: &Services,
    caller: &Caller,
    page: (&Documents, Arc<Types>),
) -> Result<Vec<ObjectView>, ApiError> {
    let views = render_objects(services, caller, page, Views::default()).await?;
    views.iter().map(read).collect()
}

/// Reads a view.
///
/// # Errors
/// None: the view comes from this program.
pub fn read(view: &[u8]) -> Result<ObjectView, ApiError> {
    serde_json::from_slice(view).map_err(|error| {
        log::error!("a rendered view cannot be read: {error}");
        ApiError::of(ErrorCode::Internal)
    })
}
