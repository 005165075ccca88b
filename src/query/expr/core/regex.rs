//! `$regexFind`, `$regexFindAll`, `$regexMatch`.

use bson::{Bson, Document};

use super::call::Operator;
use super::evaluate::{ExprNode, Scope};
use super::fold::fold;
use super::parse::ExprParser;
use crate::query::budget::Budget;
use crate::query::error::{EvalError, QueryError, code};
use crate::query::expr::value::{Outcome, failure, found, is_nullish, null, text, type_name};
use crate::query::parse_context::{is_longer, regex_too_long};
use crate::query::regex::Regex;

/// The requested result of the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegexQuestion {
    First,
    All,
    Any,
}

/// What is known of the pattern before there is a document.
#[derive(Debug, Clone)]
enum Prepared {
    /// Nothing: it depends on the document.
    No,
    /// It is null, so nothing matches.
    Null,
    /// It is compiled.
    Pattern(Regex),
}

/// One of the three operators with its operands.
#[derive(Debug, Clone)]
pub(in crate::query::expr) struct RegexSearch {
    name: &'static str,
    question: RegexQuestion,
    input: ExprNode,
    regex: ExprNode,
    options: Option<ExprNode>,
    max_regex_chars: usize,
    prepared: Prepared,
}

/// `{input: text, regex: pattern, options: text}`.
pub(in crate::query::expr) fn parse(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    let name = operator.name;
    let Bson::Document(document) = operand else {
        let found = type_name(Some(operand));
        return parser.refuse(51103, format!("{name} expects an object of named arguments but found: {found}"));
    };
    parser.only(name, document, &["input", "regex", "options"], 31024)?;
    let Some(input) = document.get("input") else {
        return parser.refuse(31022, format!("{name} requires 'input' parameter"));
    };
    let Some(regex) = document.get("regex") else {
        return parser.refuse(31023, format!("{name} requires 'regex' parameter"));
    };
    let question = match name {
        "$regexFind" => RegexQuestion::First,
        "$regexFindAll" => RegexQuestion::All,
        _ => RegexQuestion::Any,
    };
    let input = parser.at("input", input)?;
    parser.check_regex("regex", regex)?;
    let regex = parser.at("regex", regex)?;
    let max_regex_chars = parser.max_regex_chars();
    let options = document.get("options").map(|options| parser.at("options", options)).transpose()?;
    Ok(ExprNode::Search(Box::new(RegexSearch {
        name,
        question,
        input,
        regex,
        options,
        max_regex_chars,
        prepared: Prepared::No,
    })))
}

impl RegexSearch {
    /// Computes constant operands and compiles a constant pattern.
    pub(in crate::query::expr) fn fold(&mut self, budget: &Budget) -> Result<(), EvalError> {
        self.input = fold(self.input.clone(), budget)?;
        self.regex = fold(self.regex.clone(), budget)?;
        self.options = self.options.take().map(|options| fold(options, budget)).transpose()?;
        let options = match &self.options {
            None => Some(&None),
            Some(node) => node.constant(),
        };
        if let (Some(regex), Some(options)) = (self.regex.constant(), options) {
            budget.look()?;
            self.prepared = match self.compile(regex.as_ref(), options.as_ref())? {
                Some(regex) => Prepared::Pattern(regex),
                None => Prepared::Null,
            };
        }
        Ok(())
    }

    /// The answer for a document.
    pub(in crate::query::expr) fn evaluate(&self, scope: &Scope<'_>) -> Outcome {
        let input = self.input.evaluate(scope)?;
        if !is_nullish(input.as_ref()) && text(input.as_ref()).is_none() {
            return failure(51104, format!("{} needs 'input' to be of type string", self.name));
        }
        let compiled;
        let regex = match &self.prepared {
            Prepared::Pattern(regex) => Some(regex),
            Prepared::Null => None,
            Prepared::No => {
                let regex = self.regex.evaluate(scope)?;
                let options = self.options.as_ref().map_or(Ok(None), |node| node.evaluate(scope))?;
                compiled = self.compile(regex.as_ref(), options.as_ref())?;
                compiled.as_ref()
            }
        };
        match (text(input.as_ref()), regex) {
            (Some(input), Some(regex)) => self.answer(regex, input, scope.budget()),
            _ => match self.question {
                RegexQuestion::First => null(),
                RegexQuestion::All => found(Vec::<Bson>::new()),
                RegexQuestion::Any => found(false),
            },
        }
    }

    fn answer(&self, regex: &Regex, input: &str, budget: &Budget) -> Outcome {
        match self.question {
            RegexQuestion::Any => self.find(regex, input, 0, budget).map(|hit| Some(Bson::Boolean(hit.is_some()))),
            RegexQuestion::First => {
                Ok(Some(self.find(regex, input, 0, budget)?.map_or(Bson::Null, |hit| hit.described(input))))
            }
            RegexQuestion::All => {
                let mut hits = Vec::new();
                let mut from = 0;
                while let Some(hit) = self.find(regex, input, from, budget)? {
                    let empty = hit.start == hit.end;
                    let step = if empty { input[hit.end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
                    from = hit.end + step;
                    let hit = hit.described(input);
                    budget.take_copy(&hit)?;
                    hits.push(hit);
                    if from >= input.len() {
                        break;
                    }
                }
                found(hits)
            }
        }
    }

    fn find(&self, regex: &Regex, input: &str, from: usize, budget: &Budget) -> Result<Option<Hit>, EvalError> {
        budget.look()?;
        let captures = regex
            .engine()
            .captures_from_pos(input, from)
            .map_err(|error| EvalError::new(51156, format!("{}: {error}", self.name)))?;
        Ok(captures.and_then(|captures| {
            let whole = captures.get(0)?;
            let groups = (1..captures.len()).map(|group| captures.get(group).map(|group| group.as_str().to_owned()));
            Some(Hit { start: whole.start(), end: whole.end(), groups: groups.collect() })
        }))
    }

    /// The pattern with its options; nothing when it is null.
    fn compile(&self, regex: Option<&Bson>, options: Option<&Bson>) -> Result<Option<Regex>, EvalError> {
        let name = self.name;
        let (pattern, own_options) = match regex {
            value if is_nullish(value) => (None, ""),
            Some(Bson::RegularExpression(regex)) => (Some(regex.pattern.as_str()), regex.options.as_str()),
            value => match text(value) {
                Some(text) => (Some(text), ""),
                None => return failure(51105, format!("{name} needs 'regex' to be of type string or regex")),
            },
        };
        let options = match options {
            value if is_nullish(value) => own_options,
            value => match text(value) {
                None => return failure(51106, format!("{name} needs 'options' to be of type string")),
                Some(_) if !own_options.is_empty() => {
                    return failure(51107, format!("{name}: options are given in both 'regex' and 'options'"));
                }
                Some(options) => options,
            },
        };
        if options.contains('\0') {
            return failure(51110, format!("{name}: options cannot contain an embedded null byte"));
        }
        if let Some(flag) = options.chars().find(|flag| !"imsxu".contains(*flag)) {
            return failure(51108, format!("{name} invalid flag in regex options: {flag}"));
        }
        let Some(pattern) = pattern else { return Ok(None) };
        if pattern.contains('\0') {
            return failure(51109, format!("{name}: a regular expression cannot contain an embedded null byte"));
        }
        if is_longer(pattern, self.max_regex_chars) {
            return failure(code::BAD_VALUE, regex_too_long(self.max_regex_chars));
        }
        match Regex::new(pattern, options) {
            Ok(regex) => Ok(Some(regex)),
            Err((_, message)) => failure(51111, format!("invalid regex in {name}: {message}")),
        }
    }
}

/// A match: where it is and what its groups hold.
struct Hit {
    start: usize,
    end: usize,
    groups: Vec<Option<String>>,
}

impl Hit {
    /// As MongoDB describes it; the position counts code points.
    fn described(self, input: &str) -> Bson {
        let index = input[..self.start].chars().count();
        let captures: Vec<Bson> = self.groups.into_iter().map(|group| group.map_or(Bson::Null, Bson::String)).collect();
        let mut document = Document::new();
        document.insert("match", &input[self.start..self.end]);
        document.insert("idx", i32::try_from(index).unwrap_or(i32::MAX));
        document.insert("captures", captures);
        Bson::Document(document)
    }
}
