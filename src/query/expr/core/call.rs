//! The description of an operator, and the access to its operands.

use bson::Bson;

use super::evaluate::{ExprNode, Scope};
use super::parse::ExprParser;
use crate::query::budget::Budget;
use crate::query::error::{EvalError, QueryError};
use crate::query::expr::value::{Outcome, Value, type_name};
use crate::suggest::hint;

/// An operator: its notation and what it does.
#[derive(Debug)]
pub(in crate::query::expr) struct Operator {
    /// With the dollar sign.
    pub(in crate::query::expr) name: &'static str,
    /// What operands it takes.
    pub(in crate::query::expr) shape: Shape,
    /// What is done ahead when operands are constant.
    pub(in crate::query::expr) folding: Folding,
    /// Computes the value.
    pub(in crate::query::expr) run: fn(&Arguments<'_>) -> Outcome,
}

/// The families of operators. The table is made above the core and given to the parser, because the families need the core.
#[derive(Debug, Clone, Copy)]
pub(in crate::query::expr) struct OperatorTable(pub(in crate::query::expr) &'static [&'static [Operator]]);

impl OperatorTable {
    /// Every operator.
    pub(in crate::query::expr) fn all(self) -> impl Iterator<Item = &'static Operator> {
        self.0.iter().copied().flatten()
    }

    /// The operator of this name, dollar sign included.
    pub(in crate::query::expr) fn find(self, name: &str) -> Option<&'static Operator> {
        self.all().find(|operator| operator.name == name)
    }

    /// `, did you mean $size?` where the name is like one of an operator, else nothing.
    pub(in crate::query::expr) fn nearest_to(self, name: &str) -> String {
        let known: Vec<&str> = self.all().map(|operator| operator.name).collect();
        hint(name, &known)
    }
}

/// The operands that an operator takes.
#[derive(Debug)]
pub(in crate::query::expr) enum Shape {
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
pub(in crate::query::expr) struct Names {
    /// When the operand is no document.
    pub(in crate::query::expr) not_an_object: i32,
    /// When there is a name too many.
    pub(in crate::query::expr) unknown: i32,
    /// The names in the order of evaluation; required ones have an error number.
    pub(in crate::query::expr) known: &'static [(&'static str, Option<i32>)],
}

/// What may be computed without a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query::expr) enum Folding {
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
pub(in crate::query::expr) struct Call {
    /// Which one.
    pub(in crate::query::expr) operator: &'static Operator,
    /// Its operands; absent ones only where they are named.
    pub(in crate::query::expr) operands: Vec<Option<ExprNode>>,
}

/// The operands of a call, computed when they are asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::query::expr) struct Arguments<'a> {
    operator: &'static Operator,
    operands: &'a [Option<ExprNode>],
    scope: &'a Scope<'a>,
}

impl<'a> Arguments<'a> {
    /// For running a call.
    pub(in crate::query::expr) fn new(call: &'a Call, scope: &'a Scope<'a>) -> Self {
        Self { operator: call.operator, operands: &call.operands, scope }
    }

    /// The operator's name, for messages.
    pub(in crate::query::expr) fn name(&self) -> &'static str {
        self.operator.name
    }

    /// The budget of the expression, for operators with large results.
    pub(in crate::query::expr) fn budget(&self) -> &'a Budget {
        self.scope.budget()
    }

    /// How many operands there are.
    pub(in crate::query::expr) fn len(&self) -> usize {
        self.operands.len()
    }

    /// Whether the operand is written down at all.
    pub(in crate::query::expr) fn is_given(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(_)))
    }

    /// Whether the operand is the same for every document.
    pub(in crate::query::expr) fn is_constant(&self, index: usize) -> bool {
        matches!(self.operands.get(index), Some(Some(ExprNode::Constant(_))))
    }

    /// How many elements an operand has that is an array of the document; nothing where it has to be computed to know.
    pub(in crate::query::expr) fn length_in_place(&self, index: usize) -> Result<Option<usize>, EvalError> {
        self.node(index).map_or(Ok(None), |node| node.length_in_place(self.scope))
    }

    /// An operand as it is written down.
    pub(in crate::query::expr) fn node(&self, index: usize) -> Option<&'a ExprNode> {
        self.operands.get(index).and_then(Option::as_ref)
    }

    /// The value of a part of an operand.
    pub(in crate::query::expr) fn evaluate(&self, node: &ExprNode) -> Outcome {
        node.evaluate(self.scope)
    }

    /// The operands of a call inside an operand.
    pub(in crate::query::expr) fn of(&self, call: &'a Call) -> Self {
        Self::new(call, self.scope)
    }

    /// The value of an operand; an absent one is missing.
    pub(in crate::query::expr) fn value(&self, index: usize) -> Outcome {
        match self.operands.get(index) {
            Some(Some(node)) => node.evaluate(self.scope),
            _ => Ok(None),
        }
    }

    /// All values in their order, each computed when its turn comes.
    pub(in crate::query::expr) fn each(&self) -> impl Iterator<Item = Outcome> + '_ {
        (0..self.len()).map(|index| self.value(index))
    }

    /// The first `N` values, all of them computed.
    pub(in crate::query::expr) fn values<const N: usize>(&self) -> Result<[Value; N], EvalError> {
        let mut values = [const { None }; N];
        for (index, slot) in values.iter_mut().enumerate() {
            *slot = self.value(index)?;
        }
        Ok(values)
    }

    /// A failure that says which type was found.
    pub(in crate::query::expr) fn wrong_type<T>(
        &self,
        code: i32,
        what: &str,
        value: Option<&Bson>,
    ) -> Result<T, EvalError> {
        Err(EvalError::new(code, format!("{} {what}, not {}", self.name(), type_name(value))))
    }

    /// A failure whose message begins with the operator's name.
    pub(in crate::query::expr) fn fail<T>(&self, code: i32, message: &str) -> Result<T, EvalError> {
        Err(EvalError::new(code, format!("{} {message}", self.name())))
    }
}
