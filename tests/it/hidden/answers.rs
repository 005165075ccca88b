//! Answers as far as they have to be equal.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::app::Answer;

/// What is another time or number with each request.
const VARYING_HEADERS: [&str; 3] = ["date", "x-request-id", "content-length"];
const VARYING_MEMBERS: [&str; 7] =
    ["request_id", "instance", "time", "time_us", "current_render_time", "sequence", "next"];
/// Which index is chosen may depend on all objects that are stored; docs/security.md says so.
const MEMBERS_OF_A_PLAN: [&str; 3] = ["plan", "sort", "total_from"];

/// The part of an answer that does not vary.
#[derive(Debug, PartialEq)]
pub(super) struct Comparable {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

/// The host before a port.
const HOST: &str = "127.0.0.1:";

impl Comparable {
    pub(super) fn of(answer: &Answer) -> Self {
        let headers = answer.headers.iter().filter(|(name, _)| !VARYING_HEADERS.contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
        let body = match serde_json::from_str::<Value>(&answer.text) {
            Ok(mut body) => {
                if body.get("plan").is_some() {
                    without(&mut body, &MEMBERS_OF_A_PLAN);
                }
                without(&mut body, &VARYING_MEMBERS);
                body.to_string()
            }
            Err(_) => answer.text.clone(),
        };
        // A port may have the digits of an id.
        let parts = body.split(HOST).enumerate();
        let is_digit = |letter: char| letter.is_ascii_digit();
        let body = parts.map(|(at, part)| if at == 0 { part } else { part.trim_start_matches(is_digit) }).collect();
        Self { status: answer.status.as_u16(), headers, body }
    }

    /// The same without the id that the request named.
    pub(super) fn without(mut self, id: i64) -> Self {
        self.body = self.body.replace(&id.to_string(), "ID");
        self
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }
}

fn without(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !names.contains(&name.as_str()));
            members.values_mut().for_each(|member| without(member, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, names)),
        _ => {}
    }
}
