//! Who may do what with the objects of a type.

use std::collections::HashMap;

use bson::{Bson, Document};

use crate::raw::whole;

/// What a group can be allowed to do with the objects of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Make new ones.
    Create,
    /// Read them: single objects, lists and targets of references.
    Read,
    /// Change them.
    Update,
    /// Remove them.
    Delete,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Create, Self::Read, Self::Update, Self::Delete];

    /// The name that stored access lists use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The access list of a type: open to all until it is activated, then only to the listed groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acl {
    activated: bool,
    /// Per group the or-ed bits of its permissions.
    groups: HashMap<i64, u8>,
}

impl Acl {
    /// Reads `{"activated": bool, "groups": {"includes": {"2": ["READ", ..], ..}}}`.
    ///
    /// Malformed lists close rather than open. An `activated` that is not clearly off counts as on. Anything but a
    /// known permission of a numbered group allows nothing.
    pub fn from_document(document: &Document) -> Self {
        let includes = document.get_document("groups").and_then(|groups| groups.get_document("includes"));
        Self {
            activated: is_on(document.get("activated")),
            groups: includes.into_iter().flatten().filter_map(|(group, names)| permissions(group, names)).collect(),
        }
    }

    /// Whether members of the group may do this. The list holds for every group, administrators too.
    pub fn allows(&self, group_id: i64, permission: Permission) -> bool {
        !self.activated || self.groups.get(&group_id).is_some_and(|bits| bits & permission.bit() != 0)
    }
}

fn is_on(activated: Option<&Bson>) -> bool {
    match activated {
        None | Some(Bson::Null | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => false,
        Some(Bson::Double(number)) => whole(*number) != Some(0),
        Some(_) => true,
    }
}

fn permissions(group: &str, names: &Bson) -> Option<(i64, u8)> {
    let names = names.as_array()?;
    let listed = |permission: &Permission| names.iter().any(|name| name.as_str() == Some(permission.name()));
    let bits = Permission::ALL.into_iter().filter(listed).fold(0, |bits, permission| bits | permission.bit());
    Some((group.parse().ok()?, bits))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_list_that_is_not_activated_is_open() {
        let acl = Acl::from_document(&doc! { "activated": false, "groups": { "includes": {} } });
        assert!(acl.allows(7, Permission::Delete));
        assert!(Acl::from_document(&doc! {}).allows(7, Permission::Delete));
    }

    #[test]
    fn an_activated_list_allows_what_it_names_and_nothing_else() {
        let includes = doc! { "2": ["READ", "UPDATE", "FLY"], "x": ["READ"], "3": "READ" };
        let acl = Acl::from_document(&doc! { "activated": true, "groups": { "includes": includes } });
        let allowed = |group| Permission::ALL.map(|permission| acl.allows(group, permission));
        assert_eq!(allowed(2), [false, true, true, false]);
        assert_eq!(allowed(1), [false; 4]);
        assert_eq!(allowed(3), [false; 4]);
    }

    #[test]
    fn an_odd_switch_closes() {
        for odd in [Bson::from("yes"), Bson::from(1), Bson::from(f64::NAN), Bson::from(doc! {})] {
            assert!(!Acl::from_document(&doc! { "activated": odd }).allows(1, Permission::Read));
        }
        for off in [Bson::Null, Bson::from(0), Bson::from(0.0)] {
            assert!(Acl::from_document(&doc! { "activated": off }).allows(1, Permission::Read));
        }
    }
}
