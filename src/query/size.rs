//! How large the value of an expression may be, estimated before there is a document.

use std::collections::BTreeMap;

/// How many parts a stored value is taken to have. Three nested iterations over stored arrays stay below the limit then.
pub(super) const STORED: f64 = 100.0;
/// How many parts an element of a stored array is taken to have.
const STORED_IN_STORED: f64 = 10.0;

/// An array or an object takes as much memory as so many values, beside those in it.
const FRAME: f64 = 8.0;
/// What a stored number is taken for.
const STORED_NUMBER: f64 = 5_000.0;
/// How large a number is taken for of which nothing is known: as long as MongoDB lets a `$range` be.
pub(super) const LARGEST: f64 = 6_553_600.0;

/// The size of a value, apart for each part of it that an expression can take out.
#[derive(Debug, Clone)]
pub(super) struct Size {
    /// The elements of an array, or the parts (members, characters) that are not told apart.
    pub(super) len: f64,
    /// How large a number may be among the parts that are not told apart.
    number: f64,
    inside: Inside,
}

#[derive(Debug, Clone)]
enum Inside {
    /// A scalar, a text, or what is stored.
    Unknown,
    /// An array; all elements are as large as the largest one.
    Elements(Box<Size>),
    /// An object whose names are computed, and what may be an object or an array.
    Values(Box<Size>),
    /// An object with members of these names, beside the parts that are not told apart.
    Members(BTreeMap<String, Size>),
}

impl Size {
    /// So many parts that are not told apart.
    pub(super) fn parts(len: f64) -> Self {
        Self { len, number: LARGEST, inside: Inside::Unknown }
    }

    /// How large it may be as a number.
    pub(super) fn number(&self) -> f64 {
        if matches!(self.inside, Inside::Unknown) { self.number } else { LARGEST }
    }

    /// The same, as a number that is not larger than this.
    pub(super) fn up_to(self, number: f64) -> Self {
        Self { number, ..self }
    }

    /// The same with at least so many parts that are not told apart.
    pub(super) fn at_least(self, len: f64) -> Self {
        Self { len: self.len.max(len), ..self }
    }

    /// A part of those that are not told apart.
    pub(super) fn untold(&self) -> Self {
        Self { number: self.number, ..Self::parts(self.len.max(1.0)) }
    }

    /// A number, a date, a truth.
    pub(super) fn scalar() -> Self {
        Self::parts(1.0)
    }

    /// An array.
    pub(super) fn array(len: f64, element: Self) -> Self {
        Self { len, number: LARGEST, inside: Inside::Elements(Box::new(element)) }
    }

    /// An object with these members and no others.
    pub(super) fn object(members: BTreeMap<String, Self>) -> Self {
        Self { len: 0.0, number: LARGEST, inside: Inside::Members(members) }
    }

    /// A stored document.
    pub(super) fn document() -> Self {
        Self { len: STORED, number: STORED_NUMBER, ..Self::object(BTreeMap::new()) }
    }

    /// All values in it.
    pub(super) fn total(&self) -> f64 {
        match &self.inside {
            Inside::Unknown => self.len.max(1.0),
            Inside::Elements(part) | Inside::Values(part) => self.len.mul_add(part.total(), FRAME),
            Inside::Members(members) => members.values().map(Self::total).sum::<f64>() + self.len + FRAME,
        }
    }

    /// How deep it nests, beside what is stored.
    pub(super) fn depth(&self) -> usize {
        match &self.inside {
            Inside::Unknown => 0,
            Inside::Elements(part) | Inside::Values(part) => part.depth() + 1,
            Inside::Members(members) => members.values().map(Self::depth).max().unwrap_or_default() + 1,
        }
    }

    /// How many parts are told apart in it.
    pub(super) fn told(&self) -> usize {
        match &self.inside {
            Inside::Unknown => 1,
            Inside::Elements(part) | Inside::Values(part) => part.told() + 1,
            Inside::Members(members) => members.values().map(Self::told).sum::<usize>() + 1,
        }
    }

    /// The elements or members of the value itself.
    pub(super) fn count(&self) -> f64 {
        match &self.inside {
            // The count of names: at most some hundred.
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            Inside::Members(members) => self.len + members.len() as f64,
            _ => self.len,
        }
    }

    /// How many steps it takes to go through its own elements or members, or through all values in it. What is small counts as
    /// none beside what can be made.
    pub(super) fn steps(&self, is_whole: bool) -> f64 {
        match &self.inside {
            Inside::Unknown if self.len <= STORED => 0.0,
            _ if is_whole => self.total(),
            _ => self.count(),
        }
    }

    /// Whether it is an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.inside, Inside::Elements(_))
    }

    /// The members that have a name.
    pub(super) fn members(&self) -> impl Iterator<Item = (&String, &Self)> {
        let members = if let Inside::Members(members) = &self.inside { Some(members) } else { None };
        members.into_iter().flatten()
    }

    /// Any element, or any member.
    pub(super) fn any(&self) -> Self {
        match &self.inside {
            Inside::Unknown if self.len <= STORED => Self { len: self.len.min(STORED_IN_STORED), ..self.clone() },
            Inside::Unknown => self.clone(),
            Inside::Elements(part) | Inside::Values(part) => part.as_ref().clone(),
            Inside::Members(members) => members.values().fold(self.untold(), Self::or),
        }
    }

    /// What a path of one name leads to.
    pub(super) fn member(&self, name: &str) -> Self {
        match &self.inside {
            Inside::Unknown => self.clone(),
            Inside::Elements(part) => Self::array(self.len, part.member(name)),
            Inside::Values(part) => part.as_ref().clone(),
            Inside::Members(members) => members.get(name).cloned().unwrap_or_else(|| self.untold()),
        }
    }

    /// The same with a member; one that it may have is replaced.
    pub(super) fn with(mut self, name: &str, value: Self) -> Self {
        match &mut self.inside {
            Inside::Members(members) => drop(members.insert(name.to_owned(), value)),
            Inside::Unknown => self.inside = Inside::Members([(name.to_owned(), value)].into()),
            Inside::Elements(part) | Inside::Values(part) => {
                let any = part.as_ref().clone().or(&value);
                self = Self { len: self.len + 1.0, inside: Inside::Values(Box::new(any)), ..Self::scalar() };
            }
        }
        self
    }

    /// The same as an object whose names are computed.
    pub(super) fn with_any_names(self) -> Self {
        match self.inside {
            Inside::Unknown => self,
            _ => Self { len: self.count(), inside: Inside::Values(Box::new(self.any())), ..Self::scalar() },
        }
    }

    /// One of the two.
    pub(super) fn or(self, other: &Self) -> Self {
        use Inside::{Elements, Members, Unknown, Values};
        let len = self.len.max(other.len);
        let number = self.number.max(other.number);
        let inside = match (self.inside, &other.inside) {
            (Unknown, Unknown) => Unknown,
            (Elements(one), Elements(two)) => Elements(Box::new(one.or(two))),
            (Members(mut one), Members(two)) => {
                for (name, value) in two {
                    let joined = one.remove(name).map_or_else(|| value.clone(), |known| known.or(value));
                    one.insert(name.clone(), joined);
                }
                Members(one)
            }
            (Unknown, Members(members)) => Members(members.clone()),
            (Members(members), Unknown) => Members(members),
            (Unknown, Elements(part)) => Elements(Box::new(Self::parts(self.len).any().or(part))),
            (Elements(part), Unknown) => Elements(Box::new(part.or(&other.any()))),
            (inside, _) => {
                // An array is a value like others here, so that no path into the object leads past it.
                let one = Self { len: self.len, number, inside };
                return Self {
                    len: one.count().max(other.count()),
                    number,
                    inside: Values(Box::new(one.part().or(&other.part()))),
                };
            }
        };
        Self { len, number, inside }
    }

    /// What a path may lead to if it is not known whether this is an array.
    fn part(&self) -> Self {
        if self.is_array() { self.clone() } else { self.any() }
    }

    /// Two arrays joined.
    pub(super) fn and(self, other: &Self) -> Self {
        Self::array(self.count() + other.count(), self.any().or(&other.any()))
    }

    /// An object with the members of both; those of the other one replace others.
    pub(super) fn merged(self, other: &Self) -> Self {
        match &other.inside {
            Inside::Members(members) => {
                let len = self.len + other.len;
                let both = members.iter().fold(self, |both, (name, value)| both.with(name, value.clone()));
                if matches!(both.inside, Inside::Members(_)) { Self { len, ..both } } else { both }
            }
            Inside::Unknown => Self { len: self.len + other.len, number: self.number.max(other.number), ..self },
            Inside::Elements(part) | Inside::Values(part) => {
                let any = Inside::Values(Box::new(self.any().or(part)));
                Self { len: self.count() + other.len, number: LARGEST, inside: any }
            }
        }
    }

    /// What it is when it has grown so many times more as since `before`.
    pub(super) fn grown(mut self, before: &Self, times: f64) -> Self {
        self.len += (self.len - before.len).max(0.0) * times;
        match (&mut self.inside, &before.inside) {
            (Inside::Elements(part), Inside::Elements(before)) | (Inside::Values(part), Inside::Values(before)) => {
                **part = part.as_ref().clone().grown(before, times);
            }
            (Inside::Members(members), Inside::Members(before)) => {
                for (name, part) in members {
                    if let Some(before) = before.get(name) {
                        *part = part.clone().grown(before, times);
                    }
                }
            }
            _ => {}
        }
        self
    }
}
