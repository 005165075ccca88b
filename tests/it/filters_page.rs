//! Runs the examples of `docs/filters.md` on the demo, on both stores: the text below an example must be the answer.

use std::collections::HashSet;
use std::sync::Arc;

use inventory_service::app::build_services;
use inventory_service::clock::SystemClock;
use inventory_service::demo;
use inventory_service::progress::Silent;
use inventory_service::query::{Expression, Filter, pipeline};
use inventory_service::settings::Settings;
use serde_json::Value;

use crate::support::app::{TestApp, on_each_store};

const PAGE: &str = include_str!("../../docs/filters.md");
/// How every example begins.
const COMMAND: &str = r#"curl -sGH "$AUTH" "#;

/// A command of the page, and the line below it.
#[derive(Debug)]
struct Example {
    path: &'static str,
    parameters: Vec<(String, String)>,
    answer: &'static str,
}

/// Every command of the page with its answer.
fn examples() -> Vec<Example> {
    let commands = PAGE.split(COMMAND).skip(1);
    let read = |text: &'static str| {
        let (command, rest) = text.split_once("\n# ").unwrap_or_else(|| panic!("no answer below {text}"));
        let (path, arguments) = command.split_once(' ').expect("parameters");
        Example {
            path: match path {
                "$OBJECTS" => "/objects/",
                "$TYPES" => "/types/",
                other => panic!("{other} is no list of this page"),
            },
            parameters: parameters(arguments),
            answer: rest.lines().next().unwrap_or_default(),
        }
    };
    commands.map(read).collect()
}

/// `-d a=b --data-urlencode 'c=d'`, as a shell would take it apart.
fn parameters(arguments: &str) -> Vec<(String, String)> {
    let words = words(arguments);
    let pairs = words.chunks(2).map(|pair| match pair {
        [option, value] if ["-d", "--data-urlencode"].contains(&option.as_str()) => {
            let (name, value) = value.split_once('=').expect("name=value");
            (name.to_owned(), value.to_owned())
        }
        other => panic!("{other:?} is no parameter"),
    });
    pairs.collect()
}

/// Splits at spaces that are not between single quotes; a backslash hides the end of a line.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    let joined = text.replace("\\\n", " ");
    for char in joined.chars() {
        match char {
            '\'' => quoted = !quoted,
            ' ' | '\n' if !quoted => words.push(String::new()),
            char => words.last_mut().expect("at least one").push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What the page says of such an answer: the number and the first ids, the first projected object, or the error.
fn told(answer: &Value, projected: bool) -> String {
    let Some(results) = answer["results"].as_array() else {
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        return format!("{} {}: {}", answer["status"], text("code"), text("message"));
    };
    let total = answer["total"].as_u64().expect("a total");
    let objects = if total == 1 { "1 object".to_owned() } else { format!("{total} objects") };
    let ids: Vec<String> = results.iter().take(5).map(|object| object["public_id"].to_string()).collect();
    match results.first() {
        None => objects,
        Some(first) if projected => format!("{objects}, the first: {first}"),
        Some(_) => format!("{objects}: {}{}", ids.join(", "), if total > 5 { ", ..." } else { "" }),
    }
}

/// The line of the page in the same notation: JSON without the spaces that are there for readers.
fn as_told(line: &str) -> String {
    match line.split_once(", the first: ") {
        Some((objects, json)) => {
            let object: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{line}: {error}"));
            format!("{objects}, the first: {object}")
        }
        None => line.to_owned(),
    }
}

on_each_store! {
    async fn the_examples_give_what_the_page_says(app) {
        let settings = Settings::defaults(&[]).expect("valid settings");
        let (services, _) =
            build_services(&settings, Arc::clone(&app.store), Arc::new(SystemClock)).await.expect("the services start");
        demo::load(&services, 1000, &Silent).await.expect("the demo loads");
        let mut wrong = Vec::new();
        for example in examples() {
            let parameters: Vec<(&str, &str)> =
                example.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let projected = parameters.iter().any(|(name, _)| *name == "projection");
            let answer = app.get_with(example.path, &parameters).await.json();
            let (expected, found) = (as_told(example.answer), told(&answer, projected));
            if expected != found {
                wrong.push(format!("{parameters:?}\n  the page: {expected}\n  came:     {found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphanumeric)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_mongodb_can_do_is_refused_by_name_on_the_embedded_store() {
    let app = TestApp::embedded().await;
    let near = r#"{"$geometry": {"type": "Point", "coordinates": [1, 1]}, "$maxDistance": 5, "$minDistance": 1}"#;
    let within = r#"{"$box": [[0, 0], [1, 1]]}"#;
    let line = r#"{"$geometry": {"type": "Point", "coordinates": [1, 1]}}"#;
    let of_place = |operator: &str, operand: &str| format!(r#"{{"place": {{"{operator}": {operand}}}}}"#);
    for (operator, filter) in [
        ("$text", r#"{"$text": {"$search": "web"}}"#.to_owned()),
        ("$near", of_place("$near", near)),
        ("$nearSphere", of_place("$nearSphere", near)),
        ("$geoNear", of_place("$geoNear", near)),
        ("$geoWithin", of_place("$geoWithin", within)),
        ("$within", of_place("$within", within)),
        ("$geoIntersects", of_place("$geoIntersects", line)),
        ("$sampleRate", r#"{"$sampleRate": 0.5}"#.to_owned()),
    ] {
        let answer = app.get_with("/objects/", &[("filter", &filter)]).await;
        let error = answer.error(400, "unsupported_by_embedded_store");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(operator)), "{error}");
        assert!(PAGE.contains(&format!("`{operator}`")), "{operator}");
    }
}

#[test]
fn most_examples_find_something() {
    let examples = examples();
    assert!(examples.len() > 50, "only {} examples", examples.len());
    let empty = examples.iter().filter(|example| example.answer.starts_with("0 ")).count();
    assert!(empty < 4, "{empty} examples find nothing");
}

#[test]
fn the_page_names_every_operator_and_none_that_there_is_not() {
    // What other versions have is no part of the language.
    let (before, versions) = PAGE.split_once("## Versions of MongoDB\n").expect("a section");
    let page = before.to_owned() + versions.split_once("\n## ").expect("a section behind it").1;
    let named: HashSet<&str> =
        page.split('`').skip(1).step_by(2).filter(|code| code.strip_prefix('$').is_some_and(is_name)).collect();
    let known: HashSet<&str> = Filter::operators()
        .chain(Expression::operators())
        .chain(pipeline::STAGES)
        .chain(pipeline::ACCUMULATORS)
        .collect();
    let mut missing: Vec<_> = known.iter().filter(|name| !PAGE.contains(**name)).collect();
    missing.sort_unstable();
    assert!(missing.is_empty(), "the page does not name {missing:?}");
    // Parts of operators, and what is refused before its name is looked up.
    let others = ["$accumulator", "$minDistance", "$maxDistance", "$out", "$merge"];
    let mut unknown: Vec<_> = named.iter().filter(|name| !known.contains(**name) && !others.contains(*name)).collect();
    unknown.sort_unstable();
    assert!(unknown.is_empty(), "the page names {unknown:?}, which there are not");
}
