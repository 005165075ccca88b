//! The rights: the fixed catalogue, its tree, and the rights of a group.
//!
//! Names are paths of words, `base.framework.object.view`. One that ends in `.*` is a master right: held, it grants every
//! right below it, those of later versions included.

use std::sync::{Arc, LazyLock};

use serde::Serialize;
use utoipa::ToSchema;

/// Level names with their numbers, the gravest first.
pub const LEVELS: [(&str, i32); 6] =
    [("CRITICAL", 100), ("DANGER", 80), ("SECURE", 50), ("PROTECTED", 30), ("PERMISSION", 10), ("NOTSET", 0)];

/// A right as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Right {
    /// Its security level, one of the numbers in [`LEVELS`].
    pub level: i32,
    /// Its dotted name.
    pub name: &'static str,
    /// The last two segments of its name.
    pub label: &'static str,
    /// What its holder may do.
    pub description: &'static str,
    /// Whether it grants everything below it.
    pub is_master: bool,
}

/// A place in the tree of rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RightNode {
    /// A right with nothing below it.
    Leaf(Right),
    /// A master right, followed by what is below it.
    Branch(Vec<RightNode>),
}

static CATALOGUE: LazyLock<Vec<Right>> =
    LazyLock::new(|| include_str!("rights.csv").lines().skip(1).map(read_line).collect());

/// All rights there are, by name.
pub fn catalogue() -> &'static [Right] {
    &CATALOGUE
}

/// The right with this name.
pub fn find(name: &str) -> Option<&'static Right> {
    CATALOGUE.iter().find(|right| right.name == name)
}

/// The catalogue as a tree: each list begins with its master right, the outermost with `base.*`.
pub fn tree() -> Vec<RightNode> {
    branch(find("base.*").expect("the catalogue has a root"))
}

fn branch(master: &Right) -> Vec<RightNode> {
    let mut nodes = vec![RightNode::Leaf(*master)];
    nodes.extend(
        CATALOGUE
            .iter()
            .filter(|right| parent(right.name) == Some(master.name))
            .map(|right| if right.is_master { RightNode::Branch(branch(right)) } else { RightNode::Leaf(*right) }),
    );
    nodes
}

/// The name of the master right that a right hangs below in the tree.
fn parent(name: &str) -> Option<&'static str> {
    let place = name.strip_suffix(".*").unwrap_or(name);
    let (above, _) = place.rsplit_once('.')?;
    CATALOGUE.iter().map(|right| right.name).find(|master| master.strip_suffix(".*") == Some(above))
}

fn read_line(line: &'static str) -> Right {
    let mut cells = line.splitn(3, ',');
    let mut cell = || cells.next().expect("each line of rights.csv has three cells");
    let (name, level, description) = (cell(), cell(), cell());
    Right {
        level: level.parse().expect("levels in rights.csv are numbers"),
        name,
        label: last_two_segments(name),
        description,
        is_master: name.ends_with(".*"),
    }
}

fn last_two_segments(name: &str) -> &str {
    name.rmatch_indices('.').nth(1).map_or(name, |(dot, _)| &name[dot + 1..])
}

/// The rights that a group holds.
///
/// Names that are not in the catalogue are kept: another version of the service may know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    held: Vec<Box<str>>,
    /// Their bound: a token has no right that its user lacks.
    within: Option<Arc<Rights>>,
}

impl Rights {
    /// The rights with these names.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { held: names.into_iter().map(|name| name.as_ref().into()).collect(), within: None }
    }

    /// The rights with these names, as far as `bound` grants them.
    pub fn within<N: AsRef<str>>(names: impl IntoIterator<Item = N>, bound: Arc<Self>) -> Self {
        Self { within: Some(bound), ..Self::new(names) }
    }

    /// Whether the holder may do what `right` allows.
    pub fn grants(&self, right: &str) -> bool {
        self.granted_by(right).is_some()
    }

    /// The entry that grants `right`: the right itself, or a master right above it.
    pub fn granted_by(&self, right: &str) -> Option<&str> {
        if self.within.as_ref().is_some_and(|bound| !bound.grants(right)) {
            return None;
        }
        self.held.iter().map(AsRef::as_ref).find(|held| covers(held, right))
    }

    /// Whether only these names deny the holder what `right` allows: a token has fewer rights than its user.
    pub fn is_withheld(&self, right: &str) -> bool {
        !self.grants(right) && self.within.as_ref().is_some_and(|bound| bound.grants(right))
    }

    /// The `wanted` rights that the holder lacks, and so cannot grant to others.
    pub fn missing<'a>(&self, wanted: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        wanted.into_iter().filter(|right| !self.grants(right)).collect()
    }

    /// The names as they are stored.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.held.iter().map(AsRef::as_ref)
    }
}

fn covers(held: &str, right: &str) -> bool {
    if held == right {
        return true;
    }
    let below = held.strip_suffix(".*").and_then(|place| right.strip_prefix(place));
    below.is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_62_rights_sorted_by_name() {
        let names: Vec<&str> = catalogue().iter().map(|right| right.name).collect();
        assert_eq!(names.len(), 62);
        assert!(names.is_sorted());
    }

    #[test]
    fn every_level_is_one_of_the_six() {
        for right in catalogue() {
            assert!(LEVELS.iter().any(|(_, level)| *level == right.level), "{}", right.name);
        }
    }

    #[test]
    fn every_right_has_a_description_of_its_own() {
        let mut descriptions: Vec<&str> = catalogue().iter().map(|right| right.description).collect();
        descriptions.sort_unstable();
        assert!(descriptions.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(descriptions.iter().all(|text| text.ends_with('.')));
    }

    #[test]
    fn the_label_is_the_last_two_segments_of_the_name() {
        assert_eq!(find("base.framework.object.view").map(|right| right.label), Some("object.view"));
        assert_eq!(find("base.framework.object.*").map(|right| right.label), Some("object.*"));
        assert_eq!(find("base.*").map(|right| right.label), Some("base.*"));
    }

    #[test]
    fn a_right_is_written_with_its_members_in_order() {
        let right = find("base.user-management.group.add").expect("it is in the catalogue");
        let expected = r#"{"level":80,"name":"base.user-management.group.add","label":"group.add","description":"Create groups.","is_master":false}"#;
        assert_eq!(serde_json::to_string(right).expect("plain data"), expected);
    }

    #[test]
    fn a_right_grants_itself_and_nothing_else() {
        let rights = Rights::new(["base.framework.object.view"]);
        assert!(rights.grants("base.framework.object.view"));
        assert!(!rights.grants("base.framework.object.edit"));
        assert!(!rights.grants("base.framework.object.*"));
    }

    #[test]
    fn a_master_right_grants_everything_below_it() {
        let rights = Rights::new(["base.framework.*"]);
        assert!(rights.grants("base.framework.*"));
        assert!(rights.grants("base.framework.object.*"));
        assert!(rights.grants("base.framework.object.view"));
        assert!(!rights.grants("base.user-management.user.view"));
        assert!(!rights.grants("base.*"));
    }

    #[test]
    fn a_master_right_does_not_grant_a_longer_word() {
        let rights = Rights::new(["base.export.*"]);
        assert!(!rights.grants("base.exportd.job.view"));
        assert!(!rights.grants("base.exportd.*"));
    }

    #[test]
    fn the_root_grants_the_whole_catalogue() {
        let rights = Rights::new(["base.*"]);
        assert!(catalogue().iter().all(|right| rights.grants(right.name)));
    }

    #[test]
    fn no_rights_grant_nothing() {
        assert!(catalogue().iter().all(|right| !Rights::default().grants(right.name)));
        assert!(!Rights::new(["*", ".*", ""]).grants("base.framework.object.view"));
    }

    #[test]
    fn the_entry_that_grants_is_named() {
        let rights = Rights::new(["base.system.view", "base.framework.object.*"]);
        assert_eq!(rights.granted_by("base.framework.object.edit"), Some("base.framework.object.*"));
        assert_eq!(rights.granted_by("base.framework.type.edit"), None);
    }

    #[test]
    fn holding_all_leaves_does_not_allow_to_give_the_master() {
        let leaves = ["base.import.object.*", "base.import.type.*"];
        assert_eq!(Rights::new(leaves).missing(["base.import.object.*", "base.import.*"]), ["base.import.*"]);
    }

    #[test]
    fn bounded_rights_end_where_the_bound_ends() {
        let bound = Arc::new(Rights::new(["base.framework.*"]));
        let rights = Rights::within(["base.*", "base.framework.object.view"], bound);
        assert!(rights.grants("base.framework.type.edit"));
        assert!(!rights.grants("base.system.view"));
        assert!(!rights.grants("base.*"));
    }

    #[test]
    fn every_list_of_the_tree_begins_with_its_master_right() {
        fn check(nodes: &[RightNode], seen: &mut usize) {
            assert!(matches!(nodes.first(), Some(RightNode::Leaf(right)) if right.is_master));
            for node in nodes {
                match node {
                    RightNode::Leaf(_) => *seen += 1,
                    RightNode::Branch(nodes) => check(nodes, seen),
                }
            }
        }
        let mut seen = 0;
        check(&tree(), &mut seen);
        assert_eq!(seen, catalogue().len());
    }
}
