//! Search compared with a naive search of all values, on generated objects and questions.
//!
//! `INVENTORY_SEARCH_OBJECTS` says how many objects (400), `INVENTORY_SEARCH_QUESTIONS` how many questions (150),
//! `INVENTORY_SEARCH_SEED` which ones.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::support::{found_in_pages, settled};
use crate::api::people::Person;
use crate::differential::number;
use crate::differential::random::Random;
use crate::support::app::{TestApp, fields, on_each_store};

/// A word that more objects have, of those that others refer to, is not looked for in summaries.
const MOST_TARGETS: usize = 100;
/// Nor is a beginning that more objects have.
const FEW_BEGINNINGS: usize = 250;

const WORDS: [&str; 22] = [
    "web", "Web-01", "web-01.example.com", "db", "db-7", "example", "com", "Zürich", "ZURICH", "zrh1", "zrh1-r01",
    "alpha", "alphabet", "Alpha beta", "2.5", "10.0.0.9", "10.0.0.10", "aa:bb:cc:00:11:22", "2024-05-01", "17", "über",
    "a",
];
const LINKS: &str = "-_.:@+%~";

/// What a naive search knows of an object.
#[derive(Debug, Clone)]
struct Known {
    type_id: i64,
    /// The texts of its values, labels of options included, without passwords.
    texts: Vec<String>,
    /// Its summary.
    summary: Vec<String>,
    refers_to: Vec<i64>,
}

/// The types, and all objects by id.
struct Naive {
    rack: i64,
    server: i64,
    objects: BTreeMap<i64, Known>,
}

fn folded(text: &str) -> String {
    text.to_lowercase().chars().map(|letter| if letter == 'ü' { 'u' } else { letter }).collect()
}

/// The words of a text, without their parts.
fn whole_words(text: &str) -> Vec<String> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric() && !LINKS.contains(letter));
    let trimmed = runs.map(|run| run.trim_matches(|letter| LINKS.contains(letter)));
    trimmed.filter(|word| !word.is_empty()).map(folded).collect()
}

/// All words of a text.
fn all_words(text: &str) -> HashSet<String> {
    let mut all = HashSet::new();
    for word in whole_words(text) {
        let parts: Vec<&str> = word.split(|letter| LINKS.contains(letter)).filter(|part| !part.is_empty()).collect();
        let is_mac =
            word.contains(':') && word.chars().all(|letter| letter.is_ascii_hexdigit() || ":.".contains(letter));
        if !is_mac && parts.iter().any(|part| part.starts_with(char::is_alphabetic)) {
            all.extend(parts.into_iter().map(str::to_owned));
        }
        all.insert(word);
    }
    all
}

impl Known {
    fn words(&self) -> HashSet<String> {
        self.texts.iter().flat_map(|text| all_words(text)).collect()
    }
}

impl Naive {
    /// The objects whose summaries have a word like that, unless too many objects have it.
    fn targets(&self, sees_racks: bool, is_such: impl Fn(&str) -> bool) -> Vec<i64> {
        let racks: Vec<(&i64, &Known)> =
            self.objects.iter().filter(|(_, object)| sees_racks && object.type_id == self.rack).collect();
        let has = |words: &HashSet<String>| words.iter().any(|word| is_such(word));
        if racks.iter().filter(|(_, object)| has(&object.words())).count() > MOST_TARGETS {
            return Vec::new();
        }
        let in_summary = |object: &Known| has(&object.summary.iter().flat_map(|text| all_words(text)).collect());
        racks.into_iter().filter(|(_, object)| in_summary(object)).map(|(id, _)| *id).collect()
    }

    /// All objects that match, in order.
    fn found(&self, question: &str, sees_racks: bool, of_type: Option<i64>) -> Vec<(String, i64)> {
        let asked = whole_words(question);
        let (last, others) = asked.split_last().expect("a question has words");
        let exactly: Vec<Vec<i64>> = asked.iter().map(|word| self.targets(sees_racks, |other| other == word)).collect();
        // Who may not see all types is not told of beginnings of summaries; nor is who asks for one that many objects have.
        let begins = |word: &String| word.starts_with(last.as_str());
        let beginning = self.objects.values().filter(|object| object.words().iter().any(begins)).count();
        let is_rare = sees_racks && beginning <= FEW_BEGINNINGS;
        let begun = if is_rare { self.targets(sees_racks, |word| word.starts_with(last.as_str())) } else { Vec::new() };
        let is_whole = |id: &i64| whole_words(&self.objects[id].summary.join(" ")) == asked;
        let whole: Vec<i64> = exactly.iter().flatten().copied().filter(is_whole).collect();
        let mut found = Vec::new();
        for (id, object) in &self.objects {
            if (!sees_racks && object.type_id == self.rack) || of_type.is_some_and(|of_type| of_type != object.type_id)
            {
                continue;
            }
            let words = object.words();
            let refers = |targets: &[i64]| object.refers_to.iter().any(|target| targets.contains(target));
            let has = |number: usize| {
                words.contains(&asked[number]) || asked[number] == id.to_string() || refers(&exactly[number])
            };
            let is_value = object.texts.iter().any(|text| whole_words(text) == asked)
                || asked == [id.to_string()]
                || refers(&whole);
            let has_others = (0..others.len()).all(has);
            let rank = if is_value {
                0
            } else if has_others && has(others.len()) {
                1
            } else if has_others && (words.iter().any(|word| word.starts_with(last.as_str())) || refers(&begun)) {
                2
            } else {
                continue;
            };
            found.push((rank, object.type_id, *id));
        }
        found.sort_unstable();
        found.into_iter().map(|(rank, _, id)| (["value", "word", "beginning"][rank].to_owned(), id)).collect()
    }
}

fn text(random: &mut Random) -> String {
    let count = 1 + random.weighted(&[6, 3, 1]);
    let separators = [" ", " ", ", ", " (", "/"];
    let mut text = (*random.pick(&WORDS)).to_owned();
    for _ in 1..count {
        for part in [random.pick(&separators), random.pick(&WORDS)] {
            text.push_str(part);
        }
    }
    if random.percent(30) { format!("{text}-{}", random.below(50)) } else { text }
}

async fn types(app: &TestApp) -> Naive {
    let rack = json!({"name": "rack", "label": "Rack", "author_id": 1, "fields": [
        {"type": "text", "name": "name", "label": "Name"},
        {"type": "text", "name": "note", "label": "Note"},
    ], "render_meta": {"summary": {"fields": ["name"]}}});
    let rack = app.created("/types/", &rack).await;
    let options = json!([{"name": "prod", "label": "Production web"}, {"name": "test", "label": "test"}]);
    let server = json!({"name": "server", "label": "Server", "author_id": 1, "fields": [
        {"type": "text", "name": "host", "label": "Host"},
        {"type": "number", "name": "units", "label": "Units"},
        {"type": "select", "name": "state", "label": "State", "options": options},
        {"type": "password", "name": "secret", "label": "Secret"},
        {"type": "refs", "name": "racks", "label": "Racks", "ref_types": [rack]},
    ]});
    let server = app.created("/types/", &server).await;
    Naive { rack, server, objects: BTreeMap::new() }
}

/// An object by chance: its body, and what is known of it.
fn made(naive: &Naive, random: &mut Random) -> (Value, Known) {
    let racks: Vec<i64> =
        naive.objects.iter().filter(|(_, object)| object.type_id == naive.rack).map(|(id, _)| *id).collect();
    if racks.is_empty() || random.percent(25) {
        let (name, note) = (text(random), text(random));
        let values = json!({"name": name, "note": note});
        let known =
            Known { type_id: naive.rack, texts: vec![name.clone(), note], summary: vec![name], refers_to: Vec::new() };
        return (json!({"type_id": naive.rack, "author_id": 1, "fields": fields(&values)}), known);
    }
    let (host, units) = (text(random), random.between(1, 40));
    let state = *random.pick(&["prod", "test"]);
    let refers_to: Vec<i64> =
        (0..random.below(3)).map(|_| *random.pick(&racks)).collect::<HashSet<_>>().into_iter().collect();
    let values = json!({"host": host, "units": units, "state": state, "secret": "web alpha", "racks": refers_to});
    let label = if state == "prod" { "Production web" } else { "test" };
    let texts = vec![host, units.to_string(), state.to_owned(), label.to_owned()];
    let known = Known { type_id: naive.server, texts, summary: Vec::new(), refers_to };
    (json!({"type_id": naive.server, "author_id": 1, "fields": fields(&values)}), known)
}

fn question(naive: &Naive, random: &mut Random) -> String {
    let mut question = String::new();
    for _ in 0..=random.weighted(&[5, 3, 1]) {
        let word = match random.below(4) {
            0 => (*random.pick(&WORDS)).to_owned(),
            1 => naive.objects.keys().nth(random.below(naive.objects.len())).expect("an id").to_string(),
            _ => {
                let object = naive.objects.values().nth(random.below(naive.objects.len())).expect("an object");
                random.pick(&object.texts).clone()
            }
        };
        let length = word.chars().count();
        let cut = if random.percent(40) { 1 + random.below(length) } else { length };
        question.push_str(&word.chars().take(cut).collect::<String>());
        question.push(' ');
    }
    question
}

on_each_store! {
    async fn search_finds_what_a_naive_search_finds(app) {
        let count = number("INVENTORY_SEARCH_OBJECTS").unwrap_or(400);
        let questions = number("INVENTORY_SEARCH_QUESTIONS").unwrap_or(150);
        let seed = number("INVENTORY_SEARCH_SEED").unwrap_or(1);
        println!("{count} objects, {questions} questions, seed {seed}");
        let mut random = Random::new(seed, 0);
        let mut naive = types(app).await;
        let person = Person::with_rights(app, "outsider", &["base.framework.object.view"]).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ", "CREATE", "UPDATE", "DELETE"]}}}});
        assert_eq!(app.patch(&format!("/types/{}", naive.rack), &acl).await.status, 202);
        while (naive.objects.len() as u64) < count {
            let batch: Vec<(Value, Known)> = (0..200.min(count)).map(|_| made(&naive, &mut random)).collect();
            let bodies: Vec<&Value> = batch.iter().map(|(body, _)| body).collect();
            let answer = app.post("/objects/bulk", &json!(bodies)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let ids = answer.results("/result_id");
            let ids = ids.iter().map(|id| id.as_i64().unwrap_or_else(|| panic!("no id: {}", answer.text)));
            naive.objects.extend(ids.zip(batch.into_iter().map(|(_, known)| known)));
        }
        // Some change, and some go.
        for _ in 0..naive.objects.len() / 10 {
            let id = *naive.objects.keys().nth(random.below(naive.objects.len())).expect("an id");
            let (body, known) = made(&naive, &mut random);
            if known.type_id == naive.objects[&id].type_id {
                assert_eq!(app.put(&format!("/objects/{id}"), &body).await.status, 200);
                naive.objects.insert(id, known);
            } else {
                assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
                naive.objects.remove(&id);
            }
        }
        settled(&*app.store).await;
        for number in 0..questions {
            let mut random = Random::new(seed, 1 + number);
            let asked = question(&naive, &mut random);
            if whole_words(&asked).is_empty() || whole_words(&asked).len() > 8 {
                continue;
            }
            let sees_racks = random.percent(70);
            let of_type = *random.pick(&[None, None, None, Some(naive.server), Some(naive.rack)]);
            let limit = 1 + random.below(40);
            let expected = naive.found(&asked, sees_racks, of_type);
            let reader = Some(&person).filter(|_| !sees_racks);
            let found = found_in_pages(app, reader, &asked, (limit, of_type)).await;
            assert_eq!(found, expected, "question {number}, seed {seed}: {asked:?}, sees racks: {sees_racks}, limit {limit}");
        }
    }
}
