//! Whether a value has a shape.

use std::cmp::Ordering;

use bson::Bson;

use super::{KeywordRule, OtherMembers, Properties, Schema, SizeLimits, by_bytes};
use crate::query::compare::{compare_bson, number, same_bracket};
use crate::query::error::EvalError;
use crate::query::path::{Leaf, Path};
use crate::query::raw::{Element, Value, View, kind, member};

/// The subtype of binary data that holds encrypted values.
const ENCRYPTED: u8 = 6;

impl Schema {
    /// Whether the value has this shape.
    pub(super) fn accepts(&self, value: Value<'_>) -> Result<bool, EvalError> {
        all(&self.rules, |rule| rule.accepts(value))
    }
}

/// Whether the test holds for all; the first failure ends it.
fn all<T>(items: impl IntoIterator<Item = T>, test: impl Fn(T) -> Result<bool, EvalError>) -> Result<bool, EvalError> {
    for item in items {
        if !test(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl SizeLimits {
    fn contain(self, count: usize) -> bool {
        u64::try_from(count).is_ok_and(|count| (self.least..=self.most).contains(&count))
    }
}

impl OtherMembers {
    fn accepts(&self, value: Value<'_>) -> Result<bool, EvalError> {
        match self {
            Self::Allowed => Ok(true),
            Self::Forbidden => Ok(false),
            Self::Shape(schema) => schema.accepts(value),
        }
    }
}

impl KeywordRule {
    fn accepts(&self, value: Value<'_>) -> Result<bool, EvalError> {
        match self {
            Self::Never => Ok(false),
            Self::Last(schema) => schema.accepts(value),
            Self::Types(types) => Ok(types.contains(value.kind())),
            Self::Encrypted => Ok(matches!(value.view(), View::Binary(ENCRYPTED, _))),
            Self::OneOfValues(values) => {
                let value = value.to_bson().unwrap_or(Bson::Undefined);
                Ok(values.iter().any(|known| is_equal(known, &value)))
            }
            Self::Bound { bound, is_maximum, exclusive } => Ok(within(value, bound, *is_maximum, *exclusive)),
            Self::MultipleOf(divisor) => {
                Ok(value.to_bson().is_none_or(|value| divisor.divides(&value).unwrap_or(true)))
            }
            // Symbols are no texts here.
            Self::Length(_) | Self::Pattern(_) if value.kind() != kind::STRING => Ok(true),
            Self::Length(limits) => Ok(match value.view() {
                View::Text(text) => limits.contain(String::from_utf8_lossy(text).chars().count()),
                _ => true,
            }),
            Self::Pattern(regex) => match value.view() {
                text @ View::Text(_) => regex.matches(text),
                _ => Ok(true),
            },
            _ if value.is_array() => self.accepts_array(value),
            _ if value.is_document() => self.accepts_document(value),
            _ => self.accepts_by_parts(value),
        }
    }

    /// The rules that say something about values of any type.
    fn accepts_by_parts(&self, value: Value<'_>) -> Result<bool, EvalError> {
        match self {
            Self::AllOf(schemas) => all(schemas, |schema| schema.accepts(value)),
            Self::AnyOf(schemas) => Ok(!all(schemas, |schema| schema.accepts(value).map(|accepted| !accepted))?),
            Self::OneOf(schemas) => {
                let mut count = 0;
                for schema in schemas {
                    count += u32::from(schema.accepts(value)?);
                }
                Ok(count == 1)
            }
            Self::Not(schema) => schema.accepts(value).map(|accepted| !accepted),
            _ => Ok(true),
        }
    }

    fn accepts_array(&self, array: Value<'_>) -> Result<bool, EvalError> {
        let elements = || array.elements().map(|element| element.value);
        match self {
            Self::ItemCount(limits) => Ok(limits.contain(elements().count())),
            Self::UniqueItems => Ok(is_unique(elements())),
            Self::Items(schema) => all(elements(), |element| schema.accepts(element)),
            Self::ItemsByPlace(schemas, rest) => all(elements().enumerate(), |(place, element)| {
                schemas.get(place).map_or_else(|| rest.accepts(element), |schema| schema.accepts(element))
            }),
            _ => self.accepts_by_parts(array),
        }
    }

    fn accepts_document(&self, document: Value<'_>) -> Result<bool, EvalError> {
        let has = |name: &str| {
            if name.contains('.') {
                // MongoDB takes the name for a path.
                return leads_somewhere(name, document);
            }
            member(document.bytes, name.as_bytes()).is_some()
        };
        match self {
            Self::PropertyCount(limits) => Ok(limits.contain(document.elements().count())),
            Self::Required(names) => Ok(names.iter().all(|name| has(name))),
            Self::Properties(properties) => {
                Ok(all(document.elements(), |element| properties.accept(element))?
                    && properties.accept_paths(document)?)
            }
            Self::Dependency(name, schema) => {
                if has(name) {
                    schema.accepts(document)
                } else {
                    Ok(true)
                }
            }
            _ => self.accepts_by_parts(document),
        }
    }
}

impl Properties {
    /// Looks at one member of the document.
    fn accept(&self, member: Element<'_>) -> Result<bool, EvalError> {
        let mut is_named = false;
        for (name, schema) in self.named.iter().filter(|(name, _)| name.as_bytes() == member.name) {
            is_named = true;
            // To MongoDB a name with dots is a path, see below.
            if !name.contains('.') && !schema.accepts(member.value)? {
                return Ok(false);
            }
        }
        for (pattern, schema) in &self.patterns {
            if pattern.matches(View::Text(by_bytes(member.name).as_bytes()))? {
                is_named = true;
                if !schema.accepts(member.value)? {
                    return Ok(false);
                }
            }
        }
        if is_named { Ok(true) } else { self.rest.accepts(member.value) }
    }

    /// Checks the values at names with dots: as in MongoDB they are paths.
    fn accept_paths(&self, document: Value<'_>) -> Result<bool, EvalError> {
        all(self.named.iter().filter(|(name, _)| name.contains('.')), |(path, schema)| {
            let mut outcome = Ok(false);
            let accepted = Path::new(path).any_in(document.bytes, Leaf::Whole, &mut |value, _| {
                outcome = value.map_or(Ok(false), |value| schema.accepts(value));
                !matches!(outcome, Ok(false))
            });
            Ok(outcome? || !accepted && !leads_somewhere(path, document))
        })
    }
}

fn leads_somewhere(path: &str, document: Value<'_>) -> bool {
    Path::new(path).any_in(document.bytes, Leaf::Whole, &mut |value, _| value.is_some())
}

/// A value that is no number passes. NaN is only within a bound of NaN.
fn within(value: Value<'_>, bound: &Bson, is_maximum: bool, exclusive: bool) -> bool {
    let (Some(value_number), Some(bound)) = (number(value.view()), number(bound.into())) else {
        return true;
    };
    if value_number.is_nan() || bound.is_nan() {
        return value_number.is_nan() && bound.is_nan() && !exclusive;
    }
    match value_number.compare(bound) {
        Ordering::Equal => !exclusive,
        Ordering::Less => is_maximum,
        Ordering::Greater => !is_maximum,
    }
}

fn is_unique<'a>(elements: impl Iterator<Item = Value<'a>>) -> bool {
    let values: Vec<Bson> = elements.filter_map(Value::to_bson).collect();
    are_unique(&values)
}

/// Whether no two of the values are equal.
pub(super) fn are_unique(values: &[Bson]) -> bool {
    let mut sorted: Vec<Bson> = values.iter().map(with_sorted_members).collect();
    sorted.sort_by(compare_bson);
    sorted.windows(2).all(|pair| compare_bson(&pair[0], &pair[1]).is_ne())
}

/// Equality that ignores the order of members.
fn is_equal(left: &Bson, right: &Bson) -> bool {
    same_bracket(left.into(), right.into())
        && compare_bson(&with_sorted_members(left), &with_sorted_members(right)).is_eq()
}

fn with_sorted_members(value: &Bson) -> Bson {
    match value {
        Bson::Document(document) => {
            let mut members: Vec<_> =
                document.iter().map(|(name, value)| (name.clone(), with_sorted_members(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Bson::Document(members.into_iter().collect())
        }
        Bson::Array(elements) => Bson::Array(elements.iter().map(with_sorted_members).collect()),
        other => other.clone(),
    }
}
