//! Makes projections: inclusion, exclusion, `$slice`, `$elemMatch`, the positional `$`, expressions.

use bson::{Bson, Document, doc};

use super::expressions::Kind;
use super::generator::Generator;

impl Generator<'_> {
    /// A projection.
    pub(super) fn projection(&mut self) -> Document {
        let mut projection = Document::new();
        let includes = self.random.percent(60);
        let style = self.random.weighted(&[35, 15, 45, 5]);
        if self.random.percent(25) {
            projection.insert("_id", i32::from(self.random.percent(30)));
        }
        for _ in 0..=self.random.below(3) {
            let path = self.path();
            match style {
                0 => {
                    let value = self.flag(includes);
                    projection.insert(path, value);
                }
                1 => self.array_operator(path, includes, &mut projection),
                2 => {
                    let path = if self.random.percent(60) { format!("r{}", projection.len()) } else { path };
                    let value = self.computed();
                    projection.insert(path, value);
                    if self.random.percent(15) {
                        let other = self.path();
                        projection.insert(other, 1);
                    }
                }
                _ => {
                    let value = self.nested(includes, 2);
                    projection.insert(path, value);
                }
            }
        }
        projection
    }

    fn flag(&mut self, includes: bool) -> Bson {
        match self.random.below(8) {
            0 => Bson::Boolean(includes),
            1 => Bson::Double(if includes { 0.5 } else { -0.0 }),
            2 => Bson::Int64(if includes { -3 } else { 0 }),
            _ => Bson::Int32(i32::from(includes)),
        }
    }

    fn array_operator(&mut self, path: String, includes: bool, into: &mut Document) {
        let arrays: Vec<(String, Bson)> =
            self.material.places.iter().filter(|(_, value)| matches!(value, Bson::Array(_))).cloned().collect();
        let (path, found) = if arrays.is_empty() || self.random.percent(15) {
            (path, Bson::Null)
        } else {
            self.random.pick(&arrays).clone()
        };
        match self.random.below(8) {
            0..=2 => {
                let mut number = || Bson::Int32(self.random.between(-3, 3));
                let (first, second) = (number(), number());
                let operand = if self.random.percent(50) { first } else { Bson::Array(vec![first, second]) };
                into.insert(path, doc! { "$slice": operand });
            }
            3..=4 => {
                let path = path.split('.').next().unwrap_or_default().to_owned();
                let conditions = self.elem_match(&found, 1);
                into.insert(path, doc! { "$elemMatch": conditions });
            }
            5..=6 => {
                into.insert(format!("{path}.$"), 1);
            }
            _ => {
                let value = self.flag(includes);
                into.insert(path, value);
            }
        }
    }

    fn nested(&mut self, includes: bool, depth: usize) -> Document {
        let mut inner = Document::new();
        for _ in 0..=self.random.below(2) {
            let name = *self.random.pick(&["x", "y", "0", "name", "x.y", "a", ""]);
            let value = if depth > 0 && self.random.percent(30) {
                self.nested(includes, depth - 1).into()
            } else if self.random.percent(15) {
                self.computed()
            } else {
                self.flag(includes)
            };
            inner.insert(name, value);
        }
        inner
    }

    fn computed(&mut self) -> Bson {
        let depth = self.random.below(3);
        let kind = *self.random.pick(&Kind::ALL);
        self.expression(kind, depth + 1)
    }
}
