//! Finds the objects of a page, in their order: how they match, then type, then id.
//!
//! Each of the three kinds of matches is a list in the order of types and ids, read from the index of terms. Of several words
//! one is read, the one that is rarest where the page begins, and the others are looked up in the documents that it leads to.
//! A beginning that few terms have is read whole and sorted. One that many have is looked up in the documents of another
//! word, or of all objects.
//!
//! *Invariant:* a page looks at no more than about [`MOST_LOOKED_AT`] documents, however many objects there are. Then it ends
//! early, and says where the next one begins.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::documents::{key_value, object_of};
use super::hits::{Hit, hits};
use super::question::{MOST_WORDS, Match, Question};
use super::reading::{CHUNK_BYTES, Reading};
use super::targets::{FEW_BEGINNINGS, look_for};
use crate::admission;
use crate::domain::document::integer;
use crate::domain::searchable::EVERY;
use crate::domain::words::reference;
use crate::query::Sort;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{Resource, Types as StoredTypes};
use crate::service::services::Services;

/// A page looks at about this many documents at most.
pub(super) const MOST_LOOKED_AT: usize = 10_000;
/// How many documents of each word are read to find the rarest one.
const PROBE: usize = 32;
/// How many documents one query reads, from the first to later ones.
const STEPS: [usize; 3] = [64, 256, 1000];
/// The most ranges of an index that one query reads together.
const MOST_RANGES: usize = 200;

/// A question.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// The words.
    pub text: String,
    /// Only objects of this type.
    pub type_id: Option<i64>,
    /// How many objects a page has at most.
    pub limit: usize,
    /// Where the page begins; nothing for the first one.
    pub after: Option<Place>,
}

/// A place in the list: after this object among those that match so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// How it matches.
    pub kind: Match,
    /// Its type.
    pub type_id: i64,
    /// Its id.
    pub public_id: i64,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}-{}", self.kind.digit(), self.type_id, self.public_id)
    }
}

/// A part of the answer.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects.
    pub hits: Vec<Hit>,
    /// Where the list continues; nothing at its end.
    pub next: Option<Place>,
    /// Words that too many objects have to look for them in what others refer to.
    pub common: Vec<String>,
    /// Whether objects may be missing, because the index of words is being made.
    pub is_incomplete: bool,
}

/// The objects that the caller may see and that have all words.
///
/// # Errors
/// [`ErrorCode::ParameterInvalid`] for a text without words, or with too many;
/// [`ErrorCode::TypeNotFound`] for a type that does not exist; errors of the store.
pub async fn search(services: &Services, caller: &Caller, query: &SearchQuery) -> Result<Page, ServiceError> {
    let Some(question) = Question::of(&query.text) else {
        let message = format!("q: needs from 1 to {MOST_WORDS} words of letters or digits");
        return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
    };
    if let Some(id) = query.type_id
        && services.type_with_id(id).await?.is_none()
    {
        return Err(ServiceError::not_found(StoredTypes::NOT_FOUND, id));
    }
    // What one query reads, the same apart, and the same of the documents with a beginning.
    admission::current().hold(4 * CHUNK_BYTES)?;
    let left = services.searched.left(&*services.store, services.max_time).await?;
    let types = services.current_types().await?;
    // Objects that are still to change are found again when they have changed.
    let is_changing = types.iter().any(|entry| entry.running.is_some());
    let mut question = question;
    let reading = Reading::new(services, caller, types);
    look_for(&reading, &mut question).await?;
    let common = question.common.clone();
    let question = Arc::new(question);
    let mut finder = Finder::new(&reading, (query, &question));
    let next = finder.fill().await?;
    let found = finder.found;
    let hits = shown(&reading, question, found).await?;
    Ok(Page { hits, next, common, is_incomplete: is_changing || !left.is_nothing() })
}

/// What was found, to be shown. Objects of types that were not known when they were looked for are looked at again.
async fn shown(
    reading: &Reading<'_>,
    question: Arc<Question>,
    found: Vec<(Match, Order)>,
) -> Result<Vec<Hit>, ServiceError> {
    let Reading { services, caller, types, .. } = reading;
    let ids = found.iter().map(|(_, (type_id, _))| *type_id).collect();
    let newer = services.types_knowing(Arc::clone(types), ids).await?;
    let found = found.into_iter().map(|(kind, (_, id))| (kind, id)).collect();
    hits(services, caller, (newer, question), found).await
}

/// A list of documents in the order of types and ids: those with one of these terms.
#[derive(Debug, Clone)]
struct List {
    terms: Vec<String>,
}

/// The next documents of a list.
struct Chunk {
    documents: Vec<RawDocumentBuf>,
    /// Whether there are no more.
    is_last: bool,
}

/// Type and id of a document.
type Order = (i64, i64);

struct Finder<'a> {
    reading: &'a Reading<'a>,
    query: &'a SearchQuery,
    question: &'a Question,
    /// Documents of objects whose ids are among the words.
    named: Vec<RawDocumentBuf>,
    found: Vec<(Match, Order)>,
    looked_at: usize,
}

/// How a list ended.
enum End {
    /// It has no more.
    Over,
    /// The page is full, or has looked at enough: the list continues after this.
    Cut(Order),
}

impl<'a> Finder<'a> {
    fn new(reading: &'a Reading<'a>, (query, question): (&'a SearchQuery, &'a Question)) -> Self {
        Self { reading, query, question, named: Vec::new(), found: Vec::new(), looked_at: 0 }
    }

    /// Finds the objects of the page; returns where the next one begins.
    async fn fill(&mut self) -> Result<Option<Place>, ServiceError> {
        self.named = self.read_named().await?;
        let begin = self.query.after.map_or(Match::Value, |place| place.kind);
        for kind in [Match::Value, Match::Word, Match::Beginning].into_iter().filter(|kind| *kind >= begin) {
            let after = self.query.after.filter(|place| place.kind == kind);
            let after = after.map(|place| (place.type_id, place.public_id));
            let end = match kind {
                Match::Value => self.read_list(kind, &List { terms: self.question.whole.clone() }, after).await?,
                Match::Word => {
                    let lists = self.lists(self.question.words.len());
                    self.read_rarest(kind, lists, after).await?
                }
                Match::Beginning => self.read_beginnings(after).await?,
            };
            if let End::Cut((type_id, public_id)) = end {
                return Ok(Some(Place { kind, type_id, public_id }));
            }
            if let Some(kind) = kind.next().filter(|_| self.found.len() >= self.query.limit) {
                return Ok(Some(Place { kind, type_id: 0, public_id: 0 }));
            }
        }
        Ok(None)
    }

    /// The lists of the first words.
    fn lists(&self, count: usize) -> Vec<List> {
        let list = |terms: &HashSet<String>| {
            let mut terms: Vec<String> = terms.iter().cloned().collect();
            terms.sort_unstable();
            List { terms }
        };
        self.question.words.iter().take(count).map(|asked| list(&asked.terms)).collect()
    }

    /// The documents of objects whose ids are among the words.
    async fn read_named(&self) -> Result<Vec<RawDocumentBuf>, ServiceError> {
        let ids: Vec<Bson> = self.question.words.iter().filter_map(|asked| asked.id.map(key_value)).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut filter = doc! { "_id": { "$in": ids } };
        filter.extend(self.query.type_id.map(|id| ("type_id".to_owned(), Bson::Int64(id))));
        let (found, _) = self.reading.find(&filter, None, MOST_WORDS).await?;
        Ok(found.iter().map(RawDocument::to_owned).collect())
    }

    /// Reads the list that has the fewest documents where it begins.
    async fn read_rarest(&mut self, kind: Match, lists: Vec<List>, after: Option<Order>) -> Result<End, ServiceError> {
        if lists.len() < 2 {
            return match lists.first() {
                Some(list) => self.read_list(kind, list, after).await,
                None => Ok(End::Over),
            };
        }
        let mut rarest: Option<(bool, Reverse<usize>, Option<Order>)> = None;
        let mut position = 0;
        for (number, list) in lists.iter().enumerate() {
            let Chunk { documents, is_last } = self.chunk(list, after, PROBE).await?;
            self.looked_at += documents.len();
            // The shortest of those that end; of the others the one that came furthest.
            let reach = documents.last().map(|document| order(document));
            let rank = (is_last, Reverse(if is_last { documents.len() } else { 0 }), reach);
            if rarest.as_ref().is_none_or(|best| rank > *best) {
                (rarest, position) = (Some(rank), number);
            }
        }
        self.read_list(kind, &lists[position], after).await
    }

    /// Reads a list that all answers of this kind are in.
    async fn read_list(&mut self, kind: Match, list: &List, mut after: Option<Order>) -> Result<End, ServiceError> {
        for step in 0.. {
            let most = STEPS[step.min(STEPS.len() - 1)];
            let Chunk { documents, is_last } = self.chunk(list, after, most).await?;
            self.looked_at += documents.len();
            let end = documents.last().map(|document| order(document)).filter(|_| !is_last);
            if let Some(cut) = self.take(kind, documents, (after, end)) {
                return Ok(End::Cut(cut));
            }
            match end {
                None => return Ok(End::Over),
                Some(end) if self.looked_at >= MOST_LOOKED_AT => return Ok(End::Cut(end)),
                end => after = end,
            }
            tokio::task::yield_now().await;
        }
        Ok(End::Over)
    }

    /// Takes the answers of this kind among the documents, and among those that were named by id, up to `end`. Returns where
    /// the page is full.
    fn take(
        &mut self,
        kind: Match,
        mut documents: Vec<RawDocumentBuf>,
        (after, end): (Option<Order>, Option<Order>),
    ) -> Option<Order> {
        let is_between = |document: &&RawDocumentBuf| {
            let order = order(document);
            after.is_none_or(|after| order > after) && end.is_none_or(|end| order <= end)
        };
        let named = self.named.iter().filter(is_between).filter(|named| !documents.contains(named));
        let named: Vec<RawDocumentBuf> = named.cloned().collect();
        if !named.is_empty() {
            documents.extend(named);
            documents.sort_by_key(|document| order(document));
        }
        for document in documents {
            if self.question.matches(&document) != Some(kind) {
                continue;
            }
            let order = order(&document);
            if self.found.len() == self.query.limit {
                // There is more.
                let last = self.found.last().filter(|(of, _)| *of == kind).map(|(_, last)| *last);
                return Some(last.unwrap_or((order.0, order.1 - 1)));
            }
            self.found.push((kind, order));
        }
        None
    }

    /// Reads the answers whose last word is a beginning.
    async fn read_beginnings(&mut self, after: Option<Order>) -> Result<End, ServiceError> {
        if let Some(mut documents) = self.few_beginnings().await? {
            documents.retain(|document| after.is_none_or(|after| order(document) > after));
            return Ok(self.take(Match::Beginning, documents, (after, None)).map_or(End::Over, End::Cut));
        }
        let lists = self.lists(self.question.words.len() - 1);
        if lists.is_empty() {
            return self.read_list(Match::Beginning, &List { terms: vec![EVERY.to_owned()] }, after).await;
        }
        self.read_rarest(Match::Beginning, lists, after).await
    }

    /// All documents with a word that begins like the last one, or that refer to an object with such a summary, in order;
    /// nothing if they are many.
    async fn few_beginnings(&mut self) -> Result<Option<Vec<RawDocumentBuf>>, ServiceError> {
        let Some(mut all) = self.question.begun.clone() else { return Ok(None) };
        let references: Vec<String> = self.question.beginnings.iter().map(|id| reference(*id)).collect();
        if !references.is_empty() {
            let most = FEW_BEGINNINGS + 1;
            let (found, is_cut) = self.reading.find(&doc! { "terms": { "$in": references } }, None, most).await?;
            self.looked_at += found.len();
            if is_cut || found.len() >= most {
                return Ok(None);
            }
            all.extend(found.iter().map(RawDocument::to_owned));
        }
        all.retain(|document| self.query.type_id.is_none_or(|id| integer(document, "type_id") == Some(id)));
        all.sort_by_key(|document| order(document));
        all.dedup();
        Ok(Some(all))
    }

    /// The next documents of a list, `most` of them at most.
    async fn chunk(&self, list: &List, after: Option<Order>, most: usize) -> Result<Chunk, ServiceError> {
        let mut documents: Vec<RawDocumentBuf> = Vec::new();
        for stretch in self.stretches(list.terms.len(), after) {
            let mut filter = doc! { "terms": { "$in": &list.terms } };
            filter.extend(stretch);
            let sort = Sort::by("type_id", false).then("_id", false);
            let wanted = most - documents.len();
            let (found, is_cut) = self.reading.find(&filter, Some(sort), wanted).await?;
            documents.extend(found.iter().map(RawDocument::to_owned));
            if is_cut || documents.len() >= most {
                return Ok(Chunk { documents, is_last: false });
            }
        }
        Ok(Chunk { documents, is_last: true })
    }

    /// The conditions under which the documents after a place are read, one after the other: each is one stretch of the order.
    fn stretches(&self, terms: usize, after: Option<Order>) -> Vec<Document> {
        let only = self.query.type_id;
        let mut stretches = Vec::new();
        let begin = after.map_or(i64::MIN, |(type_id, _)| type_id);
        if let Some((type_id, id)) = after
            && only.is_none_or(|only| only == type_id)
        {
            stretches.push(doc! { "type_id": type_id, "_id": { "$gt": key_value(id) } });
        }
        if let Some(only) = only {
            if only > begin {
                stretches.push(doc! { "type_id": only });
            }
            return stretches;
        }
        let hidden: Vec<i64> = self.reading.hidden.iter().copied().filter(|id| *id > begin).collect();
        if terms * (hidden.len() + 1) <= MOST_RANGES {
            stretches.push(if after.is_some() {
                doc! { "type_id": { "$gt": begin } }
            } else {
                Document::new()
            });
            return stretches;
        }
        // One query for each run of types between hidden ones: more at once would not come in order.
        let mut low = begin;
        for high in hidden.into_iter().chain([i64::MAX]) {
            let is_inside = |id: i64| id > low && id < high;
            if self.reading.types.iter().any(|entry| is_inside(entry.object_type.public_id)) {
                stretches.push(doc! { "type_id": { "$gt": low, "$lt": high } });
            }
            low = high;
        }
        stretches
    }
}

fn order(document: &RawDocument) -> Order {
    (integer(document, "type_id").unwrap_or_default(), object_of(document).unwrap_or_default())
}
