//! Files that fit into memory: types, categories, groups, users, settings. All stored ones are read. So rules about
//! several documents (names, parents, the last administrator) are checked on the resulting state.

use std::collections::{BTreeMap, HashMap, HashSet};

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use crate::domain::group::ADMIN_GROUP;
use crate::domain::object_fields::FieldRules;
use crate::domain::object_type::ObjectType;
use crate::domain::user::login_of;
use crate::moving::MovingError;
use crate::moving::package::PackagePart;
use crate::query::Filter;
use crate::store::{FindQuery, StoreError};

use super::lines::{Batches, Line, created, difference, replaced};
use super::rules::{self, KnownType, integer};
use super::{Import, LineAction, MAX_TIME, Summary};

/// The key of a document: `public_id`, or user and identifier of a setting.
type DefinitionKey = (i64, String);

/// A document as it would be afterwards.
struct After {
    document: Document,
    /// The line that says so.
    line: Option<u64>,
}

impl Import<'_> {
    /// Checks the lines of a file and plans what to do.
    pub(super) async fn check_definitions(&mut self, part: PackagePart) -> Result<Summary, MovingError> {
        let stored = self.stored(part).await?;
        let mut after: BTreeMap<DefinitionKey, After> = stored
            .iter()
            .map(|(key, (_, document))| (key.clone(), After { document: document.clone(), line: None }))
            .collect();
        let mut summary = Summary { part, created: 0, updated: 0, unchanged: 0 };
        let mut plan = Vec::new();
        let mut batches = Batches::open(&self.directory.join(part.file()));
        while let Some(lines) = batches.next().await? {
            for line in lines {
                let Some((key, document)) = self.key_of(part, line, &after) else { continue };
                let number = document.1;
                let Some(action) = self.decide(part, number, &document.0, stored.get(&key)) else { continue };
                let of = match &action {
                    LineAction::Keep => None,
                    LineAction::Create(document) | LineAction::Replace { after: document, .. } => {
                        Document::try_from(&**document).ok()
                    }
                };
                match action {
                    LineAction::Keep => summary.unchanged += 1,
                    LineAction::Create(_) => summary.created += 1,
                    LineAction::Replace { .. } => summary.updated += 1,
                }
                let kept = || stored.get(&key).map(|(_, document)| document.clone());
                if let Some(document) = of.or_else(kept) {
                    after.insert(key, After { document, line: Some(number) });
                }
                plan.push(action);
            }
        }
        self.check_together(part, &after, &stored);
        self.learn(part, &after);
        self.plans.insert(part.file(), plan);
        Ok(summary)
    }

    /// What is stored, by key.
    async fn stored(
        &self,
        part: PackagePart,
    ) -> Result<BTreeMap<DefinitionKey, (RawDocumentBuf, Document)>, MovingError> {
        let query = FindQuery::new(Filter::all(), MAX_TIME);
        let found = self.store.find(part.collection(), &query).await?;
        let mut stored = BTreeMap::new();
        for raw in found.iter() {
            let document = Document::try_from(raw)
                .map_err(|error| StoreError::Corrupt { what: format!("{}: {error}", part.collection()) })?;
            if let Some(key) = key(part, &document) {
                stored.insert(key, (raw.to_owned(), document));
            }
        }
        Ok(stored)
    }

    /// The document of a line with its number, under its key. None if it has no key, or an earlier line has the same.
    fn key_of(
        &mut self,
        part: PackagePart,
        line: Line,
        after: &BTreeMap<DefinitionKey, After>,
    ) -> Option<(DefinitionKey, (Document, u64))> {
        let number = line.number;
        let document = match line.content {
            Ok(document) => document,
            Err(reason) => {
                self.report.wrong(number, "", reason);
                return None;
            }
        };
        let Some(key) = key(part, &document) else {
            let field = if part == PackagePart::Settings { "/user_id" } else { "/public_id" };
            self.report.wrong(number, field, "is required");
            return None;
        };
        if let Some(other) = after.get(&key).and_then(|after| after.line) {
            self.report.wrong(number, "", format!("line {other} is about the same one"));
            return None;
        }
        Some((key, (document, number)))
    }

    /// What to do with a line, or nothing after reporting its errors.
    fn decide(
        &mut self,
        part: PackagePart,
        number: u64,
        line: &Document,
        stored: Option<&(RawDocumentBuf, Document)>,
    ) -> Option<LineAction> {
        if stored.is_some_and(|(_, stored)| difference(line, stored).is_none()) {
            return Some(LineAction::Keep);
        }
        if let Some(other) =
            stored.filter(|_| part == PackagePart::Users).and_then(|(_, stored)| other_name(line, stored))
        {
            self.report.wrong(
                number,
                "/user_name",
                format!("this id belongs to {other}, and so do password and tokens"),
            );
            return None;
        }
        let read = rules::read(part, line, stored.map(|(_, stored)| stored), &self.world, self.now);
        for violation in read.wrong.listed().iter().chain(read.unclean.listed()) {
            self.report.wrong(number, violation.pointer.as_str(), violation.message.as_str());
        }
        if !read.wrong.is_empty() {
            return None;
        }
        let action = match stored {
            None => created(&read),
            Some((before, document)) if self.options.update => replaced(&read, before.clone(), document),
            Some((_, document)) => {
                let name = difference(&read.members, document)?;
                self.report.wrong(number, format!("/{name}"), DIFFERS);
                return None;
            }
        };
        action.map_err(|reason| self.report.wrong(number, "", reason)).ok()
    }

    /// Rules about several documents, on the resulting state.
    fn check_together(
        &mut self,
        part: PackagePart,
        after: &BTreeMap<DefinitionKey, After>,
        stored: &BTreeMap<DefinitionKey, (RawDocumentBuf, Document)>,
    ) {
        self.unique(after, "/_id", |document| document.get("_id").map(ToString::to_string));
        match part {
            PackagePart::Types | PackagePart::Categories | PackagePart::Groups => {
                self.unique(after, "/name", |document| document.get_str("name").ok().map(str::to_owned));
            }
            PackagePart::Users => {
                self.unique(after, "/user_name", |document| document.get_str("user_name").ok().map(login_of));
                self.administrator_stays(after, stored);
            }
            PackagePart::Objects | PackagePart::Settings | PackagePart::History => {}
        }
        if part == PackagePart::Categories {
            self.forest(after);
        }
    }

    fn unique(
        &mut self,
        after: &BTreeMap<DefinitionKey, After>,
        field: &str,
        value: impl Fn(&Document) -> Option<String>,
    ) {
        let mut seen: HashMap<String, (&DefinitionKey, Option<u64>)> = HashMap::new();
        for (key, after) in after {
            let Some(value) = value(&after.document) else { continue };
            let Some((other, line)) = seen.get(&value) else {
                seen.insert(value, (key, after.line));
                continue;
            };
            // Two equal stored ones are not a matter of the import.
            if let Some((bad, with)) = after.line.map(|line| (line, *other)).or(line.map(|line| (line, key))) {
                self.report.wrong(bad, field, format!("{} has the same", with.0));
            }
        }
    }

    fn administrator_stays(
        &mut self,
        after: &BTreeMap<DefinitionKey, After>,
        stored: &BTreeMap<DefinitionKey, (RawDocumentBuf, Document)>,
    ) {
        if after.values().any(|after| is_active_admin(&after.document)) {
            return;
        }
        for (key, _) in stored.iter().filter(|(_, (_, document))| is_active_admin(document)) {
            if let Some(line) = after.get(key).and_then(|after| after.line) {
                self.report.wrong(line, "", format!("user {} is the last active administrator and stays one", key.0));
            }
        }
    }

    fn forest(&mut self, after: &BTreeMap<DefinitionKey, After>) {
        let parents: HashMap<i64, Option<i64>> =
            after.iter().map(|(key, after)| (key.0, integer(&after.document, "parent"))).collect();
        for (key, after) in after {
            let Some(line) = after.line else { continue };
            let mut seen = HashSet::from([key.0]);
            let mut above = parents.get(&key.0).copied().flatten();
            while let Some(parent) = above {
                if !parents.contains_key(&parent) {
                    self.report.wrong(line, "/parent", format!("category {parent} does not exist"));
                    break;
                }
                if !seen.insert(parent) {
                    self.report.wrong(line, "/parent", "closes a cycle");
                    break;
                }
                above = parents.get(&parent).copied().flatten();
            }
            for (index, type_id) in after.document.get_array("types").into_iter().flatten().enumerate() {
                let type_id = type_id.as_i64().or_else(|| type_id.as_i32().map(i64::from)).unwrap_or_default();
                if !self.world.types.contains_key(&type_id) {
                    self.report.wrong(line, format!("/types/{index}"), format!("type {type_id} does not exist"));
                }
            }
        }
    }

    /// Keeps what later files may refer to.
    fn learn(&mut self, part: PackagePart, after: &BTreeMap<DefinitionKey, After>) {
        let ids = || after.keys().map(|(id, _)| *id);
        match part {
            PackagePart::Groups => self.world.groups = ids().collect(),
            PackagePart::Users => self.world.users = ids().collect(),
            PackagePart::Types => {
                for after in after.values() {
                    let compiled = RawDocumentBuf::try_from(&after.document)
                        .ok()
                        .and_then(|document| ObjectType::from_document(&document).ok());
                    if let Some(object_type) = compiled {
                        let rules = FieldRules::of(&object_type);
                        self.world.types.insert(object_type.public_id, KnownType { object_type, rules });
                    }
                }
            }
            PackagePart::Categories | PackagePart::Objects | PackagePart::Settings | PackagePart::History => {}
        }
    }
}

/// The message for a line that would replace something.
pub(super) const DIFFERS: &str = "is another one in the store; say --update to replace what is there";

fn key(part: PackagePart, document: &Document) -> Option<DefinitionKey> {
    match part {
        PackagePart::Settings => Some((integer(document, "user_id")?, document.get_str("identifier").ok()?.to_owned())),
        _ => Some((integer(document, "public_id")?, String::new())),
    }
}

/// The name of the stored user, if the line gives this id to somebody else: credentials are found by the id.
fn other_name<'s>(line: &Document, stored: &'s Document) -> Option<&'s str> {
    let name = stored.get_str("user_name").ok()?;
    let same = line.get_str("user_name").is_ok_and(|other| login_of(other) == login_of(name));
    (!same).then_some(name)
}

fn is_active_admin(user: &Document) -> bool {
    integer(user, "group_id") == Some(ADMIN_GROUP) && user.get("active") == Some(&Bson::Boolean(true))
}
