//! Opens a file as a store: paths, recovery, older formats, replacement, refusals. Imports `write`, which applies records.
//!
//! Each file here may import the files before it, and no other:
//!
//! | file | what lives there |
//! |---|---|
//! | [`paths`] | the paths of a store's files |
//! | [`refusal`] | why a store is not opened, and which error below leads to which refusal |
//! | [`presence`] | whether there is a store |
//! | [`files`] | the files on their storage: opened, locked, measured |
//! | [`engine`] | how redb opens and closes a database |
//! | [`format`](mod@format) | the catalog with its version, and how an older version becomes this one |
//! | [`watermark`] | checks that the last acknowledged commit is there |
//! | [`recovery`] | finds out what is at the path, and brings it up to date |
//! | [`replace`] | replaces the file of the store by a new one |
//! | [`opening`] | all of this in order |

pub(super) mod engine;
pub(super) mod files;
pub(super) mod format;
pub(super) mod opening;
pub(super) mod paths;
pub(super) mod presence;
pub(super) mod recovery;
pub(super) mod refusal;
pub(super) mod replace;
pub(super) mod watermark;
