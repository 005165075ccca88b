//! Parses documents of conditions: filters, and the operands of logical operators and `$elemMatch`.

use std::cmp::Ordering;

use bson::{Bson, DateTime, Document};

use super::Limits;
use super::operators::{parse_condition, parse_field, part_of_reference};
use crate::query::budget::{Budget, Effort};
use crate::query::compare::number;
use crate::query::computed::Computed;
use crate::query::entry;
use crate::query::error::{QueryError, code};
use crate::query::number::Number;
use crate::query::parse_context::Location;
use crate::query::path::Path;
use crate::query::schema::Schema;
use crate::query::tree::Node;
use crate::suggest::hint;

/// Whether a value is cheap to compare with and has nothing inside.
fn is_plain(value: &Bson) -> bool {
    !matches!(
        value,
        Bson::Document(_)
            | Bson::Array(_)
            | Bson::RegularExpression(_)
            | Bson::JavaScriptCode(_)
            | Bson::JavaScriptCodeWithScope(_)
    )
}

/// What a document of conditions is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Level {
    /// The filter itself.
    Top,
    /// The operand of `$elemMatch`, or a logical operator in it.
    Inner,
}

/// The state of one parse.
pub(in crate::query) struct Parser {
    pub(in crate::query) limits: Limits,
    pub(in crate::query) at: Location,
    pub(in crate::query) server: Option<&'static str>,
    /// An operator that there was and that MongoDB does not have together with the positional projection.
    pub(in crate::query) names_no_element: Option<&'static str>,
    /// Whether there was a condition of the service on a field.
    pub(in crate::query) has_own: bool,
    /// Whether `$jsonSchema` may stand here.
    schemas: bool,
    nodes: usize,
}

/// The operators that stand where a field name could.
pub(in crate::query) const TOP_OPERATORS: [&str; 11] = [
    "$sampleRate", "$and", "$or", "$nor", "$expr", "$jsonSchema", "$comment", "$text", "$where", "$alwaysTrue",
    "$alwaysFalse",
];

impl Parser {
    /// A parser at the top of the document that `root` names.
    pub(in crate::query) fn at(limits: Limits, root: &'static str) -> Self {
        Self {
            limits,
            at: Location::new(root).with_max_regex_chars(limits.max_regex_chars),
            server: None,
            names_no_element: None,
            has_own: false,
            schemas: true,
            nodes: 0,
        }
    }

    /// The same parser, for the conditions in projections.
    pub(in crate::query) fn without_schemas(self) -> Self {
        Self { schemas: false, ..self }
    }

    /// The same parser with the time that `$$NOW` is.
    pub(in crate::query) fn with_now(self, now: DateTime) -> Self {
        Self { at: self.at.with_now(Some(now)), ..self }
    }

    /// The same parser with no more effort than that.
    pub(in crate::query) fn with_effort(self, effort: &Effort) -> Self {
        self.with_budget(effort.budget())
    }

    /// What is computed ahead has this budget.
    pub(in crate::query) fn with_budget(self, budget: Budget) -> Self {
        Self { at: self.at.with_budget(budget), ..self }
    }

    /// Parses within one more step of the location.
    pub(in crate::query) fn within<T>(
        &mut self,
        step: impl Into<String>,
        parse: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.at.enter(step);
        let parsed = parse(self)?;
        self.at.leave();
        Ok(parsed)
    }

    pub(in crate::query) fn bad<T>(&self, message: impl Into<String>) -> Result<T, QueryError> {
        Err(self.at.malformed(code::BAD_VALUE, message))
    }

    /// Looks at everything before anything is compiled: the limits, and JavaScript in whatever place.
    pub(in crate::query) fn check_size(&mut self, document: &Document) -> Result<(), QueryError> {
        for (name, value) in document {
            self.within(name.clone(), |parser| {
                if matches!(name.as_str(), "$where" | "$function" | "$accumulator") {
                    return Err(parser.at.refused(format!(
                        "{name} runs JavaScript on the server, which is not offered; use $expr or the other operators"
                    )));
                }
                match value {
                    Bson::Array(items) if matches!(name.as_str(), "$in" | "$nin" | "$all") => {
                        parser.check_list(name, items)
                    }
                    _ => parser.check_value(value),
                }
            })?;
        }
        Ok(())
    }

    fn check_value(&mut self, value: &Bson) -> Result<(), QueryError> {
        if self.at.depth() > self.limits.max_depth {
            let limit = self.limits.max_depth;
            return Err(self.at.limit(format!("nested deeper than {limit} levels; put it less deep")));
        }
        match value {
            Bson::Document(document) if !document.is_empty() => self.check_size(document),
            Bson::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.within(index.to_string(), |parser| parser.check_value(item))?;
                }
                Ok(())
            }
            Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) if !self.limits.code_values => {
                Err(self.at.refused("JavaScript is not offered; use a plain value or another operator"))
            }
            _ => self.count(),
        }
    }

    /// A list has a limit of its own, so plain values in it do not count as conditions.
    fn check_list(&mut self, name: &str, items: &[Bson]) -> Result<(), QueryError> {
        let limit = self.limits.max_in_items;
        if items.len() > limit {
            return Err(self.at.limit(format!("{name} with more than {limit} values; ask in several parts")));
        }
        self.count()?;
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !is_plain(item)) {
            self.within(index.to_string(), |parser| parser.check_value(item))?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), QueryError> {
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            let limit = self.limits.max_nodes;
            return Err(self.at.limit(format!("more than {limit} conditions and values in all; ask in several parts")));
        }
        Ok(())
    }

    /// Parses a document of conditions.
    pub(in crate::query) fn document(&mut self, document: &Document, level: Level) -> Result<Node, QueryError> {
        let mut nodes = Vec::with_capacity(document.len());
        for (name, value) in document {
            let node = self.within(name.clone(), |parser| {
                if name.starts_with('$') {
                    parser.top_operator(name, value, level)
                } else {
                    parse_field(parser, name, value)
                }
            })?;
            if name != "$comment" {
                nodes.push(node);
            }
        }
        // One condition alone is that condition, even if it always holds; a comment is none.
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::all_of(nodes) })
    }

    fn top_operator(&mut self, name: &str, value: &Bson, level: Level) -> Result<Node, QueryError> {
        let known = ["$expr", "$jsonSchema", "$text"].into_iter().find(|known| *known == name);
        self.names_no_element = self.names_no_element.or(known);
        match name {
            "$and" => self.branches(name, value, level).map(Node::all_of),
            "$or" => self.branches(name, value, level).map(Node::any_of),
            "$nor" => self.branches(name, value, level).map(Node::none_of),
            "$comment" => Ok(Node::Always),
            "$ref" | "$id" | "$db" => part_of_reference(self, name, value),
            entry::OPERATOR if self.limits.own_operator => self.of_field(value),
            "$text" | "$expr" if level == Level::Inner => {
                self.bad(format!("{name} belongs at the top of a filter, not in $elemMatch; put it next to the field"))
            }
            "$text" => self.text(value),
            "$expr" => Computed::parse(value, &mut self.at).map(|expression| Node::Expr(Box::new(expression))),
            "$jsonSchema" if !self.schemas => {
                Err(self.at.malformed(code::NOT_ALLOWED, "$jsonSchema stands in filters, not in projections"))
            }
            "$jsonSchema" => Schema::parse(value, &mut self.at).map(|schema| match schema {
                schema if schema.accepts_nothing() => Node::Never,
                schema if schema.accepts_everything() => Node::Always,
                schema => Node::Schema(Box::new(schema)),
            }),
            "$alwaysTrue" => self.constant(value, Node::Holds),
            "$alwaysFalse" => self.constant(value, Node::Never),
            "$sampleRate" => self.sample(value),
            _ => {
                let hint = hint(name, &TOP_OPERATORS);
                self.bad(format!(
                    "unknown operator{hint}; a field whose name begins with $ is reached with $expr and $getField"
                ))
            }
        }
    }

    /// A condition of the service on a field.
    fn of_field(&mut self, value: &Bson) -> Result<Node, QueryError> {
        self.has_own = true;
        let parts = value.as_document().map(|said| (said.get_str("name"), said.get_str("rest").ok(), said.get("is")));
        match parts {
            Some((Ok(name), None, Some(said)))
                if value.as_document().is_some_and(|said| said.contains_key(entry::BY_ADDRESS)) =>
            {
                parse_condition(self, &Path::of_address(name), said)
            }
            Some((Ok(name), rest, Some(said))) => parse_condition(self, &Path::of_field(name, rest), said),
            _ => self.bad("needs a name and what is said"),
        }
    }

    /// `$text`: only what a server would refuse at once is looked at.
    fn text(&mut self, value: &Bson) -> Result<Node, QueryError> {
        let Bson::Document(operand) = value else {
            return self.bad("$text needs a document: {$search: text}");
        };
        match operand.get("$search") {
            Some(Bson::String(_)) => {
                self.server = self.server.or(Some("$text"));
                Ok(Node::Server("$text"))
            }
            Some(_) => Err(self.at.malformed(code::TYPE_MISMATCH, "$search must be a text")),
            None => Err(self.at.malformed(code::NO_SUCH_KEY, "$text needs $search")),
        }
    }

    fn constant(&self, value: &Bson, node: Node) -> Result<Node, QueryError> {
        match number(value.into()).and_then(Number::as_exact_int) {
            Some(1) => Ok(node),
            _ => Err(self.at.malformed(code::FAILED_TO_PARSE, "the operand must be 1")),
        }
    }

    /// A share of the documents, by chance: the two certain shares alone are answered here.
    fn sample(&mut self, value: &Bson) -> Result<Node, QueryError> {
        let Some(share) = number(value.into()) else { return self.bad("$sampleRate needs a number") };
        match (share.compare(Number::Int(0)), share.compare(Number::Int(1))) {
            (Ordering::Equal, _) => Ok(Node::Never),
            (_, Ordering::Equal) => Ok(Node::Holds),
            (Ordering::Greater, Ordering::Less) => {
                self.server = self.server.or(Some("$sampleRate"));
                Ok(Node::Server("$sampleRate"))
            }
            _ => self.bad("$sampleRate needs a number from 0 to 1"),
        }
    }

    fn branches(&mut self, name: &str, value: &Bson, level: Level) -> Result<Vec<Node>, QueryError> {
        let Bson::Array(items) = value else {
            return self.bad(format!("{name} must be an array of filters"));
        };
        if items.is_empty() {
            return self.bad(format!("{name} must be an array of at least one filter"));
        }
        let mut nodes = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let node = self.within(index.to_string(), |parser| match item {
                Bson::Document(document) => parser.document(document, level),
                _ => parser.bad(format!("the entries of {name} must be filters")),
            })?;
            nodes.push(node);
        }
        Ok(nodes)
    }
}
