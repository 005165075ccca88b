//! Plain data and its rules.

pub mod acl;
pub mod link_template;
pub mod object_type;
