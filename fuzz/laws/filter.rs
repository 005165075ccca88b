//! Laws of filters, projections and sorts: parsing and matching come to an end without a panic, what is accepted is
//! within the limits, a refusal has its place, and what means the same gives the same answer.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};
use inventory_service::json::read::document_from_str;
use inventory_service::query::{EvalError, Filter, Limits, Projection, QueryError, QueryErrorKind, Sort};

/// Wider than what clients have, so that a filter fits that a law has put another one around.
const WIDE: Limits = Limits { max_depth: 30, max_nodes: 5000, ..Limits::DEFAULT };

/// Reads lines of Extended JSON: a filter, a document, a projection, a sort. The last two may be missing.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n').map(document_from_str);
    let Some(Ok(filter)) = lines.next() else { return };
    let document = lines.next().and_then(Result::ok).unwrap_or_default();
    let Ok(stored) = RawDocumentBuf::try_from(&document) else { return };
    let parsed = parse(&filter);
    if let Ok(filter) = &parsed {
        means_the_same_otherwise(filter, &stored);
        ends_on_broken_bytes(filter, &stored);
    }
    if let Some(Ok(projection)) = lines.next() {
        let filter = parsed.unwrap_or_default();
        project(&projection, &filter, &stored);
    }
    if let Some(Ok(sort)) = lines.next() {
        order(&sort, &stored);
    }
}

fn parse(filter: &Document) -> Result<Filter, QueryError> {
    let parsed = Filter::parse_at(filter, &Limits::DEFAULT, now());
    match &parsed {
        Ok(parsed) => {
            assert_eq!(parsed.document().to_vec().ok(), filter.to_vec().ok(), "MongoDB is sent what the client sent");
            assert!(
                depth(&Bson::Document(filter.clone())) <= Limits::DEFAULT.max_depth + 1,
                "deeper than allowed: {filter}"
            );
        }
        Err(error) => has_a_place(error, "filter", filter),
    }
    parsed
}

/// Levels of documents and arrays; an empty one is none.
fn depth(value: &Bson) -> usize {
    match value {
        Bson::Document(document) => document.iter().map(|(_, member)| 1 + depth(member)).max().unwrap_or(0),
        Bson::Array(items) => items.iter().map(|item| 1 + depth(item)).max().unwrap_or(0),
        _ => 0,
    }
}

/// The pointer of a refusal leads to something in what the client sent.
fn has_a_place(error: &QueryError, root: &str, document: &Document) {
    assert!(error.path.starts_with(root) && !error.message.is_empty(), "{error:?}");
    assert!(error.code != 0 || error.kind != QueryErrorKind::Malformed, "{error:?}");
    let mut at = Bson::Document(document.clone());
    for step in error.pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match &at {
            Bson::Document(members) => members.get(&step).cloned(),
            Bson::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index).cloned()),
            _ => None,
        };
        at = next.unwrap_or_else(|| panic!("{} leads nowhere in {document}: {error}", error.pointer));
    }
}

/// `$$NOW`: any time will do.
fn now() -> DateTime {
    DateTime::from_millis(1_700_000_000_000)
}

type Answer = Result<bool, i32>;

fn answer(filter: &Document, document: &RawDocument) -> Answer {
    let filter = Filter::parse_at(filter, &WIDE, now()).unwrap_or_else(|error| panic!("{filter}: {error}"));
    code(filter.matches(document))
}

fn code<T>(outcome: Result<T, EvalError>) -> Result<T, i32> {
    outcome.map_err(|error| error.code)
}

/// A filter that is not the same at each run, or that only a server can answer.
fn is_fickle(filter: &Filter) -> bool {
    filter.needs_server().is_some() || filter.document().to_string().contains("$rand")
}

fn means_the_same_otherwise(filter: &Filter, document: &RawDocument) {
    let asked = code(filter.matches(document));
    if is_fickle(filter) {
        return;
    }
    let filter = filter.document();
    assert_eq!(answer(filter, document), asked, "asked again: {filter}");
    assert_eq!(answer(&doc! { "$nor": [filter.clone()] }, document), asked.map(|answer| !answer), "$nor: {filter}");
    assert_eq!(answer(&doc! { "$and": [filter.clone()] }, document), asked, "$and: {filter}");
    let or_never = doc! { "$or": [filter.clone(), { "$alwaysFalse": 1 }] };
    assert_eq!(answer(&or_never, document), asked, "$or: {filter}");
    let canonical = Bson::Document(filter.clone()).into_canonical_extjson().to_string();
    let again = document_from_str(&canonical).expect("what was read can be written and read");
    assert_eq!(answer(&again, document), asked, "written and read: {filter}");
    let decoded = Document::try_from(document).expect("the document was read");
    let encoded = RawDocumentBuf::try_from(&decoded).expect("the document is BSON");
    assert_eq!(answer(filter, &encoded), asked, "on the document written again: {filter}");

    let parts = filter.iter().flat_map(|(name, value)| parts(name, value));
    let answers: Result<Vec<bool>, i32> = parts.map(|part| answer(&part, document)).collect();
    if let (Ok(answers), Ok(asked)) = (answers, asked) {
        assert_eq!(answers.iter().all(|answer| *answer), asked, "in parts: {filter}");
    }
}

/// Filters that all match where the member `name: value` of a filter does, in other words where there are any.
fn parts(name: &str, value: &Bson) -> Vec<Document> {
    let whole = || vec![doc! { name: value.clone() }];
    let Some(operators) = value.as_document().filter(|_| !name.starts_with('$')) else { return whole() };
    let is_reference = operators.contains_key("$ref") && operators.contains_key("$id");
    if is_reference || !operators.keys().next().is_some_and(|first| first.starts_with('$')) {
        return whole();
    }
    let of_one = |(operator, operand): (&String, &Bson)| match (operator.as_str(), operand) {
        ("$regex" | "$options", _) => {
            let both = operators.iter().filter(|(name, _)| matches!(name.as_str(), "$regex" | "$options"));
            let both: Document = both.map(|(name, value)| (name.clone(), value.clone())).collect();
            doc! { name: both }
        }
        ("$eq", Bson::RegularExpression(_)) => doc! { name: { "$eq": operand.clone() } },
        ("$ne", _) => doc! { "$nor": [{ name: { "$eq": operand.clone() } }] },
        ("$not", Bson::Document(_)) => doc! { "$nor": [{ name: operand.clone() }] },
        ("$in", Bson::Array(items)) => any_of(name, items),
        ("$nin", Bson::Array(items)) => doc! { "$nor": [any_of(name, items)] },
        _ => doc! { name: { operator: operand.clone() } },
    };
    operators.iter().map(of_one).collect()
}

fn any_of(name: &str, items: &[Bson]) -> Document {
    if items.is_empty() {
        return doc! { "$alwaysFalse": 1 };
    }
    // Below $and, so that the parser does not join them to $in again.
    let equal = |item: &Bson| match item {
        Bson::RegularExpression(_) => doc! { name: item.clone() },
        _ => doc! { name: { "$eq": item.clone() } },
    };
    let alone = |item: &Bson| doc! { "$and": [equal(item), { "$alwaysTrue": 1 }, { "$comment": "" }] };
    doc! { "$or": items.iter().map(alone).collect::<Vec<_>>() }
}

/// A document of which one byte is another one. Whatever it says then, there is an end.
fn ends_on_broken_bytes(filter: &Filter, document: &RawDocument) {
    let mut bytes = document.as_bytes().to_vec();
    let inside = bytes.len() - 5;
    for step in 0..inside.min(16) {
        let at = 4 + inside * step / inside.min(16);
        let kept = bytes[at];
        for broken in [0, 0xff, kept ^ 1, kept ^ 0x10] {
            bytes[at] = broken;
            if let Ok(document) = RawDocument::from_bytes(&bytes) {
                let _ = filter.matches(document);
            }
        }
        bytes[at] = kept;
    }
}

fn project(projection: &Document, filter: &Filter, document: &RawDocument) {
    match Projection::parse_at(projection, filter, &Limits::DEFAULT, now()) {
        Err(error) => has_a_place(&error, "projection", projection),
        Ok(projection) => {
            if let Ok(projected) = projection.apply(document, filter) {
                Document::try_from(&*projected).expect("a projected document is BSON");
            }
        }
    }
}

fn order(sort: &Document, document: &RawDocument) {
    match Sort::parse(sort) {
        Err(error) => has_a_place(&error, "sort", sort),
        Ok(sort) => {
            if let Ok(key) = sort.key_of(document) {
                assert!(sort.compare(&key, &key).is_eq(), "a document is beside itself in every order");
            }
        }
    }
}
