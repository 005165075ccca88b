//! Looks for objects whose summaries have the words of a question: objects that refer to them are answers too.
//!
//! *Invariant:* this reads a bounded number of documents. A word that more objects have is not looked for in summaries.

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use super::documents::{object_of, terms_of};
use super::question::Question;
use super::reading::Reading;
use crate::admission::{self, Means};
use crate::domain::document::integer;
use crate::domain::searchable::summary;
use crate::domain::words::{Word, alone, reference, whole, words};
use crate::query::{Filter, Sort};
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::types::catalog::Types;
use crate::store::FindQuery;

/// A word that more objects have, of those that others refer to, is not looked for in summaries.
const MOST_TARGETS: usize = 100;
/// A beginning that more objects have is not looked for in summaries, and not read whole.
pub(super) const FEW_BEGINNINGS: usize = 250;
/// The summaries of more objects are not read on the thread of the request.
const SHORT: usize = 128;

/// An object that others may refer to, with its summary.
struct Target {
    id: i64,
    words: Vec<Word>,
}

/// Ids of objects with a word; nothing if they are too many.
type Having = Option<HashSet<i64>>;

/// Adds to the question the objects that begin like its last word, and those whose summaries have its words.
///
/// # Errors
/// Errors of the store.
pub(super) async fn look_for(reading: &Reading<'_>, question: &mut Question) -> Result<(), ServiceError> {
    // The index has beginnings of hidden types between the others: then how long it takes to read them would tell of hidden
    // objects.
    let has_beginnings = reading.hidden.is_empty();
    if has_beginnings {
        question.begun = begun(reading, &question.last().word).await?;
    }
    let referred = referred_types(reading);
    if referred.is_empty() {
        return Ok(());
    }
    let mut lists: Vec<Having> = Vec::with_capacity(question.words.len());
    for (number, asked) in question.words.iter().enumerate() {
        let is_last = number + 1 == question.words.len();
        let known = question.begun.as_deref().filter(|_| is_last);
        lists.push(match known {
            Some(begun) => {
                let has = |document: &RawDocument| terms_of(document).any(|term| asked.terms.contains(term));
                few(begun.iter().filter(|document| has(document)), &referred)
            }
            None => having(reading, &asked.word, &referred).await?,
        });
    }
    let beginning = question.begun.as_deref().and_then(|begun| few(begun.iter(), &referred));
    let is_common = |list: &&Having| list.is_none();
    let common = question.words.iter().zip(&lists).filter(|(_, list)| is_common(list));
    question.common = common.map(|(asked, _)| asked.word.clone()).collect();
    if has_beginnings && beginning.is_none() && question.common.last() != Some(&question.last().word) {
        question.common.push(question.last().word.clone());
    }
    let ids: HashSet<i64> = lists.iter().chain([&beginning]).flatten().flatten().copied().collect();
    for target in summaries(reading, ids).await? {
        note(question, &target, (&lists, &beginning));
    }
    Ok(())
}

/// Notes what the summary of an object has of the question.
fn note(question: &mut Question, Target { id, words }: &Target, (lists, beginning): (&[Having], &Having)) {
    let is_in = |list: &Having| list.as_ref().is_some_and(|list| list.contains(id));
    let mut is_known = false;
    for (asked, list) in question.words.iter_mut().zip(lists) {
        if is_in(list) && words.iter().any(|word| word.folded == asked.word) {
            asked.targets.insert(*id);
            asked.terms.insert(reference(*id));
            is_known = true;
        }
    }
    let last = &question.last().word;
    if is_in(beginning) && words.iter().any(|word| word.folded.starts_with(last.as_str())) {
        question.beginnings.insert(*id);
    }
    if is_known && whole(words).as_ref() == Some(&question.key) {
        question.whole.push(reference(*id));
    }
}

/// The documents of objects with a word that begins like this; nothing if they are many.
async fn begun(reading: &Reading<'_>, word: &str) -> Result<Option<Vec<RawDocumentBuf>>, ServiceError> {
    let range = doc! { "$elemMatch": { "$gte": word, "$lt": format!("{word}{}", char::MAX) } };
    let most = FEW_BEGINNINGS + 1;
    let (found, is_cut) = reading.find(&doc! { "terms": range }, None, most).await?;
    Ok((!is_cut && found.len() < most).then(|| found.iter().map(RawDocument::to_owned).collect()))
}

/// The objects of these types with this word; nothing if they are too many.
async fn having(reading: &Reading<'_>, word: &str, referred: &HashSet<i64>) -> Result<Having, ServiceError> {
    let mut types: Vec<i64> = referred.iter().copied().collect();
    types.sort_unstable();
    let filter: Document = doc! { "terms": { "$in": [word, alone(word)] }, "type_id": { "$in": types } };
    // The order of the index, so that reading ends with the last one.
    let sort = Sort::by("type_id", false).then("_id", false);
    let (found, is_cut) = reading.find(&filter, Some(sort), MOST_TARGETS + 1).await?;
    Ok(if is_cut { None } else { few(found.iter(), referred) })
}

/// The objects of these documents that are of these types; nothing if they are too many.
fn few<D: AsRef<RawDocument>>(documents: impl Iterator<Item = D>, referred: &HashSet<i64>) -> Having {
    let is_referred = |document: &RawDocument| integer(document, "type_id").is_some_and(|id| referred.contains(&id));
    let of_type = documents.filter(|document| is_referred(document.as_ref()));
    let ids: HashSet<i64> = of_type.filter_map(|document| object_of(document.as_ref())).collect();
    (ids.len() <= MOST_TARGETS).then_some(ids)
}

/// The types that the caller may see and that fields of others refer to.
fn referred_types(reading: &Reading<'_>) -> HashSet<i64> {
    let types = reading.types.iter().map(|entry| &entry.object_type);
    let targets = types.flat_map(|it| it.fields.iter().flat_map(move |field| it.targets(field)));
    targets.filter(|id| reading.types.get(*id).is_some() && !reading.hidden.contains(id)).collect()
}

/// The summaries of these objects, as far as the caller may see them.
async fn summaries(reading: &Reading<'_>, ids: HashSet<i64>) -> Result<Vec<Target>, ServiceError> {
    let mut ids: Vec<i64> = ids.into_iter().collect();
    ids.sort_unstable();
    let count = ids.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let filter = reading.types.scope(reading.caller, Filter::one_of("public_id", ids));
    let query = FindQuery::new(filter, reading.services.max_time);
    let found = reading.services.held(Objects::COLLECTION, query).await?;
    let types = Arc::clone(&reading.types);
    let read = move |_: &Means| {
        let target = |object: &RawDocument| {
            Some(Target { id: integer(object, "public_id")?, words: words(&summary_of(object, &types)?) })
        };
        found.iter().filter_map(target).collect()
    };
    if count <= SHORT {
        return Ok(read(&Means::default()));
    }
    Ok(admission::work(read).await?)
}

/// The summary of an object; nothing if its type is unknown.
pub(super) fn summary_of(object: &RawDocument, types: &Types) -> Option<String> {
    let entry = integer(object, "type_id").and_then(|id| types.get(id))?;
    summary(object, &entry.object_type).ok()
}
