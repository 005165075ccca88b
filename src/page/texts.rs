//! The texts of the page, in the language of the browser: one file a language, in the format of Fluent.

use std::sync::LazyLock;

use actix_web::http::header::{self, HeaderMap};
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use unic_langid::LanguageIdentifier;

/// The languages with their files; the first one is that of browsers which want none of them.
const FILES: [(&str, &str); 2] = [("en", include_str!("text/en.ftl")), ("de", include_str!("text/de.ftl"))];

static BUNDLES: LazyLock<Vec<FluentBundle<FluentResource>>> =
    LazyLock::new(|| FILES.iter().map(|(language, file)| bundle(language, file)).collect());

/// The marks of Unicode around a text of its own direction.
const ISOLATE: char = '\u{2068}';
const END_OF_ISOLATE: char = '\u{2069}';

/// The texts in one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts(usize);

impl Texts {
    /// In the language that the browser likes best.
    pub fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get_all(header::ACCEPT_LANGUAGE).filter_map(|value| value.to_str().ok());
        let mut best = (0.0, 0);
        for wanted in sent.flat_map(|value| value.split(',')) {
            let (name, rest) = wanted.split_once(';').unwrap_or((wanted, ""));
            let quality = rest.trim().strip_prefix("q=").map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            let name = name.trim().split('-').next().unwrap_or_default();
            let known = FILES.iter().position(|(language, _)| language.eq_ignore_ascii_case(name));
            if let Some(index) = known.filter(|_| quality > best.0) {
                best = (quality, index);
            }
        }
        Self(best.1)
    }

    /// The language, as HTML names it.
    pub fn language(self) -> &'static str {
        FILES[self.0].0
    }

    /// A text without variables.
    pub fn say(self, key: &str) -> String {
        self.with(key, &[])
    }

    /// A text with values for its variables. Marks around texts keep their direction from what is around them.
    pub fn with(self, key: &str, values: &[(&str, Said<'_>)]) -> String {
        let bundle = &BUNDLES[self.0];
        let Some(pattern) = bundle.get_message(key).and_then(|message| message.value()) else { return key.to_owned() };
        let mut arguments = FluentArgs::with_capacity(values.len());
        for (name, value) in values {
            let value = match value {
                Said::Text(text) => FluentValue::from(format!("{ISOLATE}{text}{END_OF_ISOLATE}")),
                Said::Number(number) => FluentValue::from(*number),
            };
            arguments.set(*name, value);
        }
        bundle.format_pattern(pattern, Some(&arguments), &mut Vec::new()).into_owned()
    }
}

/// The value of a variable.
#[derive(Debug, Clone, Copy)]
pub enum Said<'a> {
    /// A text.
    Text(&'a str),
    /// A number, which may decide about a plural.
    Number(i64),
}

impl<'a> From<&'a str> for Said<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Said<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Said<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Said<'_> {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u64> for Said<'_> {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

fn bundle(language: &str, file: &str) -> FluentBundle<FluentResource> {
    let language: LanguageIdentifier = language.parse().expect("FILES has names of languages");
    let mut bundle = FluentBundle::new_concurrent(vec![language]);
    let resource = FluentResource::try_new(file.to_owned()).expect("a test reads each file");
    bundle.set_use_isolating(false);
    bundle.add_resource(resource).expect("a test finds no key twice");
    bundle
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The keys of a file, each with its variables.
    fn keys(file: &str) -> BTreeMap<String, Vec<String>> {
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut last = String::new();
        for line in file.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            if let Some((key, _)) =
                line.split_once(" = ").filter(|_| line.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                key.clone_into(&mut last);
            }
            let variables = line.split("{ $").skip(1).map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
            let known = keys.entry(last.clone()).or_default();
            known.extend(variables);
            known.sort();
            known.dedup();
        }
        keys
    }

    #[test]
    fn every_language_has_the_same_keys_with_the_same_variables() {
        let english = keys(FILES[0].1);
        assert!(english.len() > 100, "{english:?}");
        for (language, file) in FILES {
            assert_eq!(keys(file), english, "{language}");
        }
    }

    #[test]
    fn every_text_can_be_written() {
        for (index, (_, file)) in FILES.iter().enumerate() {
            for (key, variables) in keys(file) {
                let values: Vec<(&str, Said<'_>)> =
                    variables.iter().map(|name| (name.as_str(), Said::Number(2))).collect();
                let text = Texts(index).with(&key, &values);
                // A text that is missing is its key; a text may also be the word that is its key.
                let is_written = text != key || file.contains(&format!("\n{key} = {key}\n"));
                assert!(is_written && !text.contains("{$"), "{key}: {text}");
            }
        }
    }

    #[test]
    fn the_language_is_the_best_known_one_of_the_browser() {
        let of = |sent: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_LANGUAGE, header::HeaderValue::from_static(sent));
            Texts::of(&headers).language()
        };
        assert_eq!(
            [of("de-AT,de;q=0.9,en;q=0.8"), of("fr,en;q=0.5,de;q=0.7"), of("fr"), of("en-GB")],
            ["de", "de", "en", "en"]
        );
    }

    #[test]
    fn numbers_decide_about_plurals() {
        assert!(Texts(0).with("found", &[("count", 1_i64.into())]) == "1 object found");
        assert!(Texts(0).with("found", &[("count", 2_i64.into())]) == "2 objects found");
    }
}
