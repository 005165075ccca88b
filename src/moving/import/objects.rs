//! The objects, a batch of lines at a time: first to check them, then to write them.

use std::collections::{BTreeSet, HashMap, HashSet};

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use xxhash_rust::xxh3::xxh3_128;

use crate::domain::document;
use crate::domain::object_fields::Reference;
use crate::moving::MovingError;
use crate::moving::package::PackagePart;
use crate::query::Filter;
use crate::store::collections::{OBJECTS, TYPES};
use crate::store::{Condition, FindQuery, StoreError};

use super::definitions::DIFFERS;
use super::lines::{Batches, Line, created, difference, replaced};
use super::rules::{self, integer};
use super::{Import, LineAction, MAX_TIME, Summary, UNIT_BYTES, carry_out};

/// How many objects one query covers.
const QUESTION: usize = 5000;

/// A reference to an object that has had no line yet.
struct Open {
    line: u64,
    reference: Reference,
}

impl Import<'_> {
    /// Checks all lines and counts what would be done.
    pub(super) async fn check_objects(&mut self) -> Result<Summary, MovingError> {
        let mut summary = Summary { part: PackagePart::Objects, created: 0, updated: 0, unchanged: 0 };
        let mut open = Vec::new();
        let mut ids = HashSet::new();
        self.progress.begin("objects checked", self.documents(PackagePart::Objects));
        let mut batches = Batches::open(&self.directory.join(PackagePart::Objects.file()));
        while let Some(lines) = batches.next().await? {
            let count = lines.len() as u64;
            for (number, action, references) in self.decide_objects(lines, Some(&mut ids)).await? {
                match action {
                    LineAction::Keep => summary.unchanged += 1,
                    LineAction::Create(_) => summary.created += 1,
                    LineAction::Replace { .. } => summary.updated += 1,
                }
                for reference in references {
                    match self.world.objects.get(&reference.object_id) {
                        Some(type_id) => self.check_reference(number, &reference, Some(*type_id)),
                        None => open.push(Open { line: number, reference }),
                    }
                }
            }
            self.progress.advance(count, "");
        }
        self.progress.end();
        self.check_open(open).await?;
        Ok(summary)
    }

    /// Writes what is new or different; everything was checked.
    pub(super) async fn write_objects(&mut self) -> Result<(), MovingError> {
        let stopped = |source| MovingError::Stopped { file: PackagePart::Objects.file(), source };
        self.report.turn_to(PackagePart::Objects);
        let refused = self.report.lines;
        let at_once = if self.store.largest_unit() == usize::MAX { UNIT_BYTES } else { 0 };
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        self.progress.begin("objects processed", self.documents(PackagePart::Objects));
        let mut batches = Batches::open(&self.directory.join(PackagePart::Objects.file()));
        while let Some(lines) = batches.next().await? {
            let count = lines.len() as u64;
            let decided = self.decide_objects(lines, None).await?;
            if self.report.lines > refused {
                // Another client has changed the store since the check.
                return Err(stopped(StoreError::Stale));
            }
            for (_, action, _) in decided {
                bytes += action.bytes();
                if !matches!(action, LineAction::Keep) {
                    waiting.push(action);
                }
            }
            if bytes >= at_once {
                bytes = 0;
                self.write_some(std::mem::take(&mut waiting)).await.map_err(stopped)?;
            }
            self.progress.advance(count, "");
        }
        self.write_some(waiting).await.map_err(stopped)?;
        self.progress.end();
        Ok(())
    }

    async fn write_some(&self, actions: Vec<LineAction>) -> Result<(), StoreError> {
        let types = types_of(&actions);
        carry_out(self.store, PackagePart::Objects, actions, &types).await
    }

    /// What to do with each valid line, and its references. During the check, `ids` are hashes of the `_id`s so far.
    async fn decide_objects(
        &mut self,
        lines: Vec<Line>,
        mut ids: Option<&mut HashSet<u128>>,
    ) -> Result<Vec<(u64, LineAction, Vec<Reference>)>, MovingError> {
        let is_checking = ids.is_some();
        let mut documents = Vec::with_capacity(lines.len());
        for line in lines {
            let number = line.number;
            let document = match line.content {
                Ok(document) => document,
                Err(reason) => {
                    self.report.wrong(number, "", reason);
                    continue;
                }
            };
            let Some(id) = integer(&document, "public_id") else {
                self.report.wrong(number, "/public_id", "is required: a whole number");
                continue;
            };
            if is_checking && self.world.objects.insert(id, integer(&document, "type_id").unwrap_or_default()).is_some()
            {
                self.report.wrong(number, "/public_id", format!("another line is about object {id}, too"));
                continue;
            }
            documents.push((number, id, document));
        }
        let stored = self.stored_objects(documents.iter().map(|(_, id, _)| *id)).await?;
        let strangers = self.strangers(&documents, &stored).await?;
        let mut decided = Vec::with_capacity(documents.len());
        for (number, id, line) in documents {
            let there = stored.get(&id);
            if there.is_some_and(|(_, stored)| difference(&line, stored).is_none()) {
                decided.push((number, LineAction::Keep, Vec::new()));
                continue;
            }
            if there.is_none()
                && let Some(own) = line.get("_id").map(ToString::to_string)
                && (strangers.contains(&own) || ids.as_mut().is_some_and(|ids| !ids.insert(xxh3_128(own.as_bytes()))))
            {
                self.report.wrong(number, "/_id", "another object has the same");
            }
            if let Some((action, references)) = self.decide_object(number, &line, there, is_checking) {
                decided.push((number, action, references));
            }
        }
        Ok(decided)
    }

    fn decide_object(
        &mut self,
        number: u64,
        line: &Document,
        stored: Option<&(RawDocumentBuf, Document)>,
        is_checking: bool,
    ) -> Option<(LineAction, Vec<Reference>)> {
        let read = rules::read(PackagePart::Objects, line, stored.map(|(_, stored)| stored), &self.world, self.now);
        for violation in read.wrong.listed() {
            self.report.wrong(number, violation.pointer.as_str(), violation.message.as_str());
        }
        if is_checking {
            for violation in read.unclean.listed() {
                self.report.unclean(number, violation.pointer.as_str(), violation.message.as_str());
            }
        }
        if self.report.is_bad(number) {
            return None;
        }
        let action = match stored {
            None => created(&read),
            Some((before, document)) => match difference(&read.members, document) {
                None => Ok(LineAction::Keep),
                Some(_) if self.options.update => replaced(&read, before.clone(), document),
                Some(name) => {
                    self.report.wrong(number, format!("/{name}"), DIFFERS);
                    return None;
                }
            },
        };
        match action {
            Ok(action) => Some((action, read.references)),
            Err(reason) => {
                self.report.wrong(number, "", reason);
                None
            }
        }
    }

    async fn stored_objects(
        &self,
        ids: impl Iterator<Item = i64>,
    ) -> Result<HashMap<i64, (RawDocumentBuf, Document)>, MovingError> {
        let query = FindQuery::new(Filter::one_of("public_id", ids), MAX_TIME);
        let mut stored = HashMap::new();
        for raw in self.store.find(OBJECTS, &query).await?.iter() {
            let document =
                Document::try_from(raw).map_err(|error| StoreError::Corrupt { what: format!("{OBJECTS}: {error}") })?;
            if let Some(id) = document::integer(raw, "public_id") {
                stored.insert(id, (raw.to_owned(), document));
            }
        }
        Ok(stored)
    }

    /// The `_id`s of new lines that other objects have.
    async fn strangers(
        &self,
        lines: &[(u64, i64, Document)],
        stored: &HashMap<i64, (RawDocumentBuf, Document)>,
    ) -> Result<HashSet<String>, MovingError> {
        let new = lines.iter().filter(|(_, id, _)| !stored.contains_key(id));
        let ids: Vec<Bson> = new.filter_map(|(_, _, line)| line.get("_id").cloned()).collect();
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let query = FindQuery::new(Filter::one_of("_id", ids), MAX_TIME).showing(&doc! {"_id": 1});
        let found = self.store.find(OBJECTS, &query).await?;
        let id = |raw: &bson::RawDocument| Bson::try_from(raw.get("_id").ok()??).ok().map(|id| id.to_string());
        Ok(found.iter().filter_map(id).collect())
    }

    fn check_reference(&mut self, line: u64, reference: &Reference, target: Option<i64>) {
        let id = reference.object_id;
        let reason = match target {
            None => format!("object {id} does not exist"),
            Some(type_id) if reference.type_ids.is_empty() || reference.type_ids.contains(&type_id) => return,
            Some(_) => format!("object {id} is of none of the types {:?}", reference.type_ids),
        };
        self.report.unclean(line, reference.pointer.as_str(), reason);
    }

    /// References to objects that come later in the file, or are only in the store.
    async fn check_open(&mut self, open: Vec<Open>) -> Result<(), MovingError> {
        for some in open.chunks(QUESTION) {
            let wanted: BTreeSet<i64> = some
                .iter()
                .map(|open| open.reference.object_id)
                .filter(|id| !self.world.objects.contains_key(id))
                .collect();
            let mut stored = HashMap::new();
            if !wanted.is_empty() {
                let query = FindQuery::new(Filter::one_of("public_id", wanted), MAX_TIME)
                    .showing(&doc! {"public_id": 1, "type_id": 1});
                for raw in self.store.find(OBJECTS, &query).await?.iter() {
                    if let Some(id) = document::integer(raw, "public_id") {
                        stored.insert(id, document::integer(raw, "type_id").unwrap_or_default());
                    }
                }
            }
            for Open { line, reference } in some {
                let id = reference.object_id;
                let target = self.world.objects.get(&id).or_else(|| stored.get(&id)).copied();
                self.check_reference(*line, reference, target);
            }
        }
        Ok(())
    }
}

/// An object has a type, also when another client deletes types meanwhile.
fn types_of(actions: &[LineAction]) -> Vec<Condition> {
    let types: BTreeSet<i64> = actions
        .iter()
        .filter_map(|action| match action {
            LineAction::Create(document) => document::integer(document, "type_id"),
            LineAction::Keep | LineAction::Replace { .. } => None,
        })
        .collect();
    types.into_iter().map(|id| Condition::exists(TYPES, id)).collect()
}
