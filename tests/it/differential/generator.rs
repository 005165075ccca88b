//! Makes questions about a set of documents: what is common to filters, projections and sorts.

use bson::{Bson, Document, doc};

use super::documents::{Material, TYPED};
use super::random::Random;
use super::shrink::has_groups_in_any_order;
use super::values::{scalar, value};

/// What a question consists of, before anybody has looked whether it is one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Question {
    pub(super) filter: Document,
    pub(super) projection: Option<Document>,
    pub(super) sort: Option<Document>,
    pub(super) skip: u64,
    pub(super) limit: u64,
    /// Whether the number of all matches is asked for too.
    pub(super) counted: bool,
    /// A pipeline instead of all that.
    pub(super) pipeline: Option<Vec<Bson>>,
}

/// Makes questions about some documents.
pub(super) struct Generator<'a> {
    pub(super) random: Random,
    pub(super) material: &'a Material,
    /// The names that an expression may use as variables.
    pub(super) variables: Vec<&'static str>,
    /// Whether questions are pipelines.
    pub(super) pipelines: bool,
}

impl<'a> Generator<'a> {
    pub(super) fn new(random: Random, material: &'a Material) -> Self {
        Self { random, material, variables: Vec::new(), pipelines: false }
    }

    /// The same; questions are pipelines.
    pub(super) fn of_pipelines(self) -> Self {
        Self { pipelines: true, ..self }
    }

    /// A question; one in eight is damaged, so that most of those are no questions any more.
    pub(super) fn question(&mut self) -> Question {
        if self.pipelines {
            let mut stages = self.pipeline(2);
            if self.random.percent(6) {
                let at = self.random.below(stages.len());
                if let Some(stage) = stages[at].as_document().cloned() {
                    let whole = std::mem::replace(&mut stages[at], self.damaged(stage).into());
                    if has_groups_in_any_order(&stages) {
                        stages[at] = whole;
                    }
                }
            }
            return Question { pipeline: Some(stages), ..Question::default() };
        }
        let mut question = self.sound_question();
        if self.random.percent(9) {
            match self.random.weighted(&[6, 3, 1]) {
                1 if question.projection.is_some() => {
                    question.projection = question.projection.map(|projection| self.damaged(projection));
                }
                2 if question.sort.is_some() => question.sort = question.sort.map(|sort| self.damaged(sort)),
                _ => question.filter = self.damaged(question.filter),
            }
        }
        question.settle_order(&mut self.random);
        question
    }

    fn sound_question(&mut self) -> Question {
        let (filter, projection) = match self.random.below(10) {
            0..=4 => (self.filter(), None),
            5..=6 => (self.filter(), Some(self.projection())),
            _ => (Document::new(), Some(self.projection())),
        };
        let sort = self.random.percent(30).then(|| self.sort());
        Question {
            filter,
            projection,
            sort,
            skip: if self.random.percent(20) { self.random.below(4) as u64 } else { 0 },
            limit: if self.random.percent(25) { self.random.below(5) as u64 } else { 0 },
            counted: self.random.percent(6),
            pipeline: None,
        }
    }

    /// A path, mostly one that leads somewhere, with a value that may be there.
    pub(super) fn place(&mut self) -> (String, Bson) {
        if self.material.places.is_empty() || self.random.percent(12) {
            return (self.made_up_path(), self.operand_like(&Bson::Null));
        }
        let (path, value) = self.random.pick(&self.material.places).clone();
        // The meaning of a path that ends after a position is an accident of the server: no name, or the elements.
        let path = path.strip_suffix('.').map_or(path.clone(), str::to_owned);
        (path, value)
    }

    /// A path, mostly one that is allowed in projections and sorts, where those of filters are not all allowed.
    pub(super) fn path(&mut self) -> String {
        let path = self.place().0;
        let sound = path.split('.').all(|part| !part.is_empty() && !part.starts_with('$'));
        if sound || self.random.percent(15) { path } else { (*self.random.pick(&["a", "b", "t.x"])).to_owned() }
    }

    fn made_up_path(&mut self) -> String {
        let first = *self.random.pick(&["a", "b", "c", "t", "o", "_id", "z", "", "0", "ä", "n", "s"]);
        let mut path = first.to_owned();
        for _ in 0..self.random.weighted(&[5, 6, 3, 1]) {
            path.push('.');
            path.push_str(
                self.random.pick::<&str>(&["x", "y", "0", "1", "a", "b", "name", "value", "", "-1", "00", "x"]),
            );
        }
        path
    }

    /// A value to compare with one that was found: the same, a neighbour, one from the pool, or another one.
    pub(super) fn operand_like(&mut self, found: &Bson) -> Bson {
        match self.random.weighted(&[50, 18, 24, 8]) {
            0 => found.clone(),
            1 => self.beside(found),
            2 => self.random.pick(&self.material.pool).clone(),
            _ => value(&mut self.random, &self.material.pool, 2),
        }
    }

    /// Nearly the same value: of another type, one more, cut off, with a member less.
    fn beside(&mut self, found: &Bson) -> Bson {
        match found {
            Bson::Int32(number) => match self.random.below(5) {
                0 => Bson::Int64(i64::from(*number)),
                1 => Bson::Double(f64::from(*number)),
                2 => Bson::Decimal128(number.to_string().parse().expect("a number")),
                3 => Bson::Int32(number.wrapping_add(1)),
                _ => Bson::Double(f64::from(*number) + 0.5),
            },
            Bson::Int64(number) => match self.random.below(3) {
                0 => Bson::Int64(number.wrapping_add(1)),
                1 => Bson::Decimal128(number.to_string().parse().expect("a number")),
                #[expect(clippy::cast_precision_loss, reason = "the nearest double is meant")]
                _ => Bson::Double(*number as f64),
            },
            Bson::Double(number) => match self.random.below(3) {
                0 => Bson::Double(-number),
                1 => Bson::Double(number + 1.0),
                _ => number.to_string().parse().map_or(Bson::Double(*number), Bson::Decimal128),
            },
            Bson::String(text) => match self.random.below(3) {
                0 => Bson::String(text.chars().take(1).collect()),
                1 => Bson::String(format!("{text}a")),
                _ => Bson::Symbol(text.clone()),
            },
            Bson::Array(items) if !items.is_empty() => match self.random.below(3) {
                0 => items[0].clone(),
                1 => Bson::Array(items[1..].to_vec()),
                _ => Bson::Array(vec![found.clone()]),
            },
            Bson::Document(document) => {
                let drop = self.random.below(document.len().max(1));
                let kept = document.iter().enumerate().filter(|(index, _)| *index != drop);
                Bson::Document(kept.map(|(_, (name, value))| (name.clone(), value.clone())).collect())
            }
            _ => Bson::Array(vec![found.clone()]),
        }
    }

    /// Keys of an order, mostly with `_id` at the end.
    pub(super) fn sort(&mut self) -> Document {
        let mut sort = Document::new();
        for _ in 0..=self.random.below(3) {
            let path = if self.random.percent(15) { (*self.random.pick(&TYPED)).to_owned() } else { self.path() };
            let direction = if self.random.percent(95) {
                Bson::Int32(*self.random.pick(&[1, -1]))
            } else {
                (*self.random.pick(&[Bson::Double(1.5), Bson::Int64(-1), Bson::Int32(0), Bson::Double(-0.5)])).clone()
            };
            sort.insert(path, direction);
        }
        if self.random.percent(2) {
            return doc! { "$natural": *self.random.pick(&[1, -1]) };
        }
        sort
    }

    /// The document with something in it changed, whatever that makes of it.
    fn damaged(&mut self, document: Document) -> Document {
        match self.damage(Bson::Document(document)) {
            Bson::Document(document) => document,
            other => doc! { "a": other },
        }
    }

    fn damage(&mut self, value: Bson) -> Bson {
        let inside = match &value {
            Bson::Document(document) => document.len(),
            Bson::Array(items) => items.len(),
            _ => 0,
        };
        if inside > 0 && self.random.percent(75) {
            let place = self.random.below(inside);
            return match value {
                Bson::Array(items) => {
                    let changed = items.into_iter().enumerate();
                    Bson::Array(changed.map(|(at, item)| if at == place { self.damage(item) } else { item }).collect())
                }
                Bson::Document(document) => Bson::Document(self.damage_member(document, place)),
                other => other,
            };
        }
        match self.random.below(8) {
            0 => Bson::Array(vec![value]),
            1 => Bson::Document(doc! { *self.random.pick(&OPERATORS): value }),
            2 => Bson::Document(doc! { *self.random.pick(&["a", "", "$", "$x", "a.b", "a.$", "$a.b"]): value }),
            3 => Bson::Array(Vec::new()),
            4 => Bson::Document(Document::new()),
            5 => Bson::Null,
            _ => scalar(&mut self.random),
        }
    }

    fn damage_member(&mut self, document: Document, place: usize) -> Document {
        let what = self.random.below(6);
        let mut changed = Document::new();
        for (at, (name, value)) in document.into_iter().enumerate() {
            if at != place {
                changed.insert(name, value);
                continue;
            }
            match what {
                0 => {
                    changed.insert(*self.random.pick(&OPERATORS), value);
                }
                1 => {
                    changed.insert(name, value.clone());
                    changed.insert(*self.random.pick(&OPERATORS), value);
                }
                2 => {}
                _ => {
                    let value = self.damage(value);
                    changed.insert(name, value);
                }
            }
        }
        changed
    }
}

/// Names that are put where they may not belong.
const OPERATORS: [&str; 44] = [
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$not", "$exists", "$type", "$size", "$mod", "$all",
    "$elemMatch", "$regex", "$options", "$bitsAllSet", "$and", "$or", "$nor", "$expr", "$jsonSchema", "$comment",
    "$slice", "$literal", "$cond", "$add", "$let", "$map", "$concat", "$gtt", "$", "$$a", "$ref", "$id", "a", "",
    "_id", "a.b", "a.", ".a", "a.$", "$switch",
];

impl Question {
    /// Makes sure that MongoDB, too, has but one answer: without an order it may answer conditions on `_id` by
    /// index, alternative after alternative, and of documents that are equal in an order any may come first.
    fn settle_order(&mut self, random: &mut Random) {
        let by_id = |sort: &mut Document| {
            if !sort.contains_key("_id") && !sort.contains_key("$natural") {
                sort.insert("_id", 1);
            }
        };
        match &mut self.sort {
            // An order that begins with `_id` is settled by it: only then both answer without looking at all documents.
            Some(sort) if self.limit > 0 && sort.keys().next().is_some_and(|path| path == "_id") => {
                *sort = doc! { "_id": sort.get("_id").cloned() };
            }
            Some(sort) if self.limit > 0 || random.percent(70) => by_id(sort),
            Some(_) => {}
            None if names_id(&self.filter) => self.sort = Some(doc! { "_id": *random.pick(&[1, -1]) }),
            None => {}
        }
    }
}

/// Whether a condition on `_id` is anywhere in the filter.
fn names_id(filter: &Document) -> bool {
    filter.iter().any(|(name, value)| {
        let inside = |value: &Bson| value.as_document().is_some_and(names_id);
        name == "_id"
            || name.starts_with("_id.")
            || inside(value)
            || value.as_array().is_some_and(|items| items.iter().any(inside))
    })
}
