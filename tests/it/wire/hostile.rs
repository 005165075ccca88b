//! Clients that are no tools: half messages, wrong lengths, huge documents, slow connections, many cursors.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bson::{Document, RawDocumentBuf, doc};
use futures::future::join_all;
use serde_json::json;

use super::support::{DATABASE, ToolApp, found, refused};

/// Long enough that only a listener that hangs runs into it.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection on which frames are sent byte by byte.
struct Raw(TcpStream);

impl Raw {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address.parse::<SocketAddr>().expect("an address")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        // It may have been closed already.
        let _ = self.0.write_all(bytes);
    }

    /// The document of the next answer; nothing when the connection is closed instead.
    fn answer(&mut self) -> Option<Document> {
        let mut head = [0; 16];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let mut body = vec![0; usize::try_from(length).expect("a length") - 16];
        self.0.read_exact(&mut body).ok()?;
        let document = RawDocumentBuf::from_bytes(body[5..].to_vec()).expect("a document");
        Some(Document::try_from(document).expect("BSON"))
    }

    /// Whether the service ends the connection, without an answer, while the test waits.
    fn is_ended(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn code(&mut self) -> Option<i32> {
        self.answer().map(|answer| answer.get_i32("code").unwrap_or_default())
    }
}

fn frame(opcode: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(16 + body.len()).expect("a length");
    let mut frame = Vec::new();
    for number in [length, 1, 0, opcode] {
        frame.extend_from_slice(&number.to_le_bytes());
    }
    frame.extend_from_slice(body);
    frame
}

fn message(command: &Document) -> Vec<u8> {
    let mut body = vec![0; 5];
    body.extend_from_slice(RawDocumentBuf::try_from(command).expect("BSON").as_bytes());
    frame(2013, &body)
}

fn hello() -> Vec<u8> {
    message(&doc! { "hello": 1, "$db": "admin" })
}

/// The listener still answers.
async fn still_answers(tools: &ToolApp) {
    let address = tools.address.clone();
    let answered = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut raw = Raw::connect(&address);
            raw.send(&hello());
            // While all places are taken, it is closed at once.
            match raw.answer() {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                answer => return answer,
            }
        }
    });
    let answer = answered.await.expect("no panic").expect("an answer");
    assert_eq!(answer.get_f64("ok").ok(), Some(1.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_message_end_the_connection_and_nothing_else() {
    let tools = ToolApp::start().await;
    let address = tools.address.clone();
    let attacks = tokio::task::spawn_blocking(move || {
        let codes = |bytes: &[u8]| {
            let mut raw = Raw::connect(&address);
            raw.send(bytes);
            raw.0.shutdown(std::net::Shutdown::Write).expect("a half-closed connection");
            (raw.code(), raw.code())
        };
        let mut negative = hello();
        negative[..4].copy_from_slice(&(-1_i32).to_le_bytes());
        let mut huge = hello();
        huge[..4].copy_from_slice(&i32::MAX.to_le_bytes());
        let mut long = hello();
        long[..4].copy_from_slice(&1_000_000_i32.to_le_bytes());
        let mut inner = hello();
        inner[21..25].copy_from_slice(&9999_i32.to_le_bytes());
        let whole = hello();
        assert_eq!(codes(b"GET / HTTP/1.1\r\n\r\n"), (None, None));
        assert_eq!(codes(&[0; 16]), (None, None));
        assert_eq!(codes(&negative), (None, None));
        assert_eq!(codes(&huge), (None, None));
        assert_eq!(codes(&whole[..40]), (None, None));
        assert_eq!(codes(&whole[..7]), (None, None));
        assert_eq!(codes(&long).0, Some(9), "before a sign-in messages are small");
        assert_eq!(codes(&inner), (Some(9), None));
        assert_eq!(codes(&frame(2013, &[])), (Some(9), None));
        assert_eq!(codes(&frame(1, b"reply")), (Some(9), None));
        assert_eq!(codes(&frame(2012, &[221, 7, 0, 0, 255, 255, 255, 127, 3, 1, 2])), (Some(9), None));
        assert_eq!(codes(&frame(2012, &[221, 7, 0, 0, 10, 0, 0, 0, 3, 1, 2])), (Some(9), None));
        let packed =
            [&[221, 7, 0, 0, 0, 0, 160, 0, 3], &*zstd::encode_all(&*vec![0; 0xA0_0000], 3).expect("packed")].concat();
        assert_eq!(codes(&frame(2012, &packed)), (Some(9), None), "before a sign-in nothing large is unpacked");
        assert_eq!(codes(&frame(2013, b"\0\0\0\0\0\x06\0\0\0\xEE\0")), (Some(22), None));
        assert_eq!(codes(&[whole.clone(), whole].concat()), (Some(0), Some(0)));
    });
    attacks.await.expect("no panic");
    still_answers(&tools).await;
}

#[tokio::test]
async fn a_huge_command_is_refused_in_time() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let many: Vec<i32> = (0..200_000).collect();
    let (code, message) =
        refused(&database, doc! { "find": "framework.types", "filter": { "a": { "$in": many } } }).await;
    assert_eq!(code, 10334, "{message}");
    let mut deep = doc! { "a": 1 };
    for _ in 0..190 {
        deep = doc! { "a": deep };
    }
    assert_eq!(refused(&database, doc! { "find": "framework.types", "filter": deep }).await.0, 15);
    let wide: Vec<Document> = (0..600).map(|number| doc! { "a": number }).collect();
    assert_eq!(refused(&database, doc! { "find": "framework.types", "filter": { "$or": wide } }).await.0, 2);
    let text = "x".repeat(15 * 1024 * 1024);
    let answer = found(&database, doc! { "find": "framework.types", "filter": { "name": text } }).await;
    assert!(answer.is_empty());
    still_answers(&tools).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_slow_connections_end_and_others_come_through() {
    let tools =
        ToolApp::start_with(&[("server.limits.head_timeout_ms", "300"), ("server.limits.keep_alive_ms", "600")]).await;
    let slow: Vec<_> = join_all((0..500).map(|number| {
        let address = tools.address.clone();
        async move {
            let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
            let part = hello()[..number % 16].to_vec();
            let stream = stream.into_std().expect("a stream");
            stream.set_nonblocking(false).expect("a stream that waits");
            let mut raw = Raw(stream);
            raw.send(&part);
            raw
        }
    }))
    .await;
    still_answers(&tools).await;
    let stayed = tokio::task::spawn_blocking(move || {
        let stays = |(number, mut raw): (usize, Raw)| {
            raw.0.set_read_timeout(Some(PATIENCE)).expect("a time limit");
            (!raw.is_ended()).then_some(number)
        };
        slow.into_iter().enumerate().filter_map(stays).collect::<Vec<usize>>()
    });
    let stayed = stayed.await.expect("no panic");
    assert!(stayed.is_empty(), "{stayed:?}, each after number % 16 bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_stay_give_way_to_those_who_come() {
    let tools = ToolApp::start().await;
    let token = tools.token(1, &json!({})).await;
    let address = tools.address.clone();
    let crowd = move || -> Vec<Raw> {
        let mut crowd: Vec<Raw> = (0..250).map(|_| Raw::connect(&address)).collect();
        for raw in &mut crowd {
            raw.send(&hello());
            let _ = raw.answer();
        }
        crowd
    };
    let strangers = tokio::task::spawn_blocking(crowd.clone()).await.expect("no panic");
    let database = tools.client_with("admin", &token, "maxPoolSize=1").await.database(DATABASE);
    let ask = || database.run_command(doc! { "connectionStatus": 1 });
    ask().await.expect("a place");
    let more = tokio::task::spawn_blocking(crowd).await.expect("no panic");
    ask().await.expect("who has signed in stays");
    drop((strangers, more));
}

#[tokio::test]
async fn of_a_thousand_cursors_the_last_ones_stay() {
    let tools = ToolApp::start().await;
    let type_id = tools.app.create_type("rack", &[]).await;
    for _ in 0..3 {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let token = tools.token(1, &json!({})).await;
    let client = tools.client_with("admin", &token, "maxPoolSize=1").await;
    let database = client.database(DATABASE);
    let mut ids = Vec::new();
    for _ in 0..1000 {
        let answer = database.run_command(doc! { "find": "framework.objects", "batchSize": 1 }).await.expect("a batch");
        ids.push(answer.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor"));
    }
    let status = database.run_command(doc! { "serverStatus": 1 }).await.expect("figures");
    let open = status.get_document("metrics").and_then(|metrics| metrics.get_document("cursor"));
    let open = open.and_then(|cursor| cursor.get_document("open")).and_then(|open| open.get_i64("total"));
    assert_eq!(open.ok(), Some(16));
    let more = |id: i64| doc! { "getMore": id, "collection": "framework.objects" };
    assert_eq!(refused(&database, more(ids[983])).await.0, 43);
    database.run_command(more(ids[984])).await.expect("the sixteenth from the end");
    database.run_command(more(ids[999])).await.expect("the last one");
}

#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_connection() {
    let tools = ToolApp::start_with(&[("server.limits.write_timeout_ms", "200")]).await;
    let address = tools.address.clone();
    let dropped = tokio::task::spawn_blocking(move || {
        let mut raw = Raw::connect(&address);
        raw.0.set_write_timeout(Some(PATIENCE)).expect("a time limit");
        let many = hello().repeat(2000);
        let started = Instant::now();
        // It is cut off when the answers fill all buffers.
        while started.elapsed() < PATIENCE {
            if raw.0.write_all(&many).is_err() {
                return true;
            }
        }
        false
    });
    assert!(dropped.await.expect("no panic"));
    still_answers(&tools).await;
}
