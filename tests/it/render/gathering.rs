//! What the views of a page need, and in how many rounds it is known.

use bson::raw::RawDocumentBuf;
use bson::{Document, doc};
use inventory_service::render::{Gathering, Needed, Subject};

use super::{World, object, raw, ref_field, text_type, typed};

/// What a store has, and the questions that were asked of it.
struct Stored {
    types: Vec<Document>,
    objects: Vec<Document>,
}

fn with_id(documents: &[Document], ids: &[i64]) -> Vec<Document> {
    let id =
        |document: &Document| document.get_i64("public_id").or(document.get_i32("public_id").map(i64::from)).unwrap();
    documents.iter().filter(|document| ids.contains(&id(document))).cloned().collect()
}

impl Stored {
    /// Repeats until nothing is missing; returns the rounds.
    fn gather(&self, mut world: World, page: &[Document]) -> Vec<Needed> {
        let page: Vec<RawDocumentBuf> = page.iter().cloned().map(raw).collect();
        let mut gathering = Gathering::new();
        let mut rounds = Vec::new();
        let context = world.context;
        let subjects: Vec<_> = page.iter().map(|document| Subject::read(document, &context).unwrap()).collect();
        while let Some(needed) = gathering.next_round(&subjects, &world.catalog).unwrap() {
            world = with_id(&self.types, &needed.types).into_iter().fold(world, World::with_type);
            world = with_id(&self.objects, &needed.objects).into_iter().fold(world, World::with_object);
            rounds.push(needed);
        }
        rounds
    }

    fn with_types_known(&self) -> World {
        self.types.iter().cloned().fold(World::new(), World::with_type)
    }
}

fn needed(types: &[i64], objects: &[i64], users: &[i64]) -> Needed {
    Needed { types: types.to_vec(), objects: objects.to_vec(), users: users.to_vec() }
}

/// Type 1 refers to type 2.
fn two_types(objects: Vec<Document>) -> Stored {
    let mut referring = typed(1, vec![ref_field("to", 2), ref_field("also", 2)], doc! {});
    referring.insert("author_id", 5);
    Stored { types: vec![referring, text_type(2, &["name"])], objects }
}

#[test]
fn with_known_types_one_round_asks_for_each_kind_once() {
    let stored = two_types(vec![object(20, 2, doc! {}), object(21, 2, doc! {})]);
    let mut page: Vec<_> = (100..200).map(|id| object(id, 1, doc! { "to": 20 + id % 2, "also": 404 })).collect();
    page[0].insert("editor_id", 9_i64);
    assert_eq!(stored.gather(stored.with_types_known(), &page), [needed(&[], &[20, 21, 404], &[1, 5, 9])]);
}

#[test]
fn from_nothing_types_are_asked_for_before_and_after() {
    let stored = two_types(vec![object(20, 2, doc! {})]);
    let page = [object(7, 1, doc! { "to": 20 }), object(8, 99, doc! { "to": 30 })];
    let rounds = stored.gather(World::new(), &page);
    assert_eq!(rounds, [needed(&[1, 99], &[], &[1]), needed(&[], &[20], &[5]), needed(&[2], &[], &[])]);
}

#[test]
fn nothing_is_asked_for_twice() {
    let nothing = Stored { types: vec![], objects: vec![] };
    assert_eq!(nothing.gather(World::new(), &[object(7, 1, doc! {})]), [needed(&[1], &[], &[1])]);
}

#[test]
fn a_page_that_needs_nothing_has_no_rounds() {
    let nothing = Stored { types: vec![], objects: vec![] };
    assert!(nothing.gather(World::new(), &[]).is_empty());
    assert!(nothing.gather(World::new(), &[doc! { "public_id": 7 }]).is_empty());
}

/// Type after type, each showing a section of the next.
fn chain() -> Stored {
    let link = |id: i64| {
        let reference = doc! { "type_id": id + 1, "section_name": "s" };
        let sections = doc! { "sections": [
            { "type": "section", "name": "s", "fields": ["r-field"] },
            { "type": "ref-section", "name": "r", "reference": reference, "fields": ["r-field"] },
        ] };
        typed(id, vec![doc! { "type": "ref-section-field", "name": "r-field" }], sections)
    };
    let objects = (1..=9).map(|id| object(id * 10, id, doc! { "r-field": (id + 1) * 10 }));
    Stored { types: (1..=9).map(link).collect(), objects: objects.collect() }
}

#[test]
fn sections_are_followed_for_three_rounds_when_types_are_known() {
    let stored = chain();
    let page = &stored.objects[..1];
    assert_eq!(
        stored.gather(stored.with_types_known(), page),
        [needed(&[], &[20], &[1]), needed(&[], &[30], &[]), needed(&[], &[40], &[])]
    );
}

#[test]
fn sections_are_followed_for_seven_rounds_from_nothing() {
    let stored = chain();
    let rounds = stored.gather(World::new(), &stored.objects[..1]);
    assert_eq!(rounds.len(), 7);
    assert_eq!(rounds.last(), Some(&needed(&[4], &[], &[])));
}

#[test]
fn what_was_gathered_is_all_that_the_view_shows() {
    let stored = chain();
    let page = stored.objects[0].clone();
    let full = stored.objects.iter().cloned().fold(stored.with_types_known(), World::with_object);
    let mut gathered = stored.with_types_known();
    for needed in stored.gather(stored.with_types_known(), std::slice::from_ref(&page)) {
        gathered = with_id(&stored.objects, &needed.objects).into_iter().fold(gathered, World::with_object);
    }
    assert_eq!(gathered.view(page.clone()), full.view(page));
}

#[test]
fn cycles_of_sections_end() {
    let reference = doc! { "type_id": 1, "section_name": "s" };
    let sections = doc! { "sections": [
        { "type": "section", "name": "s", "fields": ["r-field"] },
        { "type": "ref-section", "name": "r", "reference": reference, "fields": ["r-field"] },
    ] };
    let types = vec![typed(1, vec![doc! { "type": "ref-section-field", "name": "r-field" }], sections)];
    let objects = vec![object(1, 1, doc! { "r-field": 2 }), object(2, 1, doc! { "r-field": 1 })];
    let stored = Stored { types, objects };
    assert_eq!(
        stored.gather(stored.with_types_known(), &stored.objects[..1]),
        [needed(&[], &[2], &[1]), needed(&[], &[1], &[])]
    );
}
