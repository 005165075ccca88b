//! The list of settings, from `config/base.toml`, whose comments are their documentation.

use std::fmt::Write;

use super::BASE;
use crate::suggest;

/// Secret settings. Each can come from a file that `<key>_file` names.
pub(super) const SECRETS: &[&str] = &["store.uri", "auth.signing_key", "auth.initial_admin_password", "metrics.token"];

/// The prefix of variables that are settings.
pub(super) const PREFIX: &str = "INVENTORY__";

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// For instance `server.port`.
    pub name: String,
    /// Its default, as TOML.
    pub default: String,
    /// What it means: the comment above it.
    pub meaning: String,
}

/// The variable that sets `key`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// All settings, in the order of `config/base.toml`.
pub fn keys() -> Vec<Setting> {
    let (mut keys, mut section, mut comment) = (Vec::new(), String::new(), Vec::new());
    for line in BASE.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            comment.clear();
        } else if let Some((name, default)) = line.split_once(" = ") {
            let (name, meaning) = (format!("{section}.{name}"), comment.join(" "));
            keys.push(Setting { name, default: default.to_owned(), meaning });
            comment.clear();
        } else {
            comment.clear();
        }
    }
    keys
}

/// All settings as a table for people, in Markdown.
pub fn table() -> String {
    let mut table = String::from("| setting | default | what it does |\n|---|---|---|\n");
    for key in keys() {
        let secret = if SECRETS.contains(&key.name.as_str()) {
            format!(" *Secret: {}_FILE names a file that holds it.*", variable(&key.name))
        } else {
            String::new()
        };
        // Writing into a string cannot fail.
        let _ = writeln!(table, "| `{}` | `{}` | {}{secret} |", key.name, key.default, escaped(&key.meaning));
    }
    table
}

/// Text that a table of Markdown shows as it is.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The setting that is probably intended by `name`, if one differs in at most a third of the letters.
pub(super) fn nearest(name: &str) -> Option<String> {
    let furthest = (name.chars().count() / 3).max(2);
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &Setting| {
        // A correct name in a wrong section is more similar than a misspelt name in the right one.
        let moved = suggest::distance(&last(name), &last(&known.name));
        (suggest::distance(name, &known.name).min(moved + 2), known.name.len())
    };
    let nearest = keys().into_iter().min_by_key(distance)?;
    (distance(&nearest).0 <= furthest).then_some(nearest.name)
}

/// The settings of the section in which `name` would be; without such a section, the sections.
pub(super) fn choices(name: &str) -> String {
    let section = name.split('.').next().unwrap_or_default();
    let keys = keys();
    let inside: Vec<&str> = keys.iter().filter_map(|key| key.name.strip_prefix(section)?.strip_prefix('.')).collect();
    if !inside.is_empty() {
        return format!("{section} has {}", inside.join(", "));
    }
    let mut sections: Vec<&str> = keys.iter().filter_map(|key| key.name.split('.').next()).collect();
    sections.dedup();
    format!("the sections are {}", sections.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_explained() {
        let silent: Vec<String> = keys().into_iter().filter(|key| key.meaning.is_empty()).map(|key| key.name).collect();
        assert!(silent.is_empty(), "{silent:?}");
    }

    #[test]
    fn the_nearest_setting_is_found_in_whatever_section() {
        assert_eq!(nearest("server.prot").as_deref(), Some("server.port"));
        assert_eq!(nearest("store.url").as_deref(), Some("store.uri"));
        assert_eq!(nearest("port").as_deref(), Some("server.port"));
        assert_eq!(nearest("server.signing_key").as_deref(), Some("auth.signing_key"));
        assert_eq!(nearest("auth.memory_kib").as_deref(), Some("auth.argon2.memory_kib"));
    }

    #[test]
    fn a_name_that_is_like_no_other_gets_the_choices() {
        assert_eq!(nearest("store.durability"), None);
        assert!(choices("store.durability").starts_with("store has uri, "));
        assert_eq!(
            choices("logging"),
            "the sections are server, store, wire, history, webhooks, auth, api, query, admission, log, metrics"
        );
    }
}
