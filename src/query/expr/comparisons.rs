//! The comparisons that MongoDB extracts from an expression in a filter, to use them with an index.
//!
//! They follow from the expression. So expression and comparisons form an `$and`, which is evaluated in place of the
//! expression.

use bson::Bson;

use super::core::call::Call;
use super::core::evaluate::ExprNode;

/// The comparisons of an expression that must be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) enum Comparisons {
    /// All of them hold.
    All(Vec<Comparisons>),
    /// One of them holds.
    Any(Vec<Comparisons>),
    /// The operator for the path on the left side, and the path.
    One(&'static str, String),
}

impl Comparisons {
    /// Of an expression whose constants were computed.
    pub(super) fn of(node: &ExprNode) -> Option<Self> {
        let ExprNode::Call(call) = node else { return None };
        let inner = || call.operands.iter().map(|operand| operand.as_ref().and_then(Self::of));
        match call.operator.name {
            "$and" => {
                let mut parts: Vec<Self> = Vec::new();
                for part in inner().flatten() {
                    match part {
                        Self::All(inner) => parts.extend(inner),
                        part => parts.push(part),
                    }
                }
                Some(parts).filter(|parts| !parts.is_empty()).map(|parts| Self::listed(parts, Self::All))
            }
            "$or" => inner().collect::<Option<Vec<Self>>>().map(|parts| Self::listed(parts, Self::Any)),
            _ => Self::one(call),
        }
    }

    fn listed(mut parts: Vec<Self>, list: fn(Vec<Self>) -> Self) -> Self {
        if parts.len() == 1 { parts.remove(0) } else { list(parts) }
    }

    /// A path compared with a constant, whichever comes first.
    fn one(call: &Call) -> Option<Self> {
        const TURNED: [(&str, &str); 5] =
            [("$eq", "$eq"), ("$gt", "$lt"), ("$gte", "$lte"), ("$lt", "$gt"), ("$lte", "$gte")];
        let (name, turned) = TURNED.into_iter().find(|(name, _)| *name == call.operator.name)?;
        let comparable = |value: &Option<Bson>| !matches!(value, None | Some(Bson::Array(_) | Bson::Undefined));
        match call.operands.as_slice() {
            [Some(ExprNode::Path(path)), Some(ExprNode::Constant(value))] if comparable(value) && !path.is_empty() => {
                Some(Self::One(name, path.join(".")))
            }
            [Some(ExprNode::Constant(value)), Some(ExprNode::Path(path))] if comparable(value) && !path.is_empty() => {
                Some(Self::One(turned, path.join(".")))
            }
            _ => None,
        }
    }
}
