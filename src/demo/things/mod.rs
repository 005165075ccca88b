//! The objects of the demo: each one is made from its kind and its number alone.

mod machines;
mod offices;
mod places;

use bson::{Document, doc};

use super::model::DemoKind;
use super::plan::DemoPlan;
use super::values::Random;
use crate::domain::user::FIRST_ADMIN;

/// What the fields of an object hold, and whether it is in use.
struct Thing {
    active: bool,
    values: Document,
}

impl Thing {
    fn in_use(values: Document) -> Self {
        Self { active: true, values }
    }
}

/// The body of the object with this index among those of its kind.
pub fn object_body(plan: &DemoPlan, kind: DemoKind, index: u32) -> Document {
    let mut random = Random::of(kind as u32, index);
    let Thing { active, values } = thing(plan, kind, index, &mut random);
    let field = |(name, value): (String, bson::Bson)| doc! {"name": name, "value": value};
    doc! {
        "public_id": plan.id(kind, index),
        "type_id": kind.type_id(),
        "author_id": FIRST_ADMIN,
        "active": active,
        "fields": values.into_iter().map(field).collect::<Vec<_>>(),
    }
}

fn thing(plan: &DemoPlan, kind: DemoKind, index: u32, random: &mut Random) -> Thing {
    match kind {
        DemoKind::Location => places::location(index, random),
        DemoKind::Room => places::room(plan, index, random),
        DemoKind::Rack => places::rack(plan, index, random),
        DemoKind::Person => offices::person(plan, index, random),
        DemoKind::Contract => offices::contract(plan, index, random),
        DemoKind::Licence => offices::licence(plan, random),
        DemoKind::Switch => machines::switch(plan, index, random),
        DemoKind::Server => machines::server(plan, index, random),
        DemoKind::VirtualMachine => machines::virtual_machine(plan, index, random),
    }
}

/// The id of a person, whichever.
fn any_person(plan: &DemoPlan, random: &mut Random) -> i64 {
    plan.id(DemoKind::Person, random.below(plan.count(DemoKind::Person)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bson::raw::RawDocumentBuf;
    use bson::{Bson, DateTime};

    use super::super::bodies::{category_bodies, type_body};
    use super::*;
    use crate::domain::object_fields::{Accepted, FieldRules};
    use crate::domain::object_input::ObjectInput;
    use crate::domain::object_type::ObjectType;
    use crate::domain::{self, category_input, type_input};

    fn stored_type(kind: DemoKind) -> ObjectType {
        let accepted = type_input::read(&type_body(kind)).expect("the type is accepted");
        let document = domain::created(accepted, kind.type_id(), DateTime::from_millis(0));
        ObjectType::from_document(&RawDocumentBuf::try_from(document).expect("BSON")).expect("the type compiles")
    }

    fn checked(rules: &FieldRules, body: &Document) -> Accepted {
        let (input, violations) = ObjectInput::read(body);
        assert!(violations.is_empty(), "{violations:?}: {body}");
        rules.check(&input.fields, &[]).unwrap_or_else(|violations| panic!("{violations:?}: {body}"))
    }

    fn kind_of(plan: &DemoPlan, id: i64) -> Option<DemoKind> {
        DemoKind::ALL.into_iter().find(|&kind| (plan.id(kind, 0)..plan.id(kind, plan.count(kind))).contains(&id))
    }

    #[test]
    fn every_object_keeps_the_rules_of_its_type_and_refers_to_earlier_ones() {
        for objects in [200, 1000, 7777] {
            let plan = DemoPlan::new(objects);
            for kind in DemoKind::ALL {
                let rules = FieldRules::of(&stored_type(kind));
                for index in 0..plan.count(kind) {
                    let body = object_body(&plan, kind, index);
                    for reference in checked(&rules, &body).references {
                        let target = kind_of(&plan, reference.object_id).map(DemoKind::type_id);
                        assert!(target.is_some_and(|id| reference.type_ids.contains(&id)), "{reference:?}: {body}");
                        assert!(reference.object_id < plan.id(kind, index));
                    }
                }
            }
        }
    }

    #[test]
    fn every_field_of_every_type_is_filled_by_some_object() {
        let plan = DemoPlan::new(2000);
        for kind in DemoKind::ALL {
            let object_type = stored_type(kind);
            let rules = FieldRules::of(&object_type);
            let mut filled = HashSet::new();
            for index in 0..plan.count(kind) {
                let fields = checked(&rules, &object_body(&plan, kind, index)).fields;
                filled.extend(fields.into_iter().filter(|field| field.value != Bson::Null).map(|field| field.name));
            }
            assert_eq!(filled.len(), object_type.fields.len(), "{}: {filled:?}", object_type.name);
        }
    }

    #[test]
    fn all_known_kinds_of_fields_are_shown() {
        let known = [
            "text", "password", "textarea", "radio", "select", "checkbox", "number", "date", "ref",
            "ref-section-field", "email", "tel", "href",
        ];
        let kinds: HashSet<String> =
            DemoKind::ALL.into_iter().flat_map(|kind| stored_type(kind).fields).map(|field| field.kind).collect();
        assert_eq!(kinds, known.map(str::to_owned).into());
    }

    #[test]
    fn sections_links_and_lines_name_fields_that_exist() {
        for kind in DemoKind::ALL {
            let object_type = stored_type(kind);
            for summary in object_type.fields.iter().flat_map(|field| &field.summaries) {
                let target = DemoKind::ALL.into_iter().find(|kind| kind.type_id() == summary.type_id).expect("a kind");
                let target = stored_type(target);
                assert_eq!(summary.line.len().saturating_sub(1), summary.fields.len(), "{summary:?}");
                assert!(summary.fields.iter().all(|name| target.field(name).is_some()), "{summary:?}");
            }
            for shown in object_type.sections.iter().filter_map(|section| section.reference.as_ref()) {
                let target = DemoKind::ALL.into_iter().find(|kind| kind.type_id() == shown.type_id).expect("a kind");
                let target = stored_type(target);
                let section = target.section(&shown.section_name).expect("the section exists");
                assert!(shown.selected_fields.iter().all(|name| section.fields.contains(name)), "{shown:?}");
            }
            assert!(object_type.externals.iter().all(|external| external.link.is_some()));
        }
    }

    #[test]
    fn categories_are_accepted_and_stand_below_earlier_ones() {
        for body in category_bodies() {
            let accepted = category_input::read(&body).expect("the category is accepted");
            let id = accepted.get_i64("public_id").expect("an id");
            assert!(
                accepted.get_i64("parent").is_ok_and(|parent| parent < id)
                    || accepted.get("parent") == Some(&Bson::Null)
            );
        }
        let categorised: HashSet<i64> = category_bodies()
            .flat_map(|body| body.get_array("types").cloned().unwrap_or_default())
            .filter_map(|id| id.as_i64())
            .collect();
        assert_eq!(categorised.len(), DemoKind::ALL.len());
    }

    #[test]
    fn names_and_inventory_numbers_are_there_once() {
        let plan = DemoPlan::new(20_000);
        for (kind, name) in [
            (DemoKind::Server, "hostname"),
            (DemoKind::Server, "inventory-number"),
            (DemoKind::Server, "ip-address"),
            (DemoKind::VirtualMachine, "hostname"),
            (DemoKind::Switch, "hostname"),
            (DemoKind::Contract, "number"),
            (DemoKind::Person, "email"),
            (DemoKind::Location, "code"),
        ] {
            let seen: HashSet<String> = (0..plan.count(kind))
                .map(|index| {
                    let mut random = Random::of(kind as u32, index);
                    thing(&plan, kind, index, &mut random).values.get_str(name).expect("a text").to_owned()
                })
                .collect();
            assert_eq!(seen.len(), plan.count(kind) as usize, "{kind:?} {name}");
        }
    }
}
