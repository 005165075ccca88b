//! What the answers to one question come to, and the list of what has to differ.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::bench::{Answer, Answers, Asked, Bench, Found, Refusal};
use super::case::Case;
use super::culprit::{differs_by_itself, fails_in_match, inner_pipelines, is_refused_with_a_document, looks_up_by_id};
use super::generator::Question;

/// What the answers come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Equal answers; whether any document was found.
    Equal { found: bool },
    /// All refuse; whether with MongoDB's number.
    Refused { same_number: bool },
    /// They differ, as they have to.
    Known(Known),
    /// They differ, and must not.
    Different(Difference),
}

/// Who answered what: a case that is made smaller keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) mongodb_answers: bool,
    pub(super) embedded_answers: bool,
    /// Without an index the answer is another one than with indexes.
    pub(super) by_index: bool,
}

/// What must differ, each with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// Server-side JavaScript is never run, whatever the store, and some operators need a server.
    Refused,
    /// Our regular expressions lack what their engine lacks, and say so.
    RegularExpression,
    /// MongoDB computes logarithms, roots and angles of decimals to 34 digits, of which the last may be wrong. Here they have the 15
    /// digits of doubles, and their range; roots, powers and degrees have 34.
    DecimalDigits,
    /// MongoDB guesses what a text says of a date; here it must be in ISO 8601 or in a format.
    DateInText,
    /// Without a limit MongoDB may project before it sorts, if it takes the paths of the order for ones that the projection has
    /// kept as they were; arrays can be shorter then. With a limit it sorts first, and answers as the embedded store does.
    SortOfProjected,
    /// The server fails on its own plan: no document and no index of the embedded store has anything to do with it.
    ServerFault,
    /// A query that fails on a document does not look at it when an index of the embedded store leads past it, as that on `_id` may.
    FailurePassedByIndex,
    /// With an index MongoDB asks conditions in another order and passes documents by, so that it meets other failures than
    /// without one. The collection here has one on `_id`. With a hint to scan, it answers as the embedded store does. A
    /// `$lookup` by `_id` takes no hint.
    FailureByPlan,
    /// The server's second engine answers otherwise than its first: it moves members, keeps another one of equal values, and wraps
    /// the smallest and the largest key. What is not given to it, the server answers as the embedded store does.
    OtherEngine,
    /// A `$match` after other stages asks its conditions in the order in which they are written; here in that of filters.
    /// The store that fails begins to fail at such a stage.
    FailureInMatch,
    /// A member that one stage takes out and a later one sets comes back to its place in the server; here it comes last.
    PlaceOfMembers,
    /// Between stages the server keeps elements that a projection dropped from an array, and its answers show it: a later stage
    /// counts or sets them. When each stage reads what the one before it has given, it answers as the embedded store does; or so it
    /// does for a pipeline inside of this one, asked alone.
    KeptBetweenStages,
    /// What always fails in the pipeline of a `$lookup` is refused here ahead; the server notices with the first document, and
    /// refuses then.
    RefusedAhead,
    /// A schema together with an expression that fails, also in one `$or`: MongoDB asks their parts in an order of its own;
    /// here the schema decides first. docs/filters.md, What differs from a MongoDB server.
    FailureBesideSchema,
    /// After other stages the conditions of the server find no member whose name is empty.
    EmptyName,
    /// The server takes texts apart between the bytes of a character: what it answers is no BSON.
    NotText,
}

impl Known {
    /// For the summary.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Refused => "refused on purpose",
            Self::RegularExpression => "a regular expression that the engine lacks",
            Self::DateInText => "a date in a text that is not ISO 8601",
            Self::SortOfProjected => "an order of what is projected",
            Self::ServerFault => "a fault of the server's planner",
            Self::DecimalDigits => "the digits of a decimal function",
            Self::FailurePassedByIndex => "a failing document that an index led past",
            Self::FailureByPlan => "a failure that the server meets or not as it has an index",
            Self::OtherEngine => "an answer of the server's second engine",
            Self::FailureInMatch => "a failing condition of a $match behind other stages",
            Self::PlaceOfMembers => "the place of a member that was taken out",
            Self::KeptBetweenStages => "what the server keeps between stages and gives nobody",
            Self::RefusedAhead => "a constant failure in the pipeline of a $lookup",
            Self::FailureBesideSchema => "a failing expression beside a schema in one $or",
            Self::EmptyName => "a condition on an empty name behind other stages",
            Self::NotText => "a text of the server's that is no text",
        }
    }
}

/// What reads dates in texts.
const READS_DATES: [&str; 3] = ["$dateFromString", "$toDate", "$convert"];

/// What MongoDB 6.0.27 says of a negated comparison of `_id` with a symbol.
const CANNOT_INVERT_BOUNDS: i32 = 4_457_011;
/// What its second engine says of some groups by a decimal: "duplicate field".
const DUPLICATE_FIELD: i32 = 4_822_806;
/// What it says of an `$ifNull` of `$$REMOVE` and one more, of which it has taken the first out itself.
const LEFT_ALONE: i32 = 5_868_001;
/// All of these.
const FAULTS: [i32; 3] = [CANNOT_INVERT_BOUNDS, DUPLICATE_FIELD, LEFT_ALONE];

/// Functions of decimals whose digits may differ.
const TRANSCENDENTAL: [&str; 21] = [
    "$exp", "$ln", "$log", "$log10", "$pow", "$sqrt", "$sin", "$cos", "$tan", "$asin", "$acos", "$atan", "$atan2",
    "$sinh", "$cosh", "$tanh", "$asinh", "$acosh", "$atanh", "$degreesToRadians", "$radiansToDegrees",
];

/// Compares the answers to the question of the case, which is what the bench has stored; may ask the server again.
pub(super) async fn verdict(bench: &Bench, case: &Case, answers: &Answers) -> Verdict {
    let Answers { mongo, adapter, plain, indexed } = answers;
    let by_index = !is_same_answer(plain, indexed);
    let difference = Difference { mongodb_answers: mongo.is_ok(), embedded_answers: plain.is_ok(), by_index };
    // What the server did not say, the same code says for both stores.
    if !is_same_answer(adapter, plain) && !is_same_answer(adapter, mongo) {
        return Verdict::Different(difference);
    }
    match (mongo, plain, indexed) {
        (Ok(mongo), Ok(plain), _) if !by_index && is_same_found(mongo, plain) => {
            Verdict::Equal { found: !mongo.documents.is_empty() }
        }
        (Err(mongo), Err(plain), Err(_)) => Verdict::Refused { same_number: mongo.code == plain.code },
        _ => known(bench, case, answers).await.map_or(Verdict::Different(difference), Verdict::Known),
    }
}

async fn known(bench: &Bench, case: &Case, answers: &Answers) -> Option<Known> {
    let Answers { mongo, plain, indexed, .. } = answers;
    if matches!(plain, Err(Refusal { on_purpose: true, .. })) {
        return Some(Known::Refused);
    }
    if plain.as_ref().is_err_and(|refusal| refusal.words.contains("regular expression: ")) && mongo.is_ok() {
        return Some(Known::RegularExpression);
    }
    if mongo.as_ref().is_err_and(|refusal| refusal.code.is_some_and(|code| FAULTS.contains(&code))) {
        return Some(Known::ServerFault);
    }
    if mongo.as_ref().is_ok_and(|found| found.documents.iter().any(|document| Document::try_from(document).is_err())) {
        return Some(Known::NotText);
    }
    if mongo.is_err() && plain.is_err() && indexed.is_ok() {
        return Some(Known::FailurePassedByIndex);
    }
    if !is_same_answer(plain, indexed) {
        return None;
    }
    let question = &case.question;
    if mongo.is_ok() != plain.is_ok() {
        let by_scan = bench.ask_server(question, Asked::ByScan).await;
        let are_near = || match (&by_scan, plain) {
            (Ok(by_scan), Ok(plain)) => {
                names_transcendental(question) && is_near_found(by_scan, plain, off_by(question))
            }
            _ => false,
        };
        if is_same_answer(&by_scan, plain) || are_near() {
            return Some(Known::FailureByPlan);
        }
    }
    if let Some(stages) = question.pipeline.as_deref().filter(|_| mongo.is_ok() != plain.is_ok()) {
        let by_scan = bench.ask_server(question, Asked::Naturally).await;
        if is_same_answer(&by_scan, plain) || (mongo.is_err() && looks_up_by_id(stages, has_bounds_of_id)) {
            return Some(Known::FailureByPlan);
        }
    }
    if mongo.is_err() && plain.is_ok() && has_bounds_of_id(&question.filter) {
        return Some(Known::FailurePassedByIndex);
    }
    if question.pipeline.is_some() && is_same_answer(&bench.ask_server(question, Asked::ByScan).await, plain) {
        return Some(Known::OtherEngine);
    }
    if let (Ok(mongo), Ok(plain)) = (mongo, plain)
        && question.pipeline.is_some()
        && mongo.documents.len() == plain.documents.len()
        && mongo.documents.iter().zip(&plain.documents).all(|(mongo, plain)| is_same_unwrapped(mongo, plain))
    {
        return Some(Known::OtherEngine);
    }
    if question.pipeline.is_some() && is_same_answer(&bench.ask_server(question, Asked::Stored).await, plain) {
        return Some(Known::KeptBetweenStages);
    }
    for inner in question.pipeline.iter().flat_map(|stages| inner_pipelines(stages)) {
        let asked = Question { pipeline: Some(inner), ..question.clone() };
        let answers = bench.ask(&asked).await;
        if !is_same_answer(&answers.mongo, &answers.plain)
            && is_same_answer(&bench.ask_server(&asked, Asked::Stored).await, &answers.plain)
        {
            return Some(Known::KeptBetweenStages);
        }
    }
    if let Some(known) = known_of_pipeline(bench, question, mongo, plain).await {
        return Some(known);
    }
    let stages = question.pipeline.as_deref().unwrap_or_default();
    let mut conditions = stages.iter().filter_map(|stage| stage.as_document()?.get_document("$match").ok());
    if mongo.is_ok() != plain.is_ok()
        && (has_schema_beside_expression(&question.filter) || conditions.any(has_schema_beside_expression))
    {
        return Some(Known::FailureBesideSchema);
    }
    if question.sort.is_some()
        && question.projection.is_some()
        && question.limit == 0
        && is_same_answer(&bench.ask_server(question, Asked::WithLimit).await, plain)
    {
        return Some(Known::SortOfProjected);
    }
    let transcendental = names_transcendental(question);
    if let (Ok(mongo), Ok(plain)) = (mongo, plain)
        && transcendental
        && is_near_found(mongo, plain, off_by(question))
    {
        return Some(Known::DecimalDigits);
    }
    let is_of_digits = transcendental && differs_by_itself(bench, question, &TRANSCENDENTAL).await;
    if is_of_digits {
        return Some(Known::DecimalDigits);
    }
    let is_of_dates = is_named(question, &READS_DATES) && differs_by_itself(bench, question, &READS_DATES).await;
    is_of_dates.then_some(Known::DateInText)
}

async fn known_of_pipeline(bench: &Bench, question: &Question, mongo: &Answer, plain: &Answer) -> Option<Known> {
    let written = doc! { "pipeline": question.pipeline.as_deref()? };
    match (mongo, plain) {
        (Ok(_), Err(refusal)) if is_refused_with_a_document(bench, question, refusal).await => {
            Some(Known::RefusedAhead)
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => {
            fails_in_match(bench, question, mongo.is_err()).await.then_some(Known::FailureInMatch)
        }
        (Ok(_), Ok(_)) if asks_for_empty_name(question.pipeline.as_deref()?) => Some(Known::EmptyName),
        (Ok(mongo), Ok(plain)) if names(&written, &["$set", "$addFields", "$lookup"]) => {
            let in_order = |found: &Found| -> Option<Vec<Bson>> {
                let documents = found.documents.iter().map(Document::try_from).collect::<Result<Vec<_>, _>>().ok()?;
                Some(documents.into_iter().map(|document| by_name(document.into())).collect())
            };
            let (mongo, plain) = (Bson::Array(in_order(mongo)?), Bson::Array(in_order(plain)?));
            let is_near = names(&written, &TRANSCENDENTAL) && is_near(&mongo, &plain, off_by(question));
            (is_same(&mongo, &plain) || is_near).then_some(Known::PlaceOfMembers)
        }
        _ => None,
    }
}

/// Whether the documents are equal once the smallest and the largest keys of the server's are not wrapped.
fn is_same_unwrapped(mongo: &RawDocumentBuf, plain: &RawDocumentBuf) -> bool {
    match (Document::try_from(mongo.as_ref()), Document::try_from(plain.as_ref())) {
        (Ok(mongo), Ok(plain)) => is_same(&unwrapped(mongo.into()), &plain.into()),
        _ => false,
    }
}

fn unwrapped(value: Bson) -> Bson {
    match value {
        Bson::Document(document) => match document.get("") {
            Some(key @ (Bson::MinKey | Bson::MaxKey)) if document.len() == 1 => key.clone(),
            _ => Bson::Document(document.into_iter().map(|(name, value)| (name, unwrapped(value))).collect()),
        },
        Bson::Array(items) => Bson::Array(items.into_iter().map(unwrapped).collect()),
        other => other,
    }
}

/// The value with members in the order of their names.
fn by_name(value: Bson) -> Bson {
    match value {
        Bson::Document(document) => {
            let mut members: Vec<_> = document.into_iter().map(|(name, value)| (name, by_name(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Bson::Document(members.into_iter().collect())
        }
        Bson::Array(items) => Bson::Array(items.into_iter().map(by_name).collect()),
        other => other,
    }
}

/// Whether only the last digits of decimals differ.
fn is_near_found(left: &Found, right: &Found, off_by: u128) -> bool {
    left.documents.len() == right.documents.len()
        && left.documents.iter().zip(&right.documents).all(|(left, right)| {
            match (Document::try_from(left), Document::try_from(right)) {
                (Ok(left), Ok(right)) => is_near(&left.into(), &right.into(), off_by),
                _ => false,
            }
        })
}

fn is_near(left: &Bson, right: &Bson, off_by: u128) -> bool {
    match (left, right) {
        (Bson::Decimal128(left), Bson::Decimal128(right)) => {
            left == right || are_near(&left.to_string(), &right.to_string(), off_by)
        }
        // What was made of a decimal.
        (Bson::String(left), Bson::String(right)) => left == right || are_near(left, right, off_by),
        (Bson::Document(left), Bson::Document(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((name, left), (other, right))| name == other && is_near(left, right, off_by))
        }
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_near(left, right, off_by))
        }
        (left, right) => is_same(left, right),
    }
}

/// Those that have 34 digits on both stores.
const EXACT: [&str; 3] = ["$sqrt", "$degreesToRadians", "$radiansToDegrees"];

/// How many units of the last of 34 digits the answers may be apart: what is left of a division by a number is as far off as that
/// number was, often.
fn off_by(question: &Question) -> u128 {
    let is_exact = |name: &&str| EXACT.contains(name);
    let (exact, through_doubles): (Vec<&str>, Vec<&str>) = TRANSCENDENTAL.into_iter().partition(is_exact);
    if is_named(question, &["$mod"]) {
        u128::MAX
    } else if is_named(question, &through_doubles) {
        10_u128.pow(20)
    } else if is_named(question, &exact) {
        1000
    } else {
        0
    }
}

fn are_near(left: &str, right: &str, off_by: u128) -> bool {
    let same_sign = left.starts_with('-') == right.starts_with('-');
    match (digits(left), digits(right)) {
        (Some((left, left_exponent)), Some((right, right_exponent))) => {
            // In units of the 34th digit; of two neighbours one may have a digit more.
            let shift = |number: u128, by: i64| if by == 1 { number * 10 } else { number };
            let by = left_exponent - right_exponent;
            off_by == u128::MAX || same_sign && by.abs() <= 1 && shift(left, by).abs_diff(shift(right, -by)) <= off_by
        }
        _ => false,
    }
}

/// The number with 34 digits, and the power of ten of the last one.
fn digits(text: &str) -> Option<(u128, i64)> {
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = text.split_once('E').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let missing = 34_usize.checked_sub(significant.len())?;
    let number = format!("{significant}{}", "0".repeat(missing)).parse().ok()?;
    let places = i64::try_from(fraction.len() + missing).ok()?;
    Some((number, exponent.parse::<i64>().ok()? - places))
}

/// Whether every document that the filter matches has an `_id` within bounds.
fn has_bounds_of_id(filter: &Document) -> bool {
    filter.iter().any(|(name, value)| match name.as_str() {
        "_id" => true,
        "$and" => value.as_array().into_iter().flatten().filter_map(Bson::as_document).any(has_bounds_of_id),
        _ => false,
    })
}

/// Whether a schema and an expression are in one document, or an `$or` or a `$nor` has one in a part and the other in
/// another.
fn has_schema_beside_expression(filter: &Document) -> bool {
    if filter.contains_key("$jsonSchema") && names(filter, &["$expr"]) {
        return true;
    }
    filter.iter().any(|(name, value)| {
        let parts: Vec<&Document> = value.as_array().into_iter().flatten().filter_map(Bson::as_document).collect();
        let some = |wanted| parts.iter().any(|part| names(part, &[wanted]));
        let is_mixed =
            matches!(name.as_str(), "$or" | "$nor") && parts.len() > 1 && some("$jsonSchema") && some("$expr");
        is_mixed || parts.into_iter().any(has_schema_beside_expression)
    })
}

/// Whether a `$match` anywhere has a condition on an empty name.
fn asks_for_empty_name(stages: &[Bson]) -> bool {
    stages.iter().any(|stage| match stage {
        Bson::Document(members) => members.iter().any(|(name, operand)| match (name.as_str(), operand) {
            ("$match", Bson::Document(filter)) => names(filter, &[""]),
            (_, Bson::Array(inner)) => asks_for_empty_name(inner),
            (_, Bson::Document(_)) => asks_for_empty_name(std::slice::from_ref(operand)),
            _ => false,
        }),
        _ => false,
    })
}

fn names_transcendental(question: &Question) -> bool {
    is_named(question, &TRANSCENDENTAL)
}

/// Whether one of the names is anywhere in the question.
fn is_named(question: &Question, wanted: &[&str]) -> bool {
    let stages = question.pipeline.clone().map(|stages| doc! { "pipeline": stages });
    let parts = [Some(&question.filter), question.projection.as_ref(), stages.as_ref()];
    parts.into_iter().flatten().any(|part| names(part, wanted))
}

/// Whether one of the names is anywhere in the document.
fn names(document: &Document, wanted: &[&str]) -> bool {
    document.iter().any(|(name, value)| wanted.contains(&name.as_str()) || inside(value, wanted))
}

fn inside(value: &Bson, wanted: &[&str]) -> bool {
    match value {
        Bson::Document(document) => names(document, wanted),
        Bson::Array(items) => items.iter().any(|item| inside(item, wanted)),
        _ => false,
    }
}

fn is_same_answer(left: &Answer, right: &Answer) -> bool {
    match (left, right) {
        (Ok(left), Ok(right)) => is_same_found(left, right),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

/// Byte for byte, save that one NaN is as good as another: its sign depends on the processor.
pub(super) fn is_same_found(left: &Found, right: &Found) -> bool {
    let same_total = match (left.total, right.total) {
        (Some(left), Some(right)) => left == right,
        _ => true,
    };
    same_total
        && left.documents.len() == right.documents.len()
        && left.documents.iter().zip(&right.documents).all(|(left, right)| {
            left.as_bytes() == right.as_bytes()
                || match (Document::try_from(left.as_ref()), Document::try_from(right.as_ref())) {
                    (Ok(left), Ok(right)) => is_same(&left.into(), &right.into()),
                    _ => false,
                }
        })
}

fn is_same(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        (Bson::Decimal128(left), Bson::Decimal128(right)) => {
            left == right || (left.to_string() == "NaN" && right.to_string() == "NaN")
        }
        (Bson::Document(left), Bson::Document(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((name, left), (other, right))| name == other && is_same(left, right))
        }
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (left, right) => left == right,
    }
}
