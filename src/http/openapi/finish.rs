//! Adds the parts that all operations share to the descriptions of the handlers: rights, path variables, headers,
//! errors.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::errors::{self, DELETES_OF_OBJECTS, Of};
use super::examples;
use crate::http::route_table::{RouteAccess, RouteInfo};
use crate::http::schema::bodies;
use crate::service::ErrorCode;

/// The members of a path item that are operations.
const METHODS: [&str; 6] = ["get", "put", "post", "delete", "patch", "query"];

/// The complete description: `annotated`, with the facts of the routes.
pub(super) fn finished(mut annotated: Value, routes: &[RouteInfo]) -> Value {
    refer_to_components(&mut annotated);
    add_components(&mut annotated);
    annotated["tags"] = tags(routes);
    // Relative to the address of the description, so that a proxy may add a path prefix.
    annotated["servers"] = json!([{"url": ".", "description": "Where this description was read."}]);
    for route in routes {
        let method = route.method.as_str().to_ascii_lowercase();
        if let Some(operation) = annotated["paths"][route.path].get_mut(method.as_str()) {
            finish_operation(operation, route, routes);
        }
    }
    add_links(&mut annotated);
    any_instead_of_one(&mut annotated);
    annotated
}

/// The description of a service that takes tokens of this issuer.
pub(super) fn with_issuer(mut document: Value, issuer: &str) -> Value {
    document["components"]["securitySchemes"]["issuer"] = json!({
        "type": "openIdConnect",
        "openIdConnectUrl": format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')),
        "description": "A token that the issuer made for this service, sent as `Authorization: Bearer <token>`.",
    });
    for item in document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for method in METHODS {
            let ways = item.get_mut(method).and_then(|operation| operation["security"].as_array_mut());
            if let Some(ways) = ways.filter(|ways| !ways.is_empty()) {
                ways.push(json!({"issuer": []}));
            }
        }
    }
    document
}

/// The id of the operation that a list has for QUERY.
pub(super) fn id_of_query(id: &str) -> String {
    id.strip_prefix("list_").map_or_else(|| format!("{id}_safely"), |list| format!("query_{list}"))
}

/// The id that the same operation has for GET.
fn id_of_list(id: &str) -> Cow<'_, str> {
    match id.strip_prefix("query_") {
        Some(list) if !list.starts_with("objects") => Cow::Owned(format!("list_{list}")),
        _ => Cow::Borrowed(id.strip_suffix("_safely").unwrap_or(id)),
    }
}

/// Describes the parameters of a list as the members of a body.
fn put_parameters_into_body(operation: &mut Value) {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let (query, others): (Vec<Value>, Vec<Value>) =
        parameters.into_iter().partition(|parameter| parameter["in"] == "query");
    if query.is_empty() {
        return;
    }
    let mut members = Map::new();
    for parameter in query {
        let mut schema = parameter["schema"].clone();
        // A body has these as JSON, too.
        let name = parameter["name"].as_str().unwrap_or_default();
        match name {
            "filter" | "sort" => schema = json!({"anyOf": [schema, {"type": "object"}]}),
            "projection" => {
                let names = json!({"type": "array", "items": {"type": "string"}});
                schema = json!({"anyOf": [schema, {"type": "object"}, names]});
            }
            _ => {}
        }
        schema["description"] = parameter["description"].clone();
        members.insert(name.to_owned(), schema);
    }
    operation["parameters"] = json!(others);
    operation["requestBody"] = json!({"required": true, "content": {"application/json": {
        "schema": {"type": "object", "properties": members, "additionalProperties": false},
        "example": {"limit": 5},
    }}});
}

/// Replaces schemas that the macros wrote inline for type parameters with references to components.
fn refer_to_components(document: &mut Value) {
    let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas").map(Value::take) else { return };
    let named: Vec<(String, Value)> = schemas
        .iter()
        .filter(|(_, schema)| schema.get("description").is_some())
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let mut shortened = schemas;
    for schema in shortened.values_mut() {
        if let Some(members) = schema.as_object_mut() {
            members.values_mut().for_each(|member| refer(member, &named));
        }
    }
    document["components"]["schemas"] = Value::Object(shortened);
}

fn refer(value: &mut Value, named: &[(String, Value)]) {
    if let Some((name, _)) = named.iter().find(|(_, schema)| schema == value) {
        *value = json!({"$ref": format!("#/components/schemas/{name}")});
        return;
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| refer(member, named)),
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, named)),
        _ => {}
    }
}

fn add_components(document: &mut Value) {
    let components = &mut document["components"];
    for (name, schema) in bodies::schemas() {
        let mut schema = schema;
        schema["description"] = components["schemas"][name]["description"].clone();
        components["schemas"][name] = schema;
    }
    let text = |description: &str| json!({"description": description, "schema": {"type": "string"}});
    components["headers"] = json!({
        "X-API-Version": text("The version of the interface, 1.0."),
        "X-Request-ID": text("The id of the request: the client's own, when it sent a short and plain one."),
        "Inventory-Query-Hint": text(
            "Advice about the query: a path that no object has, a date that is compared with a text, a constant where an expression is meant, an index that would help.",
        ),
        "Inventory-Warning": text(
            "What is accepted, but is perhaps a mistake: a field of a type whose kind is unknown, a lost field that objects still have, a link that is never shown, an access list that shuts out its author or names a group that does not exist, a deletion that the history does not keep, objects that refer to what was deleted, a value of objects that its field takes no more, an `Idempotency-Key` or `If-None-Match` that the route does not take. Of a search, that objects may be missing.",
        ),
        "X-Total-Count": {"description": "How many items there are in all.", "schema": {"type": "integer", "minimum": 0}},
        "ETag": text("Changes with the resource; for `If-Match` and `If-None-Match`."),
        "Location": text("The URL of the resource."),
        "WWW-Authenticate": text("`Bearer`; for a token that is wrong or over with `error=\"invalid_token\"`."),
        "Link": text("Other pages of the list (RFC 8288): `first`, `prev`, `next`, `last`. The last page has no `next`."),
        "Accept-Patch": text("The media types that `PATCH` takes here (RFC 5789)."),
        "Accept-Query": text("The media types that `QUERY` takes here (RFC 10008)."),
        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
    });
    components["securitySchemes"] = json!({"token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The `token` in the answer of `login`, or one that `create_token` made.",
    }});
}

fn finish_operation(operation: &mut Value, route: &RouteInfo, routes: &[RouteInfo]) {
    add_right(operation, route.access);
    add_variables(operation, route.path);
    add_comment(operation, route);
    say_optional_plainly(operation);
    lift_descriptions(operation);
    let (explains, filters) = (has_parameter(operation, "explain"), has_parameter(operation, "filter"));
    if route.method.as_str() == "QUERY" {
        put_parameters_into_body(operation);
    }
    let facts = Facts { explains, filters, ..Facts::of(operation, route, routes) };
    add_errors(operation, &facts);
    add_headers(operation, &facts);
    examples::add(operation, &id_of_list(&facts.id), route.path);
}

/// The resource that a path belongs to.
pub(super) fn tag(path: &str) -> &str {
    let mut segments = path.split('/').skip(1);
    match (segments.next(), segments.next()) {
        (Some("rest"), Some(resource)) if !resource.is_empty() => resource,
        _ => "service",
    }
}

/// The tags of all routes with a sentence about each, signing in first.
fn tags(routes: &[RouteInfo]) -> Value {
    let used: BTreeSet<&str> = routes.iter().map(|route| tag(route.path)).collect();
    let mut used: Vec<&str> = used.into_iter().collect();
    used.sort_by_key(|name| *name != "auth");
    used.into_iter().map(|name| json!({"name": name, "description": about(name)})).collect()
}

fn about(tag: &str) -> &'static str {
    match tag {
        "auth" => "Signing in.",
        "categories" => "Categories: groups of types, as a tree.",
        "changes" => "Changes as they happen, as a stream or as pages.",
        "export" => "Objects as a file.",
        "groups" => "Groups of users, which have rights.",
        "import" => "Objects from a file.",
        "logs" => "Log entries: what was changed, when and by whom.",
        "objects" => "Objects, each of one type.",
        "reports" => "Saved reports: pipelines on objects, under a name.",
        "rights" => "The rights that the service knows.",
        "search" => "Objects by their words.",
        "types" => "Types: which fields objects have, and how they are rendered.",
        "users" => "Users, their settings and their tokens for machines.",
        "webhooks" => "Webhooks: changes that the service sends to other programs.",
        _ => "The service itself: its state, this description and its page.",
    }
}

fn add_right(operation: &mut Value, access: RouteAccess) {
    let (sentence, right) = match access {
        RouteAccess::Public => ("Needs no token.".to_owned(), None),
        RouteAccess::SignedIn => ("Needs a token, whatever its rights.".to_owned(), None),
        RouteAccess::Right(right) => (format!("Needs the right `{right}`."), Some(right)),
        RouteAccess::OwnOr(right) => (format!("Needs the right `{right}`, or to be about oneself."), Some(right)),
    };
    let said = operation["description"].as_str().map(|said| format!("{said}\n\n{sentence}"));
    operation["description"] = json!(said.unwrap_or(sentence));
    operation["x-right"] = json!(right);
    operation["security"] = if access == RouteAccess::Public { json!([]) } else { json!([{"token": []}]) };
}

fn add_variables(operation: &mut Value, path: &str) {
    let mut parameters: Vec<Value> = path.split('/').filter_map(variable).map(path_parameter).collect();
    parameters.extend(operation["parameters"].as_array().cloned().unwrap_or_default());
    operation["parameters"] = json!(parameters);
}

/// The header with the comment on a change, where a change has a log entry.
fn add_comment(operation: &mut Value, route: &RouteInfo) {
    let is_recorded = ["objects", "types", "categories", "import"].contains(&tag(route.path));
    let reads = matches!(route.method.as_str(), "GET" | "QUERY")
        || ["/query", "/aggregate", "/from-file"].iter().any(|end| route.path.ends_with(end));
    if reads || !is_recorded {
        return;
    }
    let mut parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    parameters.push(json!({
        "name": "Inventory-Comment",
        "in": "header",
        "required": false,
        "description": "What is said about the change: its log entry has it as `comment`. UTF-8 in percent encoding. An empty one \
            says nothing.",
        "schema": {"type": "string", "maxLength": 500, "pattern": COMMENT},
    }));
    operation["parameters"] = json!(parameters);
}

/// UTF-8 in percent encoding, without control characters. What needs no escape may be written unescaped, a space too.
const COMMENT: &str = concat!(
    "^([ -$&-~]|%[2-6][0-9A-Fa-f]|%7[0-9A-Ea-e]",
    // Two bytes, without U+0080 to U+009F.
    "|%[Cc]2%[ABab][0-9A-Fa-f]|%([Cc][3-9A-Fa-f]|[Dd][0-9A-Fa-f])%[89ABab][0-9A-Fa-f]",
    // Three bytes, without surrogates.
    "|%([Ee]0%[ABab]|[Ee][1-9A-CEFa-cef]%[89ABab]|[Ee][Dd]%[89])[0-9A-Fa-f]%[89ABab][0-9A-Fa-f]",
    // Four bytes.
    "|%([Ff]0%[9ABab]|[Ff][1-3]%[89ABab]|[Ff]4%8)[0-9A-Fa-f](%[89ABab][0-9A-Fa-f]){2})*$",
);

fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

fn path_parameter(name: &str) -> Value {
    let (description, schema) = match name {
        "public_ids" => (
            "Ids with commas between them, at most 1000.",
            json!({"type": "string", "pattern": "^[1-9][0-9]{0,17}(,[1-9][0-9]{0,17}){0,999}$"}),
        ),
        "file" => ("The name of a file.", json!({"type": "string", "pattern": "^[a-z0-9.-]+$"})),
        "type" => ("The id of a type, or its name.", json!({"type": "string", "minLength": 1})),
        "field" => ("A field whose values are unique.", json!({"type": "string", "minLength": 1})),
        "value" => ("The value, as a cell of a table has it.", json!({"type": "string", "minLength": 1})),
        "name" => ("The name or identifier.", json!({"type": "string", "minLength": 1})),
        _ => ("The id.", json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": i64::MAX})),
    };
    let mut parameter =
        json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema});
    if name == "file" {
        parameter["example"] = json!("index.css");
    }
    parameter
}

/// A parameter that is left out is not null.
fn say_optional_plainly(operation: &mut Value) {
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        if let Some(Value::Array(kinds)) = parameter["schema"].get_mut("type") {
            kinds.retain(|kind| kind != "null");
        }
    }
}

/// Moves the text of a parameter's schema to the parameter.
fn lift_descriptions(operation: &mut Value) {
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        let said = parameter["schema"].as_object_mut().and_then(|schema| schema.remove("description"));
        if let Some(said) = said {
            parameter["description"] = said;
        }
    }
}

/// The facts that decide about errors and headers of an operation.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
struct Facts {
    id: String,
    path: &'static str,
    access: RouteAccess,
    has_body: bool,
    has_patch: bool,
    /// Whether its method is POST, PUT, PATCH or DELETE.
    is_change: bool,
    /// Whether a route of its path has PATCH, or QUERY.
    is_patched: bool,
    is_queried: bool,
    /// Whether its parameters, in the URL or in the body, have `explain` and `filter`.
    explains: bool,
    filters: bool,
    parameters: Vec<String>,
}

fn has_parameter(operation: &Value, name: &str) -> bool {
    operation["parameters"].as_array().into_iter().flatten().any(|parameter| parameter["name"] == name)
}

impl Facts {
    fn of(operation: &Value, route: &RouteInfo, routes: &[RouteInfo]) -> Self {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let has = |method: &str| routes.iter().any(|other| other.path == route.path && other.method.as_str() == method);
        Self {
            id: operation["operationId"].as_str().unwrap_or_default().to_owned(),
            path: route.path,
            access: route.access,
            has_body: operation.get("requestBody").is_some(),
            has_patch: route.method.as_str() == "PATCH",
            is_change: matches!(route.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE"),
            explains: false,
            filters: false,
            is_patched: has("PATCH"),
            is_queried: has("QUERY"),
            parameters: parameters.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect(),
        }
    }

    fn takes(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|known| known == parameter)
    }

    /// Whether it can explain its list.
    fn explains(&self) -> bool {
        self.explains || self.id.starts_with("query_objects")
    }

    /// Whether it may say something about the question.
    fn advises(&self) -> bool {
        let others = ["aggregate_objects", "read_report", "create_webhook", "update_webhook", "patch_webhook"];
        self.explains() || self.filters || others.contains(&self.id.as_str())
    }

    fn can_answer(&self, code: ErrorCode) -> bool {
        errors::operations(code).iter().any(|of| self.is_one(*of))
    }

    fn is_one(&self, of: Of) -> bool {
        match of {
            Of::All => true,
            Of::Rest => self.path.starts_with("/rest/"),
            Of::Protected => self.access != RouteAccess::Public,
            Of::Rights => matches!(self.access, RouteAccess::Right(_) | RouteAccess::OwnOr(_)),
            Of::Bodiless => !self.has_body && self.path.starts_with("/rest/"),
            Of::Bodies => self.has_body,
            Of::Patches => self.has_patch && self.has_body,
            Of::Filters => {
                let pipelines = ["aggregate_objects", "read_report", "save_report"];
                self.filters || self.id.starts_with("query_objects") || pipelines.contains(&self.id.as_str())
            }
            Of::Conditional => self.takes("If-Match"),
            Of::Variable(name) => {
                self.path.split('/').filter_map(variable).any(|known| name.is_empty() || name == known)
            }
            Of::Below(path) => self.path.starts_with(path),
            Of::Operations(ids) => ids.contains(&&*id_of_list(&self.id)),
        }
    }
}

fn add_errors(operation: &mut Value, facts: &Facts) {
    let mut by_status: Map<String, Value> = Map::new();
    for code in ErrorCode::ALL.iter().filter(|code| facts.can_answer(**code)) {
        let codes = by_status.entry(code.status().to_string()).or_insert_with(|| json!([]));
        codes.as_array_mut().expect("a list").push(json!([code.pattern(), code.meaning()]));
    }
    for (status, codes) in by_status {
        let codes = codes.as_array().cloned().unwrap_or_default();
        let lines = codes.iter().map(|code| {
            format!("- `{}`: {}", code[0].as_str().unwrap_or_default(), code[1].as_str().unwrap_or_default())
        });
        let names: Vec<&Value> = codes.iter().map(|code| &code[0]).collect();
        operation["responses"][&status] = json!({
            "description": lines.collect::<Vec<_>>().join("\n"),
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}},
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}},
            },
            "x-codes": names,
        });
    }
    if facts.takes("If-None-Match") {
        operation["responses"]["304"] = json!({"description": "The client has the resource as it is."});
    }
}

fn add_headers(operation: &mut Value, facts: &Facts) {
    let summary = operation["summary"].clone();
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = summary.clone();
        }
        let schema = response["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
        let kind = schema.rsplit('/').next().unwrap_or_default().split('_').next().unwrap_or_default().to_owned();
        let is_written = kind.starts_with("Inserted") || kind == "Updated";
        let is_type = schema.ends_with("_Type");
        let mut names = vec!["X-API-Version", "X-Request-ID"];
        if kind == "ListOf" {
            names.extend(["X-Total-Count", "Link"]);
        }
        if facts.is_patched {
            names.push("Accept-Patch");
        }
        if facts.is_queried {
            names.push("Accept-Query");
        }
        if matches!(status.as_str(), "200" | "201" | "202") && facts.advises() {
            names.push("Inventory-Query-Hint");
        }
        if status == "200" && facts.explains() {
            // A choice of two schemas would hide the list from generators of clients.
            response["content"]["application/json"]["x-explain"] =
                json!({"$ref": "#/components/schemas/ListExplanation"});
        }
        if is_written {
            names.push("Location");
        }
        // Deleting a type may delete its objects.
        let deletes = facts.id == "delete_type" || DELETES_OF_OBJECTS.contains(&facts.id.as_str());
        let is_deleted = deletes && status.starts_with('2');
        // A change by filter takes the key, and no condition.
        let takes_headers = facts.takes("Idempotency-Key") && !facts.has_patch;
        let may_have_idle_header = facts.is_change && status.starts_with('2') && !takes_headers;
        let may_lack = facts.id == "search_objects" && status == "200";
        if is_written && is_type || is_deleted || may_have_idle_header || may_lack {
            names.push("Inventory-Warning");
        }
        if is_written || facts.takes("If-None-Match") && matches!(status.as_str(), "200" | "304") {
            names.push("ETag");
        }
        match status.as_str() {
            "401" => names.push("WWW-Authenticate"),
            "429" | "503" => names.push("Retry-After"),
            _ => {}
        }
        let headers =
            names.iter().map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")})));
        response["headers"] = Value::Object(headers.collect());
        if response["content"].is_null() {
            response.as_object_mut().expect("a response is an object").remove("content");
        }
    }
}

/// Links from the answer of a creation to operations on the new resource.
fn add_links(document: &mut Value) {
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    for (path, item) in &paths {
        let Some((status, kind)) = item.get("post").and_then(insertion) else { continue };
        let (variable, id) = match kind.as_str() {
            "InsertedSetting" => ("name", "$response.body#/result_id"),
            "InsertedToken" => ("token_id", "$response.body#/result_id"),
            _ => ("public_id", "$response.body#/result_id"),
        };
        let Some(made) = paths.get(&format!("{path}{{{variable}}}")).and_then(Value::as_object) else { continue };
        let mut links = Map::new();
        for operation in METHODS.iter().filter_map(|method| made.get(*method)) {
            let operation_id = operation["operationId"].as_str().unwrap_or_default();
            let mut parameters = json!({variable: id});
            if variable != "public_id" {
                parameters["public_id"] = json!("$request.path.public_id");
            }
            links.insert(operation_id.to_owned(), json!({"operationId": operation_id, "parameters": parameters}));
        }
        document["paths"][path]["post"]["responses"][status]["links"] = Value::Object(links);
    }
}

/// The status and the schema of the answer of a creation.
fn insertion(operation: &Value) -> Option<(String, String)> {
    operation["responses"].as_object()?.iter().find_map(|(status, response)| {
        let schema = response["content"]["application/json"]["schema"]["$ref"].as_str()?;
        let name = schema.rsplit('/').next()?;
        name.starts_with("Inserted").then(|| (status.clone(), name.to_owned()))
    })
}

/// `anyOf` instead of `oneOf`: a projected object can look like a stored one.
fn any_instead_of_one(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(choices) = members.remove("oneOf") {
                members.insert("anyOf".to_owned(), choices);
            }
            members.values_mut().for_each(any_instead_of_one);
        }
        Value::Array(items) => items.iter_mut().for_each(any_instead_of_one),
        _ => {}
    }
}
