//! The objects: about 1 KB each, made from their number alone, so that every store holds the same.

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, doc};

/// How many objects have the same rack.
pub(crate) const PER_RACK: u32 = 10;
/// How many types there are.
pub(crate) const TYPES: u32 = 20;

const WORDS: [&str; 8] = ["amber", "basalt", "cedar", "delta", "ember", "fjord", "grove", "harbour"];

/// The object of this number, from 1 on; `of` objects in all.
pub(crate) fn object(number: u32, of: u32) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document(number, of)).expect("the members are BSON")
}

fn document(number: u32, of: u32) -> Document {
    let chance = mixed(u64::from(number));
    let word = |shift: u32| WORDS[usize::try_from((chance >> shift) & 7).expect("eight words")];
    let text = |name: &str, value: String| doc! { "name": name, "value": value };
    let made = DateTime::from_millis(1_600_000_000_000 + i64::from(number) * 1000);
    let fields: Vec<Bson> = [
        text("hostname", format!("{}-{number:07}.example.net", word(0))),
        text("serial", format!("{chance:016x}")),
        text("rack", rack(number, of)),
        text("manufacturer", word(3).to_owned()),
        text("model", format!("{} {}", word(6), chance % 97)),
        text("address", format!("10.{}.{}.{}", chance % 251, (chance >> 8) % 253, (chance >> 16) % 254)),
        doc! { "name": "memory", "value": 1_i64 << (4 + chance % 6) },
        doc! { "name": "cores", "value": i64::try_from(2 + chance % 62).expect("it is small") },
        doc! { "name": "bought", "value": made },
        doc! { "name": "monitored", "value": chance.is_multiple_of(2) },
        text("owner", format!("{}.{}@example.net", word(9), chance % 5_000)),
        text("comment", format!("{} {} {} {} beside the {} door", word(12), word(15), word(18), word(21), word(24))),
    ]
    .into_iter()
    .map(Bson::Document)
    .collect();
    doc! {
        "_id": object_id(number),
        "public_id": i64::from(number),
        "type_id": i64::from(1 + number % TYPES),
        "version": "1.0.0",
        "note": note(number, of),
        "creation_time": made,
        "last_edit_time": Bson::Null,
        "author_id": 1_i64,
        "editor_id": Bson::Null,
        "active": true,
        "fields": fields,
        "multi_data_sections": [],
    }
}

/// The rack of an object; its neighbours by number are in others.
pub(crate) fn rack(number: u32, of: u32) -> String {
    format!("rack-{:06}", number % racks(of))
}

/// The note of an object, which no index has: as many objects have the same one as are in a rack.
pub(crate) fn note(number: u32, of: u32) -> String {
    format!("note {}", number % racks(of))
}

/// How many racks there are.
pub(crate) fn racks(of: u32) -> u32 {
    of.div_ceil(PER_RACK)
}

fn object_id(number: u32) -> ObjectId {
    let [a, b, c, d] = number.to_be_bytes();
    ObjectId::from_bytes([0x65, 0x53, 0xf1, 0x00, a, b, c, d, 0x5a, 0x5a, 0x5a, 0x5a])
}

/// Numbers in an order without a pattern, the same each time.
pub(crate) struct Numbers {
    state: u64,
    below: u32,
}

impl Numbers {
    /// From 0 to below `below`.
    pub(crate) fn below(below: u32, seed: u64) -> Self {
        Self { state: seed, below }
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        u32::try_from(mixed(self.state) % u64::from(self.below)).expect("the rest is below a u32")
    }
}

/// Each number gives another one that looks like chance.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
