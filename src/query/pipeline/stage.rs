//! The stages of a pipeline, compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::columns::Columns;
use super::group::Group;
use super::lookup::{Lookup, Union};
use super::redact::Redact;
use super::unwind::Unwind;
use super::{Filter, Pipeline, Sort};
use crate::query::expr::Expression;
use crate::query::projection::Projection;

/// One stage.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// `$match`.
    Match(Filter),
    /// `$sort`.
    Sort(Sort),
    /// `$skip`.
    Skip(u64),
    /// `$limit`.
    Limit(u64),
    /// `$project`, `$unset`, `$addFields`, `$set`.
    Project(Box<Projection>),
    /// `$replaceRoot`, `$replaceWith`.
    Replace(Box<Expression>),
    /// `$count`.
    Count(String),
    /// `$group`.
    Group(Box<Group>),
    /// `$unwind`.
    Unwind(Unwind),
    /// `$facet`.
    Facet(Vec<(String, Pipeline)>),
    /// `$lookup`.
    Lookup(Box<Lookup>),
    /// `$unionWith`.
    Union(Box<Union>),
    /// `$sample`.
    Sample(u64),
    /// `$redact`.
    Redact(Box<Redact>),
    /// The rows of a table.
    Flatten(Arc<Columns>),
}

impl Stage {
    /// Whether what it makes of a document depends on no other document that enters it, and on no order.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(
            self,
            Self::Match(_)
                | Self::Project(_)
                | Self::Replace(_)
                | Self::Unwind(_)
                | Self::Redact(_)
                | Self::Lookup(_)
                | Self::Flatten(_)
        )
    }

    /// The stage as MongoDB is sent it: the pipelines in it may have more stages than those of the client.
    pub(super) fn written(&self, as_sent: &Bson) -> Option<Document> {
        match self {
            Self::Lookup(lookup) => {
                let mut stage = as_sent.as_document()?.clone();
                if let (Some(pipeline), Ok(options)) = (lookup.pipeline(), stage.get_document_mut("$lookup")) {
                    options.insert("pipeline", pipeline.documents.clone());
                }
                Some(stage)
            }
            Self::Union(union) if !union.pipeline.documents.is_empty() => {
                let options = doc! { "coll": &union.from, "pipeline": union.pipeline.documents.clone() };
                Some(doc! { "$unionWith": options })
            }
            Self::Facet(parts) => {
                let part = |(name, part): &(String, Pipeline)| (name.clone(), Bson::from(part.documents.clone()));
                Some(doc! { "$facet": parts.iter().map(part).collect::<Document>() })
            }
            _ => as_sent.as_document().cloned(),
        }
    }

    /// Whether it leaves documents as they are.
    pub(super) fn is_selection(&self) -> bool {
        matches!(self, Self::Match(_) | Self::Sort(_) | Self::Skip(_) | Self::Limit(_))
    }

    pub(super) fn needs_server(&self) -> Option<&str> {
        match self {
            Self::Match(filter) => filter.needs_server(),
            Self::Facet(parts) => parts.iter().find_map(|(_, pipeline)| pipeline.needs_server()),
            Self::Lookup(lookup) => lookup.pipeline().and_then(Pipeline::needs_server),
            Self::Union(union) => union.pipeline.needs_server(),
            _ => None,
        }
    }

    pub(super) fn add_collections<'p>(&'p self, names: &mut BTreeSet<&'p str>) {
        match self {
            Self::Facet(parts) => parts.iter().for_each(|(_, pipeline)| pipeline.add_collections(names)),
            Self::Lookup(lookup) => {
                names.insert(&lookup.from);
                lookup.pipeline().into_iter().for_each(|pipeline| pipeline.add_collections(names));
            }
            Self::Union(union) => {
                names.insert(&union.from);
                union.pipeline.add_collections(names);
            }
            _ => {}
        }
    }
}
