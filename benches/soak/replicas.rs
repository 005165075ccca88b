//! A replica set of three real servers. Each is reached through a door that can be shut, by clients and by the others.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, doc};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::timing::Error;

const READY: Duration = Duration::from_mins(1);

/// Three servers.
pub(crate) struct Replicas {
    members: Vec<Member>,
}

/// One server behind its door.
pub(crate) struct Member {
    child: Child,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    door: u16,
    shut: Arc<watch::Sender<bool>>,
}

impl Replicas {
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self, Error> {
        let mut members = Vec::new();
        for number in 0..3 {
            members.push(Member::start(program, folder.join(format!("replica-{number}"))).await?);
        }
        let replicas = Self { members };
        let config = replicas.members.iter().enumerate().map(|(number, member)| {
            Bson::Document(
                doc! { "_id": i32::try_from(number).unwrap_or(0), "host": format!("127.0.0.1:{}", member.door) },
            )
        });
        let config =
            doc! { "_id": "rs0", "members": config.collect::<Vec<_>>(), "settings": { "electionTimeoutMillis": 5000 } };
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

    pub(crate) fn member(&mut self, number: usize) -> &mut Member {
        &mut self.members[number]
    }
}

async fn client(port: u16) -> Result<mongodb::Client, Error> {
    let uri = format!("mongodb://127.0.0.1:{port}/admin?directConnection=true&serverSelectionTimeoutMS=1000");
    Ok(mongodb::Client::with_uri_str(uri).await?)
}

impl Member {
    async fn start(program: &Path, directory: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&directory)?;
        let port = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let (shut, watched) = watch::channel(false);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let door = listener.local_addr()?.port();
        tokio::spawn(keep_door(listener, port, watched));
        let child = spawn(program, &directory, port)?;
        Ok(Self { child, program: program.to_owned(), directory, port, door, shut: Arc::new(shut) })
    }

    /// As a crash would.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        self.child = spawn(&self.program, &self.directory, self.port)?;
        Ok(())
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) -> Result<(), Error> {
        Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status()?;
        Ok(())
    }

    /// Nobody reaches it any more; connections that there are end.
    pub(crate) fn shut(&self, shut: bool) {
        self.shut.send_replace(shut);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, directory: &Path, port: u16) -> Result<Child, Error> {
    let log = File::options().create(true).append(true).open(directory.join("mongod.log"))?;
    let mut command = Command::new(program);
    command.arg("--dbpath").arg(directory).arg("--port").arg(port.to_string());
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "rs0", "--oplogSize", "64"]);
    command.args(["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "diagnosticDataCollectionEnabled=false"]);
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?)
}

async fn keep_door(listener: TcpListener, port: u16, shut: watch::Receiver<bool>) {
    while let Ok((near, _)) = listener.accept().await {
        let mut shut = shut.clone();
        tokio::spawn(async move {
            // A line that is cut is silent: nobody is told that it is.
            let mut near = near;
            if *shut.borrow() {
                let _ = shut.wait_for(|shut| !shut).await;
                return;
            }
            let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
            let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                _ = shut.wait_for(|shut| *shut) => {}
            }
            drop(far);
            let _ = shut.wait_for(|shut| !shut).await;
        });
    }
}
