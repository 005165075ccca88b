//! The servers that are measured, each a process of its own: the service as it is released, the service with one more
//! route that sends bytes from memory, and a bare handler over the MongoDB driver.

use std::collections::HashMap;
use std::io::Error as IoError;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs};

use actix_web::http::header;
use actix_web::web::{self, Bytes};
use actix_web::{App, HttpResponse, HttpServer};
use bson::doc;
use bson::raw::RawDocumentBuf;
use inventory_service::app::Application;
use inventory_service::http::RouteAccess;
use inventory_service::http::routes::{self, Routes};
use inventory_service::logging;
use inventory_service::settings::{Overrides, Settings};
use tokio::net::TcpStream;

use crate::harness::report::target_folder;
use crate::harness::timing::Error;

/// What the first administrator of every measured service signs in with.
pub(crate) const PASSWORD: &str = "measured-and-found";

/// How long a server may take to listen.
const START: Duration = Duration::from_mins(2);

/// A running server; gone when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    /// From the start of the process to the first connection that it took.
    pub(crate) started_in: Duration,
}

impl Server {
    /// The service as it is released.
    pub(crate) async fn product(store_uri: &str, variables: &[(&str, &str)]) -> Result<Self, Error> {
        let port = free_port()?;
        let mut command = Command::new(program());
        command.envs(service_variables(store_uri, port)).envs(variables.iter().copied());
        Self::start(command, port).await
    }

    /// The service with `/rest/fixed/<name>`, which sends the file of that name in `folder`, and `/rest/open/<name>`, which
    /// does so without asking who it is.
    pub(crate) async fn fixed(store_uri: &str, folder: &Path) -> Result<Self, Error> {
        let port = free_port()?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["--role", "fixed", "-"]).arg(folder).envs(service_variables(store_uri, port));
        Self::start(command, port).await
    }

    /// A handler that asks the driver for one document and sends its bytes: `/<public_id>`.
    pub(crate) async fn driver(store_uri: &str) -> Result<Self, Error> {
        let port = free_port()?;
        let mut command = Command::new(env::current_exe()?);
        command.args(["--role", "driver", store_uri, &port.to_string()]);
        Self::start(command, port).await
    }

    async fn start(mut command: Command, port: u16) -> Result<Self, Error> {
        let begun = Instant::now();
        // Lines of the log are written, as in use, but not kept.
        let child = command
            .current_dir(target_folder()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Self { child, port, started_in: Duration::ZERO };
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("a server ended with {status}: {command:?}").into());
            }
            if begun.elapsed() > START {
                return Err(format!("a server does not listen: {command:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.started_in = begun.elapsed();
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as an operator would, and waits for that.
    pub(crate) fn stop(self) -> Result<(), Error> {
        Command::new("kill").arg(self.pid().to_string()).status()?;
        self.wait()
    }

    /// Ends it at once: nothing of what it does is waited for.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it has ended.
    pub(crate) fn wait(mut self) -> Result<(), Error> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a server ended with {status}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

static INSTEAD: OnceLock<PathBuf> = OnceLock::new();

/// Has another program measured than the one that was built with this one.
pub(crate) fn measure_instead(program: PathBuf) {
    let _ = INSTEAD.set(program);
}

fn program() -> PathBuf {
    INSTEAD.get().cloned().unwrap_or_else(|| env!("CARGO_BIN_EXE_inventory-service").into())
}

/// Fills a store with the demo, with the released program.
pub(crate) fn load_demo(store_uri: &str, objects: u32) -> Result<(), Error> {
    let mut command = Command::new(program());
    command.args(["demo", "--objects", &objects.to_string()]).envs(service_variables(store_uri, 0));
    let outcome = command.current_dir(target_folder()?).stdin(Stdio::null()).output()?;
    if !outcome.status.success() {
        return Err(format!("the demo was not loaded: {}", String::from_utf8_lossy(&outcome.stderr)).into());
    }
    eprint!("{}", String::from_utf8_lossy(&outcome.stdout));
    Ok(())
}

/// All else is as a fresh installation has it.
fn service_variables(store_uri: &str, port: u16) -> [(&'static str, String); 3] {
    [
        ("INVENTORY__STORE__URI", store_uri.to_owned()),
        ("INVENTORY__SERVER__PORT", port.to_string()),
        ("INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD", PASSWORD.to_owned()),
    ]
}

/// A port that nobody listened on a moment ago.
fn free_port() -> Result<u16, IoError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// What the process that [`Server::fixed`] or [`Server::driver`] started does.
pub(crate) async fn play(role: &str, store_uri: &str, place: &str) -> Result<(), Error> {
    match role {
        "fixed" => serve_fixed(Path::new(place)).await,
        "driver" => serve_driver(store_uri, place.parse()?).await,
        other => Err(format!("no such role: {other}").into()),
    }
}

/// What `/rest/fixed/` sends, by name.
static BODIES: OnceLock<HashMap<String, Bytes>> = OnceLock::new();

async fn serve_fixed(folder: &Path) -> Result<(), Error> {
    let mut bodies = HashMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bodies.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?.into());
    }
    BODIES.set(bodies).map_err(|_| "the bodies are there already")?;
    let settings = Settings::load(Path::new("."), &Overrides::default())?;
    logging::start(&settings.log.level, settings.log.format);
    Application::build(settings).await?.with_routes(with_fixed).run(|_, _| Err("not here".to_owned())).await?;
    Ok(())
}

fn with_fixed() -> Routes {
    let right = RouteAccess::Right("base.framework.object.view");
    routes::all()
        .and_get("/rest/fixed/{name}", right, fixed)
        .and_get("/rest/open/{name}", RouteAccess::Public, fixed)
        .and_get("/rest/unchanged", right, unchanged)
}

async fn fixed(name: web::Path<String>) -> HttpResponse {
    match BODIES.get().and_then(|bodies| bodies.get(&*name)) {
        Some(body) => HttpResponse::Ok().content_type("application/json").body(body.clone()),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn unchanged() -> HttpResponse {
    HttpResponse::NotModified().insert_header((header::ETAG, "\"0123456789abcdef0123456789abcdef\"")).finish()
}

type Objects = mongodb::Collection<RawDocumentBuf>;

async fn serve_driver(store_uri: &str, port: u16) -> Result<(), Error> {
    let client = mongodb::Client::with_uri_str(store_uri).await?;
    let database = client.default_database().ok_or("the URI names no database")?;
    let objects = web::Data::new(database.collection::<RawDocumentBuf>("framework.objects"));
    let server = HttpServer::new(move || App::new().app_data(objects.clone()).route("/{id}", web::get().to(read_one)));
    server.workers(std::thread::available_parallelism()?.get()).bind((Ipv4Addr::LOCALHOST, port))?.run().await?;
    Ok(())
}

async fn read_one(id: web::Path<i64>, objects: web::Data<Objects>) -> HttpResponse {
    match objects.find_one(doc! { "public_id": *id }).await {
        Ok(Some(found)) => HttpResponse::Ok().content_type("application/bson").body(found.into_bytes()),
        Ok(None) => HttpResponse::NotFound().finish(),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
