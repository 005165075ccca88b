//! All questions of `tests/filters`, `tests/projections`, `tests/sorts` and `tests/questions`, asked through pymongo of the
//! listener and of a MongoDB server over the same documents.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bson::{Bson, Document, RawDocumentBuf, doc};
use inventory_service::query::Filter;
use inventory_service::store::{Change, Unit};
use mongodb::Collection;
use serde_json::{Map, Value, json};

use super::support::ToolApp;
use crate::differential::pipelines::about;
use crate::filters::{files_in, read};
use crate::support::mongod::{Deployment, program, python, shared, skip};

const OBJECTS: &str = "framework.objects";

/// Python with pymongo, from a package index once.
fn interpreter() -> Result<PathBuf, String> {
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".cache/tools");
    let there = tools.join("venv/bin/python");
    let has_pymongo = || Command::new(&there).args(["-c", "import pymongo"]).stderr(Stdio::null()).status();
    if has_pymongo().is_ok_and(|status| status.success()) {
        return Ok(there);
    }
    std::fs::create_dir_all(&tools).map_err(|error| error.to_string())?;
    python(&tools, &["-m", "venv", "venv"])?;
    let pip = ["-m", "pip", "--python", "venv/bin/python", "install", "--quiet", "pymongo"];
    python(&tools, &pip)?;
    Ok(there)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pymongo_gets_the_answers_of_mongodb() {
    if program().is_none() {
        return;
    }
    let interpreter = match interpreter() {
        Ok(interpreter) => interpreter,
        Err(reason) => return skip(&format!("pymongo: {reason}")),
    };
    let server = shared(Deployment::ReplicaSet).await.expect("there is a program");
    let tools = ToolApp::start().await;
    let token = tools.token(1, &json!({})).await;
    let ours = format!("mongodb://admin:{token}@{}/?authSource=admin", tools.address);
    let theirs = server.fresh_uri();
    let name = theirs.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
    let collection = server.client().await.database(name).collection::<RawDocumentBuf>(OBJECTS);
    let mut asking = Command::new(interpreter)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/wire/ask.py"))
        .args([&ours, &theirs, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut questions = asking.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(asking.stdout.take().expect("a pipe")).lines();
    let (mut count, mut failures) = (0, Vec::new());
    for folder in ["tests/filters", "tests/projections", "tests/sorts", "tests/questions"] {
        for file in files_in(folder) {
            let contents = read(&file);
            let shared = contents.get_array("documents").ok();
            if let Some(documents) = shared {
                store(&tools, &collection, documents).await;
            }
            for case in contents.get_array("cases").expect("cases").iter().filter_map(Bson::as_document) {
                if case.contains_key("bounded_here") {
                    continue;
                }
                if shared.is_none() {
                    store(&tools, &collection, case.get_array("documents").expect("documents")).await;
                }
                count += 1;
                let answer = tokio::task::block_in_place(|| {
                    writeln!(questions, "{}", question(case)).expect("python reads");
                    answers.next().expect("python goes on").expect("python writes")
                });
                if answer != "equal" {
                    failures.push(format!("{}: {case}\n  {answer}", file.display()));
                }
            }
        }
    }
    drop(questions);
    assert!(asking.wait().expect("python ends").success());
    assert!(failures.is_empty(), "{} of {count} cases differ\n{}", failures.len(), failures.join("\n"));
    assert!(count > 800, "{count}");
}

/// The question of a case as a line for `ask.py`.
fn question(case: &Document) -> Value {
    let mut line = Map::new();
    if let Ok(stages) = case.get_array("pipeline") {
        let stages = about(stages, OBJECTS);
        let stages = stages.iter().map(|stage| packed(stage.as_document().expect("a stage")));
        line.insert("pipeline".to_owned(), stages.collect());
        return Value::Object(line);
    }
    line.insert("filter".to_owned(), packed(case.get_document("filter").unwrap_or(&doc! {})));
    for name in ["projection", "sort"] {
        if let Ok(part) = case.get_document(name) {
            line.insert(name.to_owned(), packed(part));
        }
    }
    for name in ["skip", "limit"] {
        line.insert(name.to_owned(), case.get_i32(name).unwrap_or(0).into());
    }
    Value::Object(line)
}

fn packed(document: &Document) -> Value {
    use base64::Engine as _;
    let bytes = document.to_vec().expect("it is BSON");
    base64::engine::general_purpose::STANDARD.encode(bytes).into()
}

/// Stores the documents in both, instead of those before.
async fn store(tools: &ToolApp, collection: &Collection<RawDocumentBuf>, documents: &[Bson]) {
    let mut changes = vec![Change::DeleteMany { collection: OBJECTS, filter: Filter::all() }];
    let mut all = Vec::with_capacity(documents.len());
    for (id, document) in (1_i64..).zip(documents) {
        let mut document = document.as_document().expect("a document").clone();
        // The index on it is unique.
        document.insert("public_id", id);
        all.push(RawDocumentBuf::try_from(&document).expect("it is BSON"));
    }
    changes.extend(all.iter().map(|document| Change::Insert { collection: OBJECTS, document: document.clone() }));
    tools.app.store.commit(Unit { conditions: Vec::new(), changes }).await.expect("they are stored");
    collection.delete_many(doc! {}).await.expect("the server answers");
    if !all.is_empty() {
        collection.insert_many(&all).await.expect("they are stored");
    }
}
