//! The rules: which fields of which types are unique.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use sha2::{Digest, Sha256};

use crate::domain::document::{integer, raw};
use crate::domain::unique::Uniqueness;
use crate::query::Filter;
use crate::store::collections::UNIQUE;
use crate::store::{Change, Condition, FindQuery, Store, StoreError, Unit};

/// The `_id` of the document with all rules.
const ID: &str = "rules";

/// That the values of a field of a type are unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The type.
    pub type_id: i64,
    /// The name of its field.
    pub field: String,
    /// Which values are equal.
    pub uniqueness: Uniqueness,
    /// What the claims of this rule begin with.
    pub(super) epoch: String,
    /// Whether stored objects may lack their claims.
    pub(super) is_building: bool,
}

/// All rules at one moment.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The document; nothing before the first write.
    stored: Option<RawDocumentBuf>,
    list: Vec<Rule>,
}

impl Rule {
    /// A rule with an epoch of its own.
    pub(super) fn new(type_id: i64, field: &str, uniqueness: Uniqueness, is_building: bool) -> Self {
        let epoch = ObjectId::new().to_hex();
        Self { type_id, field: field.to_owned(), uniqueness, epoch, is_building }
    }

    /// The `_id` of the claim to a value; nothing for null.
    pub fn claim(&self, value: &Bson) -> Option<String> {
        let key = self.uniqueness.key(value)?;
        Some(format!("{}:{}", self.epoch, URL_SAFE_NO_PAD.encode(Sha256::digest(key.as_bytes()))))
    }

    /// The claims of an object: one, but several for an object with repeated entries.
    pub fn claims(&self, object: &RawDocument) -> BTreeSet<String> {
        let entries =
            object.get_array("fields").ok().into_iter().flatten().filter_map(|entry| entry.ok()?.as_document());
        let named = entries.filter(|entry| entry.get_str("name").is_ok_and(|name| name == self.field));
        let values = named.filter_map(|entry| Bson::try_from(entry.get("value").ok()??).ok());
        values.filter_map(|value| self.claim(&value)).collect()
    }

    /// Whether it is about this field in this way.
    pub(super) fn is_of(&self, type_id: i64, field: &str, uniqueness: Uniqueness) -> bool {
        self.type_id == type_id && self.field == field && self.uniqueness == uniqueness
    }

    fn to_document(&self) -> Document {
        doc! {
            "type_id": self.type_id,
            "field": &self.field,
            "unique": self.uniqueness.member(),
            "epoch": &self.epoch,
            "is_building": self.is_building,
        }
    }

    fn read(document: &Document) -> Option<Self> {
        Some(Self {
            type_id: document.get_i64("type_id").ok()?,
            field: document.get_str("field").ok()?.to_owned(),
            uniqueness: Uniqueness::of(&doc! { "unique": document.get("unique")?.clone() })?,
            epoch: document.get_str("epoch").ok()?.to_owned(),
            is_building: document.get_bool("is_building").ok()?,
        })
    }
}

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn read(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        let found = store.first(UNIQUE, FindQuery::new(Filter::equals("_id", ID), max_time)).await?;
        found.as_deref().map_or_else(|| Ok(Self::default()), Self::of)
    }

    /// The rules of the document that holds them.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(stored: &RawDocument) -> Result<Self, StoreError> {
        let unreadable = |error: bson::error::Error| StoreError::Corrupt { what: format!("{UNIQUE}: {error}") };
        let document = Document::try_from(stored).map_err(unreadable)?;
        let rules = document.get_array("rules").into_iter().flatten().filter_map(Bson::as_document);
        Ok(Self { stored: Some(stored.to_owned()), list: rules.filter_map(Rule::read).collect() })
    }

    /// Reads the rules, and stores an empty document first where there is none.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn read_or_begin(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        let rules = Self::read(store, max_time).await?;
        if rules.stored.is_some() {
            return Ok(rules);
        }
        match store.commit(Unit::of(rules.replaced_by(&[]))).await {
            Ok(_) | Err(StoreError::Duplicate { .. }) => Self::read(store, max_time).await,
            Err(error) => Err(error),
        }
    }

    /// All rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.list.iter()
    }

    /// The rules of a type, also those that are building.
    pub fn of_type(&self, type_id: i64) -> impl Iterator<Item = &Rule> {
        self.list.iter().filter(move |rule| rule.type_id == type_id)
    }

    /// The rules of a type whose claims are all made.
    pub fn made(&self, type_id: i64) -> impl Iterator<Item = &Rule> {
        self.of_type(type_id).filter(|rule| !rule.is_building)
    }

    /// Whether a claim is one of a rule whose claims are all made.
    pub fn has_made(&self, claim: &str) -> bool {
        let epoch = claim.split(':').next();
        self.list.iter().any(|rule| !rule.is_building && Some(rule.epoch.as_str()) == epoch)
    }

    /// The rule of a field, unless it is building.
    pub fn of_field(&self, type_id: i64, field: &str) -> Option<&Rule> {
        self.made(type_id).find(|rule| rule.field == field)
    }

    /// The same moment with other rules in view.
    #[must_use]
    pub(super) fn with(&self, list: Vec<Rule>) -> Self {
        Self { stored: self.stored.clone(), list }
    }

    /// The condition that these are still the rules.
    pub(in crate::service) fn condition(&self) -> Condition {
        Condition::exists(UNIQUE, self.version())
    }

    /// The change that makes others the rules.
    pub(super) fn replaced_by(&self, list: &[Rule]) -> Change {
        let rules: Vec<Document> = list.iter().map(Rule::to_document).collect();
        let after = raw(&doc! { "_id": ID, "public_id": self.version() + 1, "rules": rules });
        Change::put(UNIQUE, self.stored.clone(), after)
    }

    fn version(&self) -> i64 {
        self.stored.as_deref().and_then(|stored| integer(stored, "public_id")).unwrap_or_default()
    }
}

/// The unique fields of a stored type. Of several fields of one name the first counts.
pub fn unique_fields(object_type: &RawDocument) -> Vec<(String, Uniqueness)> {
    let Ok(document) = Document::try_from(object_type) else { return Vec::new() };
    let fields = document.get_array("fields").into_iter().flatten().filter_map(Bson::as_document);
    let mut seen = BTreeSet::new();
    let first = fields.filter(|field| field.get_str("name").is_ok_and(|name| seen.insert(name)));
    first.filter_map(|field| Some((field.get_str("name").ok()?.to_owned(), Uniqueness::of(field)?))).collect()
}
