//! What the stages of a pipeline say about the objects that enter it.

use bson::{Bson, Document};

use super::{Said, is_shown};

impl Said {
    /// The paths and operands up to the stage that makes other documents.
    pub(super) fn of_stages<'a>(stages: impl Iterator<Item = &'a Document>) -> Self {
        let mut said = Self::default();
        said.stages(stages);
        said
    }

    fn stages<'a>(&mut self, stages: impl Iterator<Item = &'a Document>) {
        for (name, operand) in stages.filter_map(|stage| stage.iter().next()) {
            match (name.as_str(), operand) {
                ("$match", Bson::Document(filter)) => self.matched(filter),
                ("$sort", Bson::Document(keys)) => keys.keys().for_each(|path| self.path(path)),
                ("$skip" | "$limit" | "$sample", _) => {}
                ("$set" | "$addFields", Bson::Document(members)) => {
                    self.expression(operand);
                    members.keys().for_each(|path| self.makes(path));
                }
                ("$unset", Bson::String(path)) => self.path(path),
                ("$unset", Bson::Array(paths)) => {
                    paths.iter().filter_map(Bson::as_str).for_each(|path| self.path(path));
                }
                ("$unwind", Bson::Document(options)) => {
                    options.get("path").into_iter().for_each(|path| self.expression(path));
                    options.get_str("includeArrayIndex").into_iter().for_each(|path| self.makes(path));
                }
                ("$unwind", path) => self.expression(path),
                ("$lookup", Bson::Document(options)) => {
                    options.get_str("localField").into_iter().for_each(|path| self.path(path));
                    options.get("let").into_iter().for_each(|variables| self.expression(variables));
                    options.get_str("as").into_iter().for_each(|path| self.makes(path));
                }
                (_, operand) => return self.last(name, operand),
            }
        }
    }

    /// The stage after which documents are no objects any more.
    fn last(&mut self, name: &str, operand: &Bson) {
        match (name, operand) {
            ("$project", Bson::Document(members)) => {
                self.expression(operand);
                members.iter().filter(|(path, value)| is_shown(path, value)).for_each(|(path, _)| self.path(path));
            }
            ("$facet", Bson::Document(facets)) => {
                let made = self.made.clone();
                for stages in facets.values().filter_map(Bson::as_array) {
                    self.stages(stages.iter().filter_map(Bson::as_document));
                    self.made.clone_from(&made);
                }
            }
            ("$group" | "$sortByCount" | "$bucket" | "$replaceRoot" | "$replaceWith" | "$redact", operand) => {
                self.expression(operand);
            }
            _ => {}
        }
    }

    fn matched(&mut self, filter: &Document) {
        let mut said = Self::default();
        said.conditions(filter);
        said.paths.retain(|path| !self.has_made(path));
        // What a stage made is of any kind.
        if self.made.is_empty() {
            self.values.append(&mut said.values);
            self.further.append(&mut said.further);
            self.entries.append(&mut said.entries);
        }
        self.paths.append(&mut said.paths);
    }

    fn path(&mut self, path: &str) {
        if !self.has_made(path) {
            self.further.push(path.to_owned());
        }
    }

    fn makes(&mut self, path: &str) {
        self.made.insert(first(path).to_owned());
    }

    fn has_made(&self, path: &str) -> bool {
        self.made.contains(first(path))
    }

    /// The paths in an expression.
    pub(super) fn expression(&mut self, value: &Bson) {
        match value {
            Bson::String(text) => {
                if let Some(path) = text.strip_prefix('$').filter(|path| !path.starts_with('$')) {
                    self.path(path);
                }
            }
            Bson::Array(items) => items.iter().for_each(|item| self.expression(item)),
            Bson::Document(members) => {
                let computed = members.iter().filter(|(name, _)| !["$literal", "$const"].contains(&name.as_str()));
                computed.for_each(|(_, value)| self.expression(value));
            }
            _ => {}
        }
    }
}

fn first(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}
