//! `f.<name>` in projections: which entries of the array stay.

use bson::{Bson, Document};

use super::{FieldPath, Fields, expressions};
use crate::query::error::{QueryError, code};
use crate::query::parse_context::Location;
use crate::query::projection::{Entries, flag};

/// The projection without `f.`, and what is left of the entries.
pub(super) fn rewritten(
    fields: &Fields,
    projection: &Document,
    array: &'static str,
) -> Result<(Document, Option<Entries>), QueryError> {
    let mut rewriting =
        Rewriting { fields, array, rest: Document::new(), entries: None, at: Location::new("projection") };
    for (name, value) in projection {
        rewriting.member(name, value)?;
    }
    Ok((rewriting.rest, rewriting.entries))
}

struct Rewriting<'a> {
    fields: &'a Fields,
    array: &'static str,
    rest: Document,
    entries: Option<Entries>,
    at: Location,
}

impl Rewriting<'_> {
    fn member(&mut self, name: &str, value: &Bson) -> Result<(), QueryError> {
        self.at.enter(name);
        let path = self.fields.resolved(name, &self.at)?;
        match (path, value) {
            (Some(path), value) => self.entry(&path, value)?,
            // Members below a name are what a path with dots says.
            (None, Bson::Document(below)) if name == "f" && below.keys().all(|name| !name.starts_with('$')) => {
                for (name, value) in below {
                    self.member(&format!("f.{name}"), value)?;
                }
            }
            (None, value) => {
                let value = expressions::rewritten(self.fields, self.array, value, &mut self.at)?;
                if self.entries.is_some() && self.overlaps(name) {
                    return Err(self.collision());
                }
                self.rest.insert(name, value);
            }
        }
        self.at.leave();
        Ok(())
    }

    fn entry(&mut self, path: &FieldPath<'_>, value: &Bson) -> Result<(), QueryError> {
        let Some(keeps) = flag(value) else {
            let message = "a field is projected with 1 or 0; use $f.<name> in an expression under a name of its own";
            return Err(self.at.malformed(code::BAD_VALUE, message));
        };
        if !keeps && self.fields.is_joined(path.name) {
            let message = "no object has it as a field of its own; leave it out";
            return Err(self.at.malformed(code::BAD_VALUE, message));
        }
        if self.entries.is_none() {
            if self.rest.keys().any(|name| self.overlaps(name)) {
                return Err(self.collision());
            }
            if keeps {
                self.rest.insert(self.array, 1);
            }
        }
        let entries = self.entries.get_or_insert_with(|| Entries::new(self.array, keeps));
        if entries.add(path.name, path.rest) { Ok(()) } else { Err(self.collision()) }
    }

    /// Whether a path leads to the entries, or through them.
    fn overlaps(&self, name: &str) -> bool {
        let leads =
            |one: &str, other: &str| one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        leads(name, self.array) || leads(self.array, name)
    }

    fn collision(&self) -> QueryError {
        self.at.malformed(31250, "the path collides with another one of this projection")
    }
}
