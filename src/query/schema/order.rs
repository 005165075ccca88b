//! When parts of a schema are asked: MongoDB makes conditions of them that stand among the others of the filter.

use super::{Properties, Rest, Rule, Schema};

/// What sort of condition a schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Sort<'s> {
    /// Accepts everything, or demands several things.
    All,
    /// Alternatives: a member may be missing as well.
    Any,
    /// A member is there.
    Exists(&'s str),
    /// A negation.
    Not,
    /// What filters have no operator for, asked behind everything else.
    Own,
}

impl Schema {
    /// The schema as several that demand the same together, each of one sort.
    pub(in crate::query) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut add = |rule: Rule| parts.push(Self { rules: vec![rule] });
        for rule in &self.rules {
            match rule {
                Rule::Required(names) => names.iter().for_each(|name| add(Rule::Required(vec![name.clone()]))),
                Rule::Properties(properties) => {
                    for member in &properties.named {
                        let named = vec![member.clone()];
                        add(Rule::Properties(Properties { named, patterns: Vec::new(), rest: Rest::Allowed }));
                    }
                    if !properties.is_by_name() {
                        add(rule.clone());
                    }
                }
                rule => add(rule.clone()),
            }
        }
        parts
    }

    /// What sort of condition it is.
    pub(in crate::query) fn sort(&self) -> Sort<'_> {
        let [rule] = self.rules.as_slice() else { return Sort::All };
        match rule {
            Rule::Required(names) => match names.as_slice() {
                [name] => Sort::Exists(name),
                _ => Sort::All,
            },
            Rule::Properties(properties) if properties.is_by_name() => match properties.named.as_slice() {
                [_] => Sort::Any,
                _ => Sort::All,
            },
            Rule::AnyOf(_) => Sort::Any,
            Rule::Not(_) => Sort::Not,
            Rule::OneOf(schemas) => match schemas.as_slice() {
                [only] => only.sort(),
                _ => Sort::Own,
            },
            Rule::Properties(_) | Rule::PropertyCount(_) | Rule::Dependency(..) | Rule::OneOfValues(_) => Sort::Own,
            _ => Sort::All,
        }
    }
}

impl Properties {
    fn is_by_name(&self) -> bool {
        self.patterns.is_empty() && matches!(self.rest, Rest::Allowed)
    }
}
