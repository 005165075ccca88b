//! The page for people, over HTTP: what each screen shows and does, and what it refuses.

mod browser;
mod definition;
mod edit;
mod import;
mod people;
mod safety;
mod screens;
mod several;
mod sign_in;
mod strange;
