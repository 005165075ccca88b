//! The description of an operator, and the access to its operands.

use bson::Bson;

use super::evaluate::{ExprNode, Scope};
use super::parse::ExprParser;
use super::value::{Outcome, Value, type_name};
use crate::query::budget::Budget;
use crate::query::error::{EvalError, QueryError};

/// An operator: its notation and what it does.
#[derive(Debug)]
pub(super) struct Operator {
    /// With the dollar sign.
    pub(super) name: &'static str,
    /// What operands it takes.
    pub(super) shape: Shape,
    /// What is done ahead when operands are constant.
    pub(super) folding: Folding,
    /// Computes the value.
    pub(super) run: fn(&Arguments<'_>) -> Outcome,
}

/// The operands that an operator takes.
#[derive(Debug)]
pub(super) enum Shape {
    /// A list of this many; a single one needs no list.
    Exactly(usize),
    /// A list of at least the first number of operands, and at most the second.
    Between(usize, usize),
    /// A list of any length.
    Any,
    /// A list of two and more; the number is MongoDB's for fewer.
    AtLeastTwo(i32),
    /// One, with the number MongoDB gives for another count: the conversions.
    One(i32),
    /// A document of named operands.
    Named(&'static Names),
    /// Something of its own.
    Special(fn(&mut ExprParser<'_>, &'static Operator, &Bson) -> Result<ExprNode, QueryError>),
    /// Known to MongoDB, refused here; the text says why.
    Refused(&'static str),
}

/// Named operands, and MongoDB's numbers for the mistakes with them.
#[derive(Debug)]
pub(super) struct Names {
    /// When the operand is no document.
    pub(super) not_an_object: i32,
    /// When there is a name too many.
    pub(super) unknown: i32,
    /// The names in the order of evaluation; required ones have an error number.
    pub(super) known: &'static [(&'static str, Option<i32>)],
}

/// What may be computed without a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folding {
    /// The whole, when all operands are constant.
    Whole,
    /// Also neighbouring constants among other operands.
    Associative,
    /// Also constants among other operands; they are moved to the end.
    Commutative,
    /// Only the operands, because MongoDB does no more: a failure must not be seen when there are no documents.
    Never,
    /// Not even the operands.
    Untouched,
}

/// An operator together with its operands.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Which one.
    pub(super) operator: &'static Operator,
    /// Its operands; absent ones only where they are named.
    pub(super) operands: Vec<Option<ExprNode>>,
}

/// The operands of a call, computed when they are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a> {
    operator: &'static Operator,
    operands: &'a [Option<ExprNode>],
    scope: &'a Scope<'a>,
}

impl<'a> Arguments<'a> {
    /// For running a call.
    pub(super) fn new(call: &'a Call, scope: &'a Scope<'a>) -> Self {
        Self { operator: call.operator, operands: &call.operands, scope }
    }

    /// The operator's name, for messages.
    pub(super) fn name(&self) -> &'static str {
        self.operator.name
    }

    /// The budget of the expression, for operators with large results.
    pub(super) fn budget(&self) -> &'a Budget {
        self.scope.budget()
    }

    /// How many operands there are.
    pub(super) fn len(&self) -> usize {
        self.operands.len()
    }

    /// Whether the operand is written down at all.
    pub(super) fn is_given(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(_)))
    }

    /// Whether the operand is the same for every document.
    pub(super) fn is_constant(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(ExprNode::Constant(_))))
    }

    /// How many elements an operand has that is an array of the document; nothing where it has to be computed to know.
    pub(super) fn length_in_place(&self, index: usize) -> Result<Option<usize>, EvalError> {
        self.node(index).map_or(Ok(None), |node| node.length_in_place(self.scope))
    }

    /// An operand as it is written down.
    pub(super) fn node(&self, index: usize) -> Option<&'a ExprNode> {
        self.operands.get(index).and_then(Option::as_ref)
    }

    /// The value of a part of an operand.
    pub(super) fn evaluate(&self, node: &ExprNode) -> Outcome {
        node.evaluate(self.scope)
    }

    /// The operands of a call inside an operand.
    pub(super) fn of(&self, call: &'a Call) -> Self {
        Self::new(call, self.scope)
    }

    /// The value of an operand; an absent one is missing.
    pub(super) fn value(&self, index: usize) -> Outcome {
        match self.operands.get(index) {
            Some(Some(node)) => node.evaluate(self.scope),
            _ => Ok(None),
        }
    }

    /// All values in their order, each computed when its turn comes.
    pub(super) fn each(&self) -> impl Iterator<Item = Outcome> + '_ {
        (0..self.len()).map(|index| self.value(index))
    }

    /// The first `N` values, all of them computed.
    pub(super) fn values<const N: usize>(&self) -> Result<[Value; N], EvalError> {
        let mut values = [const { None }; N];
        for (index, slot) in values.iter_mut().enumerate() {
            *slot = self.value(index)?;
        }
        Ok(values)
    }

    /// A failure that says which type was found.
    pub(super) fn wrong_type<T>(&self, code: i32, what: &str, value: Option<&Bson>) -> Result<T, EvalError> {
        Err(EvalError::new(code, format!("{} {what}, not {}", self.name(), type_name(value))))
    }

    /// A failure whose message begins with the operator's name.
    pub(super) fn fail<T>(&self, code: i32, message: &str) -> Result<T, EvalError> {
        Err(EvalError::new(code, format!("{} {message}", self.name())))
    }
}
