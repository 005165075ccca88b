//! Requests that change nothing.

use reqwest::Method;
use serde_json::{Value, json};

use super::world::{HIDDEN, OPEN, SEEN, UNSEEN};
use crate::differential::random::Random;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) parameters: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<String>,
}

impl Asked {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), parameters: Vec::new(), headers: Vec::new(), body: None }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    fn saying(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn sending(mut self, kind: &str, body: impl ToString) -> Self {
        self.body = Some(body.to_string());
        self.saying("Content-Type", kind)
    }

    fn json(self, body: &Value) -> Self {
        self.sending("application/json", body)
    }

    /// Whether it would change something if it were not refused.
    pub(super) fn changes_nothing(&self) -> bool {
        let reads = [Method::GET, Method::HEAD].contains(&self.method)
            || self.method.as_str() == "QUERY"
            || ["/objects/query", "/objects/aggregate"].contains(&self.path.as_str())
            || self.parameters.iter().any(|(name, _)| *name == "dry_run");
        !reads
    }
}

fn query() -> Method {
    Method::from_bytes(b"QUERY").expect("a method")
}

/// What reads an object by its id.
fn reading(id: i64) -> Vec<Asked> {
    let mut all = Vec::new();
    for path in ["", "/native", "/references", "/state"] {
        all.push(Asked::get(format!("/objects/{id}{path}")));
        all.push(Asked::new(Method::HEAD, format!("/objects/{id}{path}")));
    }
    all.push(Asked::get(format!("/objects/{id}/references")).with("view", "render").with("explain", "true"));
    for direction in ["in", "out", "both"] {
        let graph = || Asked::get(format!("/objects/{id}/graph")).with("direction", direction);
        all.extend([graph(), graph().with("depth", "1"), graph().with("max_nodes", "2").with("format", "dot")]);
    }
    all
}

/// What names an id in its path or body.
pub(super) fn about(id: i64) -> Vec<Asked> {
    let mut all = reading(id);
    let path = format!("/objects/{id}");
    for past in ["", "/native"] {
        all.push(Asked::get(format!("{path}{past}")).with("at", "1"));
    }
    all.push(Asked::get(format!("{path}/history")));
    all.push(Asked::get(format!("{path}/history")).with("explain", "true"));
    all.push(Asked::get(format!("{path}/diff")).with("from", "1"));
    for to in [json!({"to": 1}), json!({"to": "2020-01-01T00:00:00Z"})] {
        all.push(Asked::new(Method::POST, format!("{path}/revert")).json(&to));
        all.push(Asked::new(Method::POST, format!("{path}/revert")).with("dry_run", "true").json(&to));
    }
    all.push(Asked::new(Method::POST, format!("{path}/restore")));
    for body in
        [json!({"author_id": 1}), json!({"author_id": 1, "fields": [{"name": "name", "value": "x"}]}), json!([])]
    {
        all.push(Asked::new(Method::PUT, &*path).json(&body));
        all.push(Asked::new(Method::PATCH, &*path).json(&body));
        all.push(Asked::new(Method::PATCH, &*path).json(&body).saying("If-Match", "\"0\""));
    }
    all.push(Asked::new(Method::PUT, format!("{path}/state")).json(&json!(true)));
    all.push(Asked::new(Method::PUT, format!("{path}/state")).json(&json!(false)));
    for references in ["keep", "refuse", "clear"] {
        all.push(Asked::new(Method::DELETE, &*path).with("on_references", references));
        all.push(Asked::new(Method::DELETE, format!("/objects/{id},{id}")).with("on_references", references));
        if references != "keep" {
            all.push(Asked::new(Method::DELETE, format!("/objects/delete/1,{id}")).with("on_references", references));
        }
    }
    all.push(Asked::new(Method::DELETE, &*path).saying("If-Match", "\"0\""));
    for field in ["to_open", "to_hidden"] {
        // A reference to a hidden object is refused as one to no object.
        let fields = json!([{"name": field, "value": id}]);
        let body = json!({"type_id": OPEN, "author_id": 1, "fields": fields});
        all.push(Asked::new(Method::POST, "/objects/").json(&body));
        all.push(Asked::new(Method::POST, "/objects/bulk").with("atomic", "true").json(&json!([body])));
        all.push(Asked::new(Method::PATCH, "/objects/9").json(&json!({"fields": fields})));
        if field == "to_open" {
            all.push(Asked::new(Method::PATCH, "/objects/1").json(&json!({"fields": fields})));
        }
    }
    all
}

/// Each route, with ids that are seen, hidden and nobody's.
pub(super) fn walked() -> Vec<Asked> {
    let mut all: Vec<Asked> = SEEN.flat_map(reading).chain(UNSEEN.chain([999]).flat_map(about)).collect();
    for references in ["refuse", "clear"] {
        all.push(Asked::new(Method::DELETE, "/objects/1").with("on_references", references));
    }
    for words in ["seen", "se", "seen-1", "secret", "s", "other-0 seen", "o", "1", "101", "10 s", "much", "999"] {
        let search = || Asked::get("/search/").with("q", words);
        all.extend([
            search(),
            search().with("limit", 2),
            search().with("type_id", HIDDEN[0]),
            search().with("cursor", "1-1-3"),
        ]);
    }
    all.push(Asked::get("/reports/"));
    for report in ["/reports/own", "/reports/of-group", "/reports/none"] {
        all.push(Asked::get(report));
        // The time in a workbook differs from one answer to the next.
        all.push(Asked::get(report).with("format", "csv"));
    }
    for type_id in HIDDEN {
        all.push(Asked::get(format!("/objects/clean/{type_id}")));
        all.push(Asked::new(Method::PUT, format!("/objects/clean/{type_id}")));
        all.push(Asked::get("/export/objects").with("type_id", type_id));
        let free = Asked::get("/objects/free").with("type_id", type_id).with("field", "name");
        all.push(free.with("network", "10.0.0.0/24"));
        all.push(Asked::new(Method::DELETE, format!("/types/{type_id}")));
        all.push(Asked::new(Method::DELETE, format!("/types/{type_id}")).with("cascade", "true"));
        all.push(Asked::get(format!("/types/{type_id}/migration")));
        let steps = json!([{"drop": {"field": "name"}}, {"set_default": {"field": "name", "value": "x"}}]);
        for body in [json!({"migration": steps}), json!({"migration": steps, "expected_count": 1})] {
            all.push(Asked::new(Method::PATCH, format!("/types/{type_id}")).with("dry_run", "true").json(&body));
        }
    }
    for type_id in [OPEN, HIDDEN[0], HIDDEN[1]] {
        all.push(Asked::get(format!("/types/{type_id}")));
        for (parameters, file) in [
            ("public_id", "public_id,name\n101,x\n102,x\n"),
            ("name", "name\nsecret-aaaaaaaaaaaaaaaaaaaaaaaaaaaa\nother-1\nnew\n"),
            ("to_open", "to_open,name\n101,x\n1,y\n"),
        ] {
            let import = Asked::new(Method::POST, "/import/objects").with("type_id", type_id).with("dry_run", "true");
            all.push(import.clone().sending("text/csv", file));
            all.push(import.with("key", parameters).sending("text/csv", file));
        }
    }
    for type_id in [OPEN, HIDDEN[0]] {
        all.push(Asked::get("/objects/dangling/").with("type_id", type_id));
        let body = json!({"author_id": 1, "fields": {"size": 1}});
        all.push(Asked::new(Method::PUT, format!("/objects/by/{type_id}/name/other-1")).json(&body));
    }
    all.push(Asked::get("/objects/dangling/").with("limit", 1));
    all.push(Asked::new(Method::POST, "/logs/undo").json(&json!({"request_id": "nobody's", "dry_run": true})));
    for path in [
        "/objects/", "/objects/dangling/", "/types/", "/categories/", "/users/", "/groups/", "/rights/",
        "/export/objects", "/users/1/settings/", "/users/1/tokens/", "/rights/levels",
    ] {
        all.push(Asked::get(path));
        all.push(Asked::get(path).with("explain", "true"));
    }
    all
}

/// Questions by chance.
pub(super) fn generated(seed: u64, cases: u64) -> Vec<Asked> {
    (0..cases).map(|number| Generator(Random::new(seed, number)).asked()).collect()
}

struct Generator(Random);

impl Generator {
    fn asked(&mut self) -> Asked {
        let filter = self.filter(2);
        match self.0.weighted(&[50, 8, 8, 6, 8, 5, 5, 12, 12]) {
            0 => {
                let mut asked = Asked::get("/objects/").with("filter", &filter);
                if self.0.percent(40) {
                    asked = asked.with(
                        "sort",
                        self.0.pick(&["views", "-views", "fields.name", "-fields.size,views", "type_id", "-public_id"]),
                    );
                }
                if self.0.percent(25) {
                    asked = asked.with("projection", self.projection());
                }
                if self.0.percent(25) {
                    asked = asked.with("view", "render");
                }
                if self.0.percent(30) {
                    asked = asked.with("limit", self.0.pick(&[1, 3, 200])).with("page", self.0.pick(&[1, 2]));
                }
                if self.0.percent(15) {
                    asked = asked.with("explain", "true");
                }
                asked
            }
            1 => Asked::new(Method::POST, "/objects/query").json(&json!({"filter": filter, "limit": 4})),
            2 => Asked::new(query(), "/objects/").json(&json!({"filter": filter, "view": "render"})),
            3 => Asked::get(format!("/objects/clean/{}", self.0.between(1, 3))).with("filter", &filter),
            4 => Asked::get("/export/objects").with("filter", &filter).with("format", "ndjson"),
            5 => {
                let patch = json!({"fields": [{"name": "name", "value": "changed"}]});
                Asked::new(Method::PATCH, "/objects/").with("filter", &filter).with("expected_count", 77).json(&patch)
            }
            6 => Asked::new(Method::DELETE, "/objects/").with("filter", &filter).with("expected_count", 77),
            7 => {
                let stages = self.stages(filter);
                let mut asked = Asked::get("/objects/").with("filter", &stages);
                if self.0.percent(40) {
                    asked = asked.with("limit", self.0.pick(&[1, 3])).with("page", self.0.pick(&[1, 2]));
                }
                if self.0.percent(30) {
                    asked = asked.with("sort", self.0.pick(&["views", "-fields.size", "made", "-n"]));
                }
                if self.0.percent(25) {
                    asked = asked.with("projection", self.projection());
                }
                if self.0.percent(15) {
                    asked = asked.with("view", "render");
                }
                if self.0.percent(10) {
                    asked = asked.with("explain", "true");
                }
                asked
            }
            _ => {
                let pipeline = self.pipeline(filter);
                Asked::new(Method::POST, "/objects/aggregate").json(&json!({"pipeline": pipeline}))
            }
        }
    }

    /// Stages of lists.
    fn stages(&mut self, filter: Value) -> Value {
        let order = json!({"$sort": {"public_id": -1}});
        match self.0.below(5) {
            0 => json!([{"$match": filter}, {"$match": self.filter(1)}, order]),
            1 => json!([order, {"$limit": 3}, {"$match": filter}]),
            2 => json!([{"$match": filter}, {"$set": {"made": self.failing()}}]),
            3 => json!([{"$unwind": "$fields"}, {"$project": {"fields": 1, "made": self.failing()}}]),
            _ => json!([
                {"$match": filter},
                {"$lookup": {"from": "framework.objects", "localField": "fields.value", "foreignField": "public_id", "as": "x"}},
                {"$addFields": {"n": {"$size": "$x"}}},
            ]),
        }
    }

    /// Stages that would disclose hidden objects if they read them.
    fn pipeline(&mut self, filter: Value) -> Value {
        let inner = json!([{"$match": {"$expr": {"$ne": [0, self.failing()]}}}, {"$project": {"public_id": 1}}]);
        let order = json!({"$sort": {"public_id": 1}});
        match self.0.below(6) {
            0 => {
                json!([{"$match": filter}, {"$group": {"_id": "$type_id", "n": {"$sum": self.failing()}}}, {"$sort": {"_id": 1}}])
            }
            1 => json!([{"$match": filter}, {"$count": "n"}]),
            2 => json!([order, {"$limit": 3}, {"$match": filter}]),
            3 => {
                json!([{"$match": filter}, order, {"$lookup": {"from": "framework.objects", "pipeline": inner, "as": "x"}}])
            }
            4 => {
                json!([{"$limit": 1}, {"$unionWith": {"coll": "framework.objects", "pipeline": inner}}, {"$count": "n"}])
            }
            _ => json!([
                {"$lookup": {"from": "framework.objects", "localField": "fields.value", "foreignField": "public_id", "as": "x"}},
                order, {"$project": {"n": {"$size": "$x"}, "made": self.failing()}},
            ]),
        }
    }

    fn filter(&mut self, depth: usize) -> Value {
        let parts = |generator: &mut Self| -> Vec<Value> {
            (0..=generator.0.below(2) + 1).map(|_| generator.filter(depth - 1)).collect()
        };
        match self.0.below(if depth == 0 { 7 } else { 10 }) {
            0 => json!({"public_id": {*self.0.pick(&["$eq", "$gt", "$lte", "$ne"]): self.0.between(1, 108)}}),
            1 => json!({"type_id": {"$in": [self.0.between(-1, 3), self.0.between(1, 3)]}}),
            2 => json!({"fields": {"$elemMatch": {"name": "name", "value": self.text()}}}),
            3 => json!({"fields.value": self.text()}),
            4 => json!({"$jsonSchema": {"properties": {"views": {"maximum": self.0.between(0, 50)}}}}),
            5 | 6 => json!({"$expr": {"$ne": [0, self.failing()]}}),
            7 => json!({"$and": parts(self)}),
            8 => json!({"$or": parts(self)}),
            _ => json!({"$nor": parts(self)}),
        }
    }

    fn text(&mut self) -> Value {
        match self.0.below(4) {
            0 => json!("other-1"),
            1 => json!({"$regex": "^secret"}),
            // Goes back and forth without end on the texts that hidden objects have.
            2 => json!({"$regex": "^secret-(a|a)*(a|a)*b$"}),
            _ => json!({"$in": ["seen-3", "other-0"]}),
        }
    }

    /// Holds for some hidden objects in some worlds.
    fn condition(&mut self) -> Value {
        let number = self.0.between(95, 109);
        let text = *self.0.pick(&["other-0", "other-1", "other-2", "much"]);
        match self.0.below(4) {
            0 => json!({"$eq": ["$public_id", number]}),
            1 => json!({"$gt": ["$views", self.0.between(9, 40)]}),
            2 => json!({"$in": [text, {"$ifNull": ["$fields.value", []]}]}),
            _ => json!({"$and": [{"$gt": ["$type_id", 1]}, {"$lt": ["$public_id", number]}]}),
        }
    }

    /// Fails on documents for which the condition holds.
    fn failing(&mut self) -> Value {
        let condition = self.condition();
        match self.0.below(7) {
            0 => json!({"$divide": [1, {"$cond": [condition, 0, 1]}]}),
            1 => json!({"$toInt": {"$cond": [condition, "x", "1"]}}),
            2 => json!({"$convert": {"input": {"$cond": [condition, "x", "1"]}, "to": "date", "onNull": 0}}),
            3 => json!({"$strLenCP": {"$cond": [condition, 1, "a"]}}),
            4 => json!({"$size": {"$range": [0, {"$cond": [condition, 90_000_000, 1]}]}}),
            5 => json!({"$arrayElemAt": [{"$cond": [condition, 1, [1]]}, 0]}),
            _ => {
                let pattern = json!({"$cond": [condition, "(", "a"]});
                json!({"$regexMatch": {"input": "secret", "regex": {"$concat": [pattern, ""]}}})
            }
        }
    }

    fn projection(&mut self) -> Value {
        match self.0.below(4) {
            0 => json!({"public_id": 1, "views": 1}),
            1 => json!({"fields": 0}),
            2 => json!({"found": self.failing()}),
            _ => json!({"fields": {"$slice": 1}, "made": self.condition()}),
        }
    }
}
