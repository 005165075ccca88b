//! Objects as hosts for other tools: an inventory of Ansible, and service discovery of Prometheus over HTTP.
//!
//! An object is a host if the chosen field names one. Others are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bson::Bson;
use serde_json::{Map, Value, json};

use super::WriteError;

/// Larger inventories do not fit into the tools, nor their groups into memory.
pub const MOST_HOSTS: u64 = 100_000;

/// Which fields have a meaning for the tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFields {
    /// The field with the name of the host, or with the address of the target.
    pub host: String,
    /// The field with the address that Ansible connects to.
    pub address: Option<String>,
    /// The field whose values make groups.
    pub group_by: Option<String>,
    /// The port of targets.
    pub port: Option<u16>,
}

/// An object that may be a host.
#[derive(Debug)]
pub struct HostObject<'a> {
    /// Its id.
    pub id: i64,
    /// Whether it is in use.
    pub active: bool,
    /// The name of its type.
    pub type_name: &'a str,
    /// The names of the categories of its type.
    pub categories: &'a [String],
    /// Its fields, those with hidden values left out.
    pub fields: Vec<(String, Bson)>,
}

impl HostObject<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let value = &self.fields.iter().find(|(field, _)| field == name)?.1;
        text(value).filter(|text| !text.trim().is_empty())
    }
}

/// An inventory of Ansible while it is written: variables of hosts first, groups at its end.
#[derive(Debug)]
pub struct AnsibleInventory {
    fields: HostFields,
    ids: HashMap<String, i64>,
    groups: BTreeMap<String, BTreeSet<String>>,
}

impl AnsibleInventory {
    /// No hosts yet.
    pub fn new(fields: HostFields) -> Self {
        Self { fields, ids: HashMap::new(), groups: BTreeMap::new() }
    }

    /// How the file begins.
    pub fn beginning() -> Vec<u8> {
        br#"{"_meta":{"hostvars":{"#.to_vec()
    }

    /// The variables of these hosts.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`] when two objects have the same host name.
    pub fn hosts<'a>(&mut self, objects: impl Iterator<Item = HostObject<'a>>) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        for object in objects {
            let Some(host) = object.text(&self.fields.host) else { continue };
            if !self.ids.is_empty() {
                out.push(b',');
            }
            if let Some(other) = self.ids.insert(host.clone(), object.id) {
                return Err(WriteError::TooLarge(format!(
                    "objects {other} and {} have the same host name {host:?}; leave one out by filter",
                    object.id
                )));
            }
            let variables = self.variables(&object);
            out.extend_from_slice(format!("{}:{variables}", Value::from(host.as_str())).as_bytes());
            let by_field =
                self.fields.group_by.as_deref().and_then(|name| Some(format!("{name}_{}", object.text(name)?)));
            let categories = object.categories.iter().map(|name| format!("category_{name}"));
            let groups = std::iter::once(format!("type_{}", object.type_name)).chain(categories).chain(by_field);
            for group in groups {
                self.groups.entry(group_name(&group)).or_default().insert(host.clone());
            }
        }
        Ok(out)
    }

    fn variables(&self, object: &HostObject<'_>) -> Value {
        let fields: Map<String, Value> =
            object.fields.iter().map(|(name, value)| (name.clone(), inert(plain(value)))).collect();
        let inventory = json!({"id": object.id, "type": object.type_name, "active": object.active, "fields": fields});
        let mut variables = json!({"inventory": inventory});
        if let Some(address) = self.fields.address.as_deref().and_then(|name| object.text(name)) {
            variables["ansible_host"] = inert(address.into());
        }
        variables
    }

    /// The groups, and how the file ends.
    pub fn end(self) -> Vec<u8> {
        let names: Vec<&String> = self.groups.keys().collect();
        let mut out = format!("}}}},\"all\":{{\"children\":{}}}", json!(names));
        for (name, hosts) in &self.groups {
            out.extend([",", &json!(name).to_string(), ":", &json!({"hosts": hosts}).to_string()]);
        }
        out.push_str("}\n");
        out.into_bytes()
    }
}

/// Targets of Prometheus, as elements of an array; `is_first` says whether none was written before.
pub fn targets<'a>(fields: &HostFields, is_first: &mut bool, objects: impl Iterator<Item = HostObject<'a>>) -> Vec<u8> {
    let mut out = Vec::new();
    for object in objects {
        let Some(host) = object.text(&fields.host) else { continue };
        let target = match fields.port {
            // An address of IPv6 stands in brackets before a port.
            Some(port) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host,
        };
        let mut labels = Map::new();
        let mut label = |name: String, value: String| labels.insert(format!("__meta_inventory_{name}"), value.into());
        label("id".to_owned(), object.id.to_string());
        label("type".to_owned(), object.type_name.to_owned());
        label("active".to_owned(), object.active.to_string());
        label("categories".to_owned(), object.categories.join(","));
        for (name, value) in &object.fields {
            if let Some(text) = text(value) {
                label(format!("field_{}", group_name(name)), text);
            }
        }
        if !std::mem::take(is_first) {
            out.push(b',');
        }
        out.extend_from_slice(json!({"targets": [target], "labels": labels}).to_string().as_bytes());
    }
    out
}

/// A name of letters, digits and underscores, as groups and labels need it.
fn group_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with(|letter: char| letter.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// A value as text; nothing for null.
fn text(value: &Bson) -> Option<String> {
    match plain(value) {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Ansible evaluates templates in texts. A text that has one is marked, so that it stays a text.
fn inert(value: Value) -> Value {
    match value {
        Value::String(text) if ["{{", "{%", "{#"].iter().any(|begin| text.contains(begin)) => {
            json!({"__ansible_unsafe": text})
        }
        Value::Array(items) => items.into_iter().map(inert).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, inert(value))).collect(),
        other => other,
    }
}

/// A value as plain JSON, dates as ISO 8601.
fn plain(value: &Bson) -> Value {
    match value {
        Bson::DateTime(at) => at.try_to_rfc3339_string().map_or(Value::Null, Value::from),
        Bson::Array(items) => items.iter().map(plain).collect(),
        Bson::Document(members) => members.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        other => other.clone().into_relaxed_extjson(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: i64, fields: &[(&str, Bson)]) -> HostObject<'static> {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        HostObject { id, active: true, type_name: "web-server", categories: &[], fields }
    }

    #[test]
    fn templates_in_texts_are_marked_so_that_ansible_does_not_evaluate_them() {
        let template = "{{ lookup('pipe', 'id') }}";
        assert_eq!(inert(json!([template, "plain"])), json!([{"__ansible_unsafe": template}, "plain"]));
    }

    #[test]
    fn names_of_groups_are_ones_that_ansible_takes() {
        assert_eq!(group_name("type_web-server é"), "type_web_server__");
        assert_eq!(group_name("1st"), "_1st");
    }

    #[test]
    fn two_hosts_of_one_name_are_refused_with_their_ids() {
        let mut inventory = AnsibleInventory::new(HostFields { host: "name".to_owned(), ..HostFields::default() });
        let named = |id| object(id, &[("name", "a".into())]);
        let error = inventory.hosts([named(1), named(2)].into_iter()).expect_err("the name is there twice");
        assert!(error.to_string().contains("objects 1 and 2"), "{error}");
    }

    #[test]
    fn a_target_has_its_port_behind_brackets_if_need_be() {
        let fields = HostFields { host: "ip".to_owned(), port: Some(9100), ..HostFields::default() };
        let with = |ip: &str| {
            let text = targets(&fields, &mut true, [object(1, &[("ip", ip.into())])].into_iter());
            serde_json::from_slice::<Value>(&text).expect("JSON")["targets"][0].clone()
        };
        assert_eq!((with("10.0.0.1"), with("2001:db8::1")), (json!("10.0.0.1:9100"), json!("[2001:db8::1]:9100")));
        assert!(targets(&fields, &mut true, [object(1, &[("ip", " ".into())])].into_iter()).is_empty());
    }
}
