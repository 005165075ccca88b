//! What each condition demands.

use super::Demand;
use crate::query::tree::{Node, Test};

impl Node {
    /// What the condition demands.
    pub fn demand(&self) -> Demand {
        match self {
            Self::Always | Self::Holds | Self::Never | Self::Server(_) => Demand::Plain,
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => Demand::of_all(nodes.iter().map(Self::demand)),
            // No server knows the path of a field.
            Self::Path(path, _) if path.entry().is_some() => Demand::Service,
            // MongoDB 6.0.5 could crash on such conditions; 6.0.27 does not.
            Self::Path(path, test) if path.as_str().is_empty() && test.looks_into_elements() => Demand::Service,
            Self::Path(_, test) => test.demand(),
            Self::Expr(computed) => computed.demand(),
            Self::Schema(_) => Demand::Service,
        }
    }

    /// Whether one document may take long: the client decides the cost of expressions, schemas and regular expressions.
    pub fn is_costly(&self) -> bool {
        self.demand() > Demand::Plain
    }

    /// The condition without its parts that only a server evaluates; they hold for what a server finds. Nothing if such a part
    /// is inside one that demands more than `most`, so that no server was asked for it.
    pub fn without_server(&self, most: Demand) -> Option<Self> {
        match self {
            Self::And(parts) => {
                let left = parts.iter().map(|part| part.without_server(most)).collect::<Option<Vec<_>>>()?;
                // As they are: their order shows which of them fails.
                Some(Self::And(left))
            }
            part if part.needs_server() => (part.demand() <= most).then_some(Self::Always),
            part => Some(part.clone()),
        }
    }

    fn needs_server(&self) -> bool {
        match self {
            Self::Server(_) => true,
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => nodes.iter().any(Self::needs_server),
            Self::Path(_, test) => test.needs_server(),
            Self::Always | Self::Holds | Self::Never | Self::Expr(_) | Self::Schema(_) => false,
        }
    }
}

impl Test {
    fn demand(&self) -> Demand {
        match self {
            Self::Regex(_) => Demand::Pattern,
            Self::In(set) if set.regexes().is_empty() => Demand::Plain,
            Self::In(_) => Demand::Pattern,
            Self::Not(test) => test.demand(),
            Self::All(tests) | Self::ElemMatchValue(tests) => Demand::of_all(tests.iter().map(Self::demand)),
            Self::ElemMatchDocument(node) => node.demand(),
            Self::Eq(_)
            | Self::Gt(_)
            | Self::Gte(_)
            | Self::Lt(_)
            | Self::Lte(_)
            | Self::Exists
            | Self::Type(_)
            | Self::Size(_)
            | Self::Mod { .. }
            | Self::Bits(_)
            | Self::Server(_) => Demand::Plain,
        }
    }

    /// Whether it asks for members of elements.
    fn looks_into_elements(&self) -> bool {
        match self {
            Self::ElemMatchDocument(_) => true,
            Self::Not(test) => test.looks_into_elements(),
            Self::All(tests) => tests.iter().any(Self::looks_into_elements),
            Self::Eq(_)
            | Self::Gt(_)
            | Self::Gte(_)
            | Self::Lt(_)
            | Self::Lte(_)
            | Self::In(_)
            | Self::Regex(_)
            | Self::Exists
            | Self::Type(_)
            | Self::Size(_)
            | Self::Mod { .. }
            | Self::Bits(_)
            | Self::ElemMatchValue(_)
            | Self::Server(_) => false,
        }
    }

    fn needs_server(&self) -> bool {
        match self {
            Self::Server(_) => true,
            Self::Not(test) => test.needs_server(),
            Self::All(tests) | Self::ElemMatchValue(tests) => tests.iter().any(Self::needs_server),
            Self::ElemMatchDocument(node) => node.needs_server(),
            Self::Eq(_)
            | Self::Gt(_)
            | Self::Gte(_)
            | Self::Lt(_)
            | Self::Lte(_)
            | Self::In(_)
            | Self::Regex(_)
            | Self::Exists
            | Self::Type(_)
            | Self::Size(_)
            | Self::Mod { .. }
            | Self::Bits(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use super::*;
    use crate::query::{Filter, Limits, Projection};

    fn demand(filter: &Document) -> Demand {
        Filter::parse(filter, &Limits::NONE).expect("a filter").tree().demand()
    }

    fn expression(expression: Bson) -> Demand {
        demand(&doc! { "$expr": expression })
    }

    #[test]
    fn comparisons_are_plain_whatever_combines_them() {
        for filter in [
            doc! {},
            doc! { "a": 1, "b": { "$gt": 2, "$ne": 3 } },
            doc! { "$or": [{ "a": { "$in": [1, 2] } }, { "$nor": [{ "b": { "$exists": true } }] }] },
            doc! { "a": { "$elemMatch": { "b": 1, "c": { "$type": "int" } } } },
            doc! { "a": { "$all": [{ "$elemMatch": { "$mod": [2, 1] } }], "$not": { "$size": 3 }, "$bitsAllSet": 5 } },
            doc! { "$text": { "$search": "x" } },
        ] {
            assert_eq!(demand(&filter), Demand::Plain, "{filter}");
        }
    }

    #[test]
    fn a_pattern_is_one_wherever_it_stands() {
        let pattern = Bson::RegularExpression(bson::Regex {
            pattern: "x".try_into().expect("no zero byte"),
            options: bson::raw::cstr!("").into(),
        });
        for filter in [
            doc! { "a": { "$regex": "x" } },
            doc! { "a": 1, "$or": [{ "b": 1 }, { "c": { "$in": [1, pattern.clone()] } }] },
            doc! { "a": { "$not": { "$elemMatch": { "b": pattern.clone() } } } },
            doc! { "a": { "$all": [1, pattern] } },
        ] {
            assert_eq!(demand(&filter), Demand::Pattern, "{filter}");
        }
    }

    #[test]
    fn a_few_operators_on_numbers_and_truths_are_flat() {
        for (flat, operators) in [
            (bson!("$a.b"), 0),
            (bson!({ "$gt": ["$a", "$b"] }), 1),
            (bson!({ "$eq": ["$a", "a text"] }), 1),
            (bson!({ "$and": [{ "$gt": [{ "$add": ["$a", 1] }, 3] }, { "$not": ["$b"] }] }), 4),
            (bson!({ "$cond": { "if": "$a", "then": { "$divide": [1, "$a"] }, "else": 0 } }), 2),
            (bson!({ "$year": { "date": "$a", "timezone": "UTC" } }), 1),
        ] {
            assert_eq!(expression(flat.clone()), Demand::Flat(operators), "{flat}");
        }
    }

    #[test]
    fn arrays_texts_documents_and_iterations_are_not_flat() {
        for other in [
            bson!({ "$eq": ["$a", [1]] }),
            bson!({ "$eq": ["$a", { "b": 1 }] }),
            bson!({ "$gt": [{ "$size": "$a" }, 1] }),
            bson!({ "$eq": [{ "$concat": ["$a", "x"] }, "yx"] }),
            bson!({ "$map": { "input": "$a", "in": 1 } }),
            bson!({ "$let": { "vars": { "b": "$a" }, "in": "$$b" } }),
            bson!({ "$eq": ["$$ROOT", 1] }),
            bson!({ "$regexMatch": { "input": "$a", "regex": "x" } }),
            bson!({ "$literal": [1] }),
        ] {
            assert_eq!(expression(other.clone()), Demand::Service, "{other}");
        }
        assert_eq!(demand(&doc! { "$jsonSchema": { "required": ["a"] } }), Demand::Service);
    }

    #[test]
    fn the_operators_of_all_expressions_count_together() {
        let not = |times: usize| (0..times).fold(bson!("$a"), |inner, _| bson!({ "$not": [inner] }));
        assert_eq!(expression(not(16)), Demand::Flat(16));
        assert_eq!(expression(not(17)), Demand::Service);
        let both =
            |one, two| doc! { "$or": [{ "$expr": not(one) }, { "a": { "$regex": "x" } }, { "$expr": not(two) }] };
        assert_eq!((demand(&both(10, 6)), demand(&both(10, 7))), (Demand::Flat(16), Demand::Service));
    }

    #[test]
    fn conditions_on_elements_of_a_member_without_a_name_are_for_the_service() {
        assert_eq!(demand(&doc! { "": { "$elemMatch": { "a": 1 } } }), Demand::Service);
        assert_eq!(
            demand(&doc! { "a": { "$elemMatch": { "": { "$not": { "$elemMatch": { "b": 1 } } } } } }),
            Demand::Service
        );
        assert_eq!(demand(&doc! { "": 1, "a": { "$elemMatch": { "b": 1 } } }), Demand::Plain);
    }

    #[test]
    fn conditions_of_the_service_on_fields_are_for_the_service() {
        let field = doc! { "$entry": { "name": "a", "is": 1 } };
        assert_eq!(demand(&doc! { "b": 1, "$or": [{ "c": 1 }, field.clone()] }), Demand::Service);
        let never = Filter::parse(&doc! { "$nor": [{}, field] }, &Limits::NONE).expect("a filter");
        assert_eq!((never.tree().demand(), never.demand()), (Demand::Plain, Demand::Service));
    }

    #[test]
    fn a_projection_is_plain_if_it_includes_or_excludes() {
        let is_plain = |projection: Document| {
            Projection::parse(&projection, &Filter::equals("a", 1)).expect("a projection").is_plain()
        };
        assert!([doc! {}, doc! { "a.b": 1, "_id": 0 }, doc! { "a": { "b": 0 } }].into_iter().all(is_plain));
        for other in [
            doc! { "a": { "$slice": 1 } },
            doc! { "a": { "$elemMatch": { "b": 1 } } },
            doc! { "a.$": 1 },
            doc! { "a": "$b" },
            doc! { "a": { "b": { "$add": [1, "$c"] } } },
        ] {
            assert!(!is_plain(other.clone()), "{other}");
        }
    }
}
