//! Laws of parameters: what is understood is within its bounds, and asks the same when it is written again, as a link to
//! another page or as a body.

use std::sync::Arc;

use bson::DateTime;
use inventory_service::admission::Means;
use inventory_service::http::error::ApiError;
use inventory_service::http::links::encode_query;
use inventory_service::http::params::{ListParams, ListRoute, Moment, ParamSettings, Parameters};
use inventory_service::query::{Effort, FieldNames, Fields, Limits, Projection};
use inventory_service::settings::UnknownParameters;

const ROUTES: [ListRoute; 3] = [
    ListRoute {
        key: "public_id",
        views: &["render", "native"],
        objects: true,
        limit: 10,
        past: true,
        key_follows: false,
    },
    ListRoute {
        key: "public_id",
        views: &["list", "tree"],
        objects: false,
        limit: 10,
        past: false,
        key_follows: false,
    },
    ListRoute { key: "name", views: &[], objects: false, limit: 100, past: false, key_follows: false },
];
const MAX_LIMIT: u64 = 10_000;
const SETTINGS: ParamSettings = ParamSettings {
    max_limit: MAX_LIMIT,
    unknown: UnknownParameters::Refuse,
    max_bulk: 10_000,
    limits: Limits::DEFAULT,
};
const LAST_PAGE: u64 = (1 << 53) - 1;

/// Reads a query string, or the JSON body used instead.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let parameters = match serde_json::from_str(text) {
        Ok(body) => Parameters::from_body(&body),
        Err(_) => Parameters::from_query(text),
    };
    let Ok(parameters) = parameters else { return };
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} is there twice: {text}");
    }
    for route in &ROUTES {
        for name in ["view", "active", "explain", "atomic"] {
            let _ = (parameters.flag(name), parameters.number(name), parameters.one_of(name, route.views));
        }
        understood(&parameters, route);
    }
}

fn understood(parameters: &Parameters, route: &ListRoute) {
    let Ok(read) = read(parameters.clone(), route) else { return };
    let query = &read.query;
    assert!((1..=MAX_LIMIT).contains(&query.limit), "{}", query.limit);
    assert!((1..=LAST_PAGE).contains(&query.page), "{}", query.page);
    assert!(read.order == 1 || read.order == -1, "{}", read.order);
    assert_eq!(read.view.is_some(), !route.views.is_empty());
    let is_key = |path: &str| path == route.key;
    assert!(query.sort.keys().iter().any(|key| is_key(key.path.as_str())), "{:?}", query.sort);
    // So that a link leads to the same list.
    let link = encode_query(parameters.iter());
    assert!(link.bytes().all(|byte| byte.is_ascii_graphic()), "{link}");
    let again = Parameters::from_query(&link).unwrap_or_else(|error| panic!("{link}: {error:?}"));
    let again = self::read(again, route).unwrap_or_else(|error| panic!("{link}: {error:?}"));
    assert_eq!(question(&read), question(&again), "{link}");
}

/// Some names of fields, with and without dots.
struct SomeNames;

impl FieldNames for SomeNames {
    fn is_known(&self, name: &str, _: Option<&[i64]>) -> bool {
        name.len() < 4
    }

    fn known(&self, _: Option<&[i64]>) -> Vec<&str> {
        Vec::new()
    }

    fn holds_arrays(&self, name: &str) -> bool {
        name.len() < 2
    }
}

fn read(parameters: Parameters, route: &ListRoute) -> Result<ListParams, ApiError> {
    let fields = route.objects.then(|| Fields::new(Arc::new(SomeNames)));
    let effort = effort();
    ListParams::read(parameters, route, &SETTINGS, fields.as_ref(), Moment { now: now(), effort: &effort })
}

fn question(read: &ListParams) -> String {
    let ListParams { query, filter, projection, sort, order, view, active, .. } = read;
    let document = query.filter.document();
    let projected = query.projection.as_ref().map(Projection::document);
    format!(
        "{document:?} {:?} {} {} {projected:?} {} {filter} {projection:?} {sort} {order} {view:?} {active:?}",
        query.sort, query.page, query.limit, query.explain
    )
}

fn effort() -> Effort {
    Effort::Work(Means::default(), None)
}

fn now() -> DateTime {
    DateTime::from_millis(1_700_000_000_000)
}
