//! Where settings come from: each source is read into a flat list of keys, and every key has to be a known one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::reference::{PREFIX, SECRETS, choices, keys, nearest, variable};
use super::{BASE, SettingsError};

/// The variable that names the settings file used in addition to `base.toml`.
pub(super) const ENVIRONMENT: &str = "INVENTORY_ENVIRONMENT";

/// The name of the compiled-in settings in messages.
const DEFAULTS: &str = "the defaults";
/// What the name of a flag begins with.
const FLAG: &str = "--set ";

/// One place that settings come from.
pub(super) struct Layer {
    /// Key, value, and its name in messages.
    entries: Vec<(String, Value, String)>,
}

impl Layer {
    /// The compiled-in defaults.
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        Self::from_source(&File::from_str(BASE, FileFormat::Toml), DEFAULTS)
    }

    /// A file; nothing when there is none.
    pub(super) fn file(path: &Path) -> Result<Option<Self>, SettingsError> {
        let name = path.display().to_string();
        let refused = |problem: &dyn Display| SettingsError::Refused(vec![format!("{name} {problem}")]);
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(&format_args!("cannot be read: {error}"))),
        };
        let read = Self::from_source(&File::from_str(&text, FileFormat::Toml), &name);
        read.map(Some).map_err(|error| refused(&format_args!("is not TOML: {error}")))
    }

    fn from_source(source: &dyn Source, name: &str) -> Result<Self, ConfigError> {
        let mut entries = Vec::new();
        flatten("", source.collect()?, name, &mut entries);
        Ok(Self { entries })
    }

    /// Variables: those that begin with `INVENTORY__`.
    pub(super) fn variables(variables: &[(String, String)]) -> Self {
        let entry = |(name, value): &(String, String)| {
            let key = name.strip_prefix(PREFIX)?.to_lowercase().replace("__", ".");
            let origin = format!("the variable {name}");
            Some((key, Value::new(Some(&origin), ValueKind::String(value.clone())), origin))
        };
        Self { entries: variables.iter().filter_map(entry).collect() }
    }

    /// Pairs of the command line.
    pub(super) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let entry = |(key, value): (&str, &str)| {
            let origin = format!("{FLAG}{key}");
            (key.to_owned(), Value::new(Some(&origin), ValueKind::from(value)), origin)
        };
        Self { entries: pairs.into_iter().map(entry).collect() }
    }
}

fn flatten(prefix: &str, table: Map<String, Value>, name: &str, entries: &mut Vec<(String, Value, String)>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value.kind {
            // An empty one could be misspelt too.
            ValueKind::Table(inner) if !inner.is_empty() => flatten(&key, inner, name, entries),
            _ => entries.push((key, value, name.to_owned())),
        }
    }
}

/// Variables that look like settings but are not.
pub(super) fn misspelt(variables: &[(String, String)]) -> Vec<String> {
    let bare = |name: &str| name.replace('_', "");
    let known: BTreeMap<String, String> = keys()
        .into_iter()
        .map(|key| variable(&key.name))
        .flat_map(|name| [(bare(&name), name.clone()), (bare(&format!("{name}_FILE")), format!("{name}_FILE"))])
        .collect();
    let is_loose = |name: &str| name.starts_with("INVENTORY") && !name.starts_with(PREFIX);
    let loose = variables.iter().map(|(name, _)| name).filter(|name| is_loose(name) && *name != ENVIRONMENT);
    let is_environment = |name: &str| crate::suggest::misspelt(name, &[ENVIRONMENT]).is_some();
    loose
        .filter_map(|name| {
            let environment = || is_environment(name).then_some(ENVIRONMENT);
            let meant = known.get(&bare(name)).map(String::as_str).or_else(environment)?;
            Some(format!("the variable {name}: write {meant}"))
        })
        .collect()
}

/// The settings of all layers, and where each comes from.
pub(super) struct Merged {
    pub(super) config: Config,
    given: BTreeMap<String, Given>,
}

/// A value and its place.
struct Given {
    origin: String,
    /// Not shown for a secret.
    value: Value,
}

impl Merged {
    /// The error about a value that is of another kind than its setting, in plain words.
    pub(super) fn explained(&self, error: ConfigError) -> SettingsError {
        let (key, wanted) = match &error {
            ConfigError::Type { key: Some(key), expected, .. } => (key, in_words(expected)),
            ConfigError::At { key: Some(key), error, .. } => (key, error.to_string()),
            _ => return error.into(),
        };
        let Some(Given { origin, value }) = self.given.get(key) else { return error.into() };
        let is_secret = SECRETS.contains(&key.as_str());
        let value = if is_secret { "what stands there".to_owned() } else { format!("\"{value}\"") };
        SettingsError::Refused(vec![format!("{origin}: {key} cannot be {value}; write {wanted}")])
    }

    /// The error about a value, with the variable or the file that it comes from.
    pub(super) fn located(&self, error: SettingsError) -> SettingsError {
        let SettingsError::Invalid { key, .. } = &error else { return error };
        match self.given.get(*key) {
            // Every copy of base.toml has an empty value, and no operator set it on purpose.
            Some(Given { origin, value })
                if origin != DEFAULTS && !origin.starts_with(FLAG) && !value.to_string().is_empty() =>
            {
                SettingsError::Refused(vec![format!("{origin}: {error}")])
            }
            _ => error,
        }
    }
}

/// What may be written, by what `config` expects. No setting is a negative number.
fn in_words(expected: &str) -> String {
    let bits = expected.strip_prefix("an unsigned ").and_then(|rest| rest.strip_suffix(" bit integer"));
    match (expected, bits) {
        ("a boolean", _) => "true or false".to_owned(),
        (_, Some("16")) => format!("a whole number from 0 to {}", u16::MAX),
        (_, Some("32")) => format!("a whole number from 0 to {}", u32::MAX),
        ("an integer", _) | (_, Some(_)) => "a whole number, 0 or more".to_owned(),
        _ => expected.to_owned(),
    }
}

/// Lays the layers over each other, the last on top.
///
/// # Errors
/// [`SettingsError::Refused`] with everything that is wrong with their keys.
pub(super) fn merge(layers: Vec<Layer>, mut problems: Vec<String>) -> Result<Merged, SettingsError> {
    let known: BTreeSet<String> = keys().into_iter().map(|key| key.name).collect();
    let is_section =
        |name: &str| known.iter().any(|key| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
    let is_number = |value: &Value| matches!(value.kind, ValueKind::I64(_));
    let defaults = layers.first().map_or(&[][..], |layer| layer.entries.as_slice());
    let numbers: BTreeSet<String> =
        defaults.iter().filter(|(_, value, _)| is_number(value)).map(|(key, ..)| key.clone()).collect();
    let mut values = BTreeMap::new();
    for layer in layers {
        let given: BTreeSet<String> =
            layer.entries.iter().filter(|(_, value, _)| !is_empty(value)).map(|(key, _, _)| key.clone()).collect();
        let in_files: BTreeSet<&str> = given.iter().filter_map(|key| secret_of(key)).collect();
        for (key, value, origin) in layer.entries {
            // An empty value removes a secret. If the secret's file is set too, it has no effect: an image sets a variable,
            // its user empties it.
            if is_empty(&value) && in_files.contains(key.as_str()) {
                continue;
            }
            if matches!(value.kind, ValueKind::Array(_)) {
                problems.push(format!(
                    "{origin}: {key} cannot be a list; write a text, with commas where it takes several"
                ));
                continue;
            }
            let is_table = matches!(value.kind, ValueKind::Table(_));
            let in_table = |single: &&String| is_part_of(&key, single) || is_table && **single == key;
            if let Some(single) = known.iter().find(in_table) {
                let problem = format!("{origin}: {single} cannot be a table; write a text{}", example(single));
                problems.extend(Some(problem).filter(|problem| !problems.contains(problem)));
                continue;
            }
            if is_table && is_section(&key) {
                continue;
            }
            if known.contains(&key) {
                values.insert(key, Given { origin, value });
                continue;
            }
            match secret_of(&key) {
                Some(secret) if is_empty(&value) => log::debug!("{secret} has no file"),
                Some(secret) if given.contains(secret) => {
                    problems.push(format!("{origin}: {secret} and {key} are both given; keep one of them"));
                }
                Some(secret) => match read_secret(&value) {
                    Ok(text) => {
                        let value = Value::new(Some(&origin), ValueKind::String(text));
                        values.insert(secret.to_owned(), Given { origin, value });
                    }
                    Err(problem) => problems.push(format!("{origin}: {key}: {problem}")),
                },
                None => problems.push(unknown(&key, &origin)),
            }
        }
    }
    if !problems.is_empty() {
        return Err(SettingsError::Refused(problems));
    }
    let mut builder = Config::builder();
    for (key, given) in &values {
        let value = if numbers.contains(key) { as_number(&given.value) } else { given.value.clone() };
        builder = builder.set_override(key, value)?;
    }
    Ok(Merged { config: builder.build()?, given: values })
}

/// Whether the key names a member of a setting that is a single value.
fn is_part_of(key: &str, single: &str) -> bool {
    key.strip_prefix(single).is_some_and(|rest| rest.starts_with('.'))
}

/// How pairs are written in the setting that takes them.
fn example(key: &str) -> &'static str {
    if key == "auth.oidc.groups" { ", for instance \"admins = admin; staff = editors\"" } else { "" }
}

/// The value of a setting that is a number. `config` rounds fractions and takes words such as `true` for 1, so they are made
/// texts here that it refuses.
fn as_number(value: &Value) -> Value {
    const WORDS: [&str; 6] = ["true", "on", "yes", "false", "off", "no"];
    let text = value.to_string();
    let is_word = matches!(value.kind, ValueKind::Float(_) | ValueKind::Boolean(_))
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    let mut value = value.clone();
    if is_word {
        value.kind = ValueKind::String(format!("{text} "));
    }
    value
}

/// The secret whose file this key names.
fn secret_of(key: &str) -> Option<&'static str> {
    let name = key.strip_suffix("_file")?;
    SECRETS.iter().copied().find(|secret| *secret == name)
}

fn is_empty(value: &Value) -> bool {
    matches!(&value.kind, ValueKind::String(text) if text.is_empty())
}

/// The text of a secret's file, without the end of its line.
fn read_secret(path: &Value) -> Result<String, String> {
    let path = path.to_string();
    let text = fs::read_to_string(&path).map_err(|error| format!("{path} cannot be read: {error}"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err(format!("{path} is empty")) } else { Ok(text.to_owned()) }
}

fn unknown(key: &str, origin: &str) -> String {
    let advice = nearest(key).map_or_else(|| choices(key), |meant| format!("did you mean {meant}?"));
    format!("{origin}: there is no setting {key}; {advice}")
}
