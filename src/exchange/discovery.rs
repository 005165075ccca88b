//! Objects as hosts for other tools: an inventory of Ansible, and service discovery of Prometheus over HTTP.
//!
//! An object is a host if the chosen field names one. Others are left out.
//!
//! Laws: no text of an object is evaluated by the tool that reads it. Two names never become one in silence.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use bson::Bson;
use serde_json::{Map, Value, json};
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

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
    /// Its fields, each name once, password fields left out.
    pub fields: Vec<(String, Bson)>,
}

impl HostObject<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let value = &self.fields.iter().find(|(field, _)| field == name)?.1;
        text(value).filter(|text| !text.trim().is_empty())
    }

    /// Refuses the object for a value that cannot be written safely.
    fn refused(&self, reason: impl std::fmt::Display) -> WriteError {
        WriteError::TooLarge(format!("object {}: {reason}; correct it, or leave the object out by filter", self.id))
    }
}

/// An inventory of Ansible while it is written: variables of hosts first, groups at its end.
#[derive(Debug)]
pub struct AnsibleInventory {
    fields: HostFields,
    ids: HashMap<String, i64>,
    groups: BTreeMap<String, HostGroup>,
}

/// The hosts of a group.
#[derive(Debug)]
struct HostGroup {
    /// What its hosts have in common.
    meant: String,
    hosts: BTreeSet<String>,
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
    /// [`WriteError::TooLarge`] when two objects have the same host name, when two groups have the same name, and for
    /// host names and addresses that Ansible would not take for one.
    pub fn hosts<'a>(&mut self, objects: impl Iterator<Item = HostObject<'a>>) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        for object in objects {
            let Some(host) = object.text(&self.fields.host) else { continue };
            let host = host_name(&host).map_err(|reason| object.refused(reason))?.to_owned();
            if !self.ids.is_empty() {
                out.push(b',');
            }
            if let Some(other) = self.ids.insert(host.clone(), object.id) {
                return Err(WriteError::TooLarge(format!(
                    "objects {other} and {} have the same host name {host:?}; leave one out by filter",
                    object.id
                )));
            }
            let variables = self.variables(&object)?;
            out.extend_from_slice(format!("{}:{variables}", Value::from(host.as_str())).as_bytes());
            for (name, meant) in self.groups_of(&object) {
                self.join(&name, meant, &host)?;
            }
        }
        Ok(out)
    }

    /// The groups of an object: the name that each should have, and what its hosts have in common.
    fn groups_of(&self, object: &HostObject<'_>) -> Vec<(String, String)> {
        let mut groups = vec![(format!("type_{}", object.type_name), format!("the type {:?}", object.type_name))];
        groups.extend(
            object.categories.iter().map(|name| (format!("category_{name}"), format!("the category {name:?}"))),
        );
        if let Some(field) = self.fields.group_by.as_deref()
            && let Some(value) = object.text(field)
        {
            // A value that is written in two Unicode forms is one value.
            let value: String = value.nfc().collect();
            groups.push((format!("{field}_{value}"), format!("the value {value:?} of {field}")));
        }
        groups
    }

    fn join(&mut self, name: &str, meant: String, host: &str) -> Result<(), WriteError> {
        let name = group_name(name);
        match self.groups.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(HostGroup { meant, hosts: BTreeSet::from([host.to_owned()]) });
            }
            Entry::Occupied(mut entry) if entry.get().meant == meant => {
                entry.get_mut().hosts.insert(host.to_owned());
            }
            Entry::Occupied(entry) => {
                return Err(WriteError::TooLarge(format!(
                    "{} and {meant} would be one group {}; rename one, or leave its hosts out by filter",
                    entry.get().meant,
                    entry.key()
                )));
            }
        }
        Ok(())
    }

    fn variables(&self, object: &HostObject<'_>) -> Result<Value, WriteError> {
        let fields: Map<String, Value> =
            object.fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        let inventory = json!({"id": object.id, "type": object.type_name, "active": object.active, "fields": fields});
        let mut variables = json!({"inventory": inert(inventory)});
        if let Some(address) = self.fields.address.as_deref().and_then(|name| object.text(name)) {
            let address = HostAddress::read(&address).host;
            if address.starts_with('-') {
                return Err(object.refused(format!("the address {address:?} begins like an option of ssh")));
            }
            variables["ansible_host"] = inert(address.into());
        }
        Ok(variables)
    }

    /// The groups, and how the file ends.
    pub fn end(self) -> Vec<u8> {
        let names: Vec<&String> = self.groups.keys().collect();
        let mut out = format!("}}}},\"all\":{{\"children\":{}}}", json!(names));
        for (name, HostGroup { hosts, .. }) in &self.groups {
            out.extend([",", &json!(name).to_string(), ":", &json!({"hosts": hosts}).to_string()]);
        }
        out.push_str("}\n");
        out.into_bytes()
    }
}

/// The name of a host. Ansible has no mark for unsafe text at its place, so one that could be a template, an option
/// or the machine of Ansible is refused.
fn host_name(text: &str) -> Result<&str, String> {
    let address = HostAddress::read(text);
    let name = if address.is_ip { address.host } else { text.trim() };
    if name.starts_with(['-', '#']) || name.contains(|letter: char| letter == '{' || letter.is_control()) {
        return Err(format!("{name:?} cannot be the name of a host in Ansible"));
    }
    if ["localhost", "127.0.0.1", "::1"].contains(&name) {
        return Err(format!("a host named {name} would mean the machine that runs Ansible"));
    }
    Ok(name)
}

/// Targets of Prometheus while they are written.
#[derive(Debug)]
pub struct PrometheusTargets {
    fields: HostFields,
    is_first: bool,
    /// The field of each label.
    labels: HashMap<String, String>,
}

impl PrometheusTargets {
    /// No targets yet.
    pub fn new(fields: HostFields) -> Self {
        Self { fields, is_first: true, labels: HashMap::new() }
    }

    /// These objects as elements of an array.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`] when two fields have the same label, and for a text that is no host.
    pub fn targets<'a>(&mut self, objects: impl Iterator<Item = HostObject<'a>>) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        for object in objects {
            let Some(host) = object.text(&self.fields.host) else { continue };
            let address = HostAddress::read(&host);
            if !address.is_ip && address.host.contains([':', '/', '[', ']']) {
                return Err(object.refused(format!("{:?} is no host with a port", address.host)));
            }
            let target = address.with_port(self.fields.port.or(address.port));
            let labels = self.labels(&object)?;
            if !std::mem::take(&mut self.is_first) {
                out.push(b',');
            }
            out.extend_from_slice(json!({"targets": [target], "labels": labels}).to_string().as_bytes());
        }
        Ok(out)
    }

    fn labels(&mut self, object: &HostObject<'_>) -> Result<Map<String, Value>, WriteError> {
        let mut labels = Map::new();
        let mut label = |name: &str, value: String| labels.insert(format!("__meta_inventory_{name}"), value.into());
        label("id", object.id.to_string());
        label("type", object.type_name.to_owned());
        label("active", object.active.to_string());
        label("categories", object.categories.join(","));
        for (name, value) in &object.fields {
            let Some(text) = text(value) else { continue };
            let written = format!("field_{}", label_name(name));
            let known = self.labels.entry(written.clone()).or_insert_with(|| name.clone());
            if known != name {
                return Err(WriteError::TooLarge(format!(
                    "the fields {known:?} and {name:?} would be one label __meta_inventory_{written}; rename one, or \
                     leave out its objects by filter"
                )));
            }
            label(&written, text);
        }
        Ok(labels)
    }
}

/// A name of letters, digits and underscores, as Ansible takes it for a group: its letters are those of Unicode.
fn group_name(name: &str) -> String {
    let letter = |letter: char| if is_word(letter) { letter } else { '_' };
    let name: String = name.nfc().map(letter).collect();
    if name.starts_with(char::is_numeric) { format!("_{name}") } else { name }
}

/// Marks on their own are no letters to Ansible, nor are numbers that are no digits.
fn is_word(letter: char) -> bool {
    letter == '_'
        || letter.general_category_group() == GeneralCategoryGroup::Letter
        || letter.general_category() == GeneralCategory::DecimalNumber
}

/// A name of ASCII letters, digits and underscores, as Prometheus takes it for a label.
fn label_name(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// A value as text; nothing for null.
fn text(value: &Bson) -> Option<String> {
    match plain(value) {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Ansible evaluates templates in texts, and has several ways to write one. So every text is marked as unsafe, which keeps
/// it a text. Members whose names mean something to Ansible would be read as such marks: a value that has one is written
/// as the text of its JSON.
fn inert(value: Value) -> Value {
    const MARK: &str = "__ansible";
    match value {
        Value::String(text) => json!({"__ansible_unsafe": text}),
        Value::Array(items) => items.into_iter().map(inert).collect(),
        Value::Object(members) if members.keys().any(|name| name.starts_with(MARK)) => {
            inert(Value::Object(members).to_string().into())
        }
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

// Addresses of hosts as people write them: with a network mask, with a port, in brackets.

/// An address in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAddress<'a> {
    /// The host, without brackets, mask and port.
    pub host: &'a str,
    /// The port after the host.
    pub port: Option<u16>,
    /// Whether the host is an address of IPv4 or IPv6, not a name.
    pub is_ip: bool,
}

impl<'a> HostAddress<'a> {
    /// Splits an address into its parts. A text that is not an address is used unchanged as a host.
    pub fn read(text: &'a str) -> Self {
        let text = without_mask(text.trim());
        if is_ip(text) {
            return Self { host: text, port: None, is_ip: true };
        }
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).filter(|(host, _)| is_ip(host));
        let (host, port) = match bracketed {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, rest.strip_prefix(':').and_then(port)),
            None => match text.rsplit_once(':').map(|(host, behind)| (without_mask(host), port(behind))) {
                Some((host, port @ Some(_))) if !host.is_empty() && !host.contains([':', '/']) => (host, port),
                _ => return Self { host: text, port: None, is_ip: false },
            },
        };
        Self { host, port, is_ip: is_ip(host) }
    }

    /// Host and port as one text. An address of IPv6 is in brackets before a port.
    pub fn with_port(self, port: Option<u16>) -> String {
        match port {
            Some(port) if self.host.contains(':') => format!("[{}]:{port}", self.host),
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_owned(),
        }
    }
}

/// `10.0.0.3` of `10.0.0.3/24` and of `10.0.0.3/255.255.255.0`.
fn without_mask(text: &str) -> &str {
    let Some((left, mask)) = text.rsplit_once('/') else { return text };
    let is_mask = mask.parse::<u8>().is_ok() || mask.parse::<IpAddr>().is_ok();
    let inner = left.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(left);
    if is_mask && is_ip(inner) { inner } else { text }
}

/// An address of IPv6 may name a network interface after a percent sign.
fn is_ip(text: &str) -> bool {
    text.split_once('%').map_or(text, |(address, _)| address).parse::<IpAddr>().is_ok()
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: i64, fields: &[(&str, Bson)]) -> HostObject<'static> {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        HostObject { id, active: true, type_name: "web-server", categories: &[], fields }
    }

    fn named() -> HostFields {
        HostFields {
            host: "name".to_owned(),
            address: Some("ip".to_owned()),
            group_by: Some("site".to_owned()),
            port: None,
        }
    }

    fn refusal(objects: Vec<HostObject<'static>>) -> String {
        AnsibleInventory::new(named()).hosts(objects.into_iter()).expect_err("refused").to_string()
    }

    /// Whether each text below a value is marked.
    fn is_marked(value: &Value) -> bool {
        match value {
            Value::String(_) => false,
            Value::Array(items) => items.iter().all(is_marked),
            Value::Object(members) if members.contains_key("__ansible_unsafe") => {
                members.len() == 1 && members["__ansible_unsafe"].is_string()
            }
            Value::Object(members) => members.values().all(is_marked),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }

    #[test]
    fn every_text_of_the_variables_is_marked_so_that_ansible_does_not_evaluate_it() {
        let value = bson::bson!({"plain": "text", "list": ["{{ 1 + 1 }}", 5, null, {"inner": "#"}], "on": true});
        let fields = [("name", "web".into()), ("ip", "10.0.0.1".into()), ("more", value)];
        let text = AnsibleInventory::new(named()).hosts([object(1, &fields)].into_iter()).expect("a host");
        let host: Value =
            serde_json::from_str(&format!("{{{}}}", String::from_utf8(text).expect("UTF-8"))).expect("JSON");
        assert!(is_marked(&host), "{host}");
        assert_eq!(host["web"]["ansible_host"], json!({"__ansible_unsafe": "10.0.0.1"}));
        assert_eq!(host["web"]["inventory"]["fields"]["more"]["list"][1], 5);
    }

    #[test]
    fn members_that_mean_something_to_ansible_become_text() {
        let value = json!({"a": {"__ansible_vault": "x"}, "b": {"__ansible_unsafe": 1, "c": "d"}});
        let text = |text: &str| json!({"__ansible_unsafe": text});
        let expected = json!({"a": text(r#"{"__ansible_vault":"x"}"#), "b": text(r#"{"__ansible_unsafe":1,"c":"d"}"#)});
        assert_eq!(inert(value), expected);
    }

    #[test]
    fn names_and_addresses_that_are_more_than_that_are_refused_with_their_object() {
        for name in ["{{ 1 + 1 }}", "# web", "-web", "a\nb", "localhost", "127.0.0.1", "::1/128"] {
            let told = refusal(vec![object(7, &[("name", name.into())])]);
            assert!(told.starts_with("object 7: "), "{told}");
        }
        let told = refusal(vec![object(7, &[("name", "web".into()), ("ip", "-x".into())])]);
        assert!(told.contains("begins like an option of ssh"), "{told}");
    }

    #[test]
    fn names_of_groups_are_ones_that_ansible_takes() {
        assert_eq!(group_name("type_web-server \u{e9}"), "type_web_server_\u{e9}");
        assert_eq!(group_name("nom e\u{301}"), "nom_\u{e9}");
        assert_eq!(group_name("site_\u{5317}\u{4eac}"), "site_\u{5317}\u{4eac}");
        // A vowel sign is a mark, and a fraction is no digit.
        assert_eq!(group_name("x\u{93f}\u{bd}"), "x__");
        assert_eq!((group_name("1st"), group_name("\u{661}st")), ("_1st".to_owned(), "_\u{661}st".to_owned()));
    }

    #[test]
    fn two_hosts_of_one_name_are_refused_with_their_ids() {
        let at = |id, name: &str| object(id, &[("name", name.into())]);
        for (left, right) in [("a", "a"), ("a", " a "), ("10.0.0.1/24", "10.0.0.1:22")] {
            let told = refusal(vec![at(1, left), at(2, right)]);
            assert!(told.contains("objects 1 and 2"), "{told}");
        }
    }

    #[test]
    fn two_groups_of_one_name_are_refused_with_what_they_are() {
        let at = |id, name: &str, site: &str| object(id, &[("name", name.into()), ("site", site.into())]);
        let told = refusal(vec![at(1, "a", "Oslo 1"), at(2, "b", "Oslo-1")]);
        let expected = "the value \"Oslo 1\" of site and the value \"Oslo-1\" of site would be one group site_Oslo_1; \
                        rename one, or leave its hosts out by filter";
        assert_eq!(told, expected);
        let cities = [
            at(1, "a", "\u{5317}\u{4eac}"),
            at(2, "b", "\u{6771}\u{4eac}"),
            at(3, "c", "e\u{301}"),
            at(4, "d", "\u{e9}"),
        ];
        let mut inventory = AnsibleInventory::new(named());
        inventory.hosts(cities.into_iter()).expect("groups of their own");
        let end = String::from_utf8(inventory.end()).expect("UTF-8");
        for group in [
            "\"site_\u{5317}\u{4eac}\":{\"hosts\":[\"a\"]}", "\"site_\u{6771}\u{4eac}\":{\"hosts\":[\"b\"]}",
            "\"site_\u{e9}\":{\"hosts\":[\"c\",\"d\"]}",
        ] {
            assert!(end.contains(group), "{end}");
        }
    }

    #[test]
    fn a_target_has_its_port_once_and_no_mask() {
        let target = |ip: &str, port| {
            let fields = HostFields { host: "ip".to_owned(), port, ..HostFields::default() };
            let text = PrometheusTargets::new(fields).targets([object(1, &[("ip", ip.into())])].into_iter());
            let text = text.expect("no labels meet");
            serde_json::from_slice::<Value>(&text).map_or(Value::Null, |found| found["targets"][0].clone())
        };
        for (ip, expected) in [
            ("10.0.0.1", "10.0.0.1:9100"),
            ("10.0.0.3/24", "10.0.0.3:9100"),
            ("10.0.0.6:9100", "10.0.0.6:9100"),
            ("10.0.0.6:80", "10.0.0.6:9100"),
            ("2001:db8::7/64", "[2001:db8::7]:9100"),
            ("web-1", "web-1:9100"),
        ] {
            assert_eq!(target(ip, Some(9100)), expected, "{ip}");
        }
        for none in ["web-1:", "http://web-1/", "web-1:99999"] {
            let fields = HostFields { host: "ip".to_owned(), port: Some(9100), ..HostFields::default() };
            let refused = PrometheusTargets::new(fields).targets([object(7, &[("ip", none.into())])].into_iter());
            assert!(refused.expect_err(none).to_string().starts_with("object 7: "), "{none}");
        }
        assert_eq!((target("10.0.0.6:80", None), target(" ", None)), (json!("10.0.0.6:80"), Value::Null));
    }

    #[test]
    fn two_fields_of_one_label_are_refused_with_their_names() {
        let host = HostFields { host: "name".to_owned(), ..HostFields::default() };
        let both = |one: &str, other: &str| {
            let fields = [("name", "web".into()), (one, "x".into()), (other, "y".into())];
            PrometheusTargets::new(host.clone()).targets([object(1, &fields)].into_iter())
        };
        let told = both("a-b", "a_b").expect_err("one label").to_string();
        assert!(
            told.starts_with("the fields \"a-b\" and \"a_b\" would be one label __meta_inventory_field_a_b; "),
            "{told}"
        );
        assert!(both("\u{43c}\u{435}", "\u{44d}\u{442}").is_err());
        assert!(both("a-b", "a_c").is_ok());
    }

    #[test]
    fn masks_and_ports_are_not_part_of_the_host() {
        for (text, host, port, is_ip) in [
            ("10.0.0.1", "10.0.0.1", None, true),
            (" 10.0.0.1 ", "10.0.0.1", None, true),
            ("10.0.0.3/24", "10.0.0.3", None, true),
            ("10.0.0.3/255.255.255.0", "10.0.0.3", None, true),
            ("10.0.0.6:9100", "10.0.0.6", Some(9100), true),
            ("10.0.0.6/24:9100", "10.0.0.6", Some(9100), true),
            ("2001:db8::7", "2001:db8::7", None, true),
            ("2001:db8::7/64", "2001:db8::7", None, true),
            ("[2001:db8::7]", "2001:db8::7", None, true),
            ("[2001:db8::7]/64", "2001:db8::7", None, true),
            ("[2001:db8::7]:9100", "2001:db8::7", Some(9100), true),
            ("fe80::1%eth0/64", "fe80::1%eth0", None, true),
            ("web-1", "web-1", None, false),
            ("web-1:9100", "web-1", Some(9100), false),
            ("w\u{eb}b 3", "w\u{eb}b 3", None, false),
            ("rack/24", "rack/24", None, false),
            ("web-1:https", "web-1:https", None, false),
            ("web-1:+80", "web-1:+80", None, false),
            ("web-1:70000", "web-1:70000", None, false),
            ("http://web-1:80", "http://web-1:80", None, false),
            (":80", ":80", None, false),
        ] {
            assert_eq!(HostAddress::read(text), HostAddress { host, port, is_ip }, "{text}");
        }
    }

    #[test]
    fn a_port_stands_behind_the_address_once() {
        let with = |text| HostAddress::read(text).with_port(Some(9100));
        assert_eq!(with("10.0.0.6:9100"), "10.0.0.6:9100");
        assert_eq!(with("2001:db8::7/64"), "[2001:db8::7]:9100");
        assert_eq!(HostAddress::read("10.0.0.6/8").with_port(None), "10.0.0.6");
    }
}
