//! The history: entries for every change, the past as it was, and what stays hidden in it.

mod back;
mod changes;
mod entries;
mod hidden;
mod kept;
mod past;
