//! The tree of categories and types, with the number of objects of each.

use std::collections::HashSet;

use maud::{Markup, html};

use crate::domain::document::text;
use crate::http::error::ApiError;
use crate::page::VIEW;
use crate::page::address::of_type;
use crate::page::found::may_read;
use crate::page::visitor::Visitor;
use crate::query::{Filter, Sort};
use crate::service::ListQuery;
use crate::service::types::catalog::VIEW_TYPES;
use crate::service::types::categories::{Node, read_forest};

/// The right to see categories.
const VIEW_CATEGORIES: &str = "base.framework.category.view";

/// A category with what is below it.
struct Branch {
    label: String,
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
}

/// A type.
struct Leaf {
    id: i64,
    label: String,
    /// Nothing for a visitor who may not see objects.
    count: Option<u64>,
}

/// The types that the visitor may see, in their categories.
pub struct Tree {
    branches: Vec<Branch>,
    others: Vec<Leaf>,
}

impl Tree {
    /// Reads categories, types and numbers.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn read(visitor: &Visitor) -> Result<Self, ApiError> {
        let mut leaves = Vec::new();
        if visitor.may(VIEW_TYPES) {
            let services = visitor.services();
            for entry in
                visitor.services().current_types().await?.iter().filter(|entry| may_read(visitor, &entry.object_type))
            {
                let (id, label) = (entry.object_type.public_id, entry.object_type.label.clone());
                let count = if visitor.may(VIEW) { Some(services.count_of(id).await?) } else { None };
                leaves.push(Leaf { id, label, count });
            }
        }
        let mut placed = HashSet::new();
        let mut branches = Vec::new();
        if visitor.may(VIEW_CATEGORIES) {
            let all = ListQuery::first(Filter::all(), Sort::by("public_id", false), 1);
            let forest = read_forest(visitor.services(), &visitor.caller, &all).await?;
            branches = forest.roots().iter().map(|node| branch(node, &leaves, &mut placed)).collect();
        }
        let mut others: Vec<Leaf> = leaves.into_iter().filter(|leaf| !placed.contains(&leaf.id)).collect();
        others.sort_by_cached_key(|leaf| leaf.label.to_lowercase());
        Ok(Self { branches, others })
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.others.is_empty()
    }

    /// As lists in lists; `current` is the type that the page is about.
    pub fn shown(&self, visitor: &Visitor, current: Option<i64>) -> Markup {
        let texts = visitor.texts();
        html! {
            @for branch in &self.branches { (below(branch, current)) }
            @if !self.others.is_empty() {
                @if !self.branches.is_empty() { h3 { (texts.say("uncategorised")) } }
                ul { @for leaf in &self.others { (item(leaf, current)) } }
            }
            @if self.is_empty() { p.note { (texts.say("no-types")) } }
        }
    }
}

fn branch(node: &Node<'_>, leaves: &[Leaf], placed: &mut HashSet<i64>) -> Branch {
    let name = text(node.category, "label").filter(|label| !label.is_empty()).or_else(|| text(node.category, "name"));
    let of_category = node.types.iter().map(|entry| entry.object_type.public_id);
    let own: Vec<Leaf> = of_category
        .filter_map(|id| leaves.iter().find(|leaf| leaf.id == id))
        .map(|leaf| Leaf { id: leaf.id, label: leaf.label.clone(), count: leaf.count })
        .collect();
    placed.extend(own.iter().map(|leaf| leaf.id));
    let branches = node.children.iter().map(|child| branch(child, leaves, placed)).collect();
    Branch { label: name.unwrap_or_default().to_owned(), branches, leaves: own }
}

fn below(branch: &Branch, current: Option<i64>) -> Markup {
    html! {
        h3 { bdi { (branch.label) } }
        ul {
            @for leaf in &branch.leaves { (item(leaf, current)) }
            @for inner in &branch.branches { li.inner { (below(inner, current)) } }
        }
    }
}

fn item(leaf: &Leaf, current: Option<i64>) -> Markup {
    let is_current = current == Some(leaf.id);
    html! {
        li {
            @match leaf.count {
                Some(count) => a href=(of_type(leaf.id)) aria-current=[is_current.then_some("page")] {
                    bdi { (leaf.label) } " " span.count { (count) }
                },
                None => bdi { (leaf.label) },
            }
        }
    }
}
