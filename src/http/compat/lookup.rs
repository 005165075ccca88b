//! `$lookup` in a pipeline: joins the documents of a chunk with those of another collection that the caller may see.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, doc};

use crate::http::error::ApiError;
use crate::http::state::HttpState;
use crate::query::{Filter, Limits, Projection};
use crate::service::resource::{self, Categories, Groups, Objects, Resource, Types, Users};
use crate::service::{Caller, rights};
use crate::store::{FindQuery, StoreError};

/// Most documents that one chunk is joined with.
const MOST: u64 = 10_000;
/// Their most bytes, and the most bytes of all joins of one chunk.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A `$lookup` that was checked.
#[derive(Debug)]
pub(super) struct Lookup {
    from: From,
    on: On,
    name: String,
    limits: Limits,
    now: DateTime,
}

/// Collections to join with, and the right to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Objects,
    Types,
    Categories,
    Users,
    Groups,
}

#[derive(Debug)]
enum On {
    /// Equal values at these paths.
    Equal { local: String, foreign: String },
    /// Conditions of the other collection alone, and expressions that also see variables of the document.
    Conditions { variables: Option<Box<Projection>>, own: Vec<Document>, shared: Vec<Bson> },
}

impl From {
    fn named(name: &str) -> Option<Self> {
        [Self::Objects, Self::Types, Self::Categories, Self::Users, Self::Groups]
            .into_iter()
            .find(|from| from.collection() == name)
    }

    fn collection(self) -> &'static str {
        match self {
            Self::Objects => Objects::COLLECTION,
            Self::Types => Types::COLLECTION,
            Self::Categories => Categories::COLLECTION,
            Self::Users => Users::COLLECTION,
            Self::Groups => Groups::COLLECTION,
        }
    }

    fn right(self) -> &'static str {
        match self {
            Self::Objects => "base.framework.object.view",
            Self::Types => "base.framework.type.view",
            Self::Categories => "base.framework.category.view",
            Self::Users => "base.user-management.user.view",
            Self::Groups => "base.user-management.group.view",
        }
    }
}

fn wrong(message: impl Into<String>) -> ApiError {
    ApiError::parameter("filter", format!("$lookup: {}", message.into()))
}

impl Lookup {
    /// Checks a `$lookup`.
    ///
    /// # Errors
    /// 400 naming what it cannot have.
    pub(super) fn parse(operand: &Document, limits: &Limits, now: DateTime) -> Result<Self, ApiError> {
        let text = |name: &str| operand.get_str(name).map_err(|_| wrong(format!("{name} must be a text")));
        let from = From::named(text("from")?).ok_or_else(|| {
            wrong(
                "from must be framework.objects, framework.types, framework.categories, management.users or \
                   management.groups",
            )
        })?;
        let name = text("as")?.to_owned();
        if name.contains('.') || name.starts_with('$') || name.is_empty() {
            return Err(wrong("as must be a name without dots"));
        }
        let on = match operand.get("pipeline") {
            None => On::Equal { local: text("localField")?.to_owned(), foreign: text("foreignField")?.to_owned() },
            Some(Bson::Array(stages)) if !operand.contains_key("localField") => {
                let variables = match operand.get("let") {
                    None => None,
                    Some(Bson::Document(variables)) if variables.is_empty() => None,
                    Some(Bson::Document(variables)) => {
                        if !variables.values().all(is_plain_variable) {
                            return Err(wrong("let takes paths, and $toInt or $toString of a path"));
                        }
                        Some(Box::new(Projection::parse_at(&constants(variables), &Filter::all(), limits, now)?))
                    }
                    Some(_) => return Err(wrong("let must be an object")),
                };
                conditions(variables, stages)?
            }
            Some(_) => return Err(wrong("takes localField and foreignField, or let and a pipeline of $match")),
        };
        Ok(Self { from, on, name, limits: *limits, now })
    }

    /// Refuses a caller who may not see the other collection.
    ///
    /// # Errors
    /// 403 naming the right.
    pub(super) fn permit(&self, caller: &Caller) -> Result<(), ApiError> {
        Ok(rights::require(&caller.rights, self.from.right())?)
    }

    /// The documents with what was found for each, in a list.
    ///
    /// # Errors
    /// 400 when there is too much to join.
    pub(super) async fn join(
        &self,
        state: &HttpState,
        caller: &Caller,
        batch: Vec<RawDocumentBuf>,
    ) -> Result<Vec<RawDocumentBuf>, ApiError> {
        let mut documents = batch.iter().map(|raw| resource::decode(raw)).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<Vec<Bson>> = match &self.on {
            On::Equal { local, foreign } => self.equal(state, caller, &documents, local, foreign).await?,
            On::Conditions { variables, own, shared } => {
                let others = self.fetch(state, caller, self.parsed(own)?).await?;
                let mut found = Vec::with_capacity(batch.len());
                let mut bytes = 0;
                for raw in &batch {
                    let values = match variables {
                        Some(variables) => {
                            let values = variables.apply(raw, &Filter::all()).map_err(StoreError::from)?;
                            literals(&resource::decode(&values)?)
                        }
                        None => Document::new(),
                    };
                    found.push(self.fitting(&others, &values, shared, &mut bytes)?);
                }
                found
            }
        };
        let mut bytes = 0;
        for (document, found) in documents.iter_mut().zip(found) {
            document.insert(&self.name, found);
        }
        documents
            .iter()
            .map(|document| {
                let raw = resource::encode(document)?;
                bytes += raw.as_bytes().len();
                if bytes > MOST_BYTES { Err(too_much()) } else { Ok(raw) }
            })
            .collect()
    }

    /// The others that fit the shared conditions with these values of the variables.
    ///
    /// # Errors
    /// 400 when these and what was found before have too many bytes.
    fn fitting(
        &self,
        others: &[RawDocumentBuf],
        values: &Document,
        shared: &[Bson],
        bytes: &mut usize,
    ) -> Result<Vec<Bson>, ApiError> {
        let conditions: Vec<Bson> = shared
            .iter()
            .map(|expression| doc! {"$expr": {"$let": {"vars": values.clone(), "in": expression.clone()}}}.into())
            .collect();
        let filter = if conditions.is_empty() {
            Filter::all()
        } else {
            Filter::parse_at(&doc! {"$and": conditions}, &self.limits, self.now)?
        };
        let mut found = Vec::new();
        for other in others {
            if filter.matches(other).map_err(StoreError::from)? {
                *bytes += other.as_bytes().len();
                if *bytes > MOST_BYTES {
                    return Err(too_much());
                }
                found.push(Bson::Document(resource::decode(other)?));
            }
        }
        Ok(found)
    }

    fn parsed(&self, conditions: &[Document]) -> Result<Filter, ApiError> {
        let mut filter = Filter::all();
        for condition in conditions {
            filter = filter.and(Filter::parse_at(condition, &self.limits, self.now)?);
        }
        Ok(filter)
    }

    async fn equal(
        &self,
        state: &HttpState,
        caller: &Caller,
        documents: &[Document],
        local: &str,
        foreign: &str,
    ) -> Result<Vec<Vec<Bson>>, ApiError> {
        let wanted: Vec<Vec<Bson>> = documents.iter().map(|document| values_at(document, local)).collect();
        let mut all: Vec<Bson> = Vec::new();
        let mut seen = BTreeSet::new();
        for value in wanted.iter().flatten() {
            if seen.insert(key(value)) {
                all.push(value.clone());
            }
        }
        let raw = self.fetch(state, caller, Filter::one_of(foreign, all)).await?;
        let others = raw.iter().map(|raw| resource::decode(raw)).collect::<Result<Vec<_>, _>>()?;
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, other) in others.iter().enumerate() {
            for value in values_at(other, foreign) {
                places.entry(key(&value)).or_default().push(place);
            }
        }
        let mut bytes = 0;
        let mut found = Vec::with_capacity(documents.len());
        for values in &wanted {
            let fitting: BTreeSet<usize> =
                values.iter().filter_map(|value| places.get(&key(value))).flatten().copied().collect();
            bytes += fitting.iter().map(|place| raw[*place].as_bytes().len()).sum::<usize>();
            if bytes > MOST_BYTES {
                return Err(too_much());
            }
            found.push(fitting.into_iter().map(|place| Bson::Document(others[place].clone())).collect());
        }
        Ok(found)
    }

    /// The documents of the other collection that the caller may see.
    async fn fetch(&self, state: &HttpState, caller: &Caller, filter: Filter) -> Result<Vec<RawDocumentBuf>, ApiError> {
        let services = &state.services;
        if let Some(operator) = filter.needs_server() {
            return Err(StoreError::Unsupported { what: operator.to_owned() }.into());
        }
        // Users are seen as reads show them, so that no condition touches a password that another tool stored.
        let (filter, on_views) = match self.from {
            From::Objects => {
                let types = services.types.current(&*services.store, services.max_time).await?;
                (types.scope(caller, filter), Filter::all())
            }
            From::Users => (Filter::all(), filter),
            _ => (filter, Filter::all()),
        };
        let mut query = FindQuery::new(filter, services.max_time).limited(MOST + 1);
        query.max_bytes = MOST_BYTES;
        let found = match services.store.find(self.from.collection(), &query).await {
            Err(StoreError::TooLarge) => return Err(too_much()),
            found => found?,
        };
        if found.len() as u64 > MOST {
            return Err(too_much());
        }
        let mut seen = Vec::with_capacity(found.len());
        for document in found.iter() {
            let view = if self.from == From::Users { Users::view(document) } else { Cow::Borrowed(document) };
            if on_views.matches(&view).map_err(StoreError::from)? {
                seen.push(view.into_owned());
            }
        }
        Ok(seen)
    }
}

fn too_much() -> ApiError {
    wrong(format!("joins more than {MOST} documents or {} MiB at a time; put a $match before it", MOST_BYTES >> 20))
}

/// The `$match` stages of an inner pipeline, those with expressions apart.
fn conditions(variables: Option<Box<Projection>>, stages: &[Bson]) -> Result<On, ApiError> {
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for stage in stages {
        let condition = stage.as_document().filter(|stage| stage.len() == 1).and_then(|stage| stage.get("$match"));
        let condition =
            condition.and_then(Bson::as_document).ok_or_else(|| wrong("its pipeline takes $match alone"))?;
        let mut condition = condition.clone();
        if let Some(expression) = condition.remove("$expr") {
            if !is_plain_comparison(&expression) {
                return Err(wrong("$expr in its pipeline takes $eq or $in of two paths or variables"));
            }
            shared.push(expression);
        }
        if !condition.is_empty() {
            own.push(condition);
        }
    }
    Ok(On::Conditions { variables, own, shared })
}

/// A path or a variable.
fn is_name(value: &Bson) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('$'))
}

/// Whether the only member of a document is one of these operators on such an operand.
fn is_one_of(value: &Bson, operators: &[&str], fits: impl Fn(&Bson) -> bool) -> bool {
    let only = value.as_document().filter(|document| document.len() == 1).and_then(|document| document.iter().next());
    only.is_some_and(|(name, operand)| operators.contains(&name.as_str()) && fits(operand))
}

/// Joins run for each pair of documents, so only what costs next to nothing is taken.
fn is_plain_variable(value: &Bson) -> bool {
    is_name(value) || is_one_of(value, &["$toInt", "$toString"], is_name)
}

fn is_plain_comparison(value: &Bson) -> bool {
    is_one_of(value, &["$eq", "$in"], |operands| {
        operands.as_array().is_some_and(|operands| operands.len() == 2 && operands.iter().all(is_name))
    })
}

/// Constants, which a projection would read as a choice of members, as expressions.
fn constants(variables: &Document) -> Document {
    let computed = variables.iter().map(|(name, value)| {
        let value = match value {
            Bson::String(_) | Bson::Document(_) | Bson::Array(_) => value.clone(),
            constant => doc! {"$literal": constant.clone()}.into(),
        };
        (name.clone(), value)
    });
    computed.collect()
}

fn literals(values: &Document) -> Document {
    let values = values.iter().filter(|(name, _)| *name != "_id");
    values.map(|(name, value)| (name.clone(), doc! {"$literal": value.clone()}.into())).collect()
}

/// The values at a path, those of arrays one by one; null when there is none.
fn values_at(document: &Document, path: &str) -> Vec<Bson> {
    let mut values = Vec::new();
    let steps: Vec<&str> = path.split('.').collect();
    if let [step, rest @ ..] = steps.as_slice()
        && let Some(value) = document.get(step)
    {
        gather(value, rest, &mut values);
    }
    if values.is_empty() {
        values.push(Bson::Null);
    }
    values
}

fn gather(value: &Bson, steps: &[&str], values: &mut Vec<Bson>) {
    match (steps, value) {
        (_, Bson::Array(items)) => items.iter().for_each(|item| gather(item, steps, values)),
        ([], value) => values.push(value.clone()),
        ([step, rest @ ..], Bson::Document(document)) => {
            if let Some(value) = document.get(step) {
                gather(value, rest, values);
            }
        }
        _ => {}
    }
}

/// Equal for equal values: numbers of all types are one kind.
fn key(value: &Bson) -> String {
    match value {
        Bson::Int32(number) => format!("n{}", f64::from(*number)),
        #[expect(clippy::cast_precision_loss, reason = "ids are whole numbers below 2^53")]
        Bson::Int64(number) => format!("n{}", *number as f64),
        Bson::Double(number) => format!("n{number}"),
        other => format!("{other:?}"),
    }
}
