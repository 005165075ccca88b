//! Groups of users, and the rights they hold.

use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument};
use bson::{Document, doc};

/// The group of administrators, which cannot be deleted.
pub const ADMIN_GROUP: i64 = 1;
/// The group of everyone else by default, which cannot be deleted.
pub const USER_GROUP: i64 = 2;

/// A new group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub public_id: i64,
    /// Its unique name.
    pub name: String,
    /// Its name for people.
    pub label: String,
    /// The names of the rights that it holds.
    pub rights: Vec<String>,
}

impl Group {
    /// The group as it is stored.
    pub fn to_document(&self) -> Document {
        doc! {
            "_id": ObjectId::new(),
            "public_id": self.public_id,
            "name": &self.name,
            "label": &self.label,
            "rights": self.rights.clone(),
        }
    }
}

/// The two groups that every installation has.
pub fn built_in() -> [Group; 2] {
    let group = |public_id, name: &str, label: &str, rights: &[&str]| Group {
        public_id,
        name: name.to_owned(),
        label: label.to_owned(),
        rights: rights.iter().map(|&right| right.to_owned()).collect(),
    };
    let of_users = [
        "base.framework.object.*", "base.framework.type.view", "base.framework.category.view",
        "base.framework.log.view", "base.user-management.user.view", "base.user-management.group.view",
    ];
    [group(ADMIN_GROUP, "admin", "Administrators", &["base.*"]), group(USER_GROUP, "user", "Users", &of_users)]
}

/// The names of the rights of a stored group; values that are no texts are skipped.
pub fn right_names(group: &RawDocument) -> Vec<&str> {
    let Ok(rights) = group.get_array("rights") else { return Vec::new() };
    rights.into_iter().filter_map(|right| right.ok().and_then(RawBsonRef::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::document::raw;
    use super::*;

    #[test]
    fn a_stored_group_keeps_its_rights() {
        for group in built_in() {
            assert_eq!(right_names(&raw(&group.to_document())), group.rights);
        }
    }

    #[test]
    fn a_group_without_rights_has_none() {
        assert!(right_names(&raw(&doc! {"name": "odd"})).is_empty());
        assert_eq!(right_names(&raw(&doc! {"rights": ["base.*", 7]})), ["base.*"]);
    }
}
