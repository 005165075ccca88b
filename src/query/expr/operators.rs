//! All operators: the families in one table, and those that are known but refused. The parser is given the table.

use super::core::call::{Folding, Operator, OperatorTable, Shape};
use super::core::{regex, variables};
use super::value::null;
use super::{
    accumulate, arithmetic, array, boolean, convert, date, hashed_key, object, rounding, set, string, trigonometry,
};

const JAVASCRIPT: Shape = Shape::Refused("it runs JavaScript on the server");
const SERVER: Shape = Shape::Refused("only a MongoDB server has what it asks for");

const NEVER: Folding = Folding::Never;

const HASHED_KEY: Operator = Operator {
    name: "$toHashedIndexKey",
    shape: Shape::Special(hashed_key::parse),
    folding: Folding::Untouched,
    run: hashed_key::run,
};

/// Operators with a notation of their own; their nodes are not calls, so nothing runs here.
const OTHERS: &[Operator] = &[
    Operator { name: "$let", shape: Shape::Special(variables::parse_let), folding: NEVER, run: |_| null() },
    Operator { name: "$map", shape: Shape::Special(variables::parse_map), folding: NEVER, run: |_| null() },
    Operator { name: "$filter", shape: Shape::Special(variables::parse_filter), folding: NEVER, run: |_| null() },
    Operator { name: "$reduce", shape: Shape::Special(variables::parse_reduce), folding: NEVER, run: |_| null() },
    Operator { name: "$switch", shape: Shape::Special(variables::parse_switch), folding: NEVER, run: |_| null() },
    Operator { name: "$regexFind", shape: Shape::Special(regex::parse), folding: NEVER, run: |_| null() },
    Operator { name: "$regexFindAll", shape: Shape::Special(regex::parse), folding: NEVER, run: |_| null() },
    Operator { name: "$regexMatch", shape: Shape::Special(regex::parse), folding: NEVER, run: |_| null() },
    Operator {
        name: "$rand",
        shape: Shape::Special(arithmetic::parse_rand),
        folding: NEVER,
        run: |_| arithmetic::rand(),
    },
    Operator { name: "$meta", shape: SERVER, folding: NEVER, run: |_| null() },
    HASHED_KEY,
    Operator { name: "$function", shape: JAVASCRIPT, folding: NEVER, run: |_| null() },
    Operator { name: "$_internalJsEmit", shape: JAVASCRIPT, folding: NEVER, run: |_| null() },
];

/// Every operator.
pub(super) const TABLE: OperatorTable = OperatorTable(&[
    boolean::OPERATORS,
    arithmetic::OPERATORS,
    rounding::OPERATORS,
    trigonometry::OPERATORS,
    accumulate::OPERATORS,
    array::OPERATORS,
    set::OPERATORS,
    object::OPERATORS,
    string::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
    OTHERS,
]);
