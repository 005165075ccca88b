//! The fields of an object against those of its type: what is accepted, filled in, refused.
//! docs/api.md, Fields of an object.

use std::collections::{HashMap, HashSet};

use bson::raw::RawBsonRef;
use bson::{Bson, DateTime, Document, doc};
use chrono::{NaiveDate, NaiveDateTime};
use fancy_regex::{Regex, RegexBuilder};

use super::document::number;
use super::object_type::{Field, OF_OPTIONS, ObjectType, SELECT};
use super::unchanged::same;
use super::violation::quoted;
use super::{Violation, Violations};
use crate::{address, suggest};

/// How much a pattern may backtrack on one value before it counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;

/// One field of an object: its name and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldValue {
    /// The name of a field of the type.
    pub name: String,
    /// What the object has there.
    pub value: Bson,
}

/// The rules of a type for the fields of its objects, compiled once.
#[derive(Debug, Default)]
pub struct FieldRules {
    rules: Vec<FieldRule>,
    positions: HashMap<String, usize>,
}

/// An id in a `ref` field whose object must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where the body names it.
    pub pointer: String,
    /// The object that is referred to.
    pub object_id: i64,
    /// The types that it may have; empty: any.
    pub type_ids: Vec<i64>,
}

/// Valid fields, and their references, which the store must confirm.
#[derive(Debug, Default)]
pub struct Accepted {
    /// One entry for each field of the type, in its order, then the surplus entries of an unclean object.
    pub fields: Vec<FieldValue>,
    /// References among the values that the body sent.
    pub references: Vec<Reference>,
}

#[derive(Debug)]
struct FieldRule {
    name: String,
    kind: ValueKind,
    required: bool,
    pattern: Option<Regex>,
    /// Whether there is a pattern that cannot be compiled.
    lost_pattern: bool,
    /// For select and radio; `None` for other kinds.
    options: Option<HashSet<String>>,
    type_ids: Vec<i64>,
    default: Bson,
    is_password: bool,
}

/// Who sends fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// One who may read the object.
    Reader,
    /// One who may not.
    Stranger,
    /// A store that had them.
    Store,
}

/// The text shown instead of the value of a password field.
pub const HIDDEN: &str = "********";

/// The kind of the values of a field, independent of its appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Strings.
    Text,
    /// Numbers of any type.
    Number,
    /// `true` or `false`.
    Checkbox,
    /// Ids of objects.
    Reference,
    /// Lists of ids of objects.
    References,
    /// Lists of options.
    Options,
    /// Moments.
    Date,
    /// IPv4 and IPv6 addresses, as [`address::ip`] writes them.
    Ip,
    /// Networks, as [`address::network`] writes them.
    Network,
    /// Addresses of devices, as [`address::mac`] writes them.
    Mac,
    /// Whatever JSON can say.
    Any,
}

impl FieldRules {
    /// Compiles the rules of a type. An invalid pattern, stored by another tool or an older version, has no effect, see
    /// [`FieldRules::without_their_pattern`].
    pub fn of(object_type: &ObjectType) -> Self {
        let rules: Vec<FieldRule> = object_type.fields.iter().map(|field| FieldRule::of(field, object_type)).collect();
        let positions = rules.iter().enumerate().map(|(index, rule)| (rule.name.clone(), index)).collect();
        Self { rules, positions }
    }

    /// The fields whose pattern cannot be compiled.
    pub fn without_their_pattern(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter(|rule| rule.lost_pattern).map(|rule| rule.name.as_str())
    }

    /// Whether exactly the type's fields are there, each once.
    pub fn is_clean<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        let mut seen = vec![false; self.rules.len()];
        for name in names {
            match self.positions.get(name) {
                Some(&position) if !seen[position] => seen[position] = true,
                _ => return false,
            }
        }
        seen.into_iter().all(|is_there| is_there)
    }

    /// The fields of a clean object: the first entry in `stored` for each field of the type, and the type's `value` for
    /// missing ones.
    pub fn cleaned(&self, stored: &[FieldValue]) -> Vec<FieldValue> {
        self.rules
            .iter()
            .map(|rule| {
                let value = stored.iter().find(|entry| entry.name == rule.name).map(|entry| &entry.value);
                FieldValue { name: rule.name.clone(), value: value.unwrap_or(&rule.default).clone() }
            })
            .collect()
    }

    /// The required fields that a new object with these fields has no value for: they are not among them, and the type has
    /// no default.
    pub fn missing<'a>(&'a self, sent: &'a [FieldValue]) -> impl Iterator<Item = &'a str> {
        let is_sent = |rule: &FieldRule| sent.iter().any(|field| field.name == rule.name);
        let missing = self.rules.iter().filter(move |rule| rule.required && is_empty(&rule.default) && !is_sent(rule));
        missing.map(|rule| rule.name.as_str())
    }

    /// Checks the fields that a body sends for an object that has `stored` (empty for a new one).
    ///
    /// Fields that are not sent keep their value. Fields without a stored value get the type's `value`, else null. A required
    /// field may stay without a value if the stored object has none: its type, or the end of a reference, left it so.
    ///
    /// # Errors
    /// Everything that is wrong, with pointers into the body.
    pub fn check(&self, sent: &[FieldValue], stored: &[FieldValue]) -> Result<Accepted, Violations> {
        self.check_by(sent, stored, Sender::Reader)
    }

    /// As [`FieldRules::check`], for fields that a store had and gives again: [`HIDDEN`] is a value as any other.
    ///
    /// # Errors
    /// As [`FieldRules::check`].
    pub fn check_again(&self, sent: &[FieldValue], stored: &[FieldValue]) -> Result<Accepted, Violations> {
        self.check_by(sent, stored, Sender::Store)
    }

    /// As [`FieldRules::check`], for a caller who may not read the object: the result depends only on the body and the
    /// type.
    ///
    /// # Errors
    /// As [`FieldRules::check`].
    pub fn check_unread(&self, sent: &[FieldValue], stored: &[FieldValue]) -> Result<Accepted, Violations> {
        self.check_by(sent, stored, Sender::Stranger)
    }

    /// The nearest name of a field, as a part of a message.
    fn hint(&self, name: &str) -> String {
        let known: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        suggest::hint(name, &known)
    }

    fn check_by(&self, sent: &[FieldValue], stored: &[FieldValue], sender: Sender) -> Result<Accepted, Violations> {
        let is_read = sender != Sender::Stranger;
        let mut violations = Violations::new();
        let mut references = Vec::new();
        let mut places: Vec<Option<usize>> = vec![None; self.rules.len()];
        let mut values: HashMap<usize, Bson> = HashMap::new();
        for (index, entry) in sent.iter().enumerate() {
            let is_unchanged =
                is_read && stored.iter().any(|old| old.name == entry.name && same(&entry.value, &old.value));
            let Some(&position) = self.positions.get(&entry.name) else {
                let is_hidden = is_read && entry.value.as_str() == Some(HIDDEN);
                if is_unchanged || is_hidden && stored.iter().any(|old| old.name == entry.name) {
                    // What the type has lost stays as it is.
                    continue;
                }
                let hint = if violations.count() < HINTED { self.hint(&entry.name) } else { String::new() };
                let message = format!("the type has no field {}{hint}", quoted(&entry.name));
                violations.push(Violation::new(format!("/fields/{index}/name"), message));
                continue;
            };
            if places[position].is_some() && is_unchanged {
                // A repeated entry; the first one counts.
                continue;
            }
            if places[position].replace(index).is_some() {
                let message = format!("the field {} is here twice", quoted(&entry.name));
                violations.push(Violation::new(format!("/fields/{index}/name"), message));
                continue;
            }
            let pointer = format!("/fields/{index}/value");
            if let Some(old) =
                stored.iter().find(|old| is_read && old.name == entry.name && same(&entry.value, &old.value))
            {
                // A value that is sent back unchanged is accepted, even if the type now forbids it.
                values.insert(position, old.value.clone());
                continue;
            }
            let rule = &self.rules[position];
            if rule.is_password && entry.value.as_str() == Some(HIDDEN) && sender != Sender::Store {
                // What an event or a log entry showed in place of the value.
                match stored.iter().find(|old| is_read && old.name == entry.name) {
                    Some(old) => drop(values.insert(position, old.value.clone())),
                    None => violations
                        .push(Violation::new(pointer, "is what stands for a hidden password; send the password")),
                }
                continue;
            }
            let confirmed = references.len();
            let old = stored.iter().find(|old| is_read && old.name == entry.name).map(|old| &old.value);
            match rule.check(&entry.value, old, &pointer, &mut references) {
                Ok(value) => {
                    // The same for a dangling reference, which JSON may have turned into a shorter integer.
                    if old == Some(&value) {
                        references.truncate(confirmed);
                    }
                    values.insert(position, value);
                }
                Err(violation) => violations.push(violation),
            }
        }
        let mut fields = self.cleaned(stored);
        for (position, field) in fields.iter_mut().enumerate() {
            let rule = &self.rules[position];
            if let Some(value) = values.remove(&position) {
                field.value = value;
            } else if places[position].is_some() {
                continue;
            }
            let is_sent = places[position].is_some();
            let may_lack = is_read && lacked(stored, &rule.name, is_sent.then_some(&field.value));
            if (is_read || is_sent) && rule.required && is_empty(&field.value) && !may_lack {
                let pointer =
                    places[position].map_or_else(|| "/fields".to_owned(), |index| format!("/fields/{index}/value"));
                violations.push(Violation::new(pointer, needs_value(&rule.name)));
            }
        }
        let beside = stored.iter().filter(|entry| !self.positions.contains_key(&entry.name));
        fields.extend(beside.cloned());
        if violations.is_empty() { Ok(Accepted { fields, references }) } else { Err(violations) }
    }
}

impl FieldRule {
    fn of(field: &Field, object_type: &ObjectType) -> Self {
        let kind = ValueKind::of(field);
        let options = field.has_choice().then(|| field.options.iter().map(|option| option.name.clone()).collect());
        let pattern = field.regex.as_deref().and_then(|pattern| compile_pattern(pattern).ok());
        Self {
            name: field.name.clone(),
            kind,
            required: field.required,
            lost_pattern: field.regex.is_some() && pattern.is_none(),
            pattern,
            options,
            type_ids: object_type.targets(field).collect(),
            default: kind.default_value(&field.value),
            is_password: field.is_password(),
        }
    }

    /// The value as it is stored. What is in the list `old` is accepted again.
    fn check(
        &self,
        value: &Bson,
        old: Option<&Bson>,
        pointer: &str,
        references: &mut Vec<Reference>,
    ) -> Result<Bson, Violation> {
        let of_item = match self.kind {
            ValueKind::References => ValueKind::Reference,
            ValueKind::Options => ValueKind::Text,
            kind => {
                return self.check_one(kind, value, pointer, references).map_err(|told| Violation::new(pointer, told));
            }
        };
        let items = match value {
            Bson::Null => return Ok(Bson::Null),
            Bson::Array(items) if items.len() <= MOST_ITEMS => items,
            Bson::Array(items) => {
                let message = format!("must have at most {MOST_ITEMS} items; it has {}", items.len());
                return Err(Violation::new(pointer, message));
            }
            _ => return Err(Violation::new(pointer, self.kind.expectation())),
        };
        let old = old.and_then(Bson::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut checked: Vec<Bson> = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = format!("{pointer}/{index}");
            let item = match old.iter().find(|old| same(item, old)) {
                Some(old) => old.clone(),
                None if *item == Bson::Null => return Err(Violation::new(place, "must not be null")),
                None => match self.check_one(of_item, item, &place, references) {
                    Ok(item) => item,
                    Err(told) => return Err(Violation::new(place, told)),
                },
            };
            if checked.contains(&item) {
                return Err(Violation::new(place, "is in the list already; leave it out"));
            }
            checked.push(item);
        }
        Ok(checked.into())
    }

    /// A value, or an item of a list, as it is stored.
    fn check_one(
        &self,
        kind: ValueKind,
        value: &Bson,
        pointer: &str,
        references: &mut Vec<Reference>,
    ) -> Result<Bson, String> {
        match (kind, value) {
            (_, Bson::Null) | (ValueKind::Any, _) | (ValueKind::Checkbox, Bson::Boolean(_)) => Ok(value.clone()),
            (ValueKind::Text, Bson::String(text)) => self.check_text(text),
            (ValueKind::Ip | ValueKind::Network | ValueKind::Mac, Bson::String(text)) => {
                self.check_text(&self.kind.spelled(text).map_err(|expected| format!("must be {expected}, or null"))?)
            }
            (ValueKind::Number, Bson::Int32(_) | Bson::Int64(_) | Bson::Decimal128(_)) => Ok(value.clone()),
            (ValueKind::Number, Bson::Double(number)) if number.is_finite() => Ok(value.clone()),
            (ValueKind::Reference, Bson::Int32(_) | Bson::Int64(_)) => {
                let object_id = number(value).unwrap_or_default();
                references.push(Reference { pointer: pointer.to_owned(), object_id, type_ids: self.type_ids.clone() });
                Ok(Bson::Int64(object_id))
            }
            (ValueKind::Date, Bson::DateTime(_)) => Ok(value.clone()),
            (ValueKind::Date, Bson::String(text)) => {
                parse_date(text).map(Bson::from).ok_or_else(|| kind.expectation().to_owned())
            }
            _ => Err(kind.expectation().to_owned()),
        }
    }

    fn check_text(&self, text: &str) -> Result<Bson, String> {
        match (self.broken_by(text), &self.options, &self.pattern) {
            (Some(Rule::Options), Some(options), _) => {
                let mut known: Vec<&str> = options.iter().map(String::as_str).collect();
                known.sort_unstable();
                Err(format!("must be one of the options {}", known.join(", ")))
            }
            (Some(_), _, Some(pattern)) => {
                Err(format!("must match the pattern of the field {}: {}", self.name, quoted(written(pattern))))
            }
            _ => Ok(Bson::String(text.to_owned())),
        }
    }

    /// The rule that a text breaks.
    fn broken_by(&self, text: &str) -> Option<Rule> {
        if self.options.as_ref().is_some_and(|options| !options.contains(text)) {
            return Some(Rule::Options);
        }
        let pattern = self.pattern.as_ref()?;
        (!pattern.is_match(text).unwrap_or(false)).then_some(Rule::Regex)
    }
}

/// The rule that keeps a stored object from fitting its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The value is of another kind than the field.
    Kind,
    /// The field would take the value, and store it in another form.
    Form,
    /// The value is none of the options.
    Options,
    /// The value does not match the pattern.
    Regex,
    /// There is no value, and the field needs one.
    Required,
    /// The value refers to an object of another type.
    RefTypes,
    /// The type has no such field.
    Unknown,
    /// The field is there twice.
    Twice,
}

impl Rule {
    /// All names.
    pub const NAMES: [&str; 8] = ["kind", "form", "options", "regex", "required", "ref_types", "unknown", "twice"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Stored values against the rules: what a new object with these fields would be refused for.
impl FieldRules {
    /// How many fields the type has.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// The name of the field at a position.
    pub fn name(&self, position: usize) -> &str {
        &self.rules[position].name
    }

    /// The position of a field. `guess` is looked at first: the entries of an object mostly have the order of its type.
    pub fn position(&self, name: &str, guess: usize) -> Option<usize> {
        if self.rules.get(guess).is_some_and(|rule| rule.name == name) {
            return Some(guess);
        }
        self.positions.get(name).copied()
    }

    /// Whether an object without an entry for the field would be refused.
    pub fn needs_entry(&self, position: usize) -> bool {
        let rule = &self.rules[position];
        rule.required && is_empty(&rule.default)
    }

    /// What the values of the field are.
    pub fn kind(&self, position: usize) -> ValueKind {
        self.rules[position].kind
    }

    /// A new value as the field stores it, and its references.
    ///
    /// # Errors
    /// Why the field does not take it.
    pub fn taken(&self, position: usize, value: &Bson) -> Result<(Bson, Vec<Reference>), String> {
        let mut references = Vec::new();
        let taken = self.rules[position].check(value, None, "", &mut references);
        taken.map(|value| (value, references)).map_err(|violation| violation.message)
    }

    /// The types that a value of the field may refer to; empty: any, or it does not refer.
    pub fn targets(&self, position: usize) -> &[i64] {
        &self.rules[position].type_ids
    }

    /// The rule that a stored value of the field breaks. References are not looked up.
    pub fn broken(&self, position: usize, value: RawBsonRef<'_>) -> Option<Rule> {
        let rule = &self.rules[position];
        if let (ValueKind::Text, RawBsonRef::String(text)) = (rule.kind, value) {
            return rule.broken_by(text).or_else(|| (rule.required && text.is_empty()).then_some(Rule::Required));
        }
        if rule.kind == ValueKind::Any && !rule.required {
            return None;
        }
        // What cannot be read is not of the kind.
        let Ok(value) = Bson::try_from(value) else { return Some(Rule::Kind) };
        match rule.check(&value, None, "", &mut Vec::new()) {
            Err(_) if rule.kind == ValueKind::Options && value.as_array().is_some() => Some(Rule::Options),
            Err(_) => Some(Rule::Kind),
            Ok(kept) if !same(&kept, &value) => Some(Rule::Form),
            Ok(_) => (rule.required && is_empty(&value)).then_some(Rule::Required),
        }
    }

    /// Why a value breaks a rule, for people.
    pub fn reason(&self, position: usize, broken: Rule, value: &Bson) -> String {
        let rule = &self.rules[position];
        match (broken, value) {
            (Rule::Required, _) => needs_value(&rule.name),
            (Rule::Form, _) => {
                "is stored in another form than that of the field; a PUT of the object changes it".to_owned()
            }
            (Rule::Options | Rule::Regex, Bson::String(text)) => rule.check_text(text).err().unwrap_or_default(),
            _ => rule.kind.expectation().to_owned(),
        }
    }
}

/// The violation of a required field that has no value.
pub fn needs_value(name: &str) -> String {
    format!("the field {name} needs a value")
}

/// The maximum number of items of a list in one field.
const MOST_ITEMS: usize = 1000;

/// The maximum number of unknown names of a body for which the nearest name is looked up.
const HINTED: usize = 5;

/// The known kinds of fields, and what they hold.
const KINDS: [(&str, ValueKind); 17] = [
    ("text", ValueKind::Text),
    ("password", ValueKind::Text),
    ("textarea", ValueKind::Text),
    ("select", ValueKind::Text),
    ("radio", ValueKind::Text),
    ("email", ValueKind::Text),
    ("tel", ValueKind::Text),
    ("href", ValueKind::Text),
    ("number", ValueKind::Number),
    ("checkbox", ValueKind::Checkbox),
    ("ref", ValueKind::Reference),
    ("ref-section-field", ValueKind::Reference),
    ("date", ValueKind::Date),
    ("ip", ValueKind::Ip),
    ("network", ValueKind::Network),
    ("mac", ValueKind::Mac),
    ("refs", ValueKind::References),
];

/// The names of the known kinds of fields.
pub const KIND_NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut index = 0;
    while index < KINDS.len() {
        names[index] = KINDS[index].0;
        index += 1;
    }
    names
};

/// The names of the known kinds of fields.
pub fn kinds() -> [&'static str; KINDS.len()] {
    KIND_NAMES
}

impl ValueKind {
    /// The kind of the values of a field.
    pub fn of(field: &Field) -> Self {
        if field.has_several_options() { Self::Options } else { Self::named(&field.kind) }
    }

    /// The kind of a field of this `type`; unknown types hold any value.
    pub fn named(kind: &str) -> Self {
        KINDS.iter().find(|(name, _)| *name == kind).map_or(Self::Any, |(_, kind)| *kind)
    }

    /// What a value must be, for people.
    pub fn expectation(self) -> &'static str {
        match self {
            Self::Text => "must be a string or null",
            Self::Number => "must be a number or null",
            Self::Checkbox => "must be true, false or null",
            Self::Reference => "must be the id of an object or null",
            Self::References => "must be a list of ids of objects, or null",
            Self::Options => "must be a list of options, or null",
            Self::Date => {
                "must be {\"$date\": <milliseconds>}, an ISO 8601 date (2026-01-31 or 2026-01-31T12:00:00Z) or null"
            }
            Self::Ip => "must be an IPv4 or IPv6 address (10.0.0.7 or 2001:db8::7), or null",
            Self::Network => "must be a network with the length of its prefix (10.0.0.0/24 or 2001:db8::/32), or null",
            Self::Mac => "must be a MAC address of 12 hexadecimal digits (00:1b:44:11:3a:b7), or null",
            Self::Any => "must be a JSON value",
        }
    }

    /// Whether its values may be lists.
    pub fn may_be_list(self) -> bool {
        matches!(self, Self::References | Self::Options | Self::Any)
    }

    /// Whether its values are texts.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Ip | Self::Network | Self::Mac)
    }

    /// Whether its values are in the order of addresses.
    pub fn is_in_order_of_addresses(self) -> bool {
        matches!(self, Self::Ip | Self::Network)
    }

    /// A text as it is stored.
    ///
    /// # Errors
    /// What it must be.
    pub fn spelled(self, text: &str) -> Result<String, String> {
        match self {
            Self::Ip => address::ip(text),
            Self::Network => address::network(text),
            Self::Mac => address::mac(text),
            _ => Ok(text.to_owned()),
        }
    }

    /// A value in its one spelling, where it is a text that has one.
    pub fn as_stored(self, value: Bson) -> Bson {
        let spelled = value.as_str().filter(|_| self != Self::Text).and_then(|text| self.spelled(text).ok());
        spelled.map_or(value, Bson::from)
    }

    /// The list that a text with commas stands for.
    pub fn listed(self, text: &str) -> Option<Bson> {
        let item = |item: &str| match self {
            Self::References => item.parse().ok().map(Bson::Int64),
            _ => Some(Bson::from(item)).filter(|_| !item.is_empty()),
        };
        text.split(',').map(|part| item(part.trim())).collect::<Option<Vec<Bson>>>().map(Bson::Array)
    }

    /// A pattern that stored values have, for a store that knows no addresses: it takes all of them, and little else.
    fn shape(self) -> String {
        const OCTET: &str = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
        const SIX: &str = "(?=.*:)[0-9a-f:]{2,39}";
        let four = format!(r"{OCTET}(\.{OCTET}){{3}}");
        match self {
            Self::Network => format!(r"\A({four}/(3[0-2]|[12]?[0-9])|{SIX}/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))\z"),
            Self::Mac => r"\A[0-9a-f]{2}(:[0-9a-f]{2}){5}\z".to_owned(),
            _ => format!(r"\A({four}|{SIX})\z"),
        }
    }

    /// A type's `value` is a string by its schema. As a default it is converted to the field's kind, or ignored.
    pub fn default_value(self, value: &Bson) -> Bson {
        let Bson::String(text) = value else { return value.clone() };
        match self {
            Self::Text | Self::Any => Some(value.clone()),
            Self::Number => text
                .parse::<i64>()
                .map(Bson::Int64)
                .or_else(|_| text.parse::<f64>().map(Bson::Double))
                .ok()
                .filter(|number| number.as_f64().is_none_or(f64::is_finite)),
            Self::Checkbox => text.parse().ok().map(Bson::Boolean),
            Self::Reference => text.parse().ok().map(Bson::Int64),
            Self::References | Self::Options => self.listed(text),
            Self::Date => parse_date(text).map(Bson::from),
            Self::Ip | Self::Network | Self::Mac => self.spelled(text).ok().map(Bson::from),
        }
        .unwrap_or(Bson::Null)
    }
}

/// Why a field does not accept its `value` as default, for the author of the type. An empty `value` is no default.
pub fn no_default(field: &Document) -> Option<String> {
    let (kind, value) = (field.get_str("type").ok()?, field.get_str("value").ok()?);
    let options = field.get_array("options").into_iter().flatten().filter_map(Bson::as_document);
    let options: Vec<&str> = options.filter_map(|option| option.get_str("name").ok()).collect();
    let text = Bson::from(value);
    let is_multiple = kind == SELECT && field.get_bool("multiple").unwrap_or(false);
    let kind_of_values = if is_multiple { ValueKind::Options } else { ValueKind::named(kind) };
    let expected = match kind_of_values {
        _ if value.is_empty() => return None,
        ValueKind::Options => match ValueKind::Options.listed(value) {
            Some(Bson::Array(items))
                if items.iter().all(|item| options.iter().any(|one| item.as_str() == Some(*one))) =>
            {
                return None;
            }
            _ => format!("some of the options {}, separated by commas", options.join(", ")),
        },
        ValueKind::Text if OF_OPTIONS.contains(&kind) && !options.contains(&value) => {
            format!("one of the options {}", options.join(", "))
        }
        ValueKind::Text => match pattern_of(field).map(compile_pattern) {
            Some(Ok(pattern)) if !pattern.is_match(value).unwrap_or(false) => {
                "a text that matches its regex".to_owned()
            }
            _ => return None,
        },
        ValueKind::Any => return None,
        kind if kind.default_value(&text) != Bson::Null => return None,
        ValueKind::Number => "a number as text".to_owned(),
        ValueKind::Checkbox => "true or false as text".to_owned(),
        ValueKind::Reference => "the id of an object as text".to_owned(),
        ValueKind::References => "ids of objects, separated by commas".to_owned(),
        ValueKind::Date => "an ISO 8601 date (2026-01-31 or 2026-01-31T12:00:00Z)".to_owned(),
        kind @ (ValueKind::Ip | ValueKind::Network | ValueKind::Mac) => kind.spelled(value).err()?,
    };
    Some(format!("{} is no default: it must be {expected}; correct it or leave it out", quoted(value)))
}

/// Why the `regex` of a field is not a valid pattern, for the author of the type.
pub fn no_pattern(field: &Document) -> Option<String> {
    compile_pattern(pattern_of(field)?).err()
}

/// The `regex` of a field. An empty one is none.
fn pattern_of(field: &Document) -> Option<&str> {
    field.get_str("regex").ok().filter(|pattern| !pattern.is_empty())
}

/// The condition on stored entries with values that do not fit the field: what [`FieldRules::broken`] says, as a filter. Nothing
/// where every value fits. Targets of references are not asked for.
pub fn misfit(field: &Field) -> Option<Document> {
    let mut odd: Vec<Document> = Vec::new();
    odd.extend(unfit(field).into_iter().map(|condition| doc! {"value": condition}));
    if ValueKind::of(field) == ValueKind::Number {
        odd.push(doc! {"value": {"$in": [f64::NAN, f64::INFINITY, f64::NEG_INFINITY]}});
    }
    if field.required {
        odd.extend([doc! {"value": {"$in": [null, ""]}}, doc! {"value": {"$size": 0}}]);
    }
    let is_text = ValueKind::of(field).is_text();
    if let Some(pattern) = field.regex.as_ref().filter(|pattern| is_text && compile_pattern(pattern).is_ok()) {
        let whole = format!("{BEFORE}{pattern}{BEHIND}");
        odd.push(doc! {"value": {"$type": "string", "$not": {"$regex": whole}}});
    }
    (!odd.is_empty()).then(|| doc! {"name": &field.name, "$or": odd})
}

/// The conditions on values that are not of the field's kind, or none of its options. Each is enough.
fn unfit(field: &Field) -> Vec<Document> {
    let names = || field.options.iter().map(|option| Bson::from(option.name.as_str()));
    let kind = ValueKind::of(field);
    let one = match kind {
        ValueKind::Any => return Vec::new(),
        ValueKind::References => doc! {"$elemMatch": {"$not": {"$type": ["int", "long"]}}},
        ValueKind::Options => doc! {"$elemMatch": {"$nin": names().collect::<Vec<_>>()}},
        ValueKind::Text if field.has_choice() => doc! {"$nin": names().chain([Bson::Null]).collect::<Vec<_>>()},
        ValueKind::Ip | ValueKind::Network | ValueKind::Mac => {
            doc! {"$ne": null, "$not": {"$regex": kind.shape()}}
        }
        ValueKind::Text => of_other_type(&["string"]),
        ValueKind::Number => of_other_type(&["number"]),
        ValueKind::Checkbox => of_other_type(&["bool"]),
        ValueKind::Reference => of_other_type(&["int", "long"]),
        ValueKind::Date => of_other_type(&["date"]),
    };
    let is_list = matches!(kind, ValueKind::References | ValueKind::Options);
    let shape = if is_list {
        of_other_type(&["array"])
    } else {
        doc! {"$type": "array"}
    };
    vec![shape, one]
}

fn of_other_type(types: &[&str]) -> Document {
    doc! {"$ne": null, "$not": {"$type": types}}
}

/// The text before a field's pattern when it is compiled.
const BEFORE: &str = r"\A(?:";
const BEHIND: &str = r")\z";

/// Compiles a field's pattern so that it must match the whole value.
///
/// # Errors
/// A sentence for the author of the pattern.
pub fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    let whole = format!("{BEFORE}{pattern}{BEHIND}");
    // Also compiled alone: `a)|(?:b` would end the group around it.
    let compiled = Regex::new(pattern).and_then(|_| RegexBuilder::new(&whole).backtrack_limit(BACKTRACK_LIMIT).build());
    compiled.map_err(|_| format!("{pattern} is no regular expression"))
}

/// A compiled pattern as its author wrote it.
fn written(pattern: &Regex) -> &str {
    let whole = pattern.as_str();
    whole.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(BEHIND)).unwrap_or(whole)
}

/// Reads an ISO 8601 moment or day; without an offset it is UTC. A space may replace the `T`, the offset may have no
/// colon, and seconds may be left out, as databases and browsers write moments.
pub fn parse_date(text: &str) -> Option<DateTime> {
    const MOMENTS: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];
    const LOCAL: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    let spaced = text.as_bytes().get(10) == Some(&b' ');
    let joined = if spaced { text.replacen(' ', "T", 1) } else { text.to_owned() };
    let exact = chrono::DateTime::parse_from_rfc3339(&joined).ok();
    let moment = exact.or_else(|| MOMENTS.iter().find_map(|form| chrono::DateTime::parse_from_str(&joined, form).ok()));
    let local = || LOCAL.iter().find_map(|form| NaiveDateTime::parse_from_str(&joined, form).ok());
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    let in_utc = |moment: NaiveDateTime| moment.and_utc();
    moment.map(|moment| moment.to_utc()).or_else(|| local().or_else(day).map(in_utc)).map(DateTime::from_chrono)
}

/// Whether the stored object has no value for the field either, and `sent` is what it has there. A new object has no
/// entries at all.
fn lacked(stored: &[FieldValue], name: &str, sent: Option<&Bson>) -> bool {
    let entry = stored.iter().find(|entry| entry.name == name);
    let value = entry.map_or(&Bson::Null, |entry| &entry.value);
    !stored.is_empty() && is_empty(value) && sent.is_none_or(|sent| sent == value)
}

fn is_empty(value: &Bson) -> bool {
    match value {
        Bson::Null => true,
        Bson::String(text) => text.is_empty(),
        Bson::Array(items) => items.is_empty(),
        _ => false,
    }
}
