//! BSON -> tree: names, arities and variables are checked here.

use bson::{Bson, Document};

use super::call::{Call, Names, Operator, OperatorTable, Shape};
use super::evaluate::{ExprNode, follow};
use crate::query::error::QueryError;
use crate::query::parse_context::{Binding, Location};
use crate::suggest::hint;

/// How deep expressions may nest; MongoDB stops at about the same depth of BSON.
const MAX_DEPTH: usize = 180;

/// The parser of expressions: its place, and the variables that are bound there.
#[derive(Debug)]
pub(in crate::query::expr) struct ExprParser<'a> {
    location: &'a mut Location,
    operators: OperatorTable,
    /// The names bound by each `$let`, `$map`, ... around this place, the innermost last.
    frames: Vec<Vec<String>>,
    depth: usize,
}

impl<'a> ExprParser<'a> {
    /// At the place where the expression begins.
    pub(in crate::query::expr) fn new(location: &'a mut Location, operators: OperatorTable) -> Self {
        Self { location, operators, frames: Vec::new(), depth: 0 }
    }

    /// The same, where `$$CURRENT` is bound, followed by other variables.
    pub(in crate::query::expr) fn on_current(
        location: &'a mut Location,
        others: &[&str],
        operators: OperatorTable,
    ) -> Self {
        let names = std::iter::once("CURRENT").chain(others.iter().copied());
        Self { frames: vec![names.map(str::to_owned).collect()], ..Self::new(location, operators) }
    }

    /// A refusal with MongoDB's number.
    pub(in crate::query::expr) fn refuse<T>(&self, code: i32, message: impl Into<String>) -> Result<T, QueryError> {
        Err(self.location.malformed(code, message))
    }

    /// Whether this is an `$expr`, not part of a projection.
    pub(in crate::query::expr) fn is_in_filter(&self) -> bool {
        self.location.root() == "filter"
    }

    /// How many characters a regular expression may have.
    pub(in crate::query::expr) fn max_regex_chars(&self) -> usize {
        self.location.max_regex_chars()
    }

    /// Refuses a literal regular expression of the operand if it is too long.
    pub(in crate::query::expr) fn check_regex(&mut self, step: &str, value: &Bson) -> Result<(), QueryError> {
        let pattern = match value {
            Bson::RegularExpression(regex) => regex.pattern.as_str(),
            Bson::String(text) if !text.starts_with('$') => text,
            _ => return Ok(()),
        };
        self.within(step, |parser| parser.location.check_regex(pattern))
    }

    /// Refuses the first member whose name the operator does not know.
    pub(in crate::query::expr) fn only(
        &mut self,
        operator: &str,
        operand: &Document,
        known: &[&str],
        code: i32,
    ) -> Result<(), QueryError> {
        let Some(name) = operand.keys().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
        let message = format!("{operator} has no such argument{}", hint(name, known));
        self.within(name, |parser| parser.refuse(code, message))
    }

    /// Reads something that lies one step further in.
    pub(in crate::query::expr) fn within<T>(
        &mut self,
        step: &str,
        read: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.location.enter(step);
        let outcome = read(self);
        self.location.leave();
        outcome
    }

    /// Any operand: a path, a variable, an operator, a document, a list or a literal.
    pub(in crate::query::expr) fn expression(&mut self, value: &Bson) -> Result<ExprNode, QueryError> {
        if self.depth >= MAX_DEPTH {
            return self.refuse(15, "the expression is nested too deeply");
        }
        self.depth += 1;
        let node = match value {
            Bson::String(text) if text.starts_with('$') => self.path(text),
            Bson::Document(document) => self.document(document),
            Bson::Array(elements) => {
                let nodes = elements.iter().enumerate().map(|(index, element)| self.at(&index.to_string(), element));
                nodes.collect::<Result<_, _>>().map(ExprNode::Array)
            }
            literal => Ok(ExprNode::Constant(Some(literal.clone()))),
        };
        self.depth -= 1;
        node
    }

    /// An operand that lies one step further in.
    pub(in crate::query::expr) fn at(&mut self, step: &str, value: &Bson) -> Result<ExprNode, QueryError> {
        self.within(step, |parser| parser.expression(value))
    }

    /// An operand with more variables bound.
    pub(in crate::query::expr) fn with_variables(
        &mut self,
        names: Vec<String>,
        step: &str,
        value: &Bson,
    ) -> Result<ExprNode, QueryError> {
        self.frames.push(names);
        let node = self.at(step, value);
        self.frames.pop();
        node
    }

    fn document(&mut self, document: &Document) -> Result<ExprNode, QueryError> {
        let Some((first, operand)) = document.iter().next() else {
            return Ok(ExprNode::Object(Vec::new()));
        };
        if first.starts_with('$') {
            if document.len() != 1 {
                let message = "an object representing an expression must have exactly one field";
                return self.refuse(15983, message);
            }
            return self.operator(first, operand);
        }
        let mut members = Vec::with_capacity(document.len());
        for (name, value) in document {
            let node = self.within(name, |parser| {
                parser.check_field_name(name)?;
                parser.expression(value)
            });
            members.push((name.clone(), node?));
        }
        Ok(ExprNode::Object(members))
    }

    fn check_field_name(&self, name: &str) -> Result<(), QueryError> {
        if name.contains('.') {
            return self.refuse(16412, "field names may not contain '.', consider $getField or $setField");
        }
        self.check_path_part(name)
    }

    fn check_path_part(&self, name: &str) -> Result<(), QueryError> {
        if name.is_empty() {
            return self.refuse(15998, "field names may not be empty strings");
        }
        if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
            return self.refuse(16410, "field names may not start with '$', consider $getField or $setField");
        }
        if name.contains('\0') {
            return self.refuse(16411, "field names may not contain '\\0'");
        }
        Ok(())
    }

    /// An operator by its name.
    pub(in crate::query::expr) fn operator(&mut self, name: &str, operand: &Bson) -> Result<ExprNode, QueryError> {
        self.within(name, |parser| match parser.operators.find(name) {
            Some(operator) => parser.call(operator, operand),
            None => parser.refuse(168, format!("unknown operator of expressions{}", parser.operators.nearest_to(name))),
        })
    }

    fn call(&mut self, operator: &'static Operator, operand: &Bson) -> Result<ExprNode, QueryError> {
        let name = operator.name;
        match operator.shape {
            Shape::Named(names) => {
                let operands = self.named(name, names, operand)?;
                Ok(call(operator, operands))
            }
            Shape::Special(parse) => parse(self, operator, operand),
            Shape::Refused(why) => Err(self.location.refused(format!("{name} is not supported: {why}"))),
            Shape::Exactly(count) => {
                let operands = self.list(operand)?;
                if operands.len() != count {
                    let message = format!("{name} takes exactly {count} arguments, {} were given", operands.len());
                    return self.refuse(16020, message);
                }
                Ok(call(operator, operands))
            }
            Shape::Between(least, most) => {
                let operands = self.list(operand)?;
                if !(least..=most).contains(&operands.len()) {
                    let count = operands.len();
                    return self.refuse(28667, format!("{name} takes {least} to {most} arguments, {count} were given"));
                }
                Ok(call(operator, operands))
            }
            Shape::Any => self.list(operand).map(|operands| call(operator, operands)),
            Shape::AtLeastTwo(code) => {
                let operands = self.list(operand)?;
                if operands.len() < 2 {
                    return self.refuse(code, format!("{name} needs at least two arguments, {} given", operands.len()));
                }
                Ok(call(operator, operands))
            }
            Shape::One(code) => {
                let operands = self.list(operand)?;
                if operands.len() != 1 {
                    return self.refuse(code, format!("{name} requires a single argument, {} given", operands.len()));
                }
                Ok(call(operator, operands))
            }
        }
    }

    /// The operands of a list; anything else is one operand.
    pub(in crate::query::expr) fn list(&mut self, operand: &Bson) -> Result<Vec<Option<ExprNode>>, QueryError> {
        let Bson::Array(elements) = operand else {
            return Ok(vec![Some(self.expression(operand)?)]);
        };
        let operands = elements.iter().enumerate().map(|(index, value)| self.at(&index.to_string(), value).map(Some));
        operands.collect()
    }

    fn named(&mut self, operator: &str, names: &Names, operand: &Bson) -> Result<Vec<Option<ExprNode>>, QueryError> {
        let Bson::Document(document) = operand else {
            return self.refuse(names.not_an_object, format!("{operator} only supports an object as its argument"));
        };
        let known: Vec<&str> = names.known.iter().map(|(name, _)| *name).collect();
        self.only(operator, document, &known, names.unknown)?;
        for (name, required) in names.known {
            if let (Some(code), None) = (required, document.get(name)) {
                return self.refuse(*code, format!("missing '{name}' parameter to {operator}"));
            }
        }
        let mut operands = Vec::with_capacity(names.known.len());
        for (name, _) in names.known {
            operands.push(document.get(name).map(|value| self.at(name, value)).transpose()?);
        }
        Ok(operands)
    }

    fn path(&self, text: &str) -> Result<ExprNode, QueryError> {
        if let Some(variable) = text.strip_prefix("$$") {
            return self.variable(variable);
        }
        let path = &text[1..];
        if path.is_empty() {
            return self.refuse(16872, "'$' by itself is not a valid field path");
        }
        let path = self.parts(path)?;
        Ok(self.bound("CURRENT", &path).unwrap_or(ExprNode::Path(path)))
    }

    fn parts(&self, path: &str) -> Result<Vec<String>, QueryError> {
        if path.ends_with('.') {
            return self.refuse(40353, "a field path must not end with a '.'");
        }
        path.split('.').map(|part| self.check_path_part(part).map(|()| part.to_owned())).collect()
    }

    /// The innermost variable of this name.
    fn bound(&self, name: &str, path: &[String]) -> Option<ExprNode> {
        self.frames.iter().rev().enumerate().find_map(|(frame, names)| {
            let place = names.iter().rposition(|known| known == name)?;
            Some(ExprNode::Variable { frame, place, path: path.to_vec() })
        })
    }

    fn variable(&self, text: &str) -> Result<ExprNode, QueryError> {
        let (name, path) = text.split_once('.').map_or((text, None), |(name, path)| (name, Some(path)));
        self.check_variable(name, false)?;
        if text.ends_with('.') {
            return self.refuse(40353, "a field path must not end with a '.'");
        }
        let path = path.map_or(Ok(Vec::new()), |path| self.parts(path))?;
        if let Some(node) = self.bound(name, &path) {
            return Ok(node);
        }
        match self.location.binding(name) {
            Some(Binding::Known(value)) => {
                return Ok(ExprNode::Constant(value.as_ref().and_then(|value| follow(value, &path))));
            }
            // Bound by no frame: it is missing, and no constant.
            Some(Binding::Later) => return Ok(ExprNode::Variable { frame: usize::MAX, place: 0, path }),
            None => {}
        }
        Ok(match name {
            "ROOT" | "CURRENT" => ExprNode::Path(path),
            "NOW" if path.is_empty() => match self.location.now() {
                Some(now) => ExprNode::Constant(Some(Bson::DateTime(now))),
                None => return Err(self.location.refused("$$NOW is for queries that a time was given for")),
            },
            "REMOVE" | "SEARCH_META" | "NOW" => ExprNode::Constant(None),
            "CLUSTER_TIME" => ExprNode::Unavailable("CLUSTER_TIME"),
            "JS_SCOPE" => ExprNode::Unavailable("JS_SCOPE"),
            "IS_MR" => ExprNode::Unavailable("IS_MR"),
            _ => return self.refuse(17276, format!("use of undefined variable: {name}")),
        })
    }

    /// Variables that a query binds begin with a small letter; MongoDB's own with a capital one.
    pub(in crate::query::expr) fn check_variable(&self, name: &str, to_bind: bool) -> Result<(), QueryError> {
        check_variable(self.location, name, to_bind)
    }
}

/// Refuses a name that no variable can have.
pub(in crate::query::expr) fn check_variable(location: &Location, name: &str, to_bind: bool) -> Result<(), QueryError> {
    let refuse = |message: String| Err(location.malformed(9, message));
    let Some(first) = name.bytes().next() else {
        return refuse("empty variable names are not allowed".to_owned());
    };
    if to_bind && name == "CURRENT" {
        return Ok(());
    }
    let good_start = first.is_ascii_lowercase() || !first.is_ascii() || (!to_bind && first.is_ascii_uppercase());
    if !good_start {
        return refuse(format!("'{name}' starts with an invalid character for a variable name"));
    }
    let wrong = name.bytes().find(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'_');
    if wrong.is_some() {
        return refuse(format!("'{name}' contains an invalid character for a variable name"));
    }
    Ok(())
}

/// An operator with its operands as a node.
pub(in crate::query::expr) fn call(operator: &'static Operator, operands: Vec<Option<ExprNode>>) -> ExprNode {
    ExprNode::Call(Box::new(Call { operator, operands }))
}
