//! Reverse patches: what turns a stored document back into the one that it replaced.
//!
//! A patch restores the document byte for byte, the order of its members included. It has two members:
//!
//! - `was`: values by the JSON pointer (RFC 6901) of their place, for instance `{"/version": "1.0.0"}`.
//! - `parts`: where members or items were added, removed or moved. Each part is `{at, from, now, had}`: in the document or
//!   array at the pointer `at`, the `now` members or items beginning with number `from` become those of `had`.
//!
//! Parts come first, the outer ones before the inner ones; then the values. Pointers are those of the restored document.
//! Items of an array that all have a `name` of their own, as `fields` of objects, are addressed by this name.

use std::collections::HashSet;

use crate::pointer::{escaped, unescaped};
use bson::raw::{RawArray, RawBsonRef, RawDocument};
use bson::{Array, Bson, Document, doc};

/// A patch cannot be applied: the document is not the one that it was made for, or one of both is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the history of this document does not fit it")]
pub struct Misfit;

/// The patch that turns `after` into `before`; `None` when their bytes are equal.
///
/// # Errors
/// [`Misfit`] when one of them is damaged.
pub fn reverse(before: &RawDocument, after: &RawDocument) -> Result<Option<Document>, Misfit> {
    if before.as_bytes() == after.as_bytes() {
        return Ok(None);
    }
    let mut patch = Patch::default();
    patch.members("", before, after)?;
    let mut document = Document::new();
    if !patch.was.is_empty() {
        document.insert("was", patch.was);
    }
    if !patch.parts.is_empty() {
        document.insert("parts", patch.parts);
    }
    Ok(Some(document))
}

/// Turns `document` back by a patch of [`reverse`].
///
/// # Errors
/// [`Misfit`]; the document is then in an undefined state.
pub fn apply(document: &mut Document, patch: &RawDocument) -> Result<(), Misfit> {
    let patch = Document::try_from(patch).map_err(|_| Misfit)?;
    for part in patch.get_array("parts").into_iter().flatten() {
        restore(document, part.as_document().ok_or(Misfit)?)?;
    }
    for (pointer, value) in patch.get_document("was").into_iter().flatten() {
        *at(document, pointer)? = value.clone();
    }
    Ok(())
}

fn restore(document: &mut Document, part: &Document) -> Result<(), Misfit> {
    let number = |name: &str| usize::try_from(part.get_i32(name).map_err(|_| Misfit)?).map_err(|_| Misfit);
    let pointer = part.get_str("at").map_err(|_| Misfit)?;
    let (from, now) = (number("from")?, number("now")?);
    let end = from.checked_add(now).ok_or(Misfit)?;
    match part.get("had").ok_or(Misfit)? {
        Bson::Array(had) => {
            let Bson::Array(items) = at(document, pointer)? else { return Err(Misfit) };
            if end > items.len() {
                return Err(Misfit);
            }
            items.splice(from..end, had.iter().cloned());
        }
        Bson::Document(had) => {
            let members = if pointer.is_empty() {
                document
            } else {
                let Bson::Document(members) = at(document, pointer)? else { return Err(Misfit) };
                members
            };
            if end > members.len() {
                return Err(Misfit);
            }
            let mut restored: Vec<(String, Bson)> = std::mem::take(members).into_iter().collect();
            restored.splice(from..end, had.clone());
            members.extend(restored);
        }
        _ => return Err(Misfit),
    }
    Ok(())
}

/// The value at a pointer that is not empty.
fn at<'a>(document: &'a mut Document, pointer: &str) -> Result<&'a mut Bson, Misfit> {
    let mut segments = pointer.strip_prefix('/').ok_or(Misfit)?.split('/').map(unescaped);
    let first = segments.next().ok_or(Misfit)?;
    let mut value = document.get_mut(&first).ok_or(Misfit)?;
    for segment in segments {
        value = match value {
            Bson::Document(members) => members.get_mut(&segment).ok_or(Misfit)?,
            Bson::Array(items) => item_mut(items, &segment)?,
            _ => return Err(Misfit),
        };
    }
    Ok(value)
}

fn item_mut<'a>(items: &'a mut Array, segment: &str) -> Result<&'a mut Bson, Misfit> {
    let name = |item: &Bson| item.as_document()?.get_str("name").ok().map(ToOwned::to_owned);
    let index = if is_named(items.iter().map(name)) {
        items.iter().position(|item| name(item).as_deref() == Some(segment))
    } else {
        segment.parse().ok()
    };
    items.get_mut(index.ok_or(Misfit)?).ok_or(Misfit)
}

/// Whether all items have names, each a different one.
fn is_named<T: AsRef<str> + Eq + std::hash::Hash>(names: impl Iterator<Item = Option<T>>) -> bool {
    let mut seen = HashSet::new();
    let mut is_any = false;
    for name in names {
        is_any = true;
        match name {
            Some(name) if !name.as_ref().is_empty() => {
                if !seen.insert(name) {
                    return false;
                }
            }
            _ => return false,
        }
    }
    is_any
}

/// A patch that is being made.
#[derive(Default)]
struct Patch {
    was: Document,
    parts: Array,
}

type Member<'a> = (&'a str, RawBsonRef<'a>);

impl Patch {
    fn members(&mut self, place: &str, before: &RawDocument, after: &RawDocument) -> Result<(), Misfit> {
        let (old, new) = (members_of(before)?, members_of(after)?);
        let is_plain = |members: &[Member<'_>]| {
            let mut seen = HashSet::with_capacity(members.len());
            members.iter().all(|(name, _)| seen.insert(*name))
        };
        if !is_plain(&old) || !is_plain(&new) {
            return Err(Misfit);
        }
        let (front, back) = ends(old.len(), new.len(), |one, other| old[one].0 == new[other].0);
        if front < old.len() || front < new.len() {
            let had: Document = old[front..old.len() - back]
                .iter()
                .map(|(name, value)| Ok(((*name).to_owned(), owned(*value)?)))
                .collect::<Result<_, Misfit>>()?;
            self.part(place, front, new.len() - back - front, Bson::Document(had));
        }
        let pairs = old[..front].iter().zip(&new[..front]);
        let behind = old[old.len() - back..].iter().zip(&new[new.len() - back..]);
        for ((name, old), (_, new)) in pairs.chain(behind).filter(|((_, old), (_, new))| !is_same(*old, *new)) {
            self.value(&format!("{place}/{}", escaped(name)), *old, *new)?;
        }
        Ok(())
    }

    fn items(&mut self, place: &str, before: &RawArray, after: &RawArray) -> Result<(), Misfit> {
        let (old, new) = (items_of(before)?, items_of(after)?);
        let (old_names, new_names) = (names_of(&old), names_of(&new));
        // With the old names only: the place is looked for in the restored array.
        let by_name = is_named(old_names.iter().copied());
        let alike = |one: usize, other: usize| {
            if by_name { old_names[one] == new_names[other] } else { is_same(old[one], new[other]) }
        };
        let (front, back) =
            if by_name || old.len() != new.len() { ends(old.len(), new.len(), alike) } else { (old.len(), 0) };
        // What the place is looked for in: the restored array, in which items by number may still have other names.
        let kept = new_names[..front].iter().chain(&old_names[front..old.len() - back]);
        let kept = kept.chain(&new_names[new.len() - back..]).copied();
        if !by_name && is_named(kept) {
            self.was.insert(place, Bson::try_from(RawBsonRef::Array(before)).map_err(|_| Misfit)?);
            return Ok(());
        }
        if front < old.len() || front < new.len() {
            let had: Array =
                old[front..old.len() - back].iter().map(|value| owned(*value)).collect::<Result<_, Misfit>>()?;
            self.part(place, front, new.len() - back - front, Bson::Array(had));
        }
        let pairs = (0..front).map(|index| (index, index));
        let behind = (0..back).map(|index| (old.len() - back + index, new.len() - back + index));
        for (one, other) in pairs.chain(behind).filter(|(one, other)| !is_same(old[*one], new[*other])) {
            let segment = match old_names[one] {
                Some(name) if by_name => escaped(name),
                _ => one.to_string(),
            };
            self.value(&format!("{place}/{segment}"), old[one], new[other])?;
        }
        Ok(())
    }

    /// Two values of one place that differ.
    fn value(&mut self, place: &str, before: RawBsonRef<'_>, after: RawBsonRef<'_>) -> Result<(), Misfit> {
        match (before, after) {
            (RawBsonRef::Document(before), RawBsonRef::Document(after)) => self.members(place, before, after),
            (RawBsonRef::Array(before), RawBsonRef::Array(after)) => self.items(place, before, after),
            _ => {
                self.was.insert(place, owned(before)?);
                Ok(())
            }
        }
    }

    fn part(&mut self, place: &str, from: usize, now: usize, had: Bson) {
        // A document has at most 16 MiB, so these fit.
        let number = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
        self.parts.push(doc! { "at": place, "from": number(from), "now": number(now), "had": had }.into());
    }
}

/// How many members or items at the beginning, and of the others at the end, are alike.
fn ends(old: usize, new: usize, alike: impl Fn(usize, usize) -> bool) -> (usize, usize) {
    let shorter = old.min(new);
    let front = (0..shorter).take_while(|index| alike(*index, *index)).count();
    let back = (1..=shorter - front).take_while(|index| alike(old - index, new - index)).count();
    (front, back)
}

fn members_of(document: &RawDocument) -> Result<Vec<Member<'_>>, Misfit> {
    document.iter().map(|member| member.map(|(name, value)| (name.as_str(), value)).map_err(|_| Misfit)).collect()
}

fn items_of(array: &RawArray) -> Result<Vec<RawBsonRef<'_>>, Misfit> {
    array.into_iter().map(|item| item.map_err(|_| Misfit)).collect()
}

fn names_of<'a>(items: &[RawBsonRef<'a>]) -> Vec<Option<&'a str>> {
    items.iter().map(|item| item.as_document()?.get("name").ok()??.as_str()).collect()
}

fn owned(value: RawBsonRef<'_>) -> Result<Bson, Misfit> {
    Bson::try_from(value).map_err(|_| Misfit)
}

/// Whether two values have the same type and the same bytes.
fn is_same(one: RawBsonRef<'_>, other: RawBsonRef<'_>) -> bool {
    match (one, other) {
        (RawBsonRef::Double(one), RawBsonRef::Double(other)) => one.to_bits() == other.to_bits(),
        (RawBsonRef::Document(one), RawBsonRef::Document(other)) => one.as_bytes() == other.as_bytes(),
        (RawBsonRef::Array(one), RawBsonRef::Array(other)) => one.as_bytes() == other.as_bytes(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use bson::raw::RawDocumentBuf;

    use super::*;

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[track_caller]
    fn there_and_back(before: &Document, after: &Document) -> Document {
        let patch = reverse(&raw(before), &raw(after)).unwrap().expect("they differ");
        let mut restored = after.clone();
        apply(&mut restored, &raw(&patch)).unwrap();
        assert_eq!(raw(&restored).as_bytes(), raw(before).as_bytes(), "{patch}");
        patch
    }

    #[test]
    fn equal_documents_have_no_patch() {
        let document = doc! { "a": f64::NAN, "b": [1, { "name": "x" }] };
        assert_eq!(reverse(&raw(&document), &raw(&document)), Ok(None));
    }

    #[test]
    fn a_changed_value_is_named_by_its_pointer() {
        let object = |version: &str, name: &str| {
            doc! { "_id": 1, "version": version, "fields": [{ "name": "host/name", "value": name }, { "name": "b", "value": 2 }] }
        };
        let patch = there_and_back(&object("1.0.0", "web"), &object("1.0.1", "db"));
        assert_eq!(patch, doc! { "was": { "/version": "1.0.0", "/fields/host~1name/value": "web" } });
    }

    #[test]
    fn added_removed_and_moved_members_come_back_in_their_order() {
        let before = doc! { "a": 1, "b": { "c": 1, "d": 2 }, "e": 3 };
        for after in [
            doc! { "a": 1, "b": { "c": 1, "d": 2 }, "e": 3, "f": 4 },
            doc! { "a": 1, "e": 3 },
            doc! { "e": 3, "b": { "d": 2, "c": 1 }, "a": 1 },
            doc! { "a": 2, "x": 1, "b": { "c": 2, "z": 0, "d": 3 }, "e": 4 },
            doc! {},
        ] {
            there_and_back(&before, &after);
            there_and_back(&after, &before);
        }
    }

    #[test]
    fn items_with_names_and_without_come_back_in_their_order() {
        let lists: Vec<Array> = vec![
            vec![],
            vec![doc! { "name": "a", "value": 1 }.into(), doc! { "name": "b", "value": [1, 2] }.into()],
            vec![doc! { "name": "b", "value": [2, 1] }.into(), doc! { "name": "a", "value": 1 }.into()],
            vec![doc! { "name": "a", "value": 1 }.into(), doc! { "name": "a", "value": 2 }.into()],
            vec![doc! { "name": "a", "value": 3 }.into(), doc! { "name": "x" }.into(), doc! { "name": "b" }.into()],
            vec![doc! { "name": "1" }.into(), doc! { "name": "0" }.into()],
            vec![1.into(), 2.into(), 3.into()],
            vec![1.into(), 3.into()],
            vec![1_i64.into(), doc! { "name": "" }.into()],
            vec![Bson::Array(vec![1.into()]), Bson::Null],
        ];
        for one in &lists {
            for other in lists.iter().filter(|other| *other != one) {
                there_and_back(&doc! { "list": one.clone() }, &doc! { "list": other.clone() });
            }
        }
    }

    #[test]
    fn a_patch_for_another_document_is_refused() {
        let patch = reverse(&raw(&doc! { "a": { "b": 1 } }), &raw(&doc! { "a": { "b": 2 } })).unwrap().unwrap();
        assert_eq!(apply(&mut doc! { "a": 1 }, &raw(&patch)), Err(Misfit));
        let patch = reverse(&raw(&doc! { "a": [1, 2] }), &raw(&doc! { "a": [1, 2, 3] })).unwrap().unwrap();
        assert_eq!(apply(&mut doc! { "a": [1] }, &raw(&patch)), Err(Misfit));
    }
}
