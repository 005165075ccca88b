//! The service's own updates of top-level members. Clients cannot send updates.

use bson::{Bson, Document, doc};

use super::compare::compare_bson;

/// A change of top-level members.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    set: Vec<(String, Bson)>,
    pull: Vec<(String, Bson)>,
}

impl Update {
    /// Gives the member a value.
    pub fn set(name: &str, value: impl Into<Bson>) -> Self {
        Self::default().and_set(name, value)
    }

    /// Takes all elements that equal `value` out of the array.
    pub fn pull(name: &str, value: impl Into<Bson>) -> Self {
        Self::default().and_pull(name, value)
    }

    /// The same update, and another member set.
    #[must_use]
    pub fn and_set(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.set.push((name.to_owned(), value.into()));
        self
    }

    /// The same update, and elements taken out of another array.
    #[must_use]
    pub fn and_pull(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.pull.push((name.to_owned(), value.into()));
        self
    }

    /// The update as MongoDB is sent it.
    pub fn document(&self) -> Document {
        let mut document = Document::new();
        if !self.set.is_empty() {
            document.insert("$set", self.set.iter().cloned().collect::<Document>());
        }
        if !self.pull.is_empty() {
            // `$eq`: a document would be a condition on the elements, not a value.
            let pulls = self.pull.iter().map(|(name, value)| (name.clone(), Bson::from(doc! { "$eq": value.clone() })));
            document.insert("$pull", pulls.collect::<Document>());
        }
        document
    }

    /// Changes the document; returns whether that made a difference.
    pub fn apply(&self, document: &mut Document) -> bool {
        let mut changed = false;
        for (name, value) in &self.set {
            changed |= document.insert(name.clone(), value.clone()).as_ref() != Some(value);
        }
        for (name, value) in &self.pull {
            if let Some(Bson::Array(items)) = document.get_mut(name) {
                let before = items.len();
                items.retain(|item| compare_bson(item, value).is_ne());
                changed |= items.len() != before;
            }
        }
        changed
    }
}
