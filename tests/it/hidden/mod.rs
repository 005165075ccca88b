//! What an access list hides shows in no answer.

mod answers;
mod bygone;
mod law;
mod requests;
mod spy;
mod world;
