//! What the service acknowledged, and whether it is there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use serde_json::Value;

use crate::api::Api;
use crate::harness::timing::Error;

/// Objects by key. A key is written by one client alone.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<HashMap<String, Entry>>);

/// What is known of one object.
#[derive(Debug, Clone, Default)]
struct Entry {
    id: Option<i64>,
    /// Values that it may have by now: the last one acknowledged, and those whose outcome is unknown. `None`: it is gone.
    possible: Vec<Option<String>>,
}

/// What was found in the end.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) objects: usize,
    pub(crate) lost: usize,
    /// A key or an id of several objects.
    pub(crate) doubled: usize,
    /// There with another value or id than is known, or though it was deleted or never written.
    pub(crate) changed: usize,
}

impl Ledger {
    /// The object was acknowledged with this value, or as gone.
    pub(crate) fn acknowledged(&self, key: &str, id: i64, value: Option<&str>) {
        let mut entries = self.0.lock().expect("nobody panicked");
        let entry = entries.entry(key.to_owned()).or_default();
        entry.id = Some(id);
        entry.possible = vec![value.map(str::to_owned)];
    }

    /// It may have this value, or be gone, or be as it was.
    pub(crate) fn uncertain(&self, key: &str, value: Option<&str>) {
        let mut entries = self.0.lock().expect("nobody panicked");
        let entry = entries.entry(key.to_owned()).or_insert_with(|| Entry { id: None, possible: vec![None] });
        entry.possible.push(value.map(str::to_owned));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("nobody panicked").len()
    }

    /// Reads all objects of the type and compares.
    pub(crate) async fn compare(&self, api: &Api, type_id: i64) -> Result<Verdict, Error> {
        let mut found: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        // The connection may have been at rest for longer than the service keeps it.
        let mut api = api.again();
        let (mut after, mut same_id) = (0, 0);
        loop {
            let filter = format!("%7B%22type_id%22:{type_id},%22public_id%22:%7B%22$gt%22:{after}%7D%7D");
            // Short enough to come with its length.
            let path = format!("/objects/?limit=100&sort=public_id&filter={filter}");
            let page = api.expect("GET", &path, None).await?;
            let objects = page["results"].as_array().ok_or("no results")?;
            for object in objects {
                let id = object["public_id"].as_i64().ok_or("an object without an id")?;
                same_id += usize::from(id <= after);
                found.entry(field(object, "key")).or_default().push((id, field(object, "value")));
                after = id;
            }
            if objects.is_empty() {
                break;
            }
        }
        let entries = self.0.lock().expect("nobody panicked");
        let mut verdict = Verdict { objects: found.len(), doubled: same_id, ..Verdict::default() };
        for (key, entry) in entries.iter() {
            match found.get(key).map(Vec::as_slice) {
                None if entry.possible.contains(&None) => {}
                None => verdict.lost += 1,
                Some([(id, value)]) => {
                    let is_known = entry.possible.iter().flatten().any(|possible| possible == value);
                    if !is_known || entry.id.is_some_and(|known| known != *id) {
                        verdict.changed += 1;
                    }
                }
                Some(_) => verdict.doubled += 1,
            }
        }
        verdict.changed += found.keys().filter(|key| !entries.contains_key(*key)).count();
        Ok(verdict)
    }
}

impl Verdict {
    /// The verdict, unless something is wrong.
    pub(crate) fn passed(self) -> Result<Self, Error> {
        if self.lost + self.doubled + self.changed == 0 { Ok(self) } else { Err(format!("{self:?}").into()) }
    }
}

fn field(object: &Value, name: &str) -> String {
    let fields = object["fields"].as_array().into_iter().flatten();
    let mut values = fields.filter(|field| field["name"] == name).filter_map(|field| field["value"].as_str());
    values.next().unwrap_or_default().to_owned()
}
