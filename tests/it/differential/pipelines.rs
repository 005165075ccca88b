//! Makes pipelines. Every `$group` is followed by an order of its keys, because MongoDB has none of its own.

use bson::{Bson, Document, bson, doc};

use super::expressions::Kind;
use super::generator::Generator;

/// The name in a case for the collection that the question is about.
pub(super) const ITSELF: &str = "things";

/// The accumulators of one expression. Sets have no order, so `tests/questions` asks for them.
const PLAIN: [&str; 10] =
    ["$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$stdDevPop", "$stdDevSamp", "$mergeObjects"];

impl Generator<'_> {
    /// A pipeline of some stages.
    pub(super) fn pipeline(&mut self, depth: usize) -> Vec<Bson> {
        let mut stages = Vec::new();
        for _ in 0..=self.random.weighted(&[30, 40, 20, 10]) {
            self.add_stage(depth, &mut stages);
        }
        stages
    }

    fn add_stage(&mut self, depth: usize, stages: &mut Vec<Bson>) {
        let with_pipelines = if depth > 0 { 6 } else { 0 };
        let weights =
            [18, 8, 5, 5, 12, 10, 5, 6, 4, 16, 12, 3, 4, 6, with_pipelines, with_pipelines * 2, with_pipelines / 2];
        let stage = match self.random.weighted(&weights) {
            0 => doc! { "$match": self.filter() },
            1 => doc! { "$sort": self.whole_order() },
            2 => doc! { "$skip": i32::try_from(self.random.below(4)).expect("small") },
            3 => doc! { "$limit": 1 + i32::try_from(self.random.below(5)).expect("small") },
            4 => doc! { "$project": self.stage_projection() },
            5 => doc! { *self.random.pick(&["$set", "$addFields"]): self.set_members() },
            6 => match self.random.below(3) {
                0 => doc! { "$unset": self.path() },
                _ => doc! { "$unset": [self.path(), self.path()] },
            },
            7 => match self.random.below(3) {
                0 => doc! { "$replaceRoot": { "newRoot": self.expression(Kind::Object, 2) } },
                1 => doc! { "$replaceWith": { "_id": "$_id", "a": self.expression(Kind::Any, 2) } },
                _ => doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", self.expression(Kind::Object, 2)] } },
            },
            8 => doc! { "$count": *self.random.pick(&["n", "a", "x y"]) },
            9 => {
                stages.push(doc! { "$group": self.group() }.into());
                doc! { "$sort": { "_id": 1 } }
            }
            10 => doc! { "$unwind": self.unwind() },
            11 => {
                stages.push(doc! { "$sortByCount": format!("${}", self.path()) }.into());
                doc! { "$sort": { "_id": 1 } }
            }
            12 => doc! { "$bucket": self.bucket() },
            13 => doc! { "$redact": self.redact() },
            14 => {
                let facets: Document =
                    ["p", "q"].iter().map(|name| ((*name).to_owned(), self.pipeline(depth - 1).into())).collect();
                doc! { "$facet": facets }
            }
            15 => doc! { "$lookup": self.lookup(depth - 1) },
            _ => match self.random.below(3) {
                0 => doc! { "$unionWith": ITSELF },
                _ => doc! { "$unionWith": { "coll": ITSELF, "pipeline": self.pipeline(depth - 1) } },
            },
        };
        stages.push(stage.into());
    }

    /// An order that leaves no two documents of a collection equal.
    fn whole_order(&mut self) -> Document {
        let mut order = Document::new();
        for _ in 0..self.random.below(3) {
            order.insert(self.path(), *self.random.pick(&[1, -1]));
        }
        order.insert("_id", *self.random.pick(&[1, -1]));
        order
    }

    fn stage_projection(&mut self) -> Document {
        let mut projection = Document::new();
        let flag = i32::from(self.random.percent(70));
        for _ in 0..=self.random.below(3) {
            let path = self.path();
            if flag == 1 && self.random.percent(40) {
                projection.insert(path, self.expression(Kind::Any, 2));
            } else {
                projection.insert(path, flag);
            }
        }
        if self.random.percent(20) {
            projection.insert("_id", 0);
        }
        projection
    }

    fn set_members(&mut self) -> Document {
        let mut members = Document::new();
        for _ in 0..=self.random.below(2) {
            let path = self.path();
            let kind = *self.random.pick(&Kind::ALL);
            let value = self.expression(kind, 2);
            let value = if self.random.percent(15) { bson!({ "x": value, "y": { "z": 1 } }) } else { value };
            members.insert(path, value);
        }
        members
    }

    fn group(&mut self) -> Document {
        let key = match self.random.below(6) {
            0 => Bson::Null,
            1 | 2 => Bson::String(format!("${}", self.path())),
            3 => bson!({ "k": format!("${}", self.path()) }),
            4 => bson!({ "k": format!("${}", self.path()), "l": self.expression(Kind::Any, 1) }),
            _ => self.expression(Kind::Any, 2),
        };
        let mut group = doc! { "_id": key };
        for name in &["p", "q", "r"][..=self.random.below(3)] {
            let accumulator = self.accumulator();
            group.insert(*name, accumulator);
        }
        group
    }

    fn operand(&mut self) -> Bson {
        if self.random.percent(60) { Bson::String(format!("${}", self.path())) } else { self.expression(Kind::Any, 2) }
    }

    fn accumulator(&mut self) -> Document {
        let count = *self.random.pick(&[1, 2, 3]);
        match self.random.below(10) {
            0 => doc! { "$count": {} },
            1 => {
                let name = *self.random.pick(&["$firstN", "$lastN", "$minN", "$maxN"]);
                doc! { name: { "n": count, "input": self.operand() } }
            }
            2 => {
                let name = *self.random.pick(&["$top", "$bottom"]);
                doc! { name: { "sortBy": self.whole_order(), "output": self.operand() } }
            }
            3 => {
                let name = *self.random.pick(&["$topN", "$bottomN"]);
                doc! { name: { "n": count, "sortBy": self.whole_order(), "output": self.operand() } }
            }
            _ => {
                let name = *self.random.pick(&PLAIN);
                match self.operand() {
                    // A list is refused: one in eight asks for that.
                    Bson::Array(items) if self.random.percent(88) => doc! { name: { "$concatArrays": [items] } },
                    operand => doc! { name: operand },
                }
            }
        }
    }

    fn unwind(&mut self) -> Bson {
        let path = format!("${}", self.path());
        match self.random.below(4) {
            0 => path.into(),
            1 => bson!({ "path": path, "preserveNullAndEmptyArrays": true }),
            2 => {
                let index = self.path();
                // Refused here: older servers could crash.
                let holds_path = path[1..].strip_prefix(&index).is_some_and(|rest| rest.starts_with('.'));
                bson!({ "path": path, "includeArrayIndex": if holds_path { "i".to_owned() } else { index } })
            }
            _ => bson!({ "path": path, "includeArrayIndex": "i.j", "preserveNullAndEmptyArrays": true }),
        }
    }

    fn bucket(&mut self) -> Document {
        let mut bucket = doc! { "groupBy": format!("${}", self.path()), "boundaries": [0, 1, 2.5, 100] };
        if self.random.percent(85) {
            bucket.insert("default", *self.random.pick(&["other", "x"]));
        }
        if self.random.percent(50) {
            bucket.insert("output", doc! { "p": self.accumulator() });
        }
        bucket
    }

    fn redact(&mut self) -> Bson {
        let (yes, no) = *self.random.pick(&[
            ("$$DESCEND", "$$PRUNE"),
            ("$$KEEP", "$$DESCEND"),
            ("$$DESCEND", "$$KEEP"),
            ("$$PRUNE", "$$DESCEND"),
        ]);
        bson!({ "$cond": [self.truth(1), yes, no] })
    }

    fn lookup(&mut self, depth: usize) -> Document {
        let mut lookup = doc! { "from": ITSELF, "as": *self.random.pick(&["z", "a", "a.x", "o.z"]) };
        let fields = self.random.percent(60);
        if fields {
            lookup.insert("localField", self.path());
            lookup.insert("foreignField", self.path());
        }
        if !fields || self.random.percent(40) {
            if self.random.percent(50) {
                lookup.insert("let", doc! { "v": format!("${}", self.path()) });
                self.variables.push("v");
                let condition = self.truth(2);
                self.variables.pop();
                let mut stages = vec![bson!({ "$match": { "$expr": condition } })];
                stages.extend(self.pipeline(depth));
                lookup.insert("pipeline", stages);
            } else {
                lookup.insert("pipeline", self.pipeline(depth));
            }
        }
        lookup
    }
}

/// The pipeline with the name of a collection where it says [`ITSELF`].
pub(crate) fn about(stages: &[Bson], collection: &str) -> Vec<Bson> {
    stages.iter().map(|stage| named(stage, collection)).collect()
}

fn named(value: &Bson, collection: &str) -> Bson {
    match value {
        Bson::Document(members) => {
            let member = |(name, value): (&String, &Bson)| {
                let is_collection = matches!(name.as_str(), "from" | "coll" | "$unionWith");
                let value = match value {
                    Bson::String(text) if is_collection && text == ITSELF => collection.into(),
                    value => named(value, collection),
                };
                (name.clone(), value)
            };
            Bson::Document(members.iter().map(member).collect())
        }
        Bson::Array(items) => Bson::Array(about(items, collection)),
        other => other.clone(),
    }
}

/// The pipeline, run by the server stage by stage: it neither moves nor joins stages across these.
pub(super) fn unmoved(stages: &[Bson]) -> Vec<Bson> {
    // In front, too: a stage there may go to the server's second engine.
    let mut apart = vec![bson!({ "$_internalInhibitOptimization": {} })];
    for stage in stages {
        apart.push(unmoved_inside(stage));
        apart.push(bson!({ "$_internalInhibitOptimization": {} }));
    }
    apart
}

fn unmoved_inside(stage: &Bson) -> Bson {
    let Some(members) = stage.as_document() else { return stage.clone() };
    let member = |(name, value): (&String, &Bson)| {
        let value = match (name.as_str(), value) {
            ("pipeline", Bson::Array(stages)) => Bson::Array(unmoved(stages)),
            ("$facet", Bson::Document(parts)) => {
                let part = |stages: &Bson| stages.as_array().map_or(stages.clone(), |stages| unmoved(stages).into());
                Bson::Document(parts.iter().map(|(name, stages)| (name.clone(), part(stages))).collect())
            }
            ("$lookup" | "$unionWith", value) => unmoved_inside(value),
            (_, value) => value.clone(),
        };
        (name.clone(), value)
    };
    Bson::Document(members.iter().map(member).collect())
}
