//! Runs the laws of the fuzz targets on the kept seeds and findings: `fuzz/` says how they are looked for.

use std::fs;
use std::path::{Path, PathBuf};

use super::fuzz_laws as laws;

/// The kept inputs of a target.
fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10, "only {} seeds of {target}", files.len());
    files
}

fn each_holds(target: &str, hold: fn(&[u8])) {
    for file in seeds(target) {
        let bytes = fs::read(&file).unwrap();
        let held = std::panic::catch_unwind(|| hold(&bytes));
        assert!(held.is_ok(), "a law does not hold for {}, see above", file.display());
    }
}

#[test]
fn the_laws_of_filters_hold_for_every_seed() {
    each_holds("filter", laws::filter::hold);
}

#[test]
fn the_laws_of_keys_hold_for_every_seed() {
    each_holds("keys", laws::keys::hold);
}

#[test]
fn the_laws_of_json_hold_for_every_seed() {
    each_holds("json", laws::json::hold);
}

#[test]
fn the_laws_of_bodies_hold_for_every_seed() {
    each_holds("bodies", laws::bodies::hold);
}

#[test]
fn the_laws_of_parameters_hold_for_every_seed() {
    each_holds("parameters", laws::parameters::hold);
}

#[test]
fn the_laws_of_tables_hold_for_every_seed() {
    each_holds("tables", laws::tables::hold);
}

#[test]
fn the_laws_of_texts_hold_for_every_seed() {
    each_holds("texts", laws::texts::hold);
}

#[test]
fn the_laws_of_frames_hold_for_every_seed() {
    each_holds("frames", laws::frames::hold);
}

#[test]
fn the_laws_of_heads_hold_for_every_seed() {
    each_holds("heads", laws::heads::hold);
}

#[test]
fn the_laws_of_packages_hold_for_every_seed() {
    each_holds("packages", laws::packages::hold);
}

#[test]
fn the_laws_of_commands_hold_for_every_seed() {
    each_holds("commands", laws::commands::hold);
}
