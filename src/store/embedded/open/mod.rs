//! Opens a file as a store: paths, recovery, older formats, replacement, refusals. Imports `write`, which applies records.
//!
//! Each file here may import the files before it, and no other:
//!
//! | file | what lives there |
//! |---|---|
//! | [`paths`] | the names and the paths of a store's files |
//! | [`refusal`] | why a store is not opened, and which error below leads to which refusal |
//! | [`files`] | whether there is a store; its files on their storage: opened, locked, measured |
//! | [`engine`] | how redb opens and closes a database |
//! | [`format`](mod@format) | the catalog with its version, and how an older version becomes this one |
//! | [`recovery`] | finds out what is at the path, and brings it up to date; checks that the last acknowledged commit is there |
//! | [`replace`] | replaces the file of the store by a new one |
//! | [`opening`] | all of this in order |

pub(super) mod engine;
pub(super) mod files;
pub(super) mod format;
pub(super) mod opening;
pub(super) mod paths;
pub(super) mod recovery;
pub(super) mod refusal;
pub(super) mod replace;
