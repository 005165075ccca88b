//! The order of evaluation of a schema: MongoDB turns its parts into conditions among the others of the filter.

use super::{KeywordRule, OtherMembers, Properties, Schema};
use crate::query::raw::kind;
use crate::query::types::TypeSet;

/// What sort of condition a schema is.
#[derive(Debug, Clone, Copy)]
pub(in crate::query) enum Sort<'s> {
    /// Accepts everything, or demands several things.
    All,
    /// Alternatives: a member may be missing as well. Alternatives with a bound or a pattern come first.
    Any { bounded: bool },
    /// A member is there.
    Exists(&'s str),
    /// A negation.
    Not(&'s Schema),
    /// Rules without an operator in filters, evaluated after everything else.
    Own,
}

/// When the schema of a member is evaluated.
enum MemberTurn {
    /// It is evaluated early.
    Early,
    /// After everything else; about values of these types, `None` for all.
    Late(Option<TypeSet>),
}

impl Schema {
    fn of(rule: KeywordRule) -> Self {
        Self { rules: vec![rule] }
    }

    /// Whether no document has the shape, as MongoDB sees at once.
    pub(in crate::query) fn accepts_nothing(&self) -> bool {
        self.rules.iter().any(|rule| match rule {
            KeywordRule::Never => true,
            KeywordRule::OneOfValues(values) => !values.iter().any(|value| value.as_document().is_some()),
            KeywordRule::AnyOf(schemas) | KeywordRule::OneOf(schemas) => {
                schemas.len() == 1 && schemas[0].accepts_nothing()
            }
            KeywordRule::AllOf(schemas) => schemas.iter().any(Self::accepts_nothing),
            _ => false,
        })
    }

    /// Whether every value has the shape, as MongoDB sees at once.
    pub(in crate::query) fn accepts_everything(&self) -> bool {
        self.rules.iter().all(|rule| match rule {
            KeywordRule::Properties(properties) => {
                properties.is_by_name()
                    && !properties.named.is_empty()
                    && properties.named.iter().all(|(_, schema)| schema.accepts_everything())
            }
            KeywordRule::AllOf(schemas) => schemas.iter().all(Self::accepts_everything),
            _ => false,
        })
    }

    /// The schema split into several of one kind each, with the same meaning together.
    pub(in crate::query) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for rule in &self.rules {
            match rule {
                KeywordRule::Required(names) => {
                    parts.extend(names.iter().map(|name| Self::of(KeywordRule::Required(vec![name.clone()]))));
                }
                KeywordRule::Properties(properties) => {
                    parts.extend(properties.named.iter().map(|(name, schema)| Self::of_member(name, schema)));
                    if !properties.is_by_name() {
                        parts.push(Self::of(KeywordRule::Last(Box::new(Self::of(rule.clone())))));
                    }
                }
                KeywordRule::AllOf(schemas) => parts.extend(schemas.iter().flat_map(Self::parts)),
                // One alternative alone is what must hold.
                KeywordRule::AnyOf(schemas) | KeywordRule::OneOf(schemas) if schemas.len() == 1 => {
                    parts.extend(schemas.iter().flat_map(Self::parts));
                }
                rule => parts.push(Self::of(rule.clone())),
            }
        }
        parts
    }

    /// The schema split into alternatives of an `$or`.
    pub(in crate::query) fn alternatives(&self) -> Vec<Self> {
        let whole = self.without_shell();
        match whole.rules.as_slice() {
            [KeywordRule::AnyOf(schemas)] => schemas.iter().flat_map(Self::alternatives).collect(),
            [KeywordRule::Properties(properties)] if properties.is_by_name() => match properties.named.as_slice() {
                [(name, schema)] => match schema.without_shell().turn() {
                    MemberTurn::Late(kinds) => {
                        let last = |schema| Self::of(KeywordRule::Last(Box::new(schema)));
                        let of_kinds =
                            kinds.map(|kinds| last(Self::of_member(name, &Self::of(KeywordRule::Types(kinds)))));
                        let there = Self::of(KeywordRule::Required(vec![name.clone()]));
                        let refused = [Some(there), of_kinds].into_iter().flatten();
                        refused.map(|schema| Self::of(KeywordRule::Not(schema))).chain([last(whole.clone())]).collect()
                    }
                    // Several rules form an `$and`, which affects the order.
                    MemberTurn::Early if schema.without_shell().rules.len() > 1 => {
                        vec![Self { rules: vec![whole.rules[0].clone(), KeywordRule::AllOf(Vec::new())] }]
                    }
                    MemberTurn::Early => vec![whole.clone()],
                },
                _ => vec![whole.clone()],
            },
            _ => vec![whole.clone()],
        }
    }

    /// A rule about one member.
    fn of_member(name: &str, schema: &Self) -> Self {
        let named = vec![(name.to_owned(), schema.clone())];
        Self::of(KeywordRule::Properties(Properties { named, patterns: Vec::new(), rest: OtherMembers::Allowed }))
    }

    /// What a list of one schema alone is.
    fn without_shell(&self) -> &Self {
        match self.rules.as_slice() {
            [KeywordRule::AllOf(schemas) | KeywordRule::AnyOf(schemas) | KeywordRule::OneOf(schemas)]
                if schemas.len() == 1 =>
            {
                schemas[0].without_shell()
            }
            _ => self,
        }
    }

    /// When the schema is evaluated.
    fn turn(&self) -> MemberTurn {
        let one = |kind: u8| MemberTurn::Late(Some(TypeSet::default().with(kind)));
        let [rule] = self.rules.as_slice() else { return MemberTurn::Early };
        match rule {
            KeywordRule::ItemCount(_)
            | KeywordRule::UniqueItems
            | KeywordRule::Items(_)
            | KeywordRule::ItemsByPlace(..) => one(kind::ARRAY),
            KeywordRule::Required(_) | KeywordRule::Properties(_) | KeywordRule::PropertyCount(_) => {
                one(kind::DOCUMENT)
            }
            KeywordRule::Length(_) => one(kind::STRING),
            KeywordRule::MultipleOf(_) => MemberTurn::Late(Some(TypeSet::NUMBER)),
            KeywordRule::Types(_)
            | KeywordRule::Encrypted
            | KeywordRule::OneOfValues(_)
            | KeywordRule::Dependency(..)
            | KeywordRule::OneOf(_) => MemberTurn::Late(None),
            _ => MemberTurn::Early,
        }
    }

    fn is_bounded(&self) -> bool {
        matches!(self.without_shell().rules.as_slice(), [KeywordRule::Bound { .. } | KeywordRule::Pattern(_)])
    }

    /// What sort of condition it is.
    pub(in crate::query) fn sort(&self) -> Sort<'_> {
        let [rule] = self.without_shell().rules.as_slice() else { return Sort::All };
        match rule {
            KeywordRule::Required(names) => match names.as_slice() {
                [name] => Sort::Exists(name),
                _ => Sort::All,
            },
            KeywordRule::Properties(properties) => match (properties.named.len(), properties.is_by_name()) {
                (0, _) => Sort::Own,
                (1, true) => Sort::Any { bounded: properties.named[0].1.is_bounded() },
                _ => Sort::All,
            },
            KeywordRule::AnyOf(schemas) => Sort::Any { bounded: schemas.iter().any(Self::is_bounded) },
            KeywordRule::Not(schema) => Sort::Not(schema),
            KeywordRule::OneOf(_)
            | KeywordRule::PropertyCount(_)
            | KeywordRule::Dependency(..)
            | KeywordRule::OneOfValues(_)
            | KeywordRule::Last(_) => Sort::Own,
            _ => Sort::All,
        }
    }
}

impl Properties {
    fn is_by_name(&self) -> bool {
        self.patterns.is_empty() && matches!(self.rest, OtherMembers::Allowed)
    }
}
