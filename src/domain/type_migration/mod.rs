//! The steps that take objects from one state of their type to the next. Pure: [`Migration::apply`] makes them with the
//! fields of one object.

use std::collections::HashSet;

use bson::Bson;

use crate::domain::conversion::converted;
use crate::domain::migration_input::{Lacking, OnError, Step};
use crate::domain::object_fields::{FieldRules, FieldValue, Reference, ValueKind};
use crate::domain::object_type::ObjectType;
use crate::domain::{Violation, Violations};
use crate::suggest;

/// The steps of a change from one state of a type to another.
#[derive(Debug)]
pub struct Migration {
    steps: Vec<Bound>,
    /// The rules of the new state.
    rules: FieldRules,
}

/// A step with the field of the new type to which its values come in the end.
#[derive(Debug)]
struct Bound {
    step: Step,
    target: Option<usize>,
}

/// Why a step cannot be made with an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The position of the step.
    pub step: usize,
    /// The value.
    pub value: Bson,
    /// The reason, for people.
    pub reason: String,
}

/// What steps made of the fields of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The fields: those of the new type in its order, then the others.
    pub fields: Vec<FieldValue>,
    /// For each step whether it changed something.
    pub by_step: Vec<bool>,
    /// What could not be made.
    pub refusals: Vec<Refusal>,
    /// The references among converted values.
    pub references: Vec<Reference>,
}

impl Applied {
    /// Whether anything changed.
    pub fn is_changed(&self) -> bool {
        self.by_step.contains(&true)
    }
}

impl Migration {
    /// The steps, if both states of the type have what they name.
    ///
    /// # Errors
    /// The steps that do not fit, with pointers into the body.
    pub fn of(steps: &[Step], was: &ObjectType, is: &ObjectType) -> Result<Self, Violations> {
        let rules = FieldRules::of(is);
        let mut wrong = Violations::new();
        let mut names: HashSet<&str> = was.fields.iter().map(|field| field.name.as_str()).collect();
        let mut bound = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().enumerate() {
            let last = last_name(step, &steps[index + 1..]);
            let target = last.and_then(|name| rules.position(name, 0));
            if let Err((member, message)) = fits(step, (&names, is), last, &rules) {
                wrong.push(Violation::new(format!("/migration/{index}/{}/{member}", step.name()), message));
            }
            match step {
                Step::Rename { from, to } => {
                    names.remove(from.as_str());
                    names.insert(to);
                }
                Step::SetDefault { field, .. } => drop(names.insert(field)),
                Step::Drop { field } => drop(names.remove(field.as_str())),
                Step::Convert { .. } | Step::MapOptions { .. } => {}
            }
            bound.push(Bound { step: stored_default(step.clone(), target, &rules), target });
        }
        if wrong.is_empty() { Ok(Self { steps: bound, rules }) } else { Err(wrong) }
    }

    /// The steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().map(|bound| &bound.step)
    }

    /// The field of the new type to which the values of a step come.
    pub fn target(&self, step: usize) -> Option<&str> {
        self.steps[step].target.map(|position| self.rules.name(position))
    }

    /// Whether a step can make references of other values.
    pub fn makes_references(&self) -> bool {
        self.steps.iter().any(|Bound { step, target }| {
            let kind = target.map(|position| self.rules.kind(position));
            let refers = matches!(kind, Some(ValueKind::Reference | ValueKind::References));
            refers && matches!(step, Step::Convert { .. })
        })
    }

    /// The references of defaults.
    pub fn default_references(&self) -> Vec<Reference> {
        let of_step = |(index, Bound { step, target }): (usize, &Bound)| {
            let Step::SetDefault { value, .. } = step else { return Vec::new() };
            let taken = target.and_then(|position| self.rules.taken(position, value).ok());
            let placed = move |reference: Reference| Reference {
                pointer: format!("/migration/{index}/set_default/value"),
                ..reference
            };
            taken.map(|(_, references)| references).unwrap_or_default().into_iter().map(placed).collect()
        };
        self.steps.iter().enumerate().flat_map(of_step).collect()
    }

    /// Makes the steps with the fields of an object. `lost` says why a reference leads nowhere.
    pub fn apply(&self, stored: &[FieldValue], lost: impl Fn(&Reference) -> Option<String>) -> Applied {
        let mut applied = Applied {
            fields: stored.to_vec(),
            by_step: vec![false; self.steps.len()],
            refusals: Vec::new(),
            references: Vec::new(),
        };
        for (index, Bound { step, target }) in self.steps.iter().enumerate() {
            match step {
                Step::Rename { from, to } => applied.rename(index, from, to),
                Step::Convert { field, on_error, .. } => {
                    let Some(position) = *target else { continue };
                    let convert = |value: &Bson, references: &mut Vec<Reference>| {
                        self.converted(position, value, references, &lost)
                    };
                    applied.convert((index, field), *on_error, convert);
                }
                Step::SetDefault { field, value, lacking } => applied.set_default(index, field, value, *lacking),
                Step::MapOptions { field, map } => {
                    applied.each(index, field, |value| mapped(value, map));
                }
                Step::Drop { field } => {
                    let before = applied.fields.len();
                    applied.fields.retain(|entry| entry.name != *field);
                    applied.by_step[index] = applied.fields.len() < before;
                }
            }
        }
        if applied.is_changed() {
            let place = |entry: &FieldValue| self.rules.position(&entry.name, 0).unwrap_or(usize::MAX);
            applied.fields.sort_by_key(place);
        }
        applied
    }

    fn converted(
        &self,
        position: usize,
        value: &Bson,
        references: &mut Vec<Reference>,
        lost: &impl Fn(&Reference) -> Option<String>,
    ) -> Result<Bson, String> {
        let kind = self.rules.kind(position);
        let meant = converted(value, kind).ok_or_else(|| kind.expectation().to_owned())?;
        let (taken, found) = self.rules.taken(position, &meant)?;
        let reason = found.iter().find_map(lost);
        references.extend(found);
        reason.map_or(Ok(taken), Err)
    }
}

impl Applied {
    fn rename(&mut self, index: usize, from: &str, to: &str) {
        let Some(value) = self.fields.iter().find(|entry| entry.name == from).map(|entry| entry.value.clone()) else {
            return;
        };
        if self.fields.iter().any(|entry| entry.name == to && entry.value != Bson::Null) {
            let reason = format!("has a value of {to} already; drop the one or the other first");
            self.refusals.push(Refusal { step: index, value, reason });
            return;
        }
        self.fields.retain(|entry| entry.name != to);
        for entry in self.fields.iter_mut().filter(|entry| entry.name == from) {
            to.clone_into(&mut entry.name);
        }
        self.by_step[index] = true;
    }

    fn convert(
        &mut self,
        (index, field): (usize, &str),
        on_error: OnError,
        convert: impl Fn(&Bson, &mut Vec<Reference>) -> Result<Bson, String>,
    ) {
        for entry in self.fields.iter_mut().filter(|entry| entry.name == *field && entry.value != Bson::Null) {
            let value = match (convert(&entry.value, &mut self.references), on_error) {
                (Ok(value), _) => value,
                (Err(_), OnError::Null) => Bson::Null,
                (Err(_), OnError::Keep) => continue,
                (Err(reason), OnError::Refuse) => {
                    self.refusals.push(Refusal { step: index, value: entry.value.clone(), reason });
                    continue;
                }
            };
            self.by_step[index] |= value != entry.value;
            entry.value = value;
        }
    }

    fn set_default(&mut self, index: usize, field: &str, value: &Bson, lacking: Lacking) {
        if self.fields.iter().all(|entry| entry.name != *field) {
            self.fields.push(FieldValue { name: field.to_owned(), value: value.clone() });
            self.by_step[index] = true;
        } else if lacking == Lacking::Value {
            self.each(index, field, |old| (*old == Bson::Null).then(|| value.clone()));
        }
    }

    /// Replaces the values of a field where `change` gives another one.
    fn each(&mut self, index: usize, field: &str, change: impl Fn(&Bson) -> Option<Bson>) {
        for entry in self.fields.iter_mut().filter(|entry| entry.name == *field) {
            if let Some(value) = change(&entry.value).filter(|value| *value != entry.value) {
                entry.value = value;
                self.by_step[index] = true;
            }
        }
    }
}

/// The name under which the values of a step are after the steps that follow; nothing if they go.
fn last_name<'a>(step: &'a Step, following: &'a [Step]) -> Option<&'a str> {
    let begun = match step {
        Step::Rename { to, .. } => to.as_str(),
        Step::Drop { .. } => return None,
        step => step.field(),
    };
    let moved = |name: &'a str, step: &'a Step| match step {
        Step::Rename { from, to } if from == name => Some(to.as_str()),
        Step::Drop { field } if field == name => None,
        _ => Some(name),
    };
    following.iter().try_fold(begun, moved)
}

/// Why a step does not fit the types: the member, and what is wrong. `names` are those that objects have by now.
fn fits(
    step: &Step,
    (names, is): (&HashSet<&str>, &ObjectType),
    last: Option<&str>,
    rules: &FieldRules,
) -> Result<(), (&'static str, String)> {
    let member = if matches!(step, Step::Rename { .. }) { "from" } else { "field" };
    let name = step.field();
    if !names.contains(name) && is.field(name).is_none() {
        let known: Vec<&str> = names.iter().copied().chain(is.fields.iter().map(|field| field.name.as_str())).collect();
        let meant = suggest::misspelt(name, &known);
        // Objects may have a field that the type lost before.
        let may_be_left = matches!(step, Step::Rename { .. } | Step::Drop { .. });
        if let Some(meant) = meant {
            return Err((member, format!("neither the type nor its new state has this field; did you mean {meant}?")));
        }
        if !may_be_left {
            return Err((member, "neither the type nor its new state has this field".to_owned()));
        }
    }
    let target = last.and_then(|name| is.field(name));
    match step {
        Step::Rename { from, to } if from == to => Err(("to", "is the name that the field has".to_owned())),
        Step::Rename { to, .. } if names.contains(to.as_str()) => {
            Err(("to", "is a field that objects have; drop or rename that one first".to_owned()))
        }
        Step::Rename { .. } | Step::SetDefault { .. } if last.is_some() && target.is_none() => {
            let member = if matches!(step, Step::Rename { .. }) { "to" } else { "field" };
            Err((member, "the new state of the type has no such field".to_owned()))
        }
        Step::Convert { to, .. } if last.is_some() => match target {
            None => Err(("field", "the new state of the type has no such field".to_owned())),
            Some(field) if field.kind != *to && !are_free(&field.kind, to) => {
                Err(("to", format!("the new state of the type says {} for this field", field.kind)))
            }
            Some(_) => Ok(()),
        },
        Step::SetDefault { value, .. } => match last.and_then(|name| rules.position(name, 0)) {
            Some(position) => rules.taken(position, value).map(drop).map_err(|message| ("value", message)),
            None => Ok(()),
        },
        Step::MapOptions { map, .. } => match target.filter(|field| field.has_choice()) {
            Some(field) => {
                let is_option = |name: &str| field.options.iter().any(|option| option.name == *name);
                match map.iter().filter_map(|(_, to)| to.as_deref()).find(|to| !is_option(to)) {
                    Some(lost) => {
                        Err(("map", format!("{lost:?} is no option of the field in the new state of the type")))
                    }
                    None => Ok(()),
                }
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether both kinds take any JSON.
fn are_free(one: &str, other: &str) -> bool {
    [one, other].iter().all(|kind| ValueKind::named(kind) == ValueKind::Any)
}

/// The step with its default as it is stored.
fn stored_default(step: Step, target: Option<usize>, rules: &FieldRules) -> Step {
    match (step, target) {
        (Step::SetDefault { field, value, lacking }, Some(position)) => {
            let value = rules.taken(position, &value).map_or(value, |(stored, _)| stored);
            Step::SetDefault { field, value, lacking }
        }
        (step, _) => step,
    }
}

/// A value with other options; nothing where it has none.
fn mapped(value: &Bson, map: &[(String, Option<String>)]) -> Option<Bson> {
    let other = |value: &Bson| map.iter().find(|(from, _)| value.as_str() == Some(from)).map(|(_, to)| to);
    match value {
        Bson::Array(items) => {
            let mut kept: Vec<Bson> = Vec::with_capacity(items.len());
            for item in items {
                let item = match other(item) {
                    None => item.clone(),
                    Some(None) => continue,
                    Some(Some(to)) => Bson::from(to.as_str()),
                };
                if !kept.contains(&item) {
                    kept.push(item);
                }
            }
            Some(Bson::Array(kept))
        }
        value => other(value).map(|to| to.as_deref().map_or(Bson::Null, Bson::from)),
    }
}

#[cfg(test)]
mod tests;
