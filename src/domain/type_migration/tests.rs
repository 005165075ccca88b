//! Tests of the steps of migrations: examples, and laws over steps and objects by chance.

use bson::{Document, doc};

use super::*;

fn object_type(fields: Vec<Document>) -> ObjectType {
    let document = doc! { "public_id": 1_i64, "name": "thing", "fields": fields };
    let raw = bson::raw::RawDocumentBuf::try_from(&document).expect("a document");
    ObjectType::from_document(&raw).expect("a type")
}

fn field(kind: &str, name: &str) -> Document {
    doc! { "type": kind, "name": name, "label": name }
}

fn rename(from: &str, to: &str) -> Step {
    Step::Rename { from: from.to_owned(), to: to.to_owned() }
}

fn convert(field: &str, to: &str, on_error: OnError) -> Step {
    Step::Convert { field: field.to_owned(), to: to.to_owned(), on_error }
}

fn values(pairs: &[(&str, Bson)]) -> Vec<FieldValue> {
    pairs.iter().map(|(name, value)| FieldValue { name: (*name).to_owned(), value: value.clone() }).collect()
}

fn wrong(steps: &[Step], was: &ObjectType, is: &ObjectType) -> Vec<String> {
    let found = Migration::of(steps, was, is).expect_err("steps that do not fit");
    found.listed().iter().map(|violation| violation.pointer.clone()).collect()
}

#[test]
fn steps_are_made_one_after_the_other() {
    let was =
        object_type(vec![field("text", "size"), field("text", "host"), field("select", "state"), field("text", "old")]);
    let options = vec![doc! {"name": "on", "label": "On"}, doc! {"name": "off", "label": "Off"}];
    let mut state = field("select", "state");
    state.insert("options", options);
    let is = object_type(vec![field("text", "hostname"), state, field("number", "size"), field("checkbox", "new")]);
    let steps = [
        rename("host", "hostname"),
        convert("size", "number", OnError::Null),
        Step::MapOptions { field: "state".into(), map: vec![("up".into(), Some("on".into())), ("x".into(), None)] },
        Step::SetDefault { field: "new".into(), value: true.into(), lacking: Lacking::Entry },
        Step::Drop { field: "old".into() },
    ];
    let migration = Migration::of(&steps, &was, &is).expect("steps that fit");
    let before = values(&[
        ("size", "12".into()),
        ("host", "web-1".into()),
        ("state", "up".into()),
        ("old", 1.into()),
        ("left", 2.into()),
    ]);
    let applied = migration.apply(&before, |_| None);
    let after = values(&[
        ("hostname", "web-1".into()),
        ("state", "on".into()),
        ("size", Bson::Int64(12)),
        ("new", true.into()),
        ("left", 2.into()),
    ]);
    assert_eq!((applied.fields, applied.by_step), (after.clone(), vec![true; 5]));
    let again = migration.apply(&after, |_| None);
    assert!(!again.is_changed(), "{again:?}");
}

#[test]
fn values_that_cannot_be_converted_are_refused_dropped_or_kept() {
    let (was, is) = (object_type(vec![field("text", "size")]), object_type(vec![field("number", "size")]));
    let before = values(&[("size", "big".into())]);
    let of = |on_error| {
        let migration = Migration::of(&[convert("size", "number", on_error)], &was, &is).expect("a step that fits");
        let applied = migration.apply(&before, |_| None);
        (applied.fields[0].value.clone(), applied.is_changed(), applied.refusals.len())
    };
    assert_eq!(of(OnError::Refuse), ("big".into(), false, 1));
    assert_eq!(of(OnError::Null), (Bson::Null, true, 0));
    assert_eq!(of(OnError::Keep), ("big".into(), false, 0));
}

#[test]
fn a_reference_that_leads_nowhere_cannot_be_made() {
    let mut rack = field("ref", "rack");
    rack.insert("ref_types", vec![5_i64]);
    let (was, is) = (object_type(vec![field("text", "rack")]), object_type(vec![rack]));
    let migration = Migration::of(&[convert("rack", "ref", OnError::Refuse)], &was, &is).expect("a step that fits");
    assert!(migration.makes_references());
    let before = values(&[("rack", "17".into())]);
    let found = migration.apply(&before, |_| None);
    assert_eq!((found.references[0].object_id, found.references[0].type_ids.clone()), (17, vec![5]));
    let lost = migration.apply(&before, |_| Some("object 17 does not exist".to_owned()));
    assert_eq!((lost.refusals[0].reason.as_str(), lost.is_changed()), ("object 17 does not exist", false));
}

#[test]
fn a_name_that_an_object_has_already_is_not_taken_by_another_field() {
    let (was, is) = (object_type(vec![field("text", "a")]), object_type(vec![field("text", "b")]));
    let migration = Migration::of(&[rename("a", "b")], &was, &is).expect("a step that fits");
    let both = migration.apply(&values(&[("a", "1".into()), ("b", "2".into())]), |_| None);
    assert_eq!((both.refusals.len(), both.is_changed()), (1, false));
    let empty = migration.apply(&values(&[("b", Bson::Null), ("a", "1".into())]), |_| None);
    assert_eq!(empty.fields, values(&[("b", "1".into())]));
}

#[test]
fn fields_can_exchange_their_names() {
    let both = object_type(vec![field("text", "a"), field("text", "b")]);
    let steps = [rename("a", "aside"), rename("b", "a"), rename("aside", "b")];
    let migration = Migration::of(&steps, &both, &both).expect("steps that fit");
    let applied = migration.apply(&values(&[("a", "1".into()), ("b", "2".into())]), |_| None);
    assert_eq!(applied.fields, values(&[("a", "2".into()), ("b", "1".into())]));
}

#[test]
fn steps_that_do_not_fit_the_types_are_named() {
    let was = object_type(vec![field("text", "host"), field("text", "size")]);
    let mut state = field("select", "state");
    state.insert("options", vec![doc! {"name": "on", "label": "On"}]);
    let is = object_type(vec![field("text", "hostname"), field("number", "size"), state]);
    assert_eq!(wrong(&[rename("hots", "hostname")], &was, &is), ["/migration/0/rename/from"]);
    assert_eq!(wrong(&[rename("host", "name")], &was, &is), ["/migration/0/rename/to"]);
    assert_eq!(wrong(&[rename("host", "size")], &was, &is), ["/migration/0/rename/to"]);
    assert_eq!(wrong(&[convert("size", "checkbox", OnError::Keep)], &was, &is), ["/migration/0/convert/to"]);
    assert_eq!(wrong(&[convert("unknown", "number", OnError::Keep)], &was, &is), ["/migration/0/convert/field"]);
    let default = |value: Bson| Step::SetDefault { field: "size".into(), value, lacking: Lacking::Value };
    assert_eq!(wrong(&[default("x".into())], &was, &is), ["/migration/0/set_default/value"]);
    let map = Step::MapOptions { field: "state".into(), map: vec![("a".into(), Some("off".into()))] };
    assert_eq!(wrong(&[map], &was, &is), ["/migration/0/map_options/map"]);
    // What an earlier change left may go.
    assert!(Migration::of(&[Step::Drop { field: "gone-long-ago".into() }], &was, &is).is_ok());
}

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).expect("it is small")
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn any_type(chance: &mut Chance) -> ObjectType {
    let kinds = ["text", "number", "checkbox", "date", "ref", "refs", "ip", "select", "json"];
    let mut fields = Vec::new();
    for name in NAMES {
        if chance.below(3) > 0 {
            let mut made = field(chance.of(&kinds), name);
            made.insert("options", vec![doc! {"name": "x", "label": "x"}, doc! {"name": "1", "label": "1"}]);
            fields.push(made);
        }
    }
    object_type(fields)
}

fn any_step(chance: &mut Chance, is: &ObjectType) -> Step {
    let field = chance.of(&NAMES).to_owned();
    match chance.below(5) {
        0 => Step::Rename { from: field, to: chance.of(&NAMES).to_owned() },
        1 => {
            let to = is.field(&field).map_or("text", |field| field.kind.as_str()).to_owned();
            Step::Convert { field, to, on_error: chance.of(&[OnError::Refuse, OnError::Null, OnError::Keep]) }
        }
        2 => {
            let value = chance.of(&[Bson::from("x"), Bson::Int64(1), true.into(), "10.0.0.1".into()]);
            Step::SetDefault { field, value, lacking: chance.of(&[Lacking::Entry, Lacking::Value]) }
        }
        3 => Step::MapOptions { field, map: vec![("x".into(), Some("1".into())), ("y".into(), None)] },
        _ => Step::Drop { field },
    }
}

fn any_value(chance: &mut Chance) -> Bson {
    let values = [
        Bson::Null,
        "".into(),
        "x".into(),
        "y".into(),
        "1".into(),
        "2026-01-31".into(),
        "10.0.0.1".into(),
        "1, 2".into(),
        Bson::Int64(1),
        Bson::Double(2.5),
        true.into(),
        bson::bson!(["x"]),
        bson::bson!([1_i64, 2_i64]),
        bson::DateTime::from_millis(0).into(),
        bson::bson!({"deep": 1}),
    ];
    chance.of(&values)
}

#[test]
fn the_laws_of_steps_hold_for_steps_and_objects_by_chance() {
    let mut chance = Chance(0x5eed_0044_0017);
    let mut tried = 0;
    for _ in 0..20_000 {
        let (was, is) = (any_type(&mut chance), any_type(&mut chance));
        let steps: Vec<Step> = (0..=chance.below(3)).map(|_| any_step(&mut chance, &is)).collect();
        let Ok(migration) = Migration::of(&steps, &was, &is) else { continue };
        tried += 1;
        let mut before = Vec::new();
        for name in NAMES {
            if chance.below(4) > 0 {
                before.push(FieldValue { name: name.to_owned(), value: any_value(&mut chance) });
            }
        }
        let applied = migration.apply(&before, |_| None);
        let told = format!("{steps:?} on {before:?}: {applied:?}");
        // The same steps do the same.
        assert_eq!(migration.apply(&before, |_| None), applied, "{told}");
        // What no step names stays.
        let named = |name: &str| {
            steps.iter().any(|step| step.field() == name || matches!(step, Step::Rename { to, .. } if to == name))
        };
        let others = |fields: &[FieldValue]| {
            let mut others: Vec<FieldValue> = fields.iter().filter(|entry| !named(&entry.name)).cloned().collect();
            others.sort_by(|one, other| one.name.cmp(&other.name));
            others
        };
        assert_eq!(others(&before), others(&applied.fields), "{told}");
        // No field is there twice, and an object that no step changes stays as it is.
        let names: HashSet<&str> = applied.fields.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), applied.fields.len(), "{told}");
        if !applied.is_changed() {
            assert_eq!(applied.fields, before, "{told}");
        }
        // What was converted without a refusal is what the field stores, if it was not kept.
        if let [Step::Convert { field, on_error, .. }] = &steps[..]
            && let (Some(position), true) = (migration.rules.position(field, 0), *on_error != OnError::Keep)
        {
            let value = applied.fields.iter().find(|entry| entry.name == *field).map(|entry| &entry.value);
            let fits = value.is_none_or(|value| migration.rules.taken(position, value).is_ok_and(|it| it.0 == *value));
            assert!(fits || !applied.refusals.is_empty(), "{told}");
        }
        // What a dropped field was is gone, unless a later step brought another one.
        if let Some(Step::Drop { field }) = steps.last() {
            assert!(applied.fields.iter().all(|entry| entry.name != *field), "{told}");
        }
    }
    assert!(tried > 3_000, "{tried}");
}
