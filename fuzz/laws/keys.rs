//! Laws of the keys of indexes: their order is the order of the values.

use std::cmp::Ordering;

use bson::Bson;
use bson::raw::RawBson;
use inventory_service::query::compare::{compare_bson, compare_raw};
use inventory_service::store::embedded::key::{cut, invert, of_value};

use super::values::Values;

/// Reads three values, and holds each pair of them to the laws.
pub fn hold(bytes: &[u8]) {
    let mut values = Values::of(bytes);
    let (first, second, third) = (values.value(), values.value(), values.value());
    for (left, right) in [(&first, &second), (&second, &third), (&first, &third), (&first, &first)] {
        hold_for(left, right);
    }
}

fn hold_for(left: &Bson, right: &Bson) {
    let (raw_left, raw_right) = (raw(left), raw(right));
    let order = compare_raw(raw_left.as_raw_bson_ref(), raw_right.as_raw_bson_ref());
    assert_eq!(order, compare_bson(left, right), "decoded values compare as stored ones: {left:?} {right:?}");
    let (left_key, right_key) = (key(&raw_left), key(&raw_right));
    assert_eq!(left_key.cmp(&right_key), order, "{left:?} {right:?}");
    if order.is_ne() {
        let prefix = left_key.starts_with(&right_key) || right_key.starts_with(&left_key);
        assert!(!prefix, "no key begins another one: {left:?} {right:?}");
    }
    let (left_turned, right_turned) = (turned(&left_key), turned(&right_key));
    assert_eq!(left_turned.cmp(&right_turned), order.reverse(), "descending: {left:?} {right:?}");

    for (left_key, right_key, order) in [(left_key, right_key, order), (left_turned, right_turned, order.reverse())] {
        let (left_cut, right_cut) = (shortened(&left_key, false), shortened(&right_key, false));
        let contradicts = left_cut.cmp(&right_cut) == order.reverse() && order != Ordering::Equal;
        assert!(!contradicts, "cut keys may be equal, not the other way round: {left:?} {right:?}");
        assert!(order.is_ne() || left_cut == right_cut, "equal values have equal cut keys: {left:?} {right:?}");
        let (left_unique, right_unique) = (shortened(&left_key, true), shortened(&right_key, true));
        assert_eq!(left_unique == right_unique, order.is_eq(), "unique: {left:?} {right:?}");
    }
}

fn raw(value: &Bson) -> RawBson {
    RawBson::try_from(value.clone()).expect("the values are BSON")
}

fn key(value: &RawBson) -> Vec<u8> {
    of_value(value.as_raw_bson_ref()).expect("a value has a key")
}

fn turned(key: &[u8]) -> Vec<u8> {
    let mut turned = key.to_vec();
    invert(&mut turned);
    turned
}

fn shortened(key: &[u8], unique: bool) -> Vec<u8> {
    let mut shortened = key.to_vec();
    cut(&mut shortened, unique);
    shortened
}
