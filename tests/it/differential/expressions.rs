//! Makes expressions, mostly with operands of the types that the operators want.

use bson::{Bson, Document, bson, doc};

use super::generator::Generator;
use super::operators::{Call, NAMED, PLAIN};
use super::values::{dates, numbers, scalar, texts};

/// What an expression gives, or an operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Truth,
    Number,
    /// A small whole number.
    Count,
    Text,
    Array,
    Object,
    Date,
    /// A unit of time.
    Unit,
    Timezone,
    /// Of dates.
    Format,
    Weekday,
    /// The name of a type to convert to.
    TypeName,
    /// The name of a member, or an expression where that may be one.
    Name,
    Pattern,
}

impl Kind {
    /// Whether no operator gives it: mostly a constant.
    fn is_word(self) -> bool {
        matches!(
            self,
            Self::Unit | Self::Timezone | Self::Format | Self::Weekday | Self::TypeName | Self::Name | Self::Pattern
        )
    }

    /// The kinds that results have.
    pub(super) const ALL: [Self; 7] =
        [Self::Any, Self::Truth, Self::Number, Self::Text, Self::Array, Self::Object, Self::Date];
}

const UNITS: [&str; 10] = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "eon"];
const TIMEZONES: [&str; 9] =
    ["UTC", "Europe/Berlin", "America/New_York", "+05:30", "-0330", "+02", "Asia/Kathmandu", "Z", "Nowhere"];
const FORMATS: [&str; 10] = [
    "%Y-%m-%d", "%H:%M:%S.%L", "%G-W%V-%u", "%j %w %U", "%z %Z", "%Y%m%d", "%d/%m/%Y", "%%", "%Y-%m-%dT%H:%M:%S.%LZ",
    "%q",
];
const WEEKDAYS: [&str; 6] = ["monday", "Mon", "sunday", "sat", "Thursday", "noday"];
const TYPES: [&str; 12] =
    ["double", "string", "objectId", "bool", "date", "int", "long", "decimal", "array", "missing", "number", "null"];

impl Generator<'_> {
    /// An expression that is true or false.
    pub(super) fn truth(&mut self, depth: usize) -> Bson {
        if self.random.percent(45) {
            let kind = *self.random.pick(&Kind::ALL);
            let (left, right) = (self.expression(kind, depth), self.expression(kind, depth.saturating_sub(1)));
            return bson!({ *self.random.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]): [left, right] });
        }
        self.expression(Kind::Truth, depth)
    }

    /// An expression of a kind, nested up to `depth` deep.
    pub(super) fn expression(&mut self, kind: Kind, depth: usize) -> Bson {
        if depth == 0 || self.random.percent(if kind.is_word() { 95 } else { 15 }) {
            return self.leaf(kind);
        }
        // Now and then something else than what is wanted.
        let kind = if self.random.percent(4) { *self.random.pick(&Kind::ALL) } else { kind };
        match self.random.weighted(&[65, 18, 17]) {
            0 => {
                let fitting: Vec<&Call> = PLAIN
                    .iter()
                    .filter(|call| kind == Kind::Any || call.gives == kind || call.gives == Kind::Any)
                    .collect();
                if fitting.is_empty() {
                    return self.leaf(kind);
                }
                let call = *self.random.pick(&fitting);
                self.call(call, depth)
            }
            1 => self.named(kind, depth),
            _ => self.control(kind, depth),
        }
    }

    fn call(&mut self, call: &Call, depth: usize) -> Bson {
        let (least, most) = call.count;
        let count = least + self.random.below(most - least + 1);
        let kind_of = |at: usize| *call.wants.get(at).or(call.wants.last()).unwrap_or(&Kind::Any);
        let mut operands: Vec<Bson> = (0..count).map(|at| self.expression(kind_of(at), depth - 1)).collect();
        let operand = if operands.len() == 1 && self.random.percent(60) && !matches!(operands[0], Bson::Array(_)) {
            operands.remove(0)
        } else {
            Bson::Array(operands)
        };
        bson!({ call.name: operand })
    }

    fn named(&mut self, kind: Kind, depth: usize) -> Bson {
        let fitting: Vec<_> =
            NAMED.iter().filter(|call| kind == Kind::Any || call.gives == kind || call.gives == Kind::Any).collect();
        if fitting.is_empty() {
            return self.leaf(kind);
        }
        let call = *self.random.pick(&fitting);
        let mut operands = Document::new();
        for (name, wants, chance) in call.operands {
            if self.random.percent(*chance) {
                operands.insert(*name, self.expression(*wants, depth - 1));
            }
        }
        bson!({ call.name: operands })
    }

    /// What has variables or branches.
    fn control(&mut self, kind: Kind, depth: usize) -> Bson {
        let below = depth - 1;
        match self.random.below(9) {
            0 => {
                let value = self.expression(Kind::Any, below);
                let body = self.with_variable("v", |generator| generator.expression(kind, below));
                bson!({ "$let": { "vars": { "v": value }, "in": body } })
            }
            1..=2 => {
                let input = self.expression(Kind::Array, below);
                let body = self.with_variable("this", |generator| generator.expression(kind, below));
                bson!({ "$map": { "input": input, "in": body } })
            }
            3..=4 => {
                let input = self.expression(Kind::Array, below);
                let condition = self.with_variable("this", |generator| generator.truth(below));
                let mut filter = doc! { "input": input, "cond": condition };
                if self.random.percent(20) {
                    filter.insert("limit", self.expression(Kind::Count, 0));
                }
                bson!({ "$filter": filter })
            }
            5 => {
                let (input, initial) = (self.expression(Kind::Array, below), self.leaf(kind));
                let body = self.with_variable("this", |generator| {
                    generator.with_variable("value", |generator| generator.expression(kind, below))
                });
                bson!({ "$reduce": { "input": input, "initialValue": initial, "in": body } })
            }
            6 => {
                let mut switch =
                    doc! { "branches": [{ "case": self.truth(below), "then": self.expression(kind, below) }] };
                if self.random.percent(80) {
                    switch.insert("default", self.leaf(kind));
                }
                bson!({ "$switch": switch })
            }
            7 => {
                let (when, then, otherwise) = (self.truth(below), self.expression(kind, below), self.leaf(kind));
                if self.random.percent(50) {
                    bson!({ "$cond": [when, then, otherwise] })
                } else {
                    bson!({ "$cond": { "if": when, "then": then, "else": otherwise } })
                }
            }
            _ => {
                let mut members = Document::new();
                for name in ["x", "y"] {
                    if self.random.percent(70) {
                        members.insert(name, self.expression(Kind::Any, below));
                    }
                }
                Bson::Document(members)
            }
        }
    }

    fn with_variable(&mut self, name: &'static str, make: impl FnOnce(&mut Self) -> Bson) -> Bson {
        self.variables.push(name);
        let made = make(self);
        self.variables.pop();
        made
    }

    /// A path, a variable or a constant.
    fn leaf(&mut self, kind: Kind) -> Bson {
        if !self.variables.is_empty() && self.random.percent(45) {
            let variable = (*self.random.pick(&self.variables)).to_owned();
            let member = if self.random.percent(25) { ".x" } else { "" };
            return Bson::String(format!("$${variable}{member}"));
        }
        let (typed, constant) = match kind {
            Kind::Number => ("$n", self.random.pick(numbers()).clone()),
            Kind::Text => ("$s", literal(self.random.pick(texts()).clone())),
            Kind::Array => ("$t", self.array()),
            Kind::Object => ("$o", bson!({ "$literal": { "x": scalar(&mut self.random), "y": 1 } })),
            Kind::Date => ("$d", self.random.pick(dates()).clone()),
            Kind::Truth => ("$a", Bson::Boolean(self.random.percent(50))),
            Kind::Count => return Bson::Int32(self.random.between(-2, 4)),
            Kind::Unit => return self.random.word(&UNITS),
            Kind::Timezone => return self.random.word(&TIMEZONES),
            Kind::Format => return self.random.word(&FORMATS),
            Kind::Weekday => return self.random.word(&WEEKDAYS),
            Kind::TypeName => return self.random.word(&TYPES),
            Kind::Name => return self.random.word(&["x", "a", "", "a.b", "y", "0"]),
            Kind::Pattern => return self.pattern(&Bson::from("ab")),
            Kind::Any => return self.any_leaf(),
        };
        if self.random.percent(72) { Bson::from(typed) } else { constant }
    }

    fn array(&mut self) -> Bson {
        let of_expressions = self.random.percent(30);
        let count = self.random.below(4);
        Bson::Array(
            (0..count)
                .map(|_| if of_expressions { self.any_leaf() } else { literal(scalar(&mut self.random)) })
                .collect(),
        )
    }

    fn any_leaf(&mut self) -> Bson {
        match self.random.below(20) {
            0..=11 => {
                let path = self.path();
                let sound = !path.is_empty() && path.split('.').all(|part| !part.is_empty() && !part.starts_with('$'));
                if sound || self.random.percent(5) { Bson::String(format!("${path}")) } else { Bson::from("$a") }
            }
            12 => Bson::from("$$ROOT"),
            13 => Bson::from("$$REMOVE"),
            14 => Bson::from("$$CURRENT.a"),
            15 => bson!({ "$literal": self.random.pick(&self.material.pool).clone() }),
            16 => bson!({ "$const": self.random.pick(&self.material.pool).clone() }),
            17 => Bson::Null,
            _ => literal(scalar(&mut self.random)),
        }
    }
}

/// The value as a constant: a text that begins with a dollar sign would be a path.
fn literal(value: Bson) -> Bson {
    match &value {
        Bson::String(text) if text.starts_with('$') => bson!({ "$literal": value }),
        _ => value,
    }
}
