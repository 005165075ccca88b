//! The objects around an object, as a graph: breadth first, with one query for each level and direction. docs/api.md, Graph.
//!
//! *Invariant:* the queries leave out hidden objects, so these are in neither nodes, edges nor `truncated`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, doc};

use super::get_object;
use super::references::referring;
use super::rendering::{EDIT, corrupt};
use crate::admission;
use crate::domain::document::integer;
use crate::domain::references::references;
use crate::exchange::graph::{Edge, Graph, GraphFormat, Node};
use crate::query::Filter;
use crate::render::summary_line;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types, lets_through};
use crate::service::types::late::types_in;
use crate::store::{Documents, FindQuery};

/// At most this many documents are read on the thread of the request.
const SHORT: usize = 20;
/// At most this many references of one object, of one level, and of the whole graph are followed.
const MOST_OF_OBJECT: usize = 1000;
const MOST_OF_LEVEL: usize = 10_000;
const MOST_EDGES: usize = 20_000;
/// How many neighbours beyond the graph are read to find out where it was cut.
const BEYOND: usize = 1000;

/// Which references are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Those to an object.
    In,
    /// Those of an object.
    Out,
    /// Both.
    Both,
}

/// What is asked for.
#[derive(Debug)]
pub struct GraphQuery {
    /// Which references are followed.
    pub direction: Direction,
    /// How far.
    pub depth: usize,
    /// The types of the objects; nothing for all.
    pub types: Option<Vec<i64>>,
    /// The maximum number of nodes.
    pub most: usize,
}

/// The graph around an object, as text.
///
/// # Errors
/// Those of [`around`].
pub async fn text_around(
    services: &Services,
    caller: &Caller,
    id: i64,
    query: GraphQuery,
    format: GraphFormat,
) -> Result<String, ServiceError> {
    let graph = around(services, caller, id, query).await?;
    if graph.nodes.len() <= SHORT {
        return Ok(graph.text(format));
    }
    Ok(admission::work(move |_| graph.text(format)).await?)
}

/// The graph around an object.
///
/// # Errors
/// Those of [`get_object`]; the refusal of a graph whose objects are too large to be held; errors of the store.
pub async fn around(services: &Services, caller: &Caller, id: i64, query: GraphQuery) -> Result<Graph, ServiceError> {
    let root = get_object(services, caller, id).await?;
    let types = services.types_of([&*root]).await?;
    let mut walk = Walk { services, caller, query, types, found: Vec::new(), places: HashMap::new() };
    walk.add(walk.read(Documents::of_one(&root)).await?, 0);
    let mut open: Vec<usize> = vec![0];
    for depth in 1..=walk.query.depth {
        let room = walk.query.most.saturating_sub(walk.found.len());
        let mut next = walk.beyond(&open, room + 1).await?;
        let is_full = next.len() > room;
        next.truncate(room);
        let begin = walk.found.len();
        walk.add(next, depth);
        let added = begin..walk.found.len();
        if is_full {
            open.extend(added);
            break;
        }
        open = added.collect();
        if open.is_empty() {
            break;
        }
    }
    walk.mark_cut(&open).await?;
    Ok(walk.into_graph())
}

/// An object that was found.
struct Found {
    node: Node,
    entry: Option<Arc<TypeEntry>>,
    /// The position of a field in the type, and the id in it.
    references: Vec<(usize, i64)>,
    is_cut: bool,
}

impl Found {
    fn read(object: &RawDocument, entry: Option<&Arc<TypeEntry>>, may_edit: bool) -> Result<Self, ServiceError> {
        let public_id = integer(object, "public_id").unwrap_or_default();
        let type_id = integer(object, "type_id").unwrap_or_default();
        let mut node =
            Node { public_id, type_id, type_label: String::new(), summary_line: format!("#{public_id}"), depth: 0 };
        let mut of_object = Vec::new();
        if let Some(entry) = entry {
            node.type_label.clone_from(&entry.object_type.label);
            node.summary_line = summary_line(object, &entry.object_type, may_edit).map_err(corrupt)?;
            of_object = references(object, &entry.object_type).map_err(corrupt)?;
        }
        let is_cut = of_object.len() > MOST_OF_OBJECT;
        of_object.truncate(MOST_OF_OBJECT);
        of_object.shrink_to_fit();
        Ok(Self { node, entry: entry.cloned(), references: of_object, is_cut })
    }

    /// Its references to some of these objects: each object with the field.
    fn references_to<'a, 'n>(
        &'a self,
        other: impl Fn(i64) -> Option<&'n Node>,
    ) -> impl Iterator<Item = (&'n Node, &'a str)> {
        let object_type = self.entry.as_deref().map(|entry| &entry.object_type);
        self.references.iter().filter_map(move |(position, id)| {
            let (to, object_type) = (other(*id)?, object_type?);
            let field = &object_type.fields[*position];
            let refers = object_type.targets(field).any(|target| target == to.type_id);
            refers.then_some((to, field.name.as_str()))
        })
    }
}

struct Walk<'a> {
    services: &'a Services,
    caller: &'a Caller,
    query: GraphQuery,
    types: Arc<Types>,
    found: Vec<Found>,
    /// The places in `found`, by id.
    places: HashMap<i64, usize>,
}

impl Walk<'_> {
    fn add(&mut self, found: Vec<Found>, depth: usize) {
        for mut found in found {
            found.node.depth = depth;
            self.places.insert(found.node.public_id, self.found.len());
            self.found.push(found);
        }
    }

    /// Further objects next to these, by their ids: `most` of them at most.
    async fn beyond(&mut self, level: &[usize], most: usize) -> Result<Vec<Found>, ServiceError> {
        let mut beyond = Vec::new();
        if self.query.direction != Direction::In
            && let Some(filter) = self.referred(level)
        {
            beyond = self.fetch(filter, &[], most).await?;
        }
        if self.query.direction != Direction::Out && beyond.len() < most {
            let pairs = level.iter().map(|place| &self.found[*place].node).map(|node| (node.type_id, node.public_id));
            if let Some(filter) = referring(&self.types, pairs, |_, _| true) {
                let known: Vec<i64> = beyond.iter().map(|found| found.node.public_id).collect();
                let more = self.fetch(filter, &known, most - beyond.len()).await?;
                beyond.extend(more);
            }
        }
        beyond.sort_unstable_by_key(|found| found.node.public_id);
        Ok(beyond)
    }

    /// The condition for objects to which these refer; nothing where they refer to none that is not known.
    fn referred(&mut self, level: &[usize]) -> Option<Filter> {
        let mut ids: BTreeMap<Vec<i64>, BTreeSet<i64>> = BTreeMap::new();
        let (mut count, mut cut) = (0, Vec::new());
        for place in level {
            let found = &self.found[*place];
            let Some(entry) = &found.entry else { continue };
            for (position, id) in &found.references {
                let targets: Vec<i64> = entry.object_type.targets(&entry.object_type.fields[*position]).collect();
                if targets.is_empty() || self.places.contains_key(id) {
                    continue;
                }
                if count == MOST_OF_LEVEL {
                    cut.push(*place);
                    break;
                }
                count += usize::from(ids.entry(targets).or_default().insert(*id));
            }
        }
        for place in cut {
            self.found[place].is_cut = true;
        }
        let branch = |(types, ids): (Vec<i64>, BTreeSet<i64>)| {
            Bson::from(doc! {"public_id": {"$in": ids.into_iter().collect::<Vec<i64>>()}, "type_id": {"$in": types}})
        };
        let branches: Vec<Bson> = ids.into_iter().map(branch).collect();
        (!branches.is_empty()).then(|| Filter::ours(&doc! {"$or": branches}))
    }

    /// The objects that a filter finds and the caller may see, without those that are known.
    async fn fetch(&mut self, filter: Filter, known: &[i64], most: usize) -> Result<Vec<Found>, ServiceError> {
        let mut filter = filter.and(Filter::none_of("public_id", self.places.keys().chain(known).copied()));
        if let Some(types) = &self.query.types {
            filter = filter.and(Filter::one_of("type_id", types.iter().copied()));
        }
        let filter = self.types.scope(self.caller, filter);
        let query = FindQuery::new(filter, self.services.max_time)
            .limited(most as u64)
            .showing(&doc! {"public_id": 1, "type_id": 1, "fields": 1});
        let documents = self.services.held(Objects::COLLECTION, query).await?;
        let newer = self.services.types_knowing(Arc::clone(&self.types), types_in(documents.iter())).await?;
        if Arc::ptr_eq(&newer, &self.types) {
            return self.read(documents).await;
        }
        // Another instance has just made a type.
        self.types = newer;
        let visible = self.types.visible_to(self.caller);
        let mut seen = Documents::new();
        documents.iter().filter(|object| lets_through(visible.as_ref(), object)).for_each(|object| seen.push(object));
        self.read(seen).await
    }

    async fn read(&self, documents: Documents) -> Result<Vec<Found>, ServiceError> {
        let (types, may_edit) = (Arc::clone(&self.types), self.caller.rights.grants(EDIT));
        let read = move |documents: &Documents| -> Result<Vec<Found>, ServiceError> {
            let entry = |object: &RawDocument| integer(object, "type_id").and_then(|id| types.get(id));
            documents.iter().map(|object| Found::read(object, entry(object), may_edit)).collect()
        };
        if documents.len() <= SHORT {
            return read(&documents);
        }
        admission::work(move |_| read(&documents)).await?
    }

    /// Marks those of the nodes that have neighbours beyond the graph, or, where there are too many to be sure, all of them.
    async fn mark_cut(&mut self, open: &[usize]) -> Result<(), ServiceError> {
        if open.is_empty() {
            return Ok(());
        }
        let beyond = self.beyond(open, BEYOND + 1).await?;
        let cut: Vec<usize> = if beyond.len() > BEYOND { open.to_vec() } else { self.next_to(open, &beyond) };
        for place in cut {
            self.found[place].is_cut = true;
        }
        Ok(())
    }

    /// Those of the nodes that are next to one of the other objects.
    fn next_to(&self, open: &[usize], others: &[Found]) -> Vec<usize> {
        let nodes: HashMap<i64, &Node> = others.iter().map(|other| (other.node.public_id, &other.node)).collect();
        let refers = |place: &&usize| {
            let mut there = self.found[**place].references_to(|id| nodes.get(&id).copied());
            self.query.direction != Direction::In && there.next().is_some()
        };
        let mut next_to: Vec<usize> = open.iter().filter(refers).copied().collect();
        if self.query.direction != Direction::Out {
            let is_open: HashSet<usize> = open.iter().copied().collect();
            let node =
                |id| self.places.get(&id).filter(|place| is_open.contains(place)).map(|place| &self.found[*place].node);
            let referred = others.iter().flat_map(|other| other.references_to(node));
            next_to.extend(referred.filter_map(|(to, _)| self.places.get(&to.public_id)));
        }
        next_to
    }

    /// The nodes, with all references among them.
    fn into_graph(mut self) -> Graph {
        let mut graph = Graph::default();
        for place in 0..self.found.len() {
            let found = &self.found[place];
            let node = |id| self.places.get(&id).map(|place| &self.found[*place].node);
            let edge = |(to, field): (&Node, &str)| Edge {
                from: found.node.public_id,
                to: to.public_id,
                field: field.to_owned(),
            };
            let mut edges: Vec<Edge> = found.references_to(node).map(edge).collect();
            edges.dedup();
            let room = MOST_EDGES.saturating_sub(graph.edges.len());
            let is_cut = edges.len() > room;
            edges.truncate(room);
            graph.edges.extend(edges);
            self.found[place].is_cut |= is_cut;
        }
        graph.truncated = self.found.iter().filter(|found| found.is_cut).map(|found| found.node.public_id).collect();
        graph.nodes = self.found.into_iter().map(|found| found.node).collect();
        graph
    }
}
