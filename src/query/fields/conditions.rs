//! Conditions on `f.<name>` as conditions on the entries of the array.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::references::Through;
use super::{Entry, FieldPath, Fields, PREFIX, STORED, VALUE, addresses, expressions};
use crate::address;
use crate::query::entry;
use crate::query::error::{QueryError, code};
use crate::query::filter::operators::{is_operators, truthy};
use crate::query::filter::{Filter, Limits};
use crate::query::parse_context::Location;

/// Conditions that all hold exactly where a filter does.
#[derive(Default)]
struct Rewritten {
    /// What a server may be asked. Alone they find all that the filter finds, and maybe more.
    stored: Vec<Document>,
    /// What the service tests in addition.
    tested: Vec<Document>,
}

impl Rewritten {
    fn add(&mut self, other: Self) {
        self.stored.extend(other.stored);
        self.tested.extend(other.tested);
    }

    fn is_exact(&self) -> bool {
        self.tested.is_empty()
    }

    /// All of it.
    fn whole(self) -> Document {
        joined(Document::new(), self.stored.into_iter().chain(self.tested).collect())
    }

    /// It does not hold.
    fn negated(self) -> Self {
        if !self.is_exact() {
            return Self { stored: Vec::new(), tested: vec![doc! { "$nor": [self.whole()] }] };
        }
        let whole = self.whole();
        let is_of_entries = |operators: &&Document| operators.keys().eq(["$elemMatch"]);
        let negation = match whole.get_document(STORED).ok().filter(|_| whole.len() == 1).filter(is_of_entries) {
            Some(operators) => doc! { STORED: { "$not": operators } },
            None => doc! { "$nor": [whole] },
        };
        Self { stored: vec![negation], tested: Vec::new() }
    }
}

/// A filter without `f.`.
pub(super) fn rewritten(fields: &Fields, filter: &Document, at: &mut Location) -> Result<Document, QueryError> {
    conditions(fields, filter, at).map(Rewritten::whole)
}

fn conditions(fields: &Fields, filter: &Document, at: &mut Location) -> Result<Rewritten, QueryError> {
    let (mut others, mut rewritten) = (Document::new(), Rewritten::default());
    for (name, value) in filter {
        at.enter(name.as_str());
        match (name.as_str(), value) {
            ("$and" | "$or" | "$nor", Bson::Array(branches)) => {
                let all = self::branches(fields, branches, at)?;
                let Rewritten { mut stored, tested } = logical(name, all);
                stored.pop().into_iter().for_each(|stored| others.extend(stored));
                rewritten.tested.extend(tested);
            }
            ("$expr", value) => {
                others.insert(name, expressions::rewritten(fields, STORED, value, at)?);
            }
            (path, value) if fields.goes_through(path) => {
                let path = fields.through(path, at)?;
                rewritten.add(through(fields, &path, value, at)?);
            }
            (path, value) => match fields.resolved(path, at)? {
                Some(path) if path.is_by_address => {
                    rewritten.add(of_address(fields, &path, &addresses::spelled(value), at)?);
                }
                Some(path) => rewritten.add(field(fields, &path, value)?),
                None => drop(others.insert(name, value.clone())),
            },
        }
        at.leave();
    }
    rewritten.stored = match joined(others, rewritten.stored) {
        nothing if nothing.is_empty() => Vec::new(),
        all => vec![all],
    };
    Ok(rewritten)
}

fn branches(fields: &Fields, branches: &[Bson], at: &mut Location) -> Result<Vec<Rewritten>, QueryError> {
    let mut all = Vec::with_capacity(branches.len());
    for (index, branch) in branches.iter().enumerate() {
        at.enter(index.to_string());
        all.extend(branch.as_document().map(|filter| conditions(fields, filter, at)).transpose()?);
        at.leave();
    }
    Ok(all)
}

/// `$and`, `$or` or `$nor` of conditions.
fn logical(operator: &str, branches: Vec<Rewritten>) -> Rewritten {
    let all = |documents: Vec<Document>| Some(doc! { operator: documents });
    let wholes = |branches: Vec<Rewritten>| branches.into_iter().map(Rewritten::whole).collect();
    let stored = || branches.iter().map(|branch| joined(Document::new(), branch.stored.clone())).collect();
    let (stored, tested) = match operator {
        "$and" => (all(stored()), branches.into_iter().flat_map(|branch| branch.tested).collect()),
        "$or" if branches.iter().all(Rewritten::is_exact) => (all(stored()), Vec::new()),
        "$or" => (all(stored()), vec![doc! { operator: wholes(branches) }]),
        _ => {
            let (exact, others): (Vec<_>, Vec<_>) = branches.into_iter().partition(Rewritten::is_exact);
            let of = |branches: Vec<Rewritten>| if branches.is_empty() { None } else { all(wholes(branches)) };
            (of(exact), of(others).into_iter().collect())
        }
    };
    Rewritten { stored: stored.into_iter().collect(), tested }
}

/// All of it holds. One condition joins the others where the name is free.
fn joined(mut others: Document, mut conditions: Vec<Document>) -> Document {
    if conditions.len() == 1 && conditions[0].keys().all(|name| !others.contains_key(name)) {
        others.extend(conditions.remove(0));
        return others;
    }
    if conditions.is_empty() {
        return others;
    }
    if !others.is_empty() {
        conditions.insert(0, others);
    }
    doc! { "$and": conditions }
}

/// The operators that bound a value.
pub const BOUNDS: [&str; 4] = ["$gt", "$gte", "$lt", "$lte"];

/// What one operator says of a path, by the operator, its operand and the whole condition.
type One<'a> = dyn Fn(&str, &Bson, &Bson) -> Result<Rewritten, QueryError> + 'a;

/// The conditions on one field.
fn field(fields: &Fields, path: &FieldPath<'_>, said: &Bson) -> Result<Rewritten, QueryError> {
    if needs_server(said) {
        return Ok(Rewritten { stored: vec![some_entry(path, said)], tested: Vec::new() });
    }
    by_operators(said, true, &|operator, operand, said| Ok(one(fields, path, operator, operand, said)))
}

/// The conditions on the field of an object that is referred to. Each one becomes a condition on the reference: by the ids of
/// the objects that meet it.
fn through(fields: &Fields, path: &Through<'_>, said: &Bson, at: &mut Location) -> Result<Rewritten, QueryError> {
    if path.field.is_by_address {
        // Its refusals are about what the client wrote.
        of_address(&path.reader, &path.field, &addresses::spelled(said), at)?;
    }
    let reference = |said: Document| field(fields, &path.reference(), &said.into());
    let one = |_: &str, _: &Bson, said: &Bson| {
        let condition = doc! { format!("{PREFIX}{}", path.rest): said };
        let met = reference(doc! { "$in": fields.ids(path, condition.clone(), at)? })?;
        if !matches(said, &doc! {}) {
            return Ok(met);
        }
        // What leads nowhere meets it as well, but not what is an element of a list.
        let mut others = reference(doc! { "$nin": fields.ids(path, doc! { "$nor": [condition] }, at)? })?;
        others.add(reference(doc! { "$not": { "$type": "array" } })?);
        Ok(logical("$or", vec![met, others]))
    };
    if needs_server(said) { one("", said, said) } else { by_operators(said, !path.holds_several, &one) }
}

/// The conditions on one path. Each operator may be met by another value. Bounds may be kept together, so that an index
/// is read from the one to the other: of several entries of one name, one meets them all.
fn by_operators(said: &Bson, has_joint_bounds: bool, one: &One<'_>) -> Result<Rewritten, QueryError> {
    let Some(operators) = said.as_document().filter(|operators| is_operators(operators)) else {
        return one("$eq", said, said);
    };
    let is_bound = |(operator, operand): &(&String, &Bson)| {
        BOUNDS.contains(&operator.as_str()) && is_of_elements(operator, operand)
    };
    let mut bounds: Document =
        operators.iter().filter(is_bound).map(|(name, bound)| (name.clone(), bound.clone())).collect();
    if bounds.len() < 2 || !has_joint_bounds {
        bounds.clear();
    }
    let first = bounds.iter().next();
    let together = first.map(|(operator, operand)| one(operator, operand, &bounds.clone().into())).transpose()?;
    let mut all = together.unwrap_or_default();
    for (operator, operand) in operators.iter().filter(|(operator, _)| !bounds.contains_key(operator)) {
        let of = |operator: &str| one(operator, operand, &doc! { operator: operand }.into());
        all.add(match operator.as_str() {
            "$ne" => of("$eq")?.negated(),
            "$nin" => of("$in")?.negated(),
            "$not" => by_operators(operand, has_joint_bounds, one)?.negated(),
            "$exists" if !truthy(operand) => one("$exists", &true.into(), &doc! { "$exists": true }.into())?.negated(),
            "$all" => match operand.as_array().filter(|items| !items.is_empty()) {
                None => of("$in")?,
                Some(items) => {
                    let mut each = Rewritten::default();
                    for item in items {
                        each.add(one(operator, item, &doc! { operator: [item] }.into())?);
                    }
                    each
                }
            },
            "$options" => continue,
            "$regex" => {
                let options = operators.get("$options").map(|options| ("$options".to_owned(), options.clone()));
                let said: Document = [(operator.clone(), operand.clone())].into_iter().chain(options).collect();
                one(operator, operand, &said.into())?
            }
            operator => of(operator)?,
        });
    }
    Ok(all)
}

/// The conditions on a field whose values are in the order of addresses. Bounds are about this order, all else about texts.
fn of_address(fields: &Fields, path: &FieldPath<'_>, said: &Bson, at: &mut Location) -> Result<Rewritten, QueryError> {
    let Some(operators) = said.as_document().filter(|operators| is_operators(operators)) else {
        return field(fields, path, said);
    };
    let (mut bounds, mut others, mut all) = (Document::new(), Document::new(), Rewritten::default());
    for (operator, operand) in operators {
        match operand {
            Bson::String(_) if BOUNDS.contains(&operator.as_str()) => drop(bounds.insert(operator, operand)),
            inner if operator == "$not" => {
                at.enter(operator.as_str());
                all.add(of_address(fields, path, inner, at)?.negated());
                at.leave();
            }
            operand => drop(others.insert(operator, operand)),
        }
    }
    if !others.is_empty() {
        all.add(field(fields, path, &others.into())?);
    }
    if !bounds.is_empty() {
        let keys = addresses::keys(&bounds).map_err(|operator| {
            at.enter(operator);
            let message = format!(
                "f.{} is in the order of addresses; must be {} or {}",
                path.name,
                address::IP,
                address::NETWORK
            );
            at.malformed(code::BAD_VALUE, message)
        })?;
        all.add(Rewritten {
            stored: vec![addresses::between(path, &bounds)],
            tested: vec![entry::condition(&Entry::by_address(path.name), None, keys)],
        });
    }
    Ok(all)
}

/// What one operator says, none that negates.
///
/// Several entries of one name are an array of their values. So each entry alone decides conditions on elements and on
/// members of elements, as long as no value is an array: an array in an array is no element.
fn one(fields: &Fields, path: &FieldPath<'_>, operator: &str, operand: &Bson, said: &Bson) -> Rewritten {
    let is_missing = matches(said, &doc! {});
    let is_of_elements = is_of_elements(operator, operand) && !path.goes_by_position();
    let is_existence = operator == "$exists" && path.rest.is_none();
    let is_exact = is_of_elements
        && (is_existence || !fields.names.holds_arrays(path.name))
        && !(is_missing && path.rest.is_some());
    let there = doc! { "$exists": true };
    let any = some_entry(&FieldPath { rest: None, ..*path }, &there.clone().into());
    let stored = match (is_of_elements, is_missing) {
        (true, false) => vec![some_entry(path, said)],
        (true, true) => {
            let mut entry = doc! { "name": path.name, path.in_entry(): said };
            let value = entry.get_document(VALUE).ok().filter(|said| is_operators(said)).cloned();
            let value = value.or_else(|| Some(doc! { "$eq": entry.get(VALUE)? })).unwrap_or_default();
            entry.insert(VALUE, value.into_iter().chain(there).collect::<Document>());
            let entry = doc! { STORED: { "$elemMatch": entry } };
            vec![doc! { "$or": [entry, { STORED: { "$not": any.get(STORED) } }] }]
        }
        (false, false) => vec![any],
        (false, true) => Vec::new(),
    };
    let tested = vec![entry::condition(&Entry::new(path.name), path.rest, said.clone())];
    Rewritten { stored, tested: if is_exact { Vec::new() } else { tested } }
}

fn some_entry(path: &FieldPath<'_>, said: &Bson) -> Document {
    doc! { STORED: { "$elemMatch": { "name": path.name, path.in_entry(): said } } }
}

/// Whether it is a condition on elements of an array alone, and never on an array as a whole.
fn is_of_elements(operator: &str, operand: &Bson) -> bool {
    let is_whole = |value: &Bson| matches!(value, Bson::Array(_) | Bson::MinKey | Bson::MaxKey);
    match operator {
        "$eq" | "$gt" | "$gte" | "$lt" | "$lte" => !is_whole(operand),
        "$in" => !operand.as_array().is_some_and(|values| values.iter().any(is_whole)),
        "$all" => !is_whole(operand) && !operand.as_document().is_some_and(|item| item.contains_key("$elemMatch")),
        "$type" => !matches(&doc! { operator: operand }.into(), &doc! { "value": [] }),
        operator => operator.starts_with("$bits") || ["$regex", "$mod", "$exists"].contains(&operator),
    }
}

/// Whether only a server can answer.
fn needs_server(said: &Bson) -> bool {
    let filter = Filter::parse(&doc! { VALUE: said }, &Limits::NONE);
    filter.is_ok_and(|filter| filter.needs_server().is_some())
}

fn matches(said: &Bson, document: &Document) -> bool {
    let filter = Filter::parse(&doc! { VALUE: said }, &Limits::NONE);
    let document = RawDocumentBuf::try_from(document);
    filter.is_ok_and(|filter| document.is_ok_and(|document| filter.matches(&document).unwrap_or(false)))
}
