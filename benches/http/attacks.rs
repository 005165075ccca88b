//! What eight attackers on one account send: the worst that the interface allows.

use serde_json::{Value, json};

use crate::client::request;
use crate::harness::timing::Error;

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Sent in turns.
    pub(crate) requests: Vec<Vec<u8>>,
    /// How many send at a time.
    pub(crate) attackers: usize,
    pub(crate) how: How,
}

/// How requests are sent.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// One after the other on one connection.
    Kept,
    /// Each on a connection of its own.
    Alone,
    /// The same, and nothing of the answer is taken.
    Unread,
}

/// Of whom, with what.
pub(crate) struct Attacker<'a> {
    pub(crate) token: &'a str,
    pub(crate) user_id: i64,
    /// A type with many objects.
    pub(crate) type_id: i64,
    /// A cursor after which large objects have changed.
    pub(crate) since: &'a str,
}

/// The number of attackers at a time, unless the attack has another one.
const ATTACKERS: usize = 8;

impl Attacker<'_> {
    /// All attacks.
    pub(crate) fn attacks(&self) -> Result<Vec<Attack>, Error> {
        let mut attacks = self.questions();
        attacks.extend(self.answers());
        attacks.extend(self.bodies()?);
        attacks.extend(self.past());
        Ok(attacks)
    }

    fn questions(&self) -> Vec<Attack> {
        let range = |from: i32, to: i32| json!({"$range": [from, to]});
        let size = |value: Value| json!({"$expr": {"$gt": [{"$size": value}, -1]}});
        let map = |count| size(json!({"$map": {"input": range(0, count), "in": {"$add": ["$$this", 1]}}}));
        let sum = json!({"$reduce": {"input": range(0, 300), "initialValue": 0,
            "in": {"$add": ["$$value", "$$this", {"$size": "$fields"}]}}});
        let sorted =
            json!({"$sortArray": {"input": {"$concatArrays": ["$fields", "$fields"]}, "sortBy": {"value": 1}}});
        let patterns: Vec<Value> = (0..490).map(|number| {
            json!({"$regularExpression": {"pattern": format!("^[a-z]{{3,40}}{number}\\w*(x|y)+z{{2,30}}$"), "options": "i"}})
        }).collect();
        vec![
            self.question("$map over $range, rights", "/rest/rights/query", &map(550_000)),
            self.question("$map over $range, objects", "/rest/objects/query", &map(20_000)),
            self.question(
                "folding of $setUnion",
                "/rest/objects/query",
                &size(json!({"$setUnion": [range(0, 250_000), range(100_000, 340_000)]})),
            ),
            self.get("unindexed sort", "/rest/objects/?limit=10&sort=fields.purpose"),
            self.question("$reduce", "/rest/objects/query", &json!({"$expr": {"$lt": [sum, -1]}})),
            self.question("$sortArray", "/rest/objects/query", &size(sorted)),
            self.question("490 patterns in $in", "/rest/objects/query", &json!({"fields.value": {"$in": patterns}})),
            self.get("deep page", "/rest/objects/?limit=100&page=450&sort=fields.hostname"),
        ]
    }

    fn answers(&self) -> Vec<Attack> {
        let list = "/rest/objects/?limit=10000";
        let packed = [("accept-encoding", "br")];
        let mut unread = self.get("300 lists that nobody reads", list);
        (unread.attackers, unread.how) = (300, How::Unread);
        vec![
            self.get("limit=10000, native", list),
            self.get("limit=10000, rendered", "/rest/objects/?limit=10000&view=render"),
            self.with("compression", "GET", "/rest/objects/?limit=100&view=render", &packed, None),
            unread,
            self.get(
                "export as xlsx",
                &format!("/rest/export/objects?format=xlsx&columns=all&type_id={}", self.type_id),
            ),
            self.get("export as csv", &format!("/rest/export/objects?format=csv&columns=all&type_id={}", self.type_id)),
        ]
    }

    fn bodies(&self) -> Result<Vec<Attack>, Error> {
        let ones = format!("[{}1]", "1,".repeat(16_000_000));
        let places = format!("{{\"type_id\": {}, \"fields\": [{}{{}}]}}", self.type_id, "{},".repeat(340_000));
        let name = format!("{{\"user_name\": [{}1], \"password\": \"x\"}}", "1,".repeat(500_000));
        let payload = "x".repeat(900_000);
        let settings = format!("/rest/users/{}/settings/", self.user_id);
        let mut kept = self.get("settings of 900 KB", &settings);
        for number in 0..12 {
            let body = json!({"identifier": format!("s{number}"), "setting_type": "GLOBAL", "payload": {"x": payload}});
            let stored = self.with("", "POST", &settings, &[], Some(&body.to_string()));
            kept.requests.extend(stored.requests);
        }
        let packed = zstd::bulk::compress(ones.as_bytes(), 3)?;
        Ok(vec![
            self.packed("packed list of ones", &packed),
            self.with("object of 340,000 wrong places", "POST", "/rest/objects/", &[], Some(&places)),
            self.with("list as a user name", "POST", "/rest/auth/login", &[], Some(&name)),
            kept,
        ])
    }

    fn past(&self) -> Vec<Attack> {
        let since = self.since;
        let mut attacks = vec![
            self.get("16 lists of the past", &format!("/rest/objects/?at={since}&limit=1&projection=public_id")),
            self.get("16 long lists of the past", &format!("/rest/objects/?at={since}&limit=1000")),
            self.get("16 pages of changes, ids", &format!("/rest/changes/?since={since}&limit=1000&view=ids")),
            self.get("16 pages of changes", &format!("/rest/changes/?since={since}&limit=1000")),
        ];
        for attack in &mut attacks {
            attack.attackers = 16;
        }
        attacks
    }

    /// A question in a body; on routes that know none, in the path.
    fn question(&self, name: &'static str, path: &str, filter: &Value) -> Attack {
        if let Some(list) = path.strip_suffix("query").filter(|list| !list.contains("objects")) {
            let filter = percent_encoding::utf8_percent_encode(&filter.to_string(), percent_encoding::NON_ALPHANUMERIC)
                .to_string();
            return self.get(name, &format!("{list}?filter={filter}"));
        }
        self.with(name, "POST", path, &[], Some(&json!({"filter": filter}).to_string()))
    }

    fn get(&self, name: &'static str, path: &str) -> Attack {
        self.with(name, "GET", path, &[], None)
    }

    fn with(
        &self,
        name: &'static str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Attack {
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![("authorization", &*bearer), ("connection", "close")];
        all.extend_from_slice(headers);
        Attack { name, requests: vec![request(method, path, &all, body)], attackers: ATTACKERS, how: How::Alone }
    }

    fn packed(&self, name: &'static str, body: &[u8]) -> Attack {
        let length = body.len().to_string();
        let headers =
            [("content-encoding", "zstd"), ("content-type", "application/json"), ("content-length", length.as_str())];
        let mut attack = self.with(name, "POST", "/rest/objects/bulk", &headers, None);
        attack.requests[0].extend_from_slice(body);
        attack
    }
}
