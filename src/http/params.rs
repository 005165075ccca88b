//! Parameters of list routes: parses texts into a typed query, and refuses everything unknown.
//! See docs/api.md, List parameters.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use bson::{Bson, DateTime, Document};
use percent_encoding::percent_decode_str;

use super::error::ApiError;
use super::stages::{self, MOST_KEYS, Selected};
use crate::admission;
use crate::domain::object_member;
use crate::json;
use crate::query::{Effort, Fields, Filter, Limits, Path, Projection, RENDERED, STORED, Sort};
use crate::service::queries::advice;
use crate::service::types::catalog::Types;
use crate::service::{ErrorCode, ListQuery, Through};
use crate::settings::UnknownParameters;
use crate::suggest;

/// The parameters of a list route in addition to `sort`, `order`, `page`, `limit`, `filter` and `explain`.
#[derive(Debug, Clone, Copy)]
pub struct ListRoute {
    /// The default sort field of the list, and always its last tiebreak.
    pub key: &'static str,
    /// The values of `view`, the default first; empty: the route has no views.
    pub views: &'static [&'static str],
    /// Whether the route knows `active` and `projection`, and sorts by `fields.<name>`.
    pub objects: bool,
    /// `limit` when the request has none.
    pub limit: u64,
    /// Whether the route knows `at`, and so lists the past too.
    pub past: bool,
    /// Whether the key ends a sort in the direction of the sort's last key; else it is ascending.
    pub key_follows: bool,
}

impl ListRoute {
    /// A route without views, past or anything else of objects.
    pub const fn by(key: &'static str) -> Self {
        Self { key, views: &[], objects: false, limit: 10, past: false, key_follows: false }
    }
}

/// The settings that decide about parameters.
#[derive(Debug, Clone)]
pub struct ParamSettings {
    /// `api.max_limit`.
    pub max_limit: u64,
    /// `api.unknown_parameters`.
    pub unknown: UnknownParameters,
    /// `api.max_bulk`.
    pub max_bulk: u64,
    /// `query.*`.
    pub limits: Limits,
}

/// The parameters of a request as they were sent: names and values, decoded, in order.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Vec<(String, String)>);

/// A list request, understood.
#[derive(Debug, Clone)]
pub struct ListParams {
    /// The query.
    pub query: ListQuery,
    /// What was sent, for the pagination URLs.
    pub sent: Parameters,
    /// The filter's text as it was sent.
    pub filter: String,
    /// The projection as JSON, as it was sent; `a,b` is a list of names.
    pub projection: Option<String>,
    /// The sort as it was sent.
    pub sort: String,
    /// 1 or -1.
    pub order: i32,
    /// Whether the filter is a pipeline that orders, which no `sort` does: the list is ordered by id.
    pub idle_sort: bool,
    /// The chosen view, when the route has views.
    pub view: Option<&'static str>,
    /// The value of `active`, if the route knows it.
    pub active: Option<bool>,
    /// The cursor after which the list continues; empty: at its beginning.
    pub after: Option<String>,
    /// The user who sends the request: a cursor is valid for this user only.
    pub reader: i64,
    /// How many items earlier pages had.
    pub before: u64,
    /// The cursor of the next page, once the page is read.
    pub next: Option<String>,
    /// The types before the list is read, of a list of objects.
    pub types: Option<Arc<Types>>,
}

/// The largest whole number that every JSON reader keeps exact.
const LAST_PAGE: u64 = (1 << 53) - 1;

const COMMON: [&str; 7] = ["sort", "order", "page", "limit", "filter", "after", EXPLAIN];
/// Whether to explain the list instead of returning it.
pub const EXPLAIN: &str = "explain";
/// The requested moment of the past.
pub const AT: &str = "at";
const OF_OBJECTS: [&str; 2] = ["active", "projection"];

impl Parameters {
    /// The parameters in a request's URL.
    ///
    /// # Errors
    /// As [`Parameters::from_query`].
    pub fn of(request: &HttpRequest) -> Result<Self, ApiError> {
        Self::from_query(request.query_string())
    }

    /// Reads a query string.
    ///
    /// # Errors
    /// 400 for a value that is not UTF-8 and for a duplicate parameter.
    pub fn from_query(query: &str) -> Result<Self, ApiError> {
        let pairs = pairs(query)?;
        let mut names = HashSet::new();
        match pairs.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, _)) => Err(ApiError::parameter(name, "is there twice")),
            None => Ok(Self(pairs)),
        }
    }

    /// These names and values; no name is there twice.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Reads the same parameters from the members of a JSON object (`QUERY /objects/`).
    ///
    /// # Errors
    /// 400 when the body is not an object, or a member has the wrong kind.
    pub fn from_body(body: &serde_json::Value) -> Result<Self, ApiError> {
        let members = body
            .as_object()
            .ok_or_else(|| ApiError::new(ErrorCode::JsonMalformed, "the body must be an object of list parameters"))?;
        let pairs = members.iter().map(|(name, value)| Ok((name.clone(), text_of(name, value)?)));
        Ok(Self(pairs.collect::<Result<_, ApiError>>()?))
    }

    /// The same parameters, with `name` in place of `alias`.
    #[must_use]
    pub fn with_alias(mut self, alias: &str, name: &str) -> Self {
        if self.get(name).is_none()
            && let Some((sent, _)) = self.0.iter_mut().find(|(sent, _)| sent == alias)
        {
            name.clone_into(sent);
        }
        self
    }

    /// These parameters, with those of `other` in place of equal names.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.0.retain(|(name, _)| other.get(name).is_none());
        self.0.extend(other.0);
        self
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that says something: an empty one counts as absent.
    fn said(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|text| !text.trim().is_empty())
    }

    /// The length of the filter and the projection in bytes.
    pub fn question_bytes(&self) -> usize {
        ["filter", "projection"].iter().filter_map(|name| self.get(name)).map(str::len).sum()
    }

    /// Whether they may contain `f.<name>`: only then the names of fields are needed. An escaped letter may be an `f`.
    pub fn may_name_fields(&self) -> bool {
        let texts = ["filter", "sort", "projection"].into_iter().filter_map(|name| self.get(name));
        texts.into_iter().any(|text| ["f.", "\"f\"", "\\u"].iter().any(|part| text.contains(part)))
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Refuses unknown parameters, with the most similar known one. A proposed filter is one of objects.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn only(&self, known: &[&str], unknown: UnknownParameters) -> Result<(), ApiError> {
        self.only_beside_filter(known, unknown, object_condition)
    }

    /// The same; `condition` makes the filter that a client probably intends by an unknown name and its value.
    fn only_beside_filter(
        &self,
        known: &[&str],
        unknown: UnknownParameters,
        condition: fn(&str, &str) -> String,
    ) -> Result<(), ApiError> {
        if unknown == UnknownParameters::Ignore {
            return Ok(());
        }
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, value)) => {
                let filter = known.contains(&"filter").then(|| condition(name, value));
                let filter = filter.filter(|text| text.len() <= LONGEST_EXAMPLE);
                Err(ApiError::parameter(name, unknown_parameter(name, known, filter.as_deref())))
            }
        }
    }

    /// A parameter that is true or false.
    ///
    /// # Errors
    /// 400 for any other value.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(ApiError::parameter(name, format!("must be true or false, not {other}"))),
        }
    }

    /// A parameter that is one of these words.
    ///
    /// # Errors
    /// 400 naming them.
    pub fn one_of(&self, name: &str, words: &'static [&'static str]) -> Result<Option<&'static str>, ApiError> {
        let Some(sent) = self.get(name) else { return Ok(None) };
        match words.iter().find(|word| **word == sent) {
            Some(word) => Ok(Some(word)),
            None => Err(ApiError::parameter(name, format!("must be one of {}, not {sent}", words.join(", ")))),
        }
    }

    /// A parameter that is a number from 1 to the greater one of the two; the first one where none is sent.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn within(&self, name: &str, (default, most): (u64, u64)) -> Result<usize, ApiError> {
        let number = self.number(name)?.unwrap_or(default);
        match usize::try_from(number).ok().filter(|_| (1..=most).contains(&number)) {
            Some(number) => Ok(number),
            None => Err(ApiError::parameter(name, format!("must be from 1 to {most}, not {number}"))),
        }
    }

    /// A parameter that is a whole number. One beyond 64 bits counts as the largest one, which is too large everywhere.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(sent) = self.get(name) else { return Ok(None) };
        // Signs and spaces are refused.
        if sent.is_empty() || !sent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ApiError::parameter(name, format!("must be a whole number, not {sent}")));
        }
        Ok(Some(sent.parse().unwrap_or(u64::MAX)))
    }
}

/// A filter and a projection of at most this many bytes together are parsed on the thread of the request, if that is
/// fast.
const SHORT: usize = 4096;

/// Parses parameters with a filter of this many bytes. It runs at once if that takes some microseconds, otherwise as
/// admitted work, which ends after `max_time`.
///
/// # Errors
/// Errors of `read`; 503 when there is no turn or no memory for it.
pub async fn understood<T: Send + 'static>(
    bytes: usize,
    max_time: Duration,
    read: impl Fn(&Effort) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes <= SHORT {
        match read(&Effort::Brief) {
            Err(error) if error.is_unfinished() => {}
            outcome => return outcome,
        }
    }
    admission::work(move |means| read(&Effort::Work(means.clone(), Instant::now().checked_add(max_time)))).await?
}

impl ListParams {
    /// Understands the parameters of a list route; `fields` reads `f.<name>` on lists of objects.
    ///
    /// # Errors
    /// 400 naming the first parameter that is wrong.
    pub fn read(
        sent: Parameters,
        route: &ListRoute,
        settings: &ParamSettings,
        fields: Option<&Fields>,
        moment: Moment<'_>,
    ) -> Result<Self, ApiError> {
        let mut known = COMMON.to_vec();
        if route.objects {
            known.extend(OF_OBJECTS);
        }
        if !route.views.is_empty() {
            known.push("view");
        }
        if route.past {
            known.push(AT);
        }
        let condition = if route.objects { object_condition } else { condition };
        sent.only_beside_filter(&known, settings.unknown, condition)?;
        let order = read_order(&sent)?;
        let view = match route.views.first() {
            None => None,
            Some(default) => Some(sent.one_of("view", route.views)?.unwrap_or(default)),
        };
        let active = if route.objects { Some(sent.flag("active")?) } else { None };
        let filter_text = sent.said("filter").unwrap_or("{}").to_owned();
        let selected = if route.objects && stages::is_pipeline(&filter_text) {
            stages::read(&filter_text, &settings.limits, fields, (moment.now, moment.effort))?
        } else {
            let filter = read_filter(&filter_text, &settings.limits, fields, moment)?;
            Selected { filter, stages: None, sorts: false, order: None, fields: fields.cloned() }
        };
        let Selected { filter, stages, sorts, order: own, fields } = selected;
        let asked = (view == Some("render"), sent.flag(EXPLAIN)?, sent.get("after").is_some());
        if let Some((name, why)) = stages.as_ref().and_then(|stages| stages::conflict(stages, asked)) {
            return Err(ApiError::parameter(name, why));
        }
        let first = stages.as_ref().map(|stages| stages.pipeline.front().filter);
        let about = first.as_ref().unwrap_or(&filter).document();
        let fields = fields.map(|fields| fields.within(about));
        let own = own.filter(|_| order.is_none() && sent.said("sort").is_none());
        let own = own.map(|keys| Bson::Document(keys).into_relaxed_extjson().to_string());
        let sort_text = own.as_deref().or(sent.get("sort")).unwrap_or(route.key).to_owned();
        let (lookups, of_sort) =
            (fields.as_ref().map_or_else(Vec::new, Fields::looked_up), fields.clone().map(Fields::joining));
        let sort = read_sort_text(&sort_text, order, route, of_sort.as_ref())?;
        let fields = fields.map(Fields::joining);
        let projection_text = sent.said("projection").filter(|_| route.objects).map(listed);
        let array = if view == Some("render") { RENDERED } else { STORED };
        let read = |text| {
            let document = projection_document(text)?;
            Ok::<_, ApiError>(match &fields {
                Some(fields) => {
                    fields.projection(&document, array, &filter, (&settings.limits, moment.now), moment.effort)?
                }
                None => Projection::parse_with(&document, &filter, &settings.limits, moment.now, moment.effort)?,
            })
        };
        let projection = projection_text.as_deref().map(read).transpose()?;
        let joined = |fields: Option<&Fields>| fields.map_or_else(Vec::new, Fields::joined_paths);
        let through = Through { lookups, sort: joined(of_sort.as_ref()), projection: joined(fields.as_ref()) };
        refuse_joins(&through, stages.is_some(), sent.get("after").is_some())?;
        let filter = if active == Some(true) { filter.and(Filter::equals("active", true)) } else { filter };
        let query = ListQuery {
            filter,
            stages,
            sort,
            page: read_page(&sent)?,
            limit: read_limit(&sent, route, settings)?,
            projection,
            explain: sent.flag(EXPLAIN)?,
            keyed: false,
            through,
        };
        Ok(Self {
            query,
            filter: filter_text,
            projection: projection_text,
            sort: sort_text,
            order: order.unwrap_or(1),
            idle_sort: sorts && sent.said("sort").is_none(),
            view,
            active,
            after: sent.get("after").map(str::to_owned),
            reader: 0,
            before: 0,
            next: None,
            types: None,
            sent,
        })
    }
}

/// Refuses a sort or a projection through references where it cannot be joined.
fn refuse_joins(through: &Through, has_stages: bool, follows: bool) -> Result<(), ApiError> {
    let in_pipeline =
        "beside a pipeline goes through no reference; join with $lookup in the pipeline, or send a filter";
    let of_cursor = "through a reference has no cursor; use page, or sort by fields of the objects themselves";
    let all = [
        ("sort", &through.sort, has_stages, in_pipeline),
        ("projection", &through.projection, has_stages, in_pipeline),
        ("sort", &through.sort, follows, of_cursor),
    ];
    match all.into_iter().find(|(_, joins, is_wrong, _)| *is_wrong && !joins.is_empty()) {
        Some((name, _, _, why)) => Err(ApiError::parameter(name, why)),
        None => Ok(()),
    }
}

/// Reads `order`: 1 or -1.
///
/// # Errors
/// 400 for anything else.
pub(super) fn read_order(sent: &Parameters) -> Result<Option<i32>, ApiError> {
    match sent.get("order") {
        None => Ok(None),
        Some("1") => Ok(Some(1)),
        Some("-1") => Ok(Some(-1)),
        Some(other) => {
            Err(ApiError::parameter("order", format!("must be 1 (ascending) or -1 (descending), not {other}")))
        }
    }
}

/// Reads `sort`; the key of the route ends it, so that no two documents are equal.
///
/// # Errors
/// 400 naming what is no path.
pub(super) fn read_sort(
    sent: &Parameters,
    order: Option<i32>,
    route: &ListRoute,
    fields: Option<&Fields>,
) -> Result<Sort, ApiError> {
    read_sort_text(sent.get("sort").unwrap_or(route.key), order, route, fields)
}

fn read_sort_text(
    text: &str,
    order: Option<i32>,
    route: &ListRoute,
    fields: Option<&Fields>,
) -> Result<Sort, ApiError> {
    if text.trim_start().starts_with('[') {
        return Err(ApiError::parameter("sort", "must be a path, paths as a,-b, or an object from path to 1 or -1"));
    }
    if text.trim_start().starts_with('{') {
        return read_sort_document(text, order, route, fields);
    }
    let many = text.contains(',') || text.starts_with('-');
    if many && order.is_some() {
        return Err(ApiError::parameter("order", "must be left out when sort has several keys or a - of its own"));
    }
    let mut sort = Sort::default();
    for key in text.split(',') {
        let (path, minus) = key.strip_prefix('-').map_or((key, false), |path| (path, true));
        let descending = minus || order == Some(-1);
        if path.is_empty() || path.starts_with('$') || path.split('.').any(str::is_empty) || path.contains('\0') {
            return Err(ApiError::parameter("sort", format!("{key:?} is no field path")));
        }
        if let Some((path, word)) = path.rsplit_once([' ', ':']).filter(|(_, word)| is_direction(word)) {
            let sign = if word.eq_ignore_ascii_case("desc") { "-" } else { "" };
            return Err(ApiError::parameter(
                "sort",
                format!("{key:?} is no field path; write {sign}{}", path.trim_end()),
            ));
        }
        sort = then_by(sort, path, descending, route, fields)?;
    }
    ended(sort, route)
}

/// Whether a word says a direction in other languages.
fn is_direction(word: &str) -> bool {
    ["asc", "desc"].iter().any(|direction| word.eq_ignore_ascii_case(direction))
}

/// One more key of an order: a path, or the value of a field as `f.<name>` or `fields.<name>`.
fn then_by(
    sort: Sort,
    path: &str,
    descending: bool,
    route: &ListRoute,
    fields: Option<&Fields>,
) -> Result<Sort, ApiError> {
    let field = fields.map(|fields| fields.sort_key(path)).transpose()?.flatten();
    let stored = path.strip_prefix("fields.").filter(|_| route.objects);
    Ok(match field.or_else(|| stored.map(|name| Path::of_field(name, None))) {
        Some(field) => sort.then_by(field, descending),
        None => sort.then(path, descending),
    })
}

/// The key ends every sort, so that no two documents are equal and pages are stable.
fn ended(sort: Sort, route: &ListRoute) -> Result<Sort, ApiError> {
    let descending = route.key_follows && sort.keys().last().is_some_and(|last| last.descending);
    let sort = sort.then(route.key, descending);
    if sort.keys().len() > MOST_KEYS {
        return Err(ApiError::parameter(
            "sort",
            format!("must have at most {MOST_KEYS} keys, with the id that ends it"),
        ));
    }
    Ok(sort)
}

/// Reads MongoDB's sort document.
fn read_sort_document(
    text: &str,
    order: Option<i32>,
    route: &ListRoute,
    fields: Option<&Fields>,
) -> Result<Sort, ApiError> {
    if order.is_some() {
        return Err(ApiError::parameter("order", "must be left out beside a sort document, which has the directions"));
    }
    let document = read_document("sort", text)?;
    if document.contains_key("$natural") {
        let message = format!("pages need an order that stays, which $natural is not; sort by {}", route.key);
        return Err(ApiError::parameter("sort", message));
    }
    let read = Sort::parse(&document)?;
    let mut sort = Sort::default();
    for (path, key) in document.keys().zip(read.keys()) {
        sort = then_by(sort, path, key.descending, route, fields)?;
    }
    ended(sort, route)
}

fn read_page(sent: &Parameters) -> Result<u64, ApiError> {
    match sent.number("page")?.unwrap_or(1) {
        0 => Err(ApiError::parameter("page", "must be at least 1")),
        page if page > LAST_PAGE => Err(ApiError::parameter("page", format!("must be at most {LAST_PAGE}"))),
        page => Ok(page),
    }
}

fn read_limit(sent: &Parameters, route: &ListRoute, settings: &ParamSettings) -> Result<u64, ApiError> {
    let max = settings.max_limit;
    let wrong = || ApiError::parameter("limit", format!("must be from 0 (the maximum) to {max}"));
    let is_negative = sent.get("limit").is_some_and(|sent| sent.parse::<i64>().is_ok_and(i64::is_negative));
    if is_negative {
        return Err(wrong());
    }
    match sent.number("limit")?.unwrap_or_else(|| route.limit.min(max)) {
        0 => Ok(max),
        limit if limit > max => Err(wrong()),
        limit => Ok(limit),
    }
}

/// When a question is read, and with how much effort.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// What it calls `$$NOW`.
    pub now: DateTime,
    /// What reading it may cost.
    pub effort: &'a Effort,
}

/// Reads a filter; `fields` reads `f.<name>` in those of objects.
///
/// # Errors
/// 400 naming what is wrong and where.
pub fn read_filter(
    text: &str,
    limits: &Limits,
    fields: Option<&Fields>,
    moment: Moment<'_>,
) -> Result<Filter, ApiError> {
    if stages::is_pipeline(text) {
        let message = "must be an object here; pipelines are for lists of objects and for POST /rest/objects/aggregate";
        return Err(ApiError::parameter("filter", message));
    }
    let document = read_document("filter", text)?;
    Ok(match fields {
        Some(fields) => fields.filter(&document, limits, moment.now, moment.effort)?,
        None => Filter::parse_with(&document, limits, moment.now, moment.effort)?,
    })
}

fn projection_document(text: &str) -> Result<Document, ApiError> {
    Ok(match text.trim_start().as_bytes().first() {
        Some(b'{') | None => read_document("projection", text)?,
        Some(b'[') => {
            let names = serde_json::from_str::<Vec<String>>(text);
            let names = names.ok().filter(|names| names.iter().all(|name| !name.contains('\0')));
            kept(names.ok_or_else(|| ApiError::parameter("projection", "a list must hold names of fields"))?)
        }
        Some(_) => return Err(ApiError::parameter("projection", "must be an object, or a list of names of fields")),
    })
}

/// A projection as JSON: `a,b`, as in a URL that somebody types, is a list of names.
fn listed(text: &str) -> String {
    if text.trim_start().starts_with(['{', '[']) {
        return text.to_owned();
    }
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    serde_json::to_string(&names).expect("names can be written")
}

/// The projection that keeps these fields.
fn kept(names: impl IntoIterator<Item = String>) -> Document {
    names.into_iter().map(|name| (name, bson::Bson::Int32(1))).collect()
}

fn read_document(name: &str, text: &str) -> Result<Document, ApiError> {
    json::read::document_from_str(text).map_err(|error| {
        let is_object = name != "filter" || text.trim_start().starts_with('{');
        let remedy = if is_object { "" } else { "; write a JSON object, for instance {\"type_id\": 7}" };
        ApiError::parameter(name, format!("{error}{remedy}"))
    })
}

/// A member of a body as the text that it would be in a URL.
fn text_of(name: &str, value: &serde_json::Value) -> Result<String, ApiError> {
    let (fits, expected) = match name {
        "order" | "page" | "limit" => (value.is_number(), "a number"),
        "active" | EXPLAIN => (value.is_boolean(), "true or false"),
        "sort" => (value.is_string() || value.is_object(), "a string or a sort document"),
        "view" | "after" => (value.is_string(), "a string"),
        // Lists other than those of objects refuse an array later on.
        "filter" => (value.is_object() || value.is_string() || value.is_array(), "an object or a pipeline"),
        "projection" => (value.is_object() || value.is_array() || value.is_string(), "an object or a list of names"),
        // Refused by name later on.
        _ => (true, ""),
    };
    match value {
        _ if !fits => Err(ApiError::parameter(name, format!("must be {expected}"))),
        serde_json::Value::String(text) => Ok(text.clone()),
        // To JSON 2.0 is a whole number.
        serde_json::Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => Ok(number
            .as_i64()
            .map_or_else(|| format!("{:.0}", number.as_f64().unwrap_or_default()), |whole| whole.to_string())),
        other => Ok(other.to_string()),
    }
}

/// Names and values of a query string or of a form, decoded, in order.
///
/// # Errors
/// 400 for one that is not UTF-8.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| Ok((decoded(name)?, decoded(value)?)))
        .collect()
}

fn decoded(text: &str) -> Result<String, ApiError> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| ApiError::new(ErrorCode::ParameterInvalid, "the query string is not UTF-8"))
}

/// Names that other interfaces have for parameters of this one.
const ELSEWHERE: [(&str, &str); 17] = [
    ("after", "since"),
    ("cursor", "after"),
    ("cursor", "since"),
    ("skip", "page"),
    ("offset", "page"),
    ("per_page", "limit"),
    ("page_size", "limit"),
    ("size", "limit"),
    ("order_by", "sort"),
    ("sort_by", "sort"),
    ("q", "filter"),
    ("query", "filter"),
    ("search", "filter"),
    ("where", "filter"),
    ("fields", "projection"),
    ("select", "projection"),
    ("type", "type_id"),
];

/// Parameters that are no names of members, and the routes that take them.
const TAKEN_BY: [(&str, &str); 15] = [
    ("after", "lists take it"),
    ("at", "lists and single reads of objects, types and categories take it"),
    ("atomic", "POST /rest/objects/bulk takes it"),
    ("expected_count", "PATCH and DELETE of /rest/objects/ take it"),
    ("explain", "lists take it"),
    ("filter", "lists, GET /rest/export/objects and GET /rest/changes/ take it"),
    ("format", "GET /rest/export/objects and POST /rest/import/objects take it"),
    ("limit", "lists and GET /rest/changes/ take it"),
    ("order", "lists and GET /rest/export/objects take it"),
    ("page", "lists take it"),
    ("pipeline", "a pipeline goes to POST /rest/objects/aggregate, or into filter on a list of objects"),
    ("projection", "lists of objects take it"),
    ("since", "GET /rest/changes/ takes it"),
    ("sort", "lists and GET /rest/export/objects take it"),
    ("view", "lists of objects, GET /rest/categories/ and GET /rest/changes/ take it"),
];

/// A longer filter is no example.
const LONGEST_EXAMPLE: usize = 200;

/// `?name=server` as a filter. A value that reads as a number, as true or as false is one.
fn condition(name: &str, value: &str) -> String {
    let plain =
        serde_json::from_str(value).ok().filter(|value: &serde_json::Value| !value.is_array() && !value.is_object());
    serde_json::json!({name: plain.unwrap_or_else(|| value.into())}).to_string()
}

/// The same for objects, where other names than those of members are names of fields.
fn object_condition(name: &str, value: &str) -> String {
    let member = advice::meant(name).unwrap_or(name);
    if object_member::NAMES.contains(&member) || name.starts_with("f.") {
        return condition(member, value);
    }
    condition(&format!("f.{}", name.strip_prefix("fields.").unwrap_or(name)), value)
}

/// `filter`: the filter that a client probably intends by the name and its value.
fn unknown_parameter(name: &str, known: &[&str], filter: Option<&str>) -> String {
    let elsewhere = ELSEWHERE.iter().find(|(other, ours)| *other == name && known.contains(ours));
    let elsewhere = elsewhere.map(|(_, ours)| *ours);
    if let (None, Some((_, takers))) = (elsewhere, TAKEN_BY.iter().find(|(ours, _)| *ours == name)) {
        return format!("is no parameter of this route; {takers}");
    }
    match elsewhere.or_else(|| suggest::nearest(name, known)) {
        Some(nearest) => format!("is no parameter of this route; did you mean {nearest}?"),
        None if known.is_empty() => "is no parameter of this route, which has none".to_owned(),
        None => {
            let is_field = |filter: &str| filter.starts_with("{\"f.");
            let filter = match filter {
                // Whether some type has such a field is not known here.
                Some(filter) if is_field(filter) => format!("; for the field of that name use filter={filter}"),
                Some(filter) => format!("; did you mean filter={filter}?"),
                None => String::new(),
            };
            format!("is no parameter of this route; those are {}{filter}", known.join(", "))
        }
    }
}
