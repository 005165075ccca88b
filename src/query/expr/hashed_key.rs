//! `$toHashedIndexKey`: the number under which a hashed index keeps a value, half an MD5 sum.

use bson::Bson;
use md5::{Digest, Md5};

use super::core::call::{Arguments, Operator};
use super::core::evaluate::ExprNode;
use super::core::parse::{ExprParser, call};
use super::decimal::Rounding;
use super::value::{Number, Outcome, failure, found};
use crate::query::compare::type_rank;
use crate::query::error::QueryError;
use crate::query::number::TWO_63;
use crate::query::raw::{Element, Elements, Owned, Value, View};

/// One operand; a list is one too.
pub(super) fn parse(
    parser: &mut ExprParser<'_>,
    operator: &'static Operator,
    operand: &Bson,
) -> Result<ExprNode, QueryError> {
    Ok(call(operator, vec![Some(parser.expression(operand)?)]))
}

/// The key of the operand; a missing one counts as null.
pub(super) fn run(arguments: &Arguments<'_>) -> Outcome {
    let value = arguments.value(0)?.unwrap_or(Bson::Null);
    match Owned::encode(&value) {
        Ok(value) => found(hash(value.value())),
        Err(error) => failure(22, error.to_string()),
    }
}

fn hash(value: Value<'_>) -> i64 {
    // MongoDB allows for a seed, which is always zero.
    let mut message = vec![0; 4];
    append(&mut message, value);
    let digest = Md5::digest(&message);
    i64::from_le_bytes(*digest.first_chunk().unwrap_or(&[0; 8]))
}

/// Type, then contents; numbers of all types by their whole part (decimals rounded).
fn append(message: &mut Vec<u8>, value: Value<'_>) {
    let view = value.view();
    append_type(message, type_rank(view));
    match view {
        View::Document(members) | View::Array(members) => append_members(message, members),
        View::CodeWithScope(code, scope) => {
            message.extend(code);
            message.push(0);
            append_members(message, scope);
        }
        View::Int32(_) | View::Int64(_) | View::Double(_) | View::Decimal(_) => {
            let number = value.to_bson().as_ref().and_then(Number::of).map_or(0, whole_part);
            message.extend(number.to_le_bytes());
        }
        _ => message.extend(value.bytes),
    }
}

fn append_type(message: &mut Vec<u8>, rank: i8) {
    message.extend(i32::from(rank).to_le_bytes());
}

fn append_members(message: &mut Vec<u8>, members: &[u8]) {
    for Element { name, value } in Elements::within(members) {
        append_type(message, type_rank(value.view()));
        message.extend(name);
        message.push(0);
        // The type comes before the name, and is not repeated after it.
        let mut contents = Vec::new();
        append(&mut contents, value);
        message.extend(contents.split_off(4));
    }
    // The end of a document has a type as well.
    append_type(message, 0);
}

fn whole_part(number: Number) -> i64 {
    match number {
        Number::Decimal(decimal) => decimal
            .quantized(0, Rounding::HalfEven)
            .to_i64_truncated()
            .unwrap_or_else(|| Number::Double(decimal.to_f64()).to_i64_saturating()),
        // The one double that is just too large: MongoDB hands it to a conversion that turns it around.
        Number::Double(number) if number.to_bits() == TWO_63.to_bits() => i64::MIN,
        number => number.to_i64_saturating(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_types_have_one_key() {
        for number in [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.4)] {
            let value = Owned::encode(&number).expect("a number");
            assert_eq!(hash(value.value()), 4_470_791_281_878_691_347);
        }
    }
}
