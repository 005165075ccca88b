//! A replica set of three real servers. Each is reached through a door that can be shut, by clients and by the others.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::timing::Error;

const READY: Duration = Duration::from_mins(1);
const SERVERS: usize = 3;
/// How long a server that copies from another one waits for it when the line is silent; nothing is confirmed by a majority
/// before it turns to the new primary.
const QUICK_PARAMETER: &str = "oplogNetworkTimeoutBufferSeconds=1";

/// How soon the servers notice that one of them is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As `docs/operation.md` recommends.
    Recommended,
    /// The default of MongoDB.
    Default,
}

impl Pace {
    fn settings(self) -> Document {
        match self {
            Self::Recommended => {
                doc! { "electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500, "catchUpTimeoutMillis": 500 }
            }
            Self::Default => Document::new(),
        }
    }
}

/// Three servers.
pub(crate) struct Replicas {
    members: Vec<Member>,
    network: Arc<Network>,
}

/// One server and its door.
struct Member {
    child: Child,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    door: u16,
    pace: Pace,
}

/// How a server is cut off. Lines that are cut are silent: neither end is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Not,
    /// Nobody reaches it, and it reaches nobody.
    FromAll,
    /// Clients reach it, the other servers and itself do not reach each other.
    FromServers,
}

/// Who reaches whom.
struct Network {
    cuts: watch::Sender<[Cut; SERVERS]>,
    processes: [AtomicU32; SERVERS],
}

impl Replicas {
    pub(crate) async fn start(program: &Path, folder: &Path, pace: Pace) -> Result<Self, Error> {
        let network = Arc::new(Network {
            cuts: watch::Sender::new([Cut::Not; SERVERS]),
            processes: <[AtomicU32; SERVERS]>::default(),
        });
        let mut members = Vec::new();
        for number in 0..SERVERS {
            let member =
                Member::start(program, folder.join(format!("replica-{number}")), number, pace, &network).await?;
            members.push(member);
        }
        let replicas = Self { members, network };
        let config = replicas.members.iter().enumerate().map(|(number, member)| {
            Bson::Document(
                doc! { "_id": i32::try_from(number).unwrap_or(0), "host": format!("127.0.0.1:{}", member.door) },
            )
        });
        let config = doc! { "_id": "rs0", "members": config.collect::<Vec<_>>(), "settings": pace.settings() };
        let first = client(replicas.members[0].door).await?;
        let until = Instant::now() + READY;
        while first.database("admin").run_command(doc! { "replSetInitiate": config.clone() }).await.is_err() {
            if Instant::now() > until {
                return Err("the replica set does not begin".into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        replicas.primary().await?;
        Ok(replicas)
    }

    /// The URI of a database on all of them.
    pub(crate) fn uri(&self, database: &str) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.door)).collect();
        format!("mongodb://{}/{database}?replicaSet=rs0", hosts.join(","))
    }

    /// The one that takes writes, once there is one.
    pub(crate) async fn primary(&self) -> Result<usize, Error> {
        let until = Instant::now() + READY;
        loop {
            for (number, member) in self.members.iter().enumerate() {
                let Ok(client) = client(member.door).await else { continue };
                let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return Ok(number);
                }
            }
            if Instant::now() > until {
                return Err("nobody takes writes".into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// As a crash would.
    pub(crate) fn kill(&mut self, number: usize) -> Result<(), Error> {
        let child = &mut self.members[number].child;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    pub(crate) fn start_again(&mut self, number: usize) -> Result<(), Error> {
        let member = &mut self.members[number];
        member.child = spawn(&member.program, &member.directory, member.port, member.pace)?;
        self.network.processes[number].store(member.child.id(), Ordering::Relaxed);
        Ok(())
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, number: usize, name: &str) -> Result<(), Error> {
        let process = self.members[number].child.id().to_string();
        Command::new("kill").args([format!("-{name}"), process]).status()?;
        Ok(())
    }

    pub(crate) fn cut(&self, number: usize, cut: Cut) {
        self.network.cuts.send_modify(|cuts| cuts[number] = cut);
    }
}

async fn client(port: u16) -> Result<mongodb::Client, Error> {
    let uri = format!("mongodb://127.0.0.1:{port}/admin?directConnection=true&serverSelectionTimeoutMS=1000");
    Ok(mongodb::Client::with_uri_str(uri).await?)
}

impl Member {
    async fn start(
        program: &Path,
        directory: PathBuf,
        number: usize,
        pace: Pace,
        network: &Arc<Network>,
    ) -> Result<Self, Error> {
        fs::create_dir_all(&directory)?;
        let port = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let door = listener.local_addr()?.port();
        let child = spawn(program, &directory, port, pace)?;
        network.processes[number].store(child.id(), Ordering::Relaxed);
        tokio::spawn(keep_door(listener, port, number, Arc::clone(network)));
        Ok(Self { child, program: program.to_owned(), directory, port, door, pace })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, directory: &Path, port: u16, pace: Pace) -> Result<Child, Error> {
    let log = File::options().create(true).append(true).open(directory.join("mongod.log"))?;
    let mut command = Command::new(program);
    command.arg("--dbpath").arg(directory).arg("--port").arg(port.to_string());
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "rs0", "--oplogSize", "64"]);
    command.args(["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "diagnosticDataCollectionEnabled=false"]);
    if pace == Pace::Recommended {
        command.args(["--setParameter", QUICK_PARAMETER]);
    }
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?)
}

/// Passes on what comes to the server `to`, as far as the network lets it.
async fn keep_door(listener: TcpListener, port: u16, to: usize, network: Arc<Network>) {
    let door = listener.local_addr().map_or(0, |address| address.port());
    while let Ok((mut near, peer)) = listener.accept().await {
        let network = Arc::clone(&network);
        tokio::spawn(async move {
            let from = network.server_with(peer.port(), door);
            let is_cut = |cuts: &[Cut; SERVERS]| is_cut(*cuts, from, to);
            let mut cuts = network.cuts.subscribe();
            if is_cut(&cuts.borrow()) {
                let _ = cuts.wait_for(|cuts| !is_cut(cuts)).await;
                return;
            }
            let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
            let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                _ = cuts.wait_for(is_cut) => {}
            }
            let _ = cuts.wait_for(|cuts| !is_cut(cuts)).await;
        });
    }
}

/// Whether nothing gets through to the server `to`, from another server or from a client.
fn is_cut(cuts: [Cut; SERVERS], from: Option<usize>, to: usize) -> bool {
    cuts[to] == Cut::FromAll || from.is_some_and(|from| cuts[from] != Cut::Not || cuts[to] != Cut::Not)
}

impl Network {
    /// The server whose end of a connection to `door` has this port; nothing for clients. As Linux reports it.
    fn server_with(&self, port: u16, door: u16) -> Option<usize> {
        let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
        let (own, other) = (format!(":{port:04X}"), format!(":{door:04X}"));
        let inode = sockets.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.get(1)?.ends_with(&own) && words.get(2)?.ends_with(&other)).then(|| words.get(9).copied())?
        })?;
        let socket = PathBuf::from(format!("socket:[{inode}]"));
        self.processes.iter().position(|process| {
            let files = fs::read_dir(format!("/proc/{}/fd", process.load(Ordering::Relaxed)));
            files.into_iter().flatten().flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == socket))
        })
    }
}
