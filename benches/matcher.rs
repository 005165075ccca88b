//! What a filter costs on one document of 1 KB, compared with a bare walk over the same bytes in the same run.
//!
//! `cargo bench --bench matcher`; each time is that of one document. The documents are 256 stored objects that
//! differ in their values, one after the other, so that nothing is guessed from the last one; one in sixteen matches.
//!
//! *The bare walk* goes over every element of the document and of all documents and arrays in it, in stored order,
//! and hands out its type, its name and the bytes of its value. It decodes no value and compares no name. A filter
//! does less where it skips a nested document, and more where it compares.
//!
//! After criterion's figures follows a table of the lowest times of 400 rounds that take turns, which a busy machine
//! does not disturb. Of one such run, on two cores of a shared virtual machine:
//!
//! | filter | ns a document | times the walk | why |
//! |---|---|---|---|
//! | bare walk | 294 | 1 | 57 elements |
//! | equality on a top field | 71 | 0.24 | passes over the other members, nested ones whole |
//! | elemMatch on name and value | 412 | 1.40 | looks for `name` in each of the fifteen fields |
//! | ten-way or | 421 | 1.43 | each branch looks for its member from the start |
//! | regex prefix | 429 | 1.46 | the same as elemMatch, and the expression once |
//! | regex prefix on a top field | 118 | 0.40 | a search for the member, and the expression |
//! | range on a date | 110 | 0.37 | two tests, two searches |

use std::hint::black_box;
use std::time::Instant;

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, doc};
use criterion::{Criterion, criterion_group, criterion_main};
use inventory_service::query::{Filter, Limits};
use inventory_service::raw::Elements;

const DOCUMENTS: i32 = 256;
/// One document of this number matches.
const HITS: i64 = 16;
const DAY: i64 = 86_400_000;

/// An object as the service stores it: twelve members, one of which holds its fifteen fields.
fn object(number: i64) -> RawDocumentBuf {
    let hit = number % HITS == 0;
    let text = |name: &str, value: String| doc! { "name": name, "value": value };
    let host = if hit { "db-production" } else { "web-production" };
    let mut fields: Vec<Bson> = vec![
        text("hostname", format!("{host}-{number:06}")).into(),
        text("inventory-number", format!("INV-{number:07}")).into(),
        text("vendor", "Fabrikam".to_owned()).into(),
        text("model", "PowerRack R660".to_owned()).into(),
        text("environment", "production".to_owned()).into(),
        text("ip-address", format!("10.0.{}.{}", number / 250, number % 250)).into(),
        text("mac-address", format!("02:1c:00:00:00:{number:02x}")).into(),
        text("role", "hypervisor".to_owned()).into(),
        text("serial-number", format!("LGG{number:07}")).into(),
        doc! { "name": "memory-gib", "value": 512 }.into(),
        doc! { "name": "price", "value": 15_448.65 }.into(),
        doc! { "name": "monitored", "value": true }.into(),
        doc! { "name": "rack", "value": number }.into(),
        doc! { "name": "bought-on", "value": DateTime::from_millis(number * DAY) }.into(),
    ];
    fields.push(text("status", if hit { "retired" } else { "in-service" }.to_owned()).into());
    let document = doc! {
        "_id": bson::oid::ObjectId::from_bytes([7; 12]),
        "public_id": number,
        "type_id": 7_i64,
        "status": true,
        "version": "1.0.0",
        "author_id": 1_i64,
        "creation_time": DateTime::from_millis(1_700_000_000_000 + number % HITS * DAY),
        "last_edit_time": Bson::Null,
        "active": true,
        "fields": fields,
        "notes": "Delivered without rails, which were ordered later; the left power supply was replaced in spring. \
                  The console answers on the second address.",
        "editor_id": if hit { 1_i64 } else { 2_i64 },
    };
    RawDocumentBuf::try_from(&document).expect("an object")
}

/// The bare walk.
fn walk(document: &[u8]) {
    for element in Elements::within(document) {
        let value = element.value;
        black_box((value.kind(), element.name, value.bytes));
        if value.is_document() || value.is_array() {
            walk(value.bytes);
        }
    }
}

fn field(name: &str, test: impl Into<Bson>) -> Document {
    doc! { "fields": { "$elemMatch": { "name": name, "value": test.into() } } }
}

fn filters() -> [(&'static str, Document); 6] {
    let first_day = DateTime::from_millis(1_700_000_000_000 - 1);
    let second_day = DateTime::from_millis(1_700_000_000_000 + DAY);
    let ten: Vec<Document> =
        ["_id", "public_id", "type_id", "version", "author_id", "creation_time", "last_edit_time", "notes", "views"]
            .into_iter()
            .map(|name| doc! { name: 999_i64 })
            .chain([doc! { "editor_id": 1_i64 }])
            .collect();
    [
        // The last member: all others are passed over.
        ("equality on a top field", doc! { "editor_id": 1_i64 }),
        // The last of fifteen fields.
        ("elemMatch on name and value", field("status", "retired")),
        ("ten-way or", doc! { "$or": ten }),
        ("regex prefix", field("hostname", doc! { "$regex": "^db-prod" })),
        ("regex prefix on a top field", doc! { "notes": { "$regex": "^Delivered late" } }),
        ("range on a date", doc! { "creation_time": { "$gt": first_day, "$lt": second_day } }),
    ]
}

fn matcher(criterion: &mut Criterion) {
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS).map(|number| object(number.into())).collect();
    let bytes: usize = documents.iter().map(|document| document.as_bytes().len()).sum::<usize>() / documents.len();
    assert!((1000..=1100).contains(&bytes), "the documents have {bytes} bytes");
    let mut group = criterion.benchmark_group("matcher");
    let mut all = documents.iter().cycle();
    group.bench_function("bare walk", |bencher| {
        bencher.iter(|| walk(black_box(all.next().expect("a document").as_bytes())));
    });
    for (name, filter) in filters() {
        let filter = Filter::parse(&filter, &Limits::default()).expect("a good filter");
        let mut all = documents.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| filter.matches(black_box(all.next().expect("a document"))).expect("an answer"));
        });
    }
    group.finish();
    lowest(&documents);
}

/// The lowest time of a document in many rounds, in nanoseconds.
fn lowest(documents: &[RawDocumentBuf]) {
    let filters = filters().map(|(name, filter)| (name, Filter::parse(&filter, &Limits::default()).expect("good")));
    let mut best = [f64::MAX; 7];
    let time = |run: &mut dyn FnMut(&RawDocumentBuf)| {
        let start = Instant::now();
        for document in documents {
            run(black_box(document));
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(DOCUMENTS)
    };
    for _ in 0..400 {
        best[0] = best[0].min(time(&mut |document| walk(document.as_bytes())));
        for ((_, filter), best) in filters.iter().zip(&mut best[1..]) {
            *best = best.min(time(&mut |document| _ = black_box(filter.matches(document))));
        }
    }
    println!("bare walk: {:.0} ns", best[0]);
    for ((name, _), time) in filters.iter().zip(&best[1..]) {
        println!("{name}: {time:.0} ns, {:.2} times the walk", time / best[0]);
    }
}

criterion_group!(benches, matcher);
criterion_main!(benches);
