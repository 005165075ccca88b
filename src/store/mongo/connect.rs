//! Reaching a deployment: options, the driver's client, and what kind of deployment answers.

use std::time::Duration;

use bson::doc;
use mongodb::event::EventHandler;
use mongodb::event::cmap::CmapEvent;
use mongodb::options::{
    Acknowledgment, ClientOptions, Collation, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Database};

use super::error::{UNINITIATED, connect_error, unavailable};
use super::presence::{Epoch, Presence};
use crate::store::StoreError;

/// The wire version of MongoDB 5.0, the oldest release with snapshot reads outside of transactions.
const OLDEST_WIRE_VERSION: i32 = 13;

/// The message about a server without a replica set.
const STANDALONE: &str = "a MongoDB server without a replica set (restart mongod with --replSet rs0, then run rs.initiate() \
                          once in mongosh)";

/// How often the driver sends heartbeats. A server answers at once when something changed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How much longer a heartbeat may take: operations on a hanging server are repeated after four seconds. The driver
/// uses its connect timeout for this, so the timeout is never longer, unless the URI says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// How to reach MongoDB. Options in the URI take precedence.
#[derive(Debug, Clone)]
pub struct MongoOptions {
    /// The database to use when the URI has no path.
    pub database: String,
    /// How long opening a connection may take, at most three seconds.
    pub connect_timeout: Duration,
    /// How long an operation waits for a suitable server; after that the store is unavailable.
    pub server_selection_timeout: Duration,
    /// How long a majority may take to confirm a write.
    pub write_timeout: Duration,
    /// Connections kept open per server when nothing happens.
    pub min_pool_size: u32,
    /// The maximum number of connections per server; further operations wait for a free one.
    pub max_pool_size: u32,
    /// Whether the counters of DATAGERRY, which shares the database, are kept ahead of the ids given here.
    pub leads_datagerry: bool,
}

impl Default for MongoOptions {
    fn default() -> Self {
        Self {
            database: "inventory".to_owned(),
            connect_timeout: Duration::from_secs(5),
            server_selection_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            min_pool_size: 0,
            max_pool_size: 64,
            leads_datagerry: false,
        }
    }
}

/// The kinds of deployments, by their abilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology {
    /// A replica set, of whatever size.
    ReplicaSet,
    /// Routers of several replica sets.
    Sharded,
}

impl Topology {
    /// Whether the deployment has a change stream that reports changes soon enough.
    ///
    /// A router waits for a heartbeat of each shard before it passes a change on; idle shards send one every ten
    /// seconds.
    pub(super) fn tells_changes_at_once(self) -> bool {
        self == Self::ReplicaSet
    }
}

/// Parses the URI, connects, and finds out what answers.
pub(super) async fn open(
    uri: &str,
    options: &MongoOptions,
    epoch: &Epoch,
    presence: &Presence,
) -> Result<(Database, Topology), StoreError> {
    let mut client_options = ClientOptions::parse(uri).await.map_err(|error| connect_error(&error))?;
    client_options.app_name.get_or_insert_with(|| env!("CARGO_PKG_NAME").to_owned());
    client_options.connect_timeout.get_or_insert(options.connect_timeout.min(SIGN_OF_LIFE));
    client_options.server_selection_timeout.get_or_insert(options.server_selection_timeout);
    client_options.min_pool_size.get_or_insert(options.min_pool_size);
    client_options.max_pool_size.get_or_insert(options.max_pool_size);
    client_options.heartbeat_freq.get_or_insert(HEARTBEAT);
    client_options.retry_reads.get_or_insert(true);
    client_options.retry_writes.get_or_insert(true);
    // These three are laws of the port, not preferences: a URI cannot weaken them.
    client_options.write_concern = Some(write_concern(options));
    client_options.read_concern = Some(ReadConcern::majority());
    client_options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    client_options.cmap_event_handler = Some(connection_losses(epoch));
    client_options.sdam_event_handler = Some(presence.listener(epoch));
    let client = Client::with_options(client_options).map_err(|error| connect_error(&error))?;
    let database = client.default_database().unwrap_or_else(|| client.database(&options.database));
    let topology = topology_of(&database).await?;
    Ok((database, topology))
}

/// Confirmed by a majority, from their disks.
pub(super) fn write_concern(options: &MongoOptions) -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).w_timeout(options.write_timeout).build()
}

/// Strings are equal only when all their bytes are, whatever collation an operator gave the collection.
pub(super) fn exact() -> Collation {
    Collation::builder().locale("simple").build()
}

/// Notifies the epoch when connections broke: the server may be another one afterwards.
fn connection_losses(epoch: &Epoch) -> EventHandler<CmapEvent> {
    let epoch = epoch.clone();
    EventHandler::callback(move |event| {
        if matches!(event, CmapEvent::PoolCleared(_)) {
            epoch.advance();
        }
    })
}

async fn topology_of(database: &Database) -> Result<Topology, StoreError> {
    let hello = database.run_command(doc! { "hello": 1 }).await.map_err(|error| connect_error(&error))?;
    if hello.get_i32("maxWireVersion").unwrap_or_default() < OLDEST_WIRE_VERSION {
        return Err(StoreError::Unsupported { what: "a MongoDB server older than 5.0".to_owned() });
    }
    if hello.get_str("msg").is_ok_and(|message| message == "isdbgrid") {
        return Ok(Topology::Sharded);
    }
    match hello.get_str("setName") {
        Ok(_) => Ok(Topology::ReplicaSet),
        Err(_) if hello.get_bool("isreplicaset").unwrap_or(false) => {
            Err(unavailable(format!("the server is {UNINITIATED}")))
        }
        Err(_) => Err(StoreError::Unsupported { what: STANDALONE.to_owned() }),
    }
}
