//! The plan of each line: a new object, a changed one, nothing, or an error, by the rules for single objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::found::{FoundObjects, Match};
use super::report::{ReportError, ReportErrors, name_of};
use super::rows::{ImportRows, Row, RowReading, RowSource, field_of};
use crate::domain::document::integer;
use crate::domain::object_fields::{Accepted, FieldValue, Reference, ValueKind};
use crate::domain::object_input::{self, ObjectInput};
use crate::domain::object_type::ObjectType;
use crate::exchange::cell;
use crate::exchange::columns::{Heading, header_of};
use crate::exchange::csv::StringRecord;
use crate::service::resource::{self, Objects};

/// What shall happen with the rows.
#[derive(Default)]
pub(super) struct ImportPlan {
    pub(super) steps: Vec<PlannedStep>,
    pub(super) errors: ReportErrors,
}

/// What shall happen with a row.
pub(super) struct PlannedStep {
    /// The place of the row in the file.
    pub(super) row: usize,
    pub(super) line: u64,
    pub(super) what: What,
    /// Its references, whose targets must exist.
    pub(super) references: Vec<Reference>,
}

pub(super) enum What {
    Create { public_id: Option<i64>, input: Box<ObjectInput>, fields: Vec<FieldValue> },
    Update { public_id: i64, before: RawDocumentBuf, after: RawDocumentBuf },
    Keep { public_id: i64 },
}

/// What plans are made by.
pub(super) struct Planner {
    pub(super) reading: Arc<RowReading>,
    pub(super) rows: Arc<ImportRows>,
    pub(super) found: FoundObjects,
    /// The rows that are stored already.
    pub(super) done: HashSet<usize>,
    /// Whether the importer may read objects of the type. If not, the report must not depend on them.
    pub(super) is_read: bool,
    /// Who imports.
    pub(super) user_id: i64,
    pub(super) now: DateTime,
}

/// Where a row leads.
enum Aim {
    New(Option<i64>),
    Old(i64),
}

impl Planner {
    /// Makes the plan. References are checked later.
    pub(super) fn plan(&self) -> ImportPlan {
        let mut plan = ImportPlan::default();
        let (mut ids, mut keys) = (HashMap::new(), HashMap::new());
        for (index, row) in self.rows.list.iter().enumerate() {
            if self.done.contains(&index) {
                continue;
            }
            let before = plan.errors.count();
            let aim = self.aim(row, &mut plan.errors);
            if plan.errors.count() == before {
                self.claim(row, &aim, (&mut ids, &mut keys), &mut plan.errors);
            }
            let step = match aim {
                Aim::New(public_id) => self.create(index, row, public_id, &mut plan.errors),
                Aim::Old(id) => self.update(index, row, id, &mut plan.errors),
            };
            plan.steps.extend(step.filter(|_| plan.errors.count() == before));
        }
        plan
    }

    fn object_type(&self) -> &ObjectType {
        &self.reading.entry.object_type
    }

    fn aim(&self, row: &Row, errors: &mut ReportErrors) -> Aim {
        let mut wrong = |name: &str, reason: String| errors.push(ReportError::new(row.line, name, reason));
        let type_of = |id: i64| self.found.object(id).map(|object| integer(object, "type_id"));
        let own_type = Some(self.object_type().public_id);
        let named = row.public_id;
        if let Some(position) = self.reading.key {
            let key = &self.object_type().fields[position].name;
            return match (self.found.by_key(row), named) {
                (Match::One(id), Some(other)) if other != id => {
                    wrong("public_id", format!("is {other}, but the object with this {key} is {id}"));
                    Aim::Old(id)
                }
                (Match::One(id), _) => Aim::Old(id),
                (Match::Several(ids), _) => {
                    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
                    let ids = ids.join(", ");
                    wrong(key, format!("several objects have this value, so it tells none of them: {ids}"));
                    Aim::New(None)
                }
                (Match::None, Some(id)) if type_of(id).is_some() => {
                    wrong("public_id", format!("object {id} has another {key}"));
                    Aim::New(None)
                }
                (Match::None, _) => Aim::New(named),
            };
        }
        match named.map(|id| (id, type_of(id))) {
            None => Aim::New(None),
            Some((id, None)) => Aim::New(Some(id)),
            Some((id, Some(found))) if found == own_type => Aim::Old(id),
            Some((id, Some(_))) => {
                wrong("public_id", format!("object {id} is of another type"));
                Aim::New(None)
            }
        }
    }

    /// No two lines may be about the same object.
    fn claim(
        &self,
        row: &Row,
        aim: &Aim,
        (ids, keys): (&mut HashMap<i64, u64>, &mut HashMap<String, u64>),
        errors: &mut ReportErrors,
    ) {
        let mut twice = |name: &str, first: u64| {
            errors.push(ReportError::new(row.line, name, format!("line {first} has the same one")));
        };
        if let (Some(position), Some(key)) =
            (self.reading.key, row.key.as_ref().and_then(|key| self.found.key_text(key)))
            && let Some(first) = keys.insert(key, row.line)
        {
            return twice(&self.object_type().fields[position].name, first);
        }
        let id = match aim {
            Aim::New(id) => *id,
            Aim::Old(id) => Some(*id),
        };
        if let Some(id) = id
            && let Some(first) = ids.insert(id, row.line)
        {
            twice("public_id", first);
        }
    }

    fn create(
        &self,
        index: usize,
        row: &Row,
        public_id: Option<i64>,
        errors: &mut ReportErrors,
    ) -> Option<PlannedStep> {
        let (input, accepted) = self.checked(row, None, errors)?;
        if let Some(violation) = public_id.and_then(resource::no_id) {
            errors.push(ReportError::new(row.line, "public_id", violation.message));
            return None;
        }
        if public_id.is_some_and(|id| self.found.hides(id)) {
            errors.push(ReportError::new(row.line, "public_id", resource::taken::<Objects>("public_id").to_string()));
            return None;
        }
        let what = What::Create { public_id, input: Box::new(input), fields: accepted.fields };
        Some(PlannedStep { row: index, line: row.line, what, references: accepted.references })
    }

    fn update(&self, index: usize, row: &Row, id: i64, errors: &mut ReportErrors) -> Option<PlannedStep> {
        let mut wrong = |reason: String| errors.push(ReportError::new(row.line, "", reason));
        let before = self.found.object(id)?;
        let stored = match resource::decode(before) {
            Ok(stored) => stored,
            Err(error) => {
                wrong(error.to_string());
                return None;
            }
        };
        let kept = object_input::read_fields(stored.get("fields"));
        let (input, accepted) = self.checked(row, Some((&stored, &kept)), errors)?;
        let what = if self.is_read && is_same(&input, &accepted, &stored, &kept) {
            What::Keep { public_id: id }
        } else {
            let after = input.updated(&stored, &accepted.fields, self.user_id, self.now);
            match resource::encode(&after) {
                Ok(after) => What::Update { public_id: id, before: before.to_owned(), after },
                Err(error) => {
                    errors.push(ReportError::new(row.line, "", error.to_string()));
                    return None;
                }
            }
        };
        Some(PlannedStep { row: index, line: row.line, what, references: accepted.references })
    }

    /// Checks the line by the rules for single objects; `old` is the object with its fields, `None` for a new one.
    fn checked(
        &self,
        row: &Row,
        old: Option<(&Document, &[FieldValue])>,
        errors: &mut ReportErrors,
    ) -> Option<(ObjectInput, Accepted)> {
        let before = errors.count();
        let (whole, old) = old.unzip();
        let stored = old.unwrap_or_default();
        let known = if self.is_read { stored } else { &[] };
        let (mut body, sent) = match &row.source {
            RowSource::Cells(cells) => self.body_of_cells(row, cells, known, errors),
            RowSource::Document(document) => (self.body_of_document(row, document, errors), None),
        };
        if !body.contains_key("author_id") {
            body.insert("author_id", self.user_id);
        }
        let (mut input, mut violations) = ObjectInput::read(&body);
        if matches!(row.source, RowSource::Document(_)) {
            let is_field = |name: &str| self.object_type().field(name).is_some();
            violations.append(object_input::unknown_members(&body, whole.filter(|_| self.is_read), is_field));
        }
        let is_whole = !violations.has_below("/fields");
        errors.add_violations(row.line, violations, &[], &HashSet::new());
        input.fields = match sent {
            Some(fields) => fields,
            None => input.fields.into_iter().map(|field| self.as_stored(field, known)).collect(),
        };
        if !is_whole {
            return None;
        }
        let rules = &self.reading.entry.rules;
        let checked = match old {
            Some(stored) if !self.is_read => rules.check_unread(&input.fields, stored),
            _ => rules.check(&input.fields, stored),
        };
        match checked {
            Ok(mut accepted) => {
                for reference in &mut accepted.references {
                    reference.pointer = name_of(&reference.pointer, &input.fields).to_owned();
                }
                (errors.count() == before).then_some((input, accepted))
            }
            Err(violations) => {
                // Unreadable cells were reported already.
                let mut said: HashSet<String> = errors.listed_since(before).map(|error| error.field.clone()).collect();
                if old.is_none() {
                    self.tell_missing(row, &input.fields, &mut said, errors);
                }
                errors.add_violations(row.line, violations, &input.fields, &said);
                None
            }
        }
    }

    /// Reports the required fields that a new object lacks: a table once, by their column, lines of JSON each.
    fn tell_missing(&self, row: &Row, sent: &[FieldValue], said: &mut HashSet<String>, errors: &mut ReportErrors) {
        for name in self.reading.entry.rules.missing(sent) {
            match row.source {
                RowSource::Cells(_) => errors.push_missing(self.rows.header, name),
                RowSource::Document(_) => {
                    errors.push(ReportError::new(row.line, name, "is required, and the line has no such field"));
                }
            }
            // The pointer of what is not there.
            said.insert("fields".to_owned());
        }
    }

    /// The members of the body without the fields, and the fields.
    fn body_of_cells(
        &self,
        row: &Row,
        cells: &StringRecord,
        stored: &[FieldValue],
        errors: &mut ReportErrors,
    ) -> (Document, Option<Vec<FieldValue>>) {
        let mut body = Document::new();
        let mut fields = Vec::with_capacity(self.rows.columns.len());
        let mut links = self.rows.links.iter().enumerate();
        for (heading, written) in self.rows.columns.iter().zip(cells) {
            let text = &*self.reading.tidy(written);
            let value = match heading {
                Heading::Own(own) if !own.is_imported => continue,
                Heading::Own(own) => cell::read(own.kind, text),
                Heading::Field(position) => {
                    let field = &self.object_type().fields[*position];
                    let kind = ValueKind::of(field);
                    let old = stored.iter().find(|entry| entry.name == field.name);
                    match (cell::read(kind, text), old) {
                        (Ok(value), Some(old)) if old.value == value => Ok(value),
                        // Values with the same exported form are equal.
                        (_, Some(old))
                            if cell::text_of(kind, &old.value).is_ok_and(|old| old == text || old == written) =>
                        {
                            Ok(old.value.clone())
                        }
                        (read, _) => read,
                    }
                }
                Heading::Link { .. } => match links.next() {
                    Some((index, link)) => self.linked(row, index, &link.field),
                    None => continue,
                },
            };
            match (value, heading) {
                (Err(reason), _) => {
                    let reason = reason + &self.field_is_meant(heading);
                    errors.push(ReportError::new(row.line, field_of(heading, self.object_type()), reason));
                }
                (Ok(Bson::Null), Heading::Own(_)) => {}
                (Ok(value), Heading::Own(own)) => drop(body.insert(own.name, value)),
                (Ok(value), heading) => {
                    fields.push(FieldValue { name: field_of(heading, self.object_type()), value });
                }
            }
        }
        (body, Some(fields))
    }

    /// What to say of a column that is about a member of objects, when the type has a field of that name.
    fn field_is_meant(&self, heading: &Heading) -> String {
        match heading {
            Heading::Own(own) if self.object_type().position(own.name).is_some() => {
                format!("; for the field of this name the column is {}", header_of(own.name))
            }
            _ => String::new(),
        }
    }

    fn linked(&self, row: &Row, link: usize, field: &str) -> Result<Bson, String> {
        let Some(value) = &row.links[link] else { return Ok(Bson::Null) };
        let target = &self.rows.links[link].target.object_type.name;
        match self.found.by_link(link, value) {
            Match::One(id) => Ok(Bson::Int64(id)),
            Match::None => Err(format!("no {target} has this {field}")),
            Match::Several(_) => Err(format!("several objects of the type {target} have this {field}")),
        }
    }

    fn body_of_document(&self, row: &Row, document: &RawDocument, errors: &mut ReportErrors) -> Document {
        let mut body = Document::try_from(document).unwrap_or_default();
        let own = self.object_type().public_id;
        let is_other = |id: &Bson| id.as_i64().or_else(|| id.as_i32().map(i64::from)) != Some(own);
        if body.get("type_id").is_some_and(is_other) {
            errors.push(ReportError::new(row.line, "type_id", format!("the file is for type {own}")));
        }
        body.remove("type_id");
        body.remove("_id");
        if body.get("public_id") == Some(&Bson::Null) {
            body.remove("public_id");
        }
        body
    }

    /// Keeps the stored value if it has the same exported form: JSON does not show the width of a number.
    fn as_stored(&self, field: FieldValue, stored: &[FieldValue]) -> FieldValue {
        let kind = self.object_type().field(&field.name).map_or(ValueKind::Any, ValueKind::of);
        let old = stored.iter().find(|entry| entry.name == field.name && entry.value != field.value);
        let text = |value: &Bson| cell::text_of(kind, value).ok();
        match old.filter(|old| text(&old.value).is_some_and(|old| Some(old) == text(&field.value))) {
            Some(old) => old.clone(),
            None => field,
        }
    }
}

/// Whether the object already equals the line.
fn is_same(input: &ObjectInput, accepted: &Accepted, stored: &Document, kept: &[FieldValue]) -> bool {
    let same_flag = |name: &str, sent: Option<bool>| sent.is_none_or(|sent| stored.get_bool(name).ok() == Some(sent));
    let same_version = input.version.as_deref().is_none_or(|version| stored.get_str("version").ok() == Some(version));
    accepted.fields == kept && same_flag("active", input.active) && same_flag("status", input.status) && same_version
}

impl What {
    /// The object's id, as far as it is known.
    pub(super) fn public_id(&self) -> Option<i64> {
        match self {
            Self::Create { public_id, .. } => *public_id,
            Self::Update { public_id, .. } | Self::Keep { public_id } => Some(*public_id),
        }
    }
}

/// The stored document of a new object.
pub(super) fn document_of(
    input: &ObjectInput,
    fields: &[FieldValue],
    (id, type_id): (i64, i64),
    now: DateTime,
) -> Document {
    let mut document = doc! {"_id": bson::oid::ObjectId::new()};
    document.extend(input.created(id, type_id, fields, now));
    document
}
