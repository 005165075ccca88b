//! Keeps the object of this machine up to date. See README.md in this folder.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::thread::available_parallelism;

use reqwest::header::{ETAG, HeaderMap, IF_MATCH, LINK};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TRIES: usize = 5;

/// The service, asked with one token.
struct Inventory {
    client: Client,
    base: String,
    token: String,
}

/// An answer that is no error.
struct Answer {
    body: Value,
    headers: HeaderMap,
}

impl Inventory {
    fn from_environment() -> Outcome<Self> {
        let variable = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
        let origin = variable("INVENTORY_URL").unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
        let token = variable("INVENTORY_TOKEN").ok_or("set INVENTORY_TOKEN to a token of the service")?;
        Ok(Self { client: Client::new(), base: format!("{}/rest", origin.trim_end_matches('/')), token })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    /// The id of the type, which is made if it is not there.
    async fn type_of_machines(&self) -> Outcome<i64> {
        let filter = json!({"name": "machine"}).to_string();
        let found = answer(self.request(Method::GET, "/types/").query(&[("filter", filter)])).await?;
        if let Some(id) = found.body["results"][0]["public_id"].as_i64() {
            return Ok(id);
        }
        let fields = json!([
            {"type": "text", "name": "hostname", "label": "Host name", "required": true},
            {"type": "text", "name": "system", "label": "Operating system"},
            {"type": "number", "name": "cores", "label": "Cores"},
            {"type": "text", "name": "reporter", "label": "Reported by"},
        ]);
        let body = json!({"name": "machine", "label": "Machine", "author_id": 1, "fields": fields});
        let made = answer(self.request(Method::POST, "/types/").json(&body)).await?;
        made.body["result_id"].as_i64().ok_or_else(|| "the answer has no id".into())
    }

    /// Makes or changes the object with this host name.
    async fn keep(&self, type_id: i64, fields: &Value) -> Outcome<String> {
        let filter = json!({"type_id": type_id, "f.hostname": fields["hostname"]}).to_string();
        let found = answer(self.request(Method::GET, "/objects/").query(&[("filter", filter)])).await?;
        let Some(id) = found.body["results"][0]["public_id"].as_i64() else {
            let body = json!({"type_id": type_id, "author_id": 1, "fields": fields});
            let made = self
                .request(Method::POST, "/objects/")
                .header("Idempotency-Key", format!("{:032x}", rand::random::<u128>()));
            return Ok(format!("object {} made", answer(made.json(&body)).await?.body["result_id"]));
        };
        for _ in 0..TRIES {
            let read = answer(self.request(Method::GET, &format!("/objects/{id}/native"))).await?;
            let tag = read.headers.get(ETAG).ok_or("the answer has no tag")?;
            let change = self.request(Method::PATCH, &format!("/objects/{id}")).header(IF_MATCH, tag);
            let changed = change.json(&json!({"fields": fields})).send().await?;
            // Somebody else has changed it meanwhile: read it again.
            if changed.status() != StatusCode::PRECONDITION_FAILED {
                checked(changed).await?;
                return Ok(format!("object {id} changed"));
            }
        }
        Err(format!("object {id} changes all the time").into())
    }

    /// The fields of all machines, page by page.
    async fn machines(&self, type_id: i64) -> Outcome<Vec<BTreeMap<String, Value>>> {
        let filter = json!({"type_id": type_id}).to_string();
        let parameters = [("filter", filter.as_str()), ("sort", "f.hostname"), ("limit", "100"), ("after", "")];
        let mut url = Some(Url::parse_with_params(&format!("{}/objects/", self.base), parameters)?);
        let mut machines = Vec::new();
        while let Some(here) = url {
            let page = answer(self.client.get(here.clone()).bearer_auth(&self.token)).await?;
            for found in page.body["results"].as_array().into_iter().flatten() {
                let fields = found["fields"].as_array().into_iter().flatten();
                let name = |field: &Value| field["name"].as_str().unwrap_or_default().to_owned();
                machines.push(fields.map(|field| (name(field), field["value"].clone())).collect());
            }
            url = next(&page.headers).map(|link| here.join(&link)).transpose()?;
        }
        Ok(machines)
    }
}

/// Where the next page is, if there is one.
fn next(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let next = links.split(", <").find(|link| link.ends_with("rel=\"next\""))?;
    next.trim_start_matches('<').split('>').next().map(str::to_owned)
}

async fn answer(request: RequestBuilder) -> Outcome<Answer> {
    checked(request.send().await?).await
}

async fn checked(response: reqwest::Response) -> Outcome<Answer> {
    let (status, headers) = (response.status(), response.headers().clone());
    if !status.is_success() {
        return Err(format!("{}: {}", response.url().clone(), response.text().await?).into());
    }
    Ok(Answer { body: response.json().await?, headers })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let inventory = Inventory::from_environment()?;
    let hostname = fs::read_to_string("/etc/hostname")?;
    let cores = available_parallelism()?.get();
    let fields = json!({"hostname": hostname.trim(), "system": env::consts::OS, "cores": cores, "reporter": "Rust"});
    let type_id = inventory.type_of_machines().await?;
    println!("{}: {}", hostname.trim(), inventory.keep(type_id, &fields).await?);
    let machines = inventory.machines(type_id).await?;
    let text = |machine: &BTreeMap<String, Value>, name: &str| {
        machine.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let shown: Vec<String> =
        machines.iter().map(|machine| format!("{} ({})", text(machine, "hostname"), text(machine, "system"))).collect();
    println!("{} machines: {}", shown.len(), shown.join(", "));
    Ok(())
}
