//! Shows the objects that were found: the field that matched, and its text with the words marked.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bson::raw::RawDocument;

use super::question::{Match, Question};
use super::targets::summary_of;
use crate::admission;
use crate::domain::document::integer;
use crate::domain::object_type::ObjectType;
use crate::domain::references::references;
use crate::domain::searchable::each_text;
use crate::domain::words::{Word, whole, words};
use crate::query::Filter;
use crate::render::summary_line;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::objects::rendering::EDIT;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::store::{Documents, FindQuery};

/// More bytes of objects are not looked through on the thread of the request.
const SHORT_BYTES: usize = 128 * 1024;
/// Longer texts are shown in part: this number of characters.
const LONGEST_TEXT: usize = 200;
/// How many of them are before the first marked word.
const BEFORE_MARK: usize = 40;

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = FoundObject)]
pub struct Hit {
    /// Its id.
    pub public_id: i64,
    /// The id of its type.
    pub type_id: i64,
    /// The name of its type for people.
    pub type_label: String,
    /// What sums the object up.
    pub summary_line: String,
    /// `value`: all of a value is what was asked for. `word`: it has all words. `beginning`: the last word is a beginning.
    #[schema(value_type = String)]
    pub r#match: Match,
    /// The name of the field that matches best; `public_id` for the id of the object.
    pub field: String,
    /// The name of that field for people.
    pub field_label: String,
    /// Its text, in pieces. A long text is cut around the first match, with three dots. Of a reference it is the summary of the
    /// object that is referred to.
    pub text: Vec<Piece>,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = TextPiece)]
pub struct Piece {
    /// What it says.
    pub text: String,
    /// Whether it is a word that was asked for.
    pub is_match: bool,
}

/// What is shown of these objects, in this order. An object that is gone, or no longer matches, is left out.
///
/// # Errors
/// Errors of the store.
pub(super) async fn hits(
    services: &Services,
    caller: &Caller,
    (types, question): (Arc<Types>, Arc<Question>),
    found: Vec<(Match, i64)>,
) -> Result<Vec<Hit>, ServiceError> {
    let objects = read(services, caller, &types, found.iter().map(|(_, id)| *id).collect()).await?;
    let targets = referred(&objects, &types, &question);
    let targets = read(services, caller, &types, targets).await?;
    let may_edit = caller.rights.grants(EDIT);
    let bytes = objects.bytes() + targets.bytes();
    let show = move || {
        let show = Show { types, question, targets: by_id(&targets), may_edit };
        let objects = by_id(&objects);
        let hit = |(kind, id): &(Match, i64)| show.hit(*kind, objects.get(id)?);
        found.iter().filter_map(hit).collect()
    };
    if bytes <= SHORT_BYTES {
        return Ok(show());
    }
    Ok(admission::work(move |_| show()).await?)
}

/// These objects, as far as the caller may see them.
async fn read(
    services: &Services,
    caller: &Caller,
    types: &Types,
    ids: BTreeSet<i64>,
) -> Result<Documents, ServiceError> {
    if ids.is_empty() {
        return Ok(Documents::new());
    }
    let filter = types.scope(caller, Filter::one_of("public_id", ids));
    Ok(services.held(Objects::COLLECTION, FindQuery::new(filter, services.max_time)).await?)
}

/// The objects that these refer to and that have words that were asked for.
fn referred(objects: &Documents, types: &Types, question: &Question) -> BTreeSet<i64> {
    let of = |object: &RawDocument| {
        let entry = integer(object, "type_id").and_then(|id| types.get(id))?;
        references(object, &entry.object_type).ok()
    };
    objects.iter().filter_map(of).flatten().map(|(_, id)| id).filter(|id| question.has_target(*id)).collect()
}

fn by_id(documents: &Documents) -> HashMap<i64, &RawDocument> {
    documents.iter().filter_map(|document| Some((integer(document, "public_id")?, document))).collect()
}

struct Show<'d> {
    types: Arc<Types>,
    question: Arc<Question>,
    targets: HashMap<i64, &'d RawDocument>,
    may_edit: bool,
}

/// A text that matches, with the place of each word that does.
struct Text {
    /// The field in the type; nothing for the id.
    field: Option<usize>,
    written: String,
    marks: Vec<Range<usize>>,
    rank: Rank,
}

/// How well a text matches: whether it is all that was asked for, and how many of the words it has, and has as a whole.
type Rank = (bool, usize, usize);

impl Show<'_> {
    fn hit(&self, kind: Match, object: &RawDocument) -> Option<Hit> {
        let (public_id, type_id) = (integer(object, "public_id")?, integer(object, "type_id")?);
        let entry = self.types.get(type_id);
        let object_type = entry.map(|entry| &*entry.object_type);
        let best = self.best(public_id, object, object_type)?;
        let field = best.field.and_then(|position| object_type?.fields.get(position));
        let summary_line = object_type.and_then(|it| summary_line(object, it, self.may_edit).ok());
        Some(Hit {
            public_id,
            type_id,
            type_label: object_type.map(|it| it.label.clone()).unwrap_or_default(),
            summary_line: summary_line.unwrap_or_else(|| format!("#{public_id}")),
            r#match: kind,
            field: field.map_or_else(|| "public_id".to_owned(), |field| field.name.clone()),
            field_label: field.map_or_else(|| "public_id".to_owned(), |field| field.label.clone()),
            text: pieces(&best.written, &best.marks),
        })
    }

    /// The text of the object that matches best; of equal ones the first.
    fn best(&self, public_id: i64, object: &RawDocument, object_type: Option<&ObjectType>) -> Option<Text> {
        let mut best: Option<Text> = None;
        let mut take = |field: Option<usize>, text: &str| {
            let (marks, rank) = self.marked(text);
            if !marks.is_empty() && best.as_ref().is_none_or(|best| rank > best.rank) {
                best = Some(Text { field, written: text.to_owned(), marks, rank });
            }
        };
        if self.question.words.iter().any(|asked| asked.id == Some(public_id)) {
            take(None, &public_id.to_string());
        }
        if let Some(object_type) = object_type {
            each_text(object, object_type, |position, text| take(Some(position), text)).ok()?;
            for (position, id) in references(object, object_type).ok()? {
                let target = self.targets.get(&id).filter(|_| self.question.has_target(id));
                if let Some(text) = target.and_then(|target| summary_of(target, &self.types)) {
                    take(Some(position), &text);
                }
            }
        }
        best
    }

    /// The places of words that were asked for, and how well they match.
    fn marked(&self, text: &str) -> (Vec<Range<usize>>, Rank) {
        let list = words(text);
        let (mut marks, mut begun): (Vec<Range<usize>>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        let (mut has, mut begins) = (BTreeSet::new(), false);
        let last = self.question.last();
        for Word { folded, place, .. } in &list {
            let asked = self.question.words.iter().position(|asked| asked.word == *folded);
            if let Some(number) = asked {
                has.insert(number);
                marks.push(place.clone());
            } else if folded.starts_with(&last.word) {
                begins = true;
                // A part says more than the word that it is a part of.
                begun.pop_if(|before| before.contains(&place.start));
                begun.push(place.clone());
            }
        }
        let has_last = has.contains(&(self.question.words.len() - 1));
        let count = has.len() + usize::from(begins && !has_last);
        marks.extend(begun.into_iter().filter(|_| !has_last));
        let is_whole = whole(&list).as_ref() == Some(&self.question.key);
        (joined(marks), (is_whole, count, has.len()))
    }
}

/// The same places in order, without those inside of others.
fn joined(mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(marks.len());
    for mark in marks {
        if joined.last().is_none_or(|last| mark.start >= last.end) {
            joined.push(mark);
        }
    }
    joined
}

/// A text in pieces; a long one is cut around its first mark.
fn pieces(text: &str, marks: &[Range<usize>]) -> Vec<Piece> {
    let (begin, end) = window(text, marks.first().map_or(0, |mark| mark.start));
    let mut pieces = Vec::new();
    let mut add = |text: String, is_match: bool| {
        if !text.is_empty() {
            pieces.push(Piece { text, is_match });
        }
    };
    let mut at = begin;
    let cut = |place: usize| place.clamp(begin, end);
    let mut lead = if begin > 0 { "...".to_owned() } else { String::new() };
    for mark in marks.iter().filter(|mark| mark.start < end) {
        lead.push_str(&text[at..cut(mark.start).max(at)]);
        add(std::mem::take(&mut lead), false);
        at = cut(mark.end).max(at);
        add(text[cut(mark.start)..at].to_owned(), true);
    }
    lead.push_str(&text[at..end]);
    if end < text.len() {
        lead.push_str("...");
    }
    add(lead, false);
    pieces
}

/// The part of a text that is shown.
fn window(text: &str, mark: usize) -> (usize, usize) {
    if text.chars().nth(LONGEST_TEXT).is_none() {
        return (0, text.len());
    }
    let before = text[..mark].char_indices().rev().nth(BEFORE_MARK - 1).map_or(0, |(at, _)| at);
    let end = text[before..].char_indices().nth(LONGEST_TEXT).map_or(text.len(), |(at, _)| before + at);
    (before, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, marks: &[Range<usize>]) -> String {
        let show = |piece: Piece| if piece.is_match { format!("<{}>", piece.text) } else { piece.text };
        pieces(text, marks).into_iter().map(show).collect()
    }

    #[test]
    fn marked_words_are_pieces_of_their_own() {
        assert_eq!(shown("web-1 and web-2", &[0..5, 10..15]), "<web-1> and <web-2>");
        assert_eq!(shown("none", &[]), "none");
        assert_eq!(shown("all", std::slice::from_ref(&(0..3))), "<all>");
    }

    #[test]
    fn a_long_text_is_cut_around_its_first_mark() {
        let text = format!("{} word {}", "é".repeat(300), "x".repeat(300));
        let at = text.find("word").expect("it is there");
        let shown = shown(&text, std::slice::from_ref(&(at..at + 4)));
        assert!(shown.starts_with("...éé") && shown.contains("é <word> x") && shown.ends_with("x..."), "{shown}");
        assert!(shown.chars().count() <= LONGEST_TEXT + 8, "{shown}");
    }

    #[test]
    fn marks_inside_of_others_are_left_out() {
        assert_eq!(joined(vec![4..6, 0..5, 0..3, 8..9]), [0..5, 8..9]);
    }
}
