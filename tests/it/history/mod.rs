//! The history: entries for every change, the past as it was, and what stays hidden in it.

mod entries;
mod past;
