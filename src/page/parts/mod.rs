//! What several screens have in common.

pub mod control;
pub mod frame;
pub mod moment;
pub mod picture;
pub mod refusal;
pub mod sign_in_form;
pub mod story;
pub mod tree;
pub mod value;
