//! Looks up what a file refers to, for many lines at a time.

use std::collections::{HashMap, HashSet};

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::rows::{ImportRows, LinkValue, Row, RowReading, text_of_all};
use crate::domain::document::integer;
use crate::domain::object_fields::FieldValue;
use crate::domain::object_input::read_fields;
use crate::domain::unique::{Uniqueness, key_text};
use crate::query::{Filter, Limits};
use crate::service::claims::changes::owners;
use crate::service::claims::rules::{Rule, Rules};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::store::{Documents, FindQuery, StoreError};

/// One query looks up at most this many values.
const AT_ONCE: usize = 1000;

/// The maximum number of objects for [`AT_ONCE`] values. With more, the field does not identify objects.
const MOST: u64 = 10 * AT_ONCE as u64;

/// Objects that are there.
#[derive(Default)]
pub(super) struct FoundObjects {
    documents: Vec<Documents>,
    /// Where in `documents` the object with this id is.
    places: HashMap<i64, (usize, usize)>,
    /// Ids of objects that are hidden from the importer.
    hidden: HashSet<i64>,
    /// Ids by the text of the key.
    keys: Matches,
    /// Which keys are equal; those of a field without unique values if they are exactly so.
    uniqueness: Option<Uniqueness>,
    /// For each of [`ImportRows::links`] ids by the text of the value.
    links: Vec<Matches>,
}

/// The first objects that have a value, by its text.
type Matches = HashMap<String, Vec<i64>>;

/// A value names at most this many objects that have it.
const MOST_NAMED: usize = 100;

/// The objects that have a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match<'a> {
    None,
    One(i64),
    Several(&'a [i64]),
}

impl<'a> Match<'a> {
    fn of(ids: Option<&'a Vec<i64>>) -> Self {
        match ids.map_or(&[][..], Vec::as_slice) {
            [] => Self::None,
            [id] => Self::One(*id),
            ids => Self::Several(ids),
        }
    }
}

impl FoundObjects {
    /// Looks up everything that the rows name; `is_seen` says whether the importer may know of an object.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) async fn read(
        services: &Services,
        reading: &RowReading,
        rows: &ImportRows,
        is_seen: impl Fn(&RawDocument) -> bool,
    ) -> Result<Self, ServiceError> {
        let mut found = Self::default();
        let ids: HashSet<i64> = rows.list.iter().filter_map(|row| row.public_id).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        for ids in ids.chunks(AT_ONCE) {
            let query = FindQuery::new(Filter::one_of("public_id", ids.iter().copied()), services.max_time);
            found.push(services.held(Objects::COLLECTION, query).await?, &is_seen);
        }
        if let Some(position) = reading.key {
            let object_type = &reading.entry.object_type;
            let name = &object_type.fields[position].name;
            let values = distinct(rows.list.iter().filter_map(|row| row.key.as_ref()));
            let rules = Rules::read(&*services.store, services.max_time).await?;
            let rule = rules.of_field(object_type.public_id, name);
            found.uniqueness = rule.map(|rule| rule.uniqueness);
            for values in values.chunks(AT_ONCE) {
                let filter = match rule {
                    Some(rule) => claiming(services, rule, values).await?,
                    None => having(object_type.public_id, name, values)?,
                };
                let query = FindQuery::new(filter, services.max_time);
                let documents = services.held(Objects::COLLECTION, query.limited(MOST)).await?;
                telling(&documents, name)?;
                let mut keys = std::mem::take(&mut found.keys);
                collect(&documents, &mut keys, |fields| found.key_text(value_of(fields, name)?))?;
                found.keys = keys;
                found.push(documents, &is_seen);
            }
        }
        for (index, link) in rows.links.iter().enumerate() {
            let mut matches = Matches::new();
            let names: Vec<&str> = link.parts.iter().map(|(_, name)| name.as_str()).collect();
            // The values of several parts are asked for each on its own, so up to the product of their numbers is found.
            let at_once = match names.len() {
                1 => AT_ONCE,
                2 => 99,
                _ => 21,
            };
            for values in distinct_links(rows.list.iter().map(|row| &row.links[index])).chunks(at_once) {
                let mut filter = Filter::equals("type_id", link.target.object_type.public_id);
                for (part, name) in names.iter().enumerate() {
                    let values = distinct(values.iter().map(|values| &values[part]));
                    filter = filter.and(having(link.target.object_type.public_id, name, &values)?);
                }
                let query = FindQuery::new(filter, services.max_time).showing(&doc! {"public_id": 1, "fields": 1});
                let documents = services.held(Objects::COLLECTION, query.limited(MOST)).await?;
                telling(&documents, names[0])?;
                collect(&documents, &mut matches, |fields| {
                    let values: Option<Vec<&Bson>> = names.iter().map(|name| value_of(fields, name)).collect();
                    text_of_all(values?.into_iter())
                })?;
            }
            found.links.push(matches);
        }
        Ok(found)
    }

    fn push(&mut self, documents: Documents, is_seen: &impl Fn(&RawDocument) -> bool) {
        for (index, object) in documents.iter().enumerate() {
            let Some(id) = integer(object, "public_id") else { continue };
            if is_seen(object) {
                self.places.insert(id, (self.documents.len(), index));
            } else {
                self.hidden.insert(id);
            }
        }
        self.documents.push(documents);
    }

    /// Treats objects that are hidden from the importer as absent. A dry run needs this.
    pub(super) fn forget_hidden(&mut self) {
        self.hidden.clear();
    }

    /// Whether the id belongs to an object that is hidden from the importer.
    pub(super) fn hides(&self, id: i64) -> bool {
        self.hidden.contains(&id)
    }

    /// The object with this id.
    pub(super) fn object(&self, id: i64) -> Option<&RawDocument> {
        let (batch, index) = self.places.get(&id)?;
        self.documents[*batch].get(*index)
    }

    /// The objects of the type that have the row's key.
    pub(super) fn by_key(&self, row: &Row) -> Match<'_> {
        let text = row.key.as_ref().and_then(|key| self.key_text(key));
        Match::of(text.and_then(|text| self.keys.get(&text)))
    }

    /// A text that is the same for keys that are equal.
    pub(super) fn key_text(&self, key: &Bson) -> Option<String> {
        match self.uniqueness {
            Some(uniqueness) => uniqueness.key(key),
            None => key_text(key),
        }
    }

    /// The stored objects that a column refers to by values with this text.
    pub(super) fn by_link(&self, link: usize, text: &str) -> &[i64] {
        self.links.get(link).and_then(|matches| matches.get(text)).map_or(&[], Vec::as_slice)
    }
}

/// Refuses a field that has the same values in very many objects.
fn telling(documents: &Documents, field: &str) -> Result<(), ServiceError> {
    if (documents.len() as u64) < MOST {
        return Ok(());
    }
    let message = format!("very many objects have the same {field}; take a field that tells them apart");
    Err(ServiceError::refused(ErrorCode::ImportKey, message))
}

fn distinct<'a>(values: impl Iterator<Item = &'a Bson>) -> Vec<Bson> {
    let mut seen = HashSet::new();
    values.filter(|value| key_text(value).is_some_and(|text| seen.insert(text))).cloned().collect()
}

fn distinct_links<'a>(links: impl Iterator<Item = &'a LinkValue>) -> Vec<&'a [Bson]> {
    let mut seen = HashSet::new();
    let values = links.filter(|link| link.text().is_some_and(|text| seen.insert(text)));
    values
        .filter_map(|link| if let LinkValue::Values(values) = link { Some(values.as_slice()) } else { None })
        .collect()
}

fn value_of<'a>(fields: &'a [FieldValue], name: &str) -> Option<&'a Bson> {
    fields.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
}

/// The objects of a type whose field has one of the values.
fn having(type_id: i64, field: &str, values: &[Bson]) -> Result<Filter, ServiceError> {
    let entry = doc! {"name": field, "value": {"$in": values.to_vec()}};
    Ok(Filter::parse(&doc! {"type_id": type_id, "fields": {"$elemMatch": entry}}, &Limits::NONE)?)
}

/// The objects that claim one of the values of a unique field.
async fn claiming(services: &Services, rule: &Rule, values: &[Bson]) -> Result<Filter, ServiceError> {
    let claims: Vec<String> = values.iter().filter_map(|value| rule.claim(value)).collect();
    let claims: Vec<&String> = claims.iter().collect();
    let owners = owners(&*services.store, &claims, services.max_time).await?;
    Ok(Filter::one_of("public_id", owners.into_values()))
}

fn collect(
    documents: &Documents,
    matches: &mut Matches,
    text_of: impl Fn(&[FieldValue]) -> Option<String>,
) -> Result<(), ServiceError> {
    for object in documents.iter() {
        let corrupt = |error: bson::error::Error| StoreError::Corrupt { what: format!("a stored object: {error}") };
        let fields = read_fields(Document::try_from(object).map_err(corrupt)?.get("fields"));
        if let (Some(text), Some(id)) = (text_of(&fields), integer(object, "public_id")) {
            let known = matches.entry(text).or_default();
            if known.len() < MOST_NAMED && !known.contains(&id) {
                known.push(id);
            }
        }
    }
    Ok(())
}
