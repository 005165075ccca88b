//! What the stages of a pipeline say about the objects that enter it.

use std::slice;

use bson::{Bson, Document};

use super::{COMPARISONS, Objects, Resource, Said, is_shown};

/// The stages that leave the fields of objects as they are. Each `$lookup` has an `$unset` of members that nobody sees.
const LEAVING_FIELDS: [&str; 5] = ["$match", "$sort", "$skip", "$limit", "$unset"];

impl Said {
    /// What is said up to the stage that makes other documents.
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
                    self.joins(options);
                }
                (_, operand) => return self.last(name, operand),
            }
        }
    }

    /// The stage behind which documents are others.
    fn last(&mut self, name: &str, operand: &Bson) {
        match (name, operand) {
            ("$group", Bson::Document(members)) => {
                self.expression(operand);
                members.values().for_each(|value| self.constant(value));
            }
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
            ("$sortByCount" | "$bucket" | "$replaceRoot" | "$replaceWith" | "$redact", operand) => {
                self.expression(operand);
            }
            _ => {}
        }
    }

    fn matched(&mut self, filter: &Document) {
        let mut said = Self::default();
        said.conditions(filter);
        said.all_paths().for_each(|path| self.of_joined(path));
        said.paths.retain(|path| !self.has_made(path));
        // What a stage made is of any kind.
        if self.made.is_empty() {
            self.values.append(&mut said.values);
            self.through.append(&mut said.through);
            self.further.append(&mut said.further);
            self.entries.append(&mut said.entries);
            self.constants.append(&mut said.constants);
        }
        self.paths.append(&mut said.paths);
    }

    fn path(&mut self, path: &str) {
        self.of_joined(path);
        if !self.has_made(path) {
            self.further.push(path.to_owned());
        }
    }

    fn makes(&mut self, path: &str) {
        self.made.insert(first(path).to_owned());
    }

    /// Remembers the list of a `$lookup` that joins whole objects.
    fn joins(&mut self, options: &Document) {
        let mut stages = options.get_array("pipeline").into_iter().flatten().filter_map(Bson::as_document);
        let is_whole = stages.all(|stage| stage.keys().all(|name| LEAVING_FIELDS.contains(&name.as_str())));
        if is_whole && options.get_str("from").is_ok_and(|from| from == Objects::COLLECTION) {
            self.joined.extend(options.get_str("as").map(str::to_owned));
        }
    }

    /// Remembers a field of joined objects that is asked for by its name.
    fn of_joined(&mut self, path: &str) {
        let Some((list, rest)) = path.split_once(".f.") else { return };
        if self.joined.contains(list) {
            let name = rest.split('.').next().unwrap_or(rest);
            self.of_joined.insert((list.to_owned(), name.to_owned()));
        }
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

    /// The texts in comparisons of constants alone. One that is compared with a path may be meant as it stands.
    pub(super) fn comparisons(&mut self, expression: &Bson) {
        let Some((operator, operand)) = expression.as_document().and_then(|members| members.iter().next()) else {
            return;
        };
        let operands = operand.as_array().map_or(slice::from_ref(operand), Vec::as_slice);
        match operator.as_str() {
            "$and" | "$or" | "$not" => operands.iter().for_each(|operand| self.comparisons(operand)),
            operator if COMPARISONS.contains(&operator) && operands.iter().all(is_plain) => {
                self.constants.extend(operands.iter().filter_map(Bson::as_str).map(str::to_owned));
            }
            _ => {}
        }
    }

    /// The texts of a group's key or of its accumulator.
    fn constant(&mut self, value: &Bson) {
        let texts = match value {
            Bson::String(_) => vec![value],
            Bson::Document(members) => members.values().collect(),
            _ => return,
        };
        let constants = texts.into_iter().filter_map(Bson::as_str).filter(|text| !text.starts_with('$'));
        self.constants.extend(constants.map(str::to_owned));
    }
}

/// Whether an operand is no path and computes nothing.
fn is_plain(operand: &Bson) -> bool {
    match operand {
        Bson::String(text) => !text.starts_with('$'),
        Bson::Array(_) | Bson::Document(_) => false,
        _ => true,
    }
}

fn first(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}
