//! One store of one size with the service on it, and what is asked of it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use inventory_service::demo::model::DemoKind;
use inventory_service::demo::plan::DemoPlan;
use serde_json::{Value, json};

use crate::client::{Connection, header, request};
use crate::harness::timing::Error;
use crate::objects::Numbers;
use crate::servers::{PASSWORD, Server, load_demo};

/// How many different requests there are of each kind.
const DIFFERENT: u32 = 512;

/// A filled store with the service on it.
pub(crate) struct World {
    /// `embedded` or `mongodb`.
    pub(crate) store: &'static str,
    pub(crate) objects: u32,
    pub(crate) server: Server,
    uri: String,
    token: String,
    plan: DemoPlan,
    /// Virtual machines, as they are stored.
    machines: Vec<Value>,
}

/// What is asked, and of what kind the answers are.
pub(crate) struct Question {
    pub(crate) requests: Vec<Vec<u8>>,
    pub(crate) status: u16,
}

impl World {
    /// On an embedded store; filled now, or a copy of one that was kept.
    pub(crate) async fn embedded(objects: u32, folder: &Path, keep: Option<&PathBuf>) -> Result<Self, Error> {
        let kept = keep.map_or_else(|| folder.join("filled"), Clone::clone).join(objects.to_string());
        let work = folder.join(format!("store-{objects}"));
        if !kept.join("inventory.redb").exists() {
            load_demo(&format!("embedded:{}", kept.display()), objects)?;
        }
        copy(&kept, &work)?;
        Self::open("embedded", &format!("embedded:{}", work.display()), objects).await
    }

    /// On a MongoDB server, in a database of its own.
    pub(crate) async fn mongodb(objects: u32, uri: &str) -> Result<Self, Error> {
        load_demo(uri, objects)?;
        Self::open("mongodb", uri, objects).await
    }

    async fn open(store: &'static str, uri: &str, objects: u32) -> Result<Self, Error> {
        let server = Server::product(uri, &[]).await?;
        let token = sign_in(server.port).await?;
        let plan = DemoPlan::new(objects);
        let mut world = Self { store, objects, server, uri: uri.to_owned(), token, plan, machines: Vec::new() };
        for id in world.some_machines() {
            let path = format!("/rest/objects/{id}/native");
            world.machines.push(serde_json::from_slice(&world.read(&path).await?)?);
        }
        Ok(world)
    }

    /// Ends the service and starts it again on the same store.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.server.end()?;
        self.server = Server::product(&self.uri, &[]).await?;
        Ok(())
    }

    /// The first administrator's token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The type of the virtual machines.
    pub(crate) fn type_of_machines(&self) -> i64 {
        self.machines.first().and_then(|machine| machine["type_id"].as_i64()).unwrap_or_default()
    }

    /// Reads of single objects with that token.
    pub(crate) fn native_paths(&self, token: &str) -> Vec<Vec<u8>> {
        self.paths().map(|path| get(&path, token)).collect()
    }

    /// The paths of those reads.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        self.ids().map(|id| format!("/rest/objects/{id}/native"))
    }

    /// The answer to a request, once.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let mut connection = Connection::open(self.server.port).await?;
        let answer = connection.ask(&get(path, &self.token)).await?;
        if answer.status != 200 {
            return Err(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(answer.body)).into());
        }
        Ok(answer.body.to_vec())
    }

    /// Ids of virtual machines without an order; each refers to two objects.
    fn some_machines(&self) -> Vec<i64> {
        let mut numbers = Numbers::below(self.plan.count(DemoKind::VirtualMachine), 1);
        (0..DIFFERENT).map(|_| self.plan.id(DemoKind::VirtualMachine, numbers.next())).collect()
    }

    fn ids(&self) -> impl Iterator<Item = &Value> {
        self.machines.iter().map(|machine| &machine["public_id"])
    }

    fn reads(&self, paths: impl Iterator<Item = String>) -> Question {
        Question { requests: paths.map(|path| get(&path, &self.token)).collect(), status: 200 }
    }

    pub(crate) fn native_reads(&self) -> Question {
        self.reads(self.ids().map(|id| format!("/rest/objects/{id}/native")))
    }

    pub(crate) fn rendered_reads(&self) -> Question {
        self.reads(self.ids().map(|id| format!("/rest/objects/{id}")))
    }

    /// Pages of the newest objects, which are virtual machines.
    pub(crate) fn lists(&self, limit: u32, view: &str) -> Question {
        let page = |page| format!("/rest/objects/?limit={limit}&page={page}&sort=public_id&order=-1{view}");
        self.reads((1..=4).map(page))
    }

    /// One object each, by the value of a field.
    pub(crate) fn filters(&self) -> Question {
        self.reads(self.machines.iter().map(|machine| {
            let filter = json!({"fields": {"$elemMatch": {"name": "hostname", "value": value(machine, "hostname")}}});
            format!("/rest/objects/?filter={}", encoded(&filter.to_string()))
        }))
    }

    /// Pages of 10 virtual machines.
    pub(crate) fn lists_of_type(&self) -> Question {
        let filter = encoded(&json!({"type_id": self.type_of_machines()}).to_string());
        self.reads((1..=4).map(|page| format!("/rest/objects/?limit=10&page={page}&filter={filter}")))
    }

    /// The first of many virtual machines of one environment.
    pub(crate) fn filters_of_many(&self) -> Question {
        self.filters_of(|machine| json!({"f.environment": value(machine, "environment")}))
    }

    /// The first virtual machines with a text in their names: the last part of one, without its first character.
    pub(crate) fn filters_by_part(&self) -> Question {
        self.filters_of(|machine| {
            let hostname = value(machine, "hostname");
            let part: String = hostname.as_str().and_then(|name| name.rsplit('-').next()).unwrap_or_default().into();
            json!({"f.hostname": {"$regex": part.chars().skip(1).collect::<String>()}})
        })
    }

    fn filters_of(&self, condition: impl Fn(&Value) -> Value) -> Question {
        self.reads(self.machines.iter().take(64).map(|machine| {
            let mut filter = condition(machine);
            filter["type_id"] = self.type_of_machines().into();
            format!("/rest/objects/?filter={}", encoded(&filter.to_string()))
        }))
    }

    /// Searches for words of each machine: its name, of one kind and place, or what it is and where, and every other time a
    /// beginning.
    pub(crate) fn searches(&self, words: usize) -> Question {
        self.reads(self.machines.iter().enumerate().map(|(number, machine)| {
            let text = |name: &str| value(machine, name).as_str().unwrap_or_default().to_owned();
            let hostname = text("hostname");
            let place = hostname.split('-').next().unwrap_or_default().to_owned();
            let all = match number % 3 {
                0 => [hostname, text("environment"), text("operating-system")],
                1 => [place, text("environment"), text("operating-system")],
                _ => [text("environment"), place, hostname],
            };
            let mut asked = all.into_iter().filter(|word| !word.is_empty()).take(words).collect::<Vec<_>>().join(" ");
            if number % 2 == 1 && asked.len() > 4 {
                asked.truncate(asked.len() - 2);
            }
            format!("/rest/search/?q={}", encoded(&asked))
        }))
    }

    pub(crate) fn category_tree(&self) -> Question {
        self.reads(std::iter::once("/rest/categories/?view=tree".to_owned()))
    }

    /// Reads of what the client has already.
    pub(crate) async fn unchanged(&self) -> Result<Question, Error> {
        let mut connection = Connection::open(self.server.port).await?;
        let mut requests = Vec::new();
        for id in self.ids() {
            let path = format!("/rest/objects/{id}/native");
            let answer = connection.ask(&get(&path, &self.token)).await?;
            let tag = header(answer.head, "etag").ok_or("an object without a tag")?;
            let headers = [("authorization", &*bearer(&self.token)), ("if-none-match", tag)];
            requests.push(request("GET", &path, &headers, None));
        }
        Ok(Question { requests, status: 304 })
    }

    /// New objects like those that are there.
    pub(crate) fn insertions(&self) -> Question {
        let requests = self.machines.iter().map(|machine| {
            let body = json!({"type_id": machine["type_id"], "author_id": 1, "fields": machine["fields"]}).to_string();
            request("POST", "/rest/objects/", &[("authorization", &bearer(&self.token))], Some(&body))
        });
        Question { requests: requests.collect(), status: 200 }
    }

    /// Each object gets another value and, in the next round, its own one back.
    pub(crate) fn replacements(&self) -> Question {
        let mut requests = Vec::new();
        for comment in ["measured", "measured again"] {
            for machine in &self.machines {
                let mut body = machine.clone();
                let fields = body["fields"].as_array_mut().into_iter().flatten();
                for field in fields.filter(|field| field["name"] == "purpose") {
                    field["value"] = json!(comment);
                }
                let body = json!({"type_id": body["type_id"], "author_id": 1, "fields": body["fields"]}).to_string();
                let path = format!("/rest/objects/{}", machine["public_id"]);
                requests.push(request("PUT", &path, &[("authorization", &bearer(&self.token))], Some(&body)));
            }
        }
        Question { requests, status: 200 }
    }

    /// The same objects from a handler that knows no token.
    pub(crate) fn bare_reads(&self) -> Vec<Vec<u8>> {
        self.ids().map(|id| request("GET", &format!("/{id}"), &[], None)).collect()
    }
}

impl Question {
    /// The path of the first request.
    pub(crate) fn path(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.requests.first()?);
        text.split(' ').nth(1).map(str::to_owned)
    }
}

fn value<'a>(machine: &'a Value, name: &str) -> &'a Value {
    let fields = machine["fields"].as_array().into_iter().flatten();
    fields.into_iter().find(|field| field["name"] == name).map_or(&Value::Null, |field| &field["value"])
}

/// Signs the first administrator in.
pub(crate) async fn sign_in(port: u16) -> Result<String, Error> {
    sign_in_as(port, "admin").await
}

/// Signs a user in.
pub(crate) async fn sign_in_as(port: u16, user_name: &str) -> Result<String, Error> {
    let body = json!({"user_name": user_name, "password": PASSWORD}).to_string();
    let mut connection = Connection::open(port).await?;
    let answer = connection.ask(&request("POST", "/rest/auth/login", &[], Some(&body))).await?;
    let said: Value = serde_json::from_slice(answer.body)?;
    Ok(said["token"].as_str().ok_or_else(|| format!("{user_name} was not signed in: {said}"))?.to_owned())
}

pub(crate) fn sign_in_request() -> Vec<u8> {
    let body = json!({"user_name": "admin", "password": PASSWORD}).to_string();
    request("POST", "/rest/auth/login", &[], Some(&body))
}

/// A read with a token.
pub(crate) fn get(path: &str, token: &str) -> Vec<u8> {
    request("GET", path, &[("authorization", &bearer(token))], None)
}

/// A stream of events.
pub(crate) fn stream(path: &str, token: &str) -> Vec<u8> {
    request("GET", path, &[("authorization", &bearer(token)), ("accept", "text/event-stream")], None)
}

/// Changes of one field of this number of objects, each time to another value, which begins with `purpose`.
pub(crate) fn changes(world: &World, objects: usize, purpose: &str) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    for _ in 0..2 {
        for id in world.ids().take(objects) {
            let body = json!({"fields": {"purpose": format!("{purpose} {}", requests.len())}}).to_string();
            let path = format!("/rest/objects/{id}");
            requests.push(request("PATCH", &path, &[("authorization", &bearer(&world.token))], Some(&body)));
        }
    }
    requests
}

/// The same without a token.
pub(crate) fn get_openly(path: &str) -> Vec<u8> {
    request("GET", path, &[], None)
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
