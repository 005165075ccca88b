//! The plan of each line: a new object, a changed one, nothing, or an error, by the rules for single objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::found::{FoundObjects, Match};
use super::report::{ReportError, ReportErrors, name_of};
use super::rows::{ImportRows, LinkValue, ReferenceColumn, Row, RowReading, RowSource, field_of, text_of_all};
use crate::domain::document::{integer, number};
use crate::domain::object_fields::{Accepted, FieldValue, Reference, ValueKind};
use crate::domain::object_input::{self, ObjectInput};
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::unique::key_text;
use crate::exchange::cell;
use crate::exchange::columns::Heading;
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

/// The objects of the file to which its own lines refer by value.
#[derive(Default)]
struct Inside {
    /// Ids by the text of the values.
    ids: HashMap<String, Vec<i64>>,
    /// All objects whose values the file says.
    changed: HashSet<i64>,
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
        let inside = self.inside();
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
                Aim::New(public_id) => self.create((index, row, public_id), &inside, &mut plan.errors),
                Aim::Old(id) => self.update((index, row, id), &inside, &mut plan.errors),
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
        let (named, given) = (row.public_id, row.given.map(|given| given.id));
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
                (Match::None, _) => Aim::New(named.or(given)),
            };
        }
        match named.map(|id| (id, type_of(id))) {
            None => Aim::New(given),
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
        (index, row, public_id): (usize, &Row, Option<i64>),
        inside: &[Inside],
        errors: &mut ReportErrors,
    ) -> Option<PlannedStep> {
        let (input, accepted) = self.checked(row, None, inside, errors)?;
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

    fn update(
        &self,
        (index, row, id): (usize, &Row, i64),
        inside: &[Inside],
        errors: &mut ReportErrors,
    ) -> Option<PlannedStep> {
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
        let (input, accepted) = self.checked(row, Some((&stored, &kept)), inside, errors)?;
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
        inside: &[Inside],
        errors: &mut ReportErrors,
    ) -> Option<(ObjectInput, Accepted)> {
        let before = errors.count();
        let (whole, old) = old.unzip();
        let stored = old.unwrap_or_default();
        let known = if self.is_read { stored } else { &[] };
        let (mut body, sent) = match &row.source {
            RowSource::Cells(cells) => self.body_of_cells(row, cells, (known, inside), errors),
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
        (stored, inside): (&[FieldValue], &[Inside]),
        errors: &mut ReportErrors,
    ) -> (Document, Option<Vec<FieldValue>>) {
        let mut body = Document::new();
        let mut fields = Vec::with_capacity(self.rows.columns.len());
        let mut links = self.rows.links.iter().enumerate();
        for (heading, written) in self.rows.columns.iter().zip(cells) {
            let text = &*cell::tidied(written, &self.reading.locale);
            let value = match heading {
                Heading::Own(own) if !own.is_imported => continue,
                Heading::Own(own) => cell::read(own.kind, text, &self.reading.locale),
                Heading::Field(position) => {
                    let field = &self.object_type().fields[*position];
                    let kind = ValueKind::of(field);
                    let old = stored.iter().find(|entry| entry.name == field.name);
                    match (cell::read_of(field, text, &self.reading.locale), old) {
                        (Ok(value), Some(old)) if old.value == value => Ok(value),
                        // A spreadsheet has no 5.0.
                        (Ok(value), Some(old))
                            if matches!(kind, ValueKind::Number | ValueKind::Any) && is_equal(&value, &old.value) =>
                        {
                            Ok(old.value.clone())
                        }
                        // Values with the same exported form are equal.
                        (_, Some(old))
                            if cell::text_of(kind, &old.value)
                                .is_ok_and(|old| old == text || old == written || cell::bare(&old) == *written) =>
                        {
                            Ok(old.value.clone())
                        }
                        (read, _) => read,
                    }
                }
                Heading::Link { is_further: true, .. } => continue,
                Heading::Link { .. } => match links.next() {
                    Some((index, link)) => self.linked(row, (index, link), &inside[index]),
                    None => continue,
                },
            };
            match (value, heading) {
                (Err(reason), _) => {
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

    fn linked(&self, row: &Row, (index, link): (usize, &ReferenceColumn), inside: &Inside) -> Result<Bson, String> {
        if let LinkValue::Id(id) = row.links[index] {
            return Ok(Bson::Int64(id));
        }
        if matches!(row.links[index], LinkValue::None) {
            return Ok(Bson::Null);
        }
        let no_text = || format!("{} is found by single values, and not by lists", link.target.object_type.name);
        let text = row.links[index].text().ok_or_else(no_text)?;
        let stored = self.found.by_link(index, &text).iter().filter(|id| !inside.changed.contains(id));
        let ids: Vec<i64> = stored.chain(inside.ids.get(&text).into_iter().flatten()).copied().collect();
        let (target, fields) = (&link.target.object_type.name, link.parts.iter().map(|(_, name)| name.as_str()));
        let fields = fields.collect::<Vec<_>>().join(" and ");
        match ids[..] {
            [id] => Ok(Bson::Int64(id)),
            [] => Err(format!("no {target} has this {fields}")),
            _ => Err(format!("several objects of the type {target} have this {fields}")),
        }
    }

    /// For each reference by value what the file itself makes of its values.
    fn inside(&self) -> Vec<Inside> {
        let of_link = |link: &ReferenceColumn| {
            let column = |name: &str| {
                let position = self.object_type().position(name)?;
                let place = self.rows.columns.iter().position(|heading| *heading == Heading::Field(position));
                Some((place?, &self.object_type().fields[position]))
            };
            let columns: Option<Vec<_>> = link.parts.iter().map(|(_, name)| column(name)).collect();
            let is_own = link.target.object_type.public_id == self.object_type().public_id;
            columns.filter(|_| is_own).map_or_else(Inside::default, |columns| self.inside_of(&columns))
        };
        self.rows.links.iter().map(of_link).collect()
    }

    fn inside_of(&self, columns: &[(usize, &Field)]) -> Inside {
        let mut inside = Inside::default();
        for row in &self.rows.list {
            let RowSource::Cells(cells) = &row.source else { continue };
            let id = match self.aim(row, &mut ReportErrors::default()) {
                Aim::New(id) => id,
                Aim::Old(id) => Some(id),
            };
            let value = |(place, field): &(usize, &Field)| {
                cell::read_of(field, &cell::tidied(&cells[*place], &self.reading.locale), &self.reading.locale).ok()
            };
            let values: Option<Vec<Bson>> = columns.iter().map(value).collect();
            inside.changed.extend(id);
            if let (Some(id), Some(text)) = (id, values.and_then(|values| text_of_all(values.iter()))) {
                inside.ids.entry(text).or_default().push(id);
            }
        }
        inside
    }

    fn body_of_document(&self, row: &Row, document: &RawDocument, errors: &mut ReportErrors) -> Document {
        let mut body = Document::try_from(document).unwrap_or_default();
        let own = self.object_type().public_id;
        let is_other = |id: &Bson| number(id) != Some(own);
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

/// Whether two values that can be looked up are equal.
fn is_equal(left: &Bson, right: &Bson) -> bool {
    key_text(left).is_some_and(|left| key_text(right) == Some(left))
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
