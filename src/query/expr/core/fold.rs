//! Computes ahead what needs no document.
//!
//! MongoDB does this too, and reports failures of constants even for an empty collection. So this module computes the
//! same parts. Operators that MongoDB does not fold are marked [`Folding::Never`].

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};

use super::call::{Call, Folding};
use super::evaluate::{ExprNode, Root, Scope};
use super::variables::Switch;
use crate::query::budget::Budget;
use crate::query::error::EvalError;
use crate::query::expr::value::{Value, is_nullish, is_true, type_name};

/// The same expression with its constant parts computed.
pub(in crate::query::expr) fn fold(node: ExprNode, budget: &Budget) -> Result<ExprNode, EvalError> {
    Ok(match node {
        ExprNode::Array(elements) => array(fold_all(elements, budget)?),
        ExprNode::Object(members) => object(
            members
                .into_iter()
                .map(|(name, node)| Ok((name, fold(node, budget)?)))
                .collect::<Result<Vec<_>, EvalError>>()?,
        ),
        ExprNode::Call(call) => fold_call(*call, budget)?,
        ExprNode::Let(mut node) => {
            node.bindings = fold_all(node.bindings, budget)?;
            node.body = fold(node.body, budget)?;
            ExprNode::Let(node)
        }
        ExprNode::Map(mut node) => {
            node.input = fold(node.input, budget)?;
            node.body = fold(node.body, budget)?;
            ExprNode::Map(node)
        }
        ExprNode::Filter(mut node) => {
            node.input = fold(node.input, budget)?;
            node.condition = fold(node.condition, budget)?;
            node.limit = node.limit.map(|node| fold(node, budget)).transpose()?;
            ExprNode::Filter(node)
        }
        ExprNode::Reduce(mut node) => {
            node.input = fold(node.input, budget)?;
            node.initial = fold(node.initial, budget)?;
            node.body = fold(node.body, budget)?;
            ExprNode::Reduce(node)
        }
        ExprNode::Switch(node) => fold_switch(*node, budget)?,
        ExprNode::Search(mut node) => {
            node.fold(budget)?;
            ExprNode::Search(node)
        }
        other => other,
    })
}

fn fold_all(nodes: Vec<ExprNode>, budget: &Budget) -> Result<Vec<ExprNode>, EvalError> {
    nodes.into_iter().map(|node| fold(node, budget)).collect()
}

/// A larger value is not kept as a constant, but computed again when it is needed.
const MAX_KEPT: usize = 64 * 1024;

/// The value of a node without variables and paths; none if it is too large to keep. It stays in memory, so it stays
/// counted in the budget of the parse.
fn compute(node: &ExprNode, budget: &Budget) -> Result<Option<Value>, EvalError> {
    let (nothing, mark) = (RawDocumentBuf::new(), budget.mark());
    let value = node.evaluate(&Scope::top(&Root::new(&nothing, budget)))?;
    if budget.since(mark) <= MAX_KEPT {
        return Ok(Some(value));
    }
    budget.drop_since(mark);
    Ok(None)
}

fn array(elements: Vec<ExprNode>) -> ExprNode {
    let constants: Option<Vec<Bson>> =
        elements.iter().map(|element| element.constant().map(|value| value.clone().unwrap_or(Bson::Null))).collect();
    constants.map_or(ExprNode::Array(elements), |values| ExprNode::Constant(Some(Bson::Array(values))))
}

fn object(members: Vec<(String, ExprNode)>) -> ExprNode {
    let mut document = Document::new();
    for (name, node) in &members {
        match node.constant() {
            Some(Some(value)) => drop(document.insert(name.clone(), value.clone())),
            Some(None) => {}
            None => return ExprNode::Object(members),
        }
    }
    ExprNode::Constant(Some(Bson::Document(document)))
}

fn fold_call(mut call: Call, budget: &Budget) -> Result<ExprNode, EvalError> {
    let folding = call.operator.folding;
    if folding == Folding::Untouched {
        return Ok(ExprNode::Call(Box::new(call)));
    }
    let operands = std::mem::take(&mut call.operands);
    for operand in operands {
        call.operands.push(operand.map(|node| fold(node, budget)).transpose()?);
        if call.operator.name == "$setEquals" {
            let newest = call.operands.len() - 1;
            check_array(&call, newest, 5_887_502)?;
        }
    }
    if folding == Folding::Never {
        return Ok(ExprNode::Call(Box::new(call)));
    }
    if call.operands.iter().flatten().all(|operand| operand.constant().is_some()) {
        let node = ExprNode::Call(Box::new(call));
        return Ok(compute(&node, budget)?.map_or(node, ExprNode::Constant));
    }
    if matches!(folding, Folding::Associative | Folding::Commutative) {
        flatten(&mut call);
    }
    if folding == Folding::Commutative {
        // Constants go last: a missing operand gives null before a wrong constant is checked.
        call.operands.sort_by_key(|operand| is_constant(operand.as_ref()));
    }
    if folding != Folding::Whole {
        join_constants(&mut call, budget)?;
    }
    match call.operator.name {
        "$ifNull" => return Ok(first_not_null(call)),
        "$cond" => return Ok(decided(call)),
        "$setIsSubset" => check_array(&call, 1, 17311)?,
        "$indexOfArray" if is_absent(call.operands.first()) => return Ok(ExprNode::Constant(Some(Bson::Null))),
        "$indexOfArray" => check_array(&call, 0, 50809)?,
        _ => {}
    }
    Ok(short_circuit(call))
}

/// Flattens operands with the same operator: `[[a, b], c]` becomes `[a, b, c]`.
fn flatten(call: &mut Call) {
    let operator = call.operator;
    // A single operand of these may be an array of values; with other operands an array has another meaning.
    let gathers = matches!(operator.name, "$sum" | "$min" | "$max");
    if gathers && call.operands.len() == 1 {
        return;
    }
    let mut operands = Vec::with_capacity(call.operands.len());
    for operand in std::mem::take(&mut call.operands) {
        match operand {
            Some(ExprNode::Call(inner))
                if inner.operator.name == operator.name && !(gathers && inner.operands.len() == 1) =>
            {
                operands.extend(inner.operands);
            }
            other => operands.push(other),
        }
    }
    call.operands = operands;
}

/// MongoDB prepares constant sets and arrays for searching, and then fails if they are no arrays.
fn check_array(call: &Call, index: usize, code: i32) -> Result<(), EvalError> {
    let Some(Some(ExprNode::Constant(value))) = call.operands.get(index) else { return Ok(()) };
    let name = call.operator.name;
    let absent_is_fine = name == "$indexOfArray" && is_nullish(value.as_ref());
    if absent_is_fine || matches!(value, Some(Bson::Array(_))) {
        return Ok(());
    }
    Err(EvalError::new(code, format!("{name} needs an array, not {}", type_name(value.as_ref()))))
}

/// A choice with a constant condition becomes the chosen branch. The other one was computed for its failures.
fn decided(mut call: Call) -> ExprNode {
    let condition = call.operands.first().and_then(Option::as_ref).and_then(ExprNode::constant);
    let Some(truth) = condition.map(|value| is_true(value.as_ref())) else {
        return ExprNode::Call(Box::new(call));
    };
    let branch = call.operands.swap_remove(if truth { 1 } else { 2 });
    branch.unwrap_or(ExprNode::Constant(None))
}

/// Null constants are never the answer, and nothing after a constant that is not null is evaluated.
fn first_not_null(mut call: Call) -> ExprNode {
    let last = call.operands.pop();
    call.operands.retain(|operand| !matches!(operand, Some(ExprNode::Constant(value)) if is_nullish(value.as_ref())));
    match call.operands.iter().position(|operand| is_constant(operand.as_ref())) {
        Some(decisive) => call.operands.truncate(decisive + 1),
        None => call.operands.extend(last),
    }
    match call.operands.as_mut_slice() {
        [Some(only)] => std::mem::replace(only, ExprNode::Constant(None)),
        _ => ExprNode::Call(Box::new(call)),
    }
}

/// Whether an operand is a constant without a value.
fn is_absent(operand: Option<&Option<ExprNode>>) -> bool {
    matches!(operand, Some(Some(ExprNode::Constant(value))) if is_nullish(value.as_ref()))
}

fn is_constant(operand: Option<&ExprNode>) -> bool {
    operand.is_some_and(|node| node.constant().is_some())
}

/// Replaces each run of neighbouring constants by their value: `[a, 1, 2]` becomes `[a, 3]`.
fn join_constants(call: &mut Call, budget: &Budget) -> Result<(), EvalError> {
    let mut joined: Vec<Option<ExprNode>> = Vec::with_capacity(call.operands.len());
    let mut operands = std::mem::take(&mut call.operands).into_iter().peekable();
    while let Some(operand) = operands.next() {
        let mut run = vec![operand];
        while is_constant(run[0].as_ref()) && operands.peek().is_some_and(|next| is_constant(next.as_ref())) {
            run.extend(operands.next());
        }
        if run.len() == 1 {
            joined.append(&mut run);
        } else {
            let part = ExprNode::Call(Box::new(Call { operator: call.operator, operands: run }));
            joined.push(Some(compute(&part, budget)?.map_or(part, ExprNode::Constant)));
        }
    }
    call.operands = joined;
    Ok(())
}

/// `$and` with a false constant and `$or` with a true one need no document.
fn short_circuit(call: Call) -> ExprNode {
    let decisive = match call.operator.name {
        "$and" => false,
        "$or" => true,
        _ => return ExprNode::Call(Box::new(call)),
    };
    match call.operands.last() {
        Some(Some(ExprNode::Constant(value))) if is_true(value.as_ref()) == decisive => {
            ExprNode::Constant(Some(Bson::Boolean(decisive)))
        }
        _ => ExprNode::Call(Box::new(call)),
    }
}

/// Branches that can never be taken are dropped before their values are computed.
fn fold_switch(switch: Switch, budget: &Budget) -> Result<ExprNode, EvalError> {
    let mut branches = Vec::new();
    let mut otherwise = switch.otherwise.map(|node| fold(node, budget)).transpose()?;
    for (case, then) in switch.branches {
        let case = fold(case, budget)?;
        match case.constant().map(|value| is_true(value.as_ref())) {
            Some(false) => {}
            Some(true) => {
                otherwise = Some(fold(then, budget)?);
                break;
            }
            None => branches.push((case, fold(then, budget)?)),
        }
    }
    if !branches.is_empty() {
        return Ok(ExprNode::Switch(Box::new(Switch { branches, otherwise })));
    }
    otherwise.ok_or_else(|| EvalError::new(40069, "no case of the $switch can be true and there is no default"))
}
