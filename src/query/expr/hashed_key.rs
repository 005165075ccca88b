//! `$toHashedIndexKey`: the number under which a hashed index keeps a value, half an MD5 sum.

use bson::Bson;

use super::call::{Arguments, Operator};
use super::decimal::Rounding;
use super::evaluate::ExprNode;
use super::parse::{ExprParser, call};
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
    let digest = md5(&message);
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
        // The type stands in front of the name, not behind it again.
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

/// RFC 1321. Not for secrets; an index key only.
fn md5(message: &[u8]) -> [u8; 16] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64), 0);
    let bits = u64::try_from(message.len()).unwrap_or(0).wrapping_mul(8);
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&bits.to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let round = digest_block(state, block);
        for (word, add) in state.iter_mut().zip(round) {
            *word = word.wrapping_add(add);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn digest_block(state: [u32; 4], block: &[u8]) -> [u32; 4] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let words: Vec<u32> =
        block.chunks_exact(4).map(|bytes| u32::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]))).collect();
    let [mut a, mut b, mut c, mut d] = state;
    for step in 0..64_usize {
        let (mixed, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = mixed.wrapping_add(a).wrapping_add(constant(step)).wrapping_add(words[word]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
    }
    [a, b, c, d]
}

/// The integer part of 2 to the power of 32 times the sine of the step.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2 to the power of 32")]
fn constant(step: usize) -> u32 {
    let angle = f64::from(u32::try_from(step + 1).unwrap_or(0));
    (angle.sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_standard() {
        let sum = |message: &str| u128::from_be_bytes(md5(message.as_bytes()));
        assert_eq!(sum(""), 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e);
        assert_eq!(sum("message digest"), 0xf96b_697d_7cb7_938d_525a_2f31_aaf1_61d0);
        let long = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(sum(long), 0x57ed_f4a2_2be3_c955_ac49_da2e_2107_b67a);
    }

    #[test]
    fn numbers_of_all_types_have_one_key() {
        for number in [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.4)] {
            let value = Owned::encode(&number).expect("a number");
            assert_eq!(hash(value.value()), 4_470_791_281_878_691_347);
        }
    }
}
