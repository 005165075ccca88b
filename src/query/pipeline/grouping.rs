//! Runs a `$group`.

use std::collections::HashMap;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::group::{Group, GroupKey};
use super::held::{Held, Key};
use super::state::State;
use super::{Budget, EvalError};
use crate::query::budget::size_of_value;
use crate::query::projection::encoded;

/// The groups so far, in the order of their first documents.
pub(super) struct Grouping<'p> {
    group: &'p Group,
    budget: &'p Budget,
    found: HashMap<Vec<Key>, usize>,
    keys: Vec<Bson>,
    states: Vec<Vec<State>>,
    held: Held,
}

impl<'p> Grouping<'p> {
    pub(super) fn new(group: &'p Group, budget: &'p Budget) -> Self {
        Self { group, budget, found: HashMap::new(), keys: Vec::new(), states: Vec::new(), held: Held::new(budget) }
    }

    pub(super) fn add(&mut self, document: &RawDocument) -> Result<(), EvalError> {
        let key = self.key_of(document)?;
        let place = match self.found.get(&key) {
            Some(place) => *place,
            None => self.begin(key)?,
        };
        for (state, accumulator) in self.states[place].iter_mut().zip(&self.group.accumulators) {
            state.add(accumulator, document, self.budget, &mut self.held)?;
        }
        Ok(())
    }

    fn key_of(&self, document: &RawDocument) -> Result<Vec<Key>, EvalError> {
        let mark = self.budget.mark();
        let key = match &self.group.key {
            GroupKey::Value(expression) => {
                let value = expression.evaluate_within(document, self.budget)?;
                vec![Key(Some(value.unwrap_or(Bson::Null)))]
            }
            GroupKey::Members(parts) => {
                let mut key = Vec::with_capacity(parts.len());
                for (_, expression) in parts {
                    key.push(Key(expression.evaluate_within(document, self.budget)?));
                }
                if let [only] = key.as_mut_slice() {
                    // As in MongoDB: missing counts as null where it is the only member.
                    only.0.get_or_insert(Bson::Null);
                }
                key
            }
        };
        self.budget.drop_since(mark);
        Ok(key)
    }

    fn begin(&mut self, key: Vec<Key>) -> Result<usize, EvalError> {
        let shown = self.shown(&key);
        self.held.take(2 * size_of_value(&shown, 0)? + 128 + size_of::<State>() * self.group.accumulators.len())?;
        let group = match &shown {
            Bson::Document(members) => encoded(members)?,
            _ => RawDocumentBuf::new(),
        };
        let mut states = Vec::with_capacity(self.group.accumulators.len());
        for accumulator in &self.group.accumulators {
            states.push(State::new(accumulator, &group, self.budget)?);
        }
        let place = self.keys.len();
        self.found.insert(key, place);
        self.keys.push(shown);
        self.states.push(states);
        Ok(place)
    }

    /// The `_id` of the group.
    fn shown(&self, key: &[Key]) -> Bson {
        match (&self.group.key, key) {
            (GroupKey::Value(_), [key]) => key.0.clone().unwrap_or(Bson::Null),
            (GroupKey::Value(_), _) => Bson::Null,
            (GroupKey::Members(parts), key) => {
                let mut members = Document::new();
                for ((name, _), key) in parts.iter().zip(key) {
                    if let Some(value) = &key.0 {
                        members.insert(name.clone(), value.clone());
                    }
                }
                Bson::Document(members)
            }
        }
    }

    /// A document for each group.
    pub(super) fn into_documents(self) -> impl Iterator<Item = Result<RawDocumentBuf, EvalError>> + use<'p> {
        let Self { group, keys, states, held, .. } = self;
        keys.into_iter().zip(states).map(move |(key, states)| {
            // The memory is held until the last group has gone.
            let _ = &held;
            let mut document = Document::new();
            document.insert("_id", key);
            for (accumulator, state) in group.accumulators.iter().zip(states) {
                document.insert(accumulator.name.clone(), state.into_value());
            }
            encoded(&document)
        })
    }
}
