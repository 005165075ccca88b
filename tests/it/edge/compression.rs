//! Compressed answers and packed request bodies.

use std::io::{Read, Write};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};

const CODINGS: [&str; 3] = ["gzip", "zstd", "br"];

async fn get(app: &TestApp, path: &str, accepted: &str) -> Response {
    app.request(Method::GET, path).header("Accept-Encoding", accepted).send().await.expect("an answer")
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("a readable header"))
}

fn unpacked(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let read = match coding {
        "gzip" => GzDecoder::new(bytes).read_to_end(&mut plain),
        "zstd" => zstd::stream::read::Decoder::new(bytes).expect("a decoder").read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain),
        _ => panic!("{coding} is no coding"),
    };
    read.expect("a whole body");
    plain
}

fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).expect("written");
            encoder.finish().expect("packed")
        }
        "zstd" => zstd::stream::encode_all(bytes, 3).expect("packed"),
        "br" => {
            let mut packed = Vec::new();
            brotli::CompressorReader::new(bytes, 4096, 5, 20).read_to_end(&mut packed).expect("packed");
            packed
        }
        _ => panic!("{coding} is no coding"),
    }
}

/// A type that is more than a kilobyte of JSON.
async fn long_type(app: &TestApp) -> String {
    let names: Vec<String> = (0..40).map(|number| format!("field-{number}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "text")).collect();
    format!("/types/{}", app.create_type("long", &fields).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_compressed_in_the_coding_that_the_client_likes_best() {
    let app = TestApp::embedded().await;
    let path = long_type(&app).await;
    let plain = app.get(&path).await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    for coding in CODINGS {
        let answer = get(&app, &path, &format!("{coding}, identity;q=0.5")).await;
        assert_eq!((header(&answer, "content-encoding"), header(&answer, "vary")), (coding, "accept-encoding"));
        let length: usize = header(&answer, "content-length").parse().expect("a length");
        let bytes = answer.bytes().await.expect("a body");
        assert_eq!(bytes.len(), length);
        assert!(length < plain.text.len() / 3, "{length}");
        let json: Value = serde_json::from_slice(&unpacked(coding, &bytes)).expect("JSON");
        assert_eq!(json["result"], plain.json()["result"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_answers_secrets_and_what_nobody_asked_for_are_sent_as_they_are() {
    let app = TestApp::embedded_with(&[("server.compression.min_bytes", "800")]).await;
    let path = long_type(&app).await;
    for (path, accepted) in [("/objects/1", "gzip"), (&path, "identity"), (&path, "gzip;q=0"), (&path, "deflate")] {
        assert_eq!(header(&get(&app, path, accepted).await, "content-encoding"), "", "{path} {accepted}");
    }
    let login = json!({"user_name": "admin", "password": crate::support::app::ADMIN_PASSWORD});
    let answer = send(app.anonymous(Method::POST, "/auth/login").header("Accept-Encoding", "gzip").json(&login)).await;
    assert_eq!((answer.header("content-encoding"), answer.header("cache-control")), ("", "no-store"));
    let always = TestApp::embedded_with(&[("server.compression.min_bytes", "200")]).await;
    let answer =
        send(always.anonymous(Method::POST, "/auth/login").header("Accept-Encoding", "gzip").json(&login)).await;
    assert!(answer.text.len() > 200, "{}", answer.text);
    assert_eq!((answer.header("content-encoding"), answer.header("cache-control")), ("", "no-store"));
    let off = TestApp::embedded_with(&[("server.compression.enabled", "false")]).await;
    let answer = get(&off, &long_type(&off).await, "gzip").await;
    assert_eq!((header(&answer, "content-encoding"), header(&answer, "vary")), ("", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_errors_and_lists_are_compressed_too_and_head_says_what_get_says() {
    let app = TestApp::embedded().await;
    long_type(&app).await;
    for path in ["/types/", "/rights/"] {
        let list = get(&app, path, "zstd").await;
        let head = app.request(Method::HEAD, path).header("Accept-Encoding", "zstd").send().await.expect("an answer");
        assert_eq!((header(&list, "content-encoding"), header(&head, "content-encoding")), ("zstd", "zstd"), "{path}");
    }
    let wrong: Vec<Value> = (0..100).map(|number| json!({"name": number})).collect();
    let body = json!({"name": "wrong", "fields": wrong});
    let error = app.request(Method::POST, "/types/").header("Accept-Encoding", "gzip").json(&body);
    let error = error.send().await.expect("an answer");
    assert_eq!((error.status().as_u16(), header(&error, "content-encoding")), (400, "gzip"));
    let json: Value = serde_json::from_slice(&unpacked("gzip", &error.bytes().await.expect("a body"))).expect("JSON");
    assert_eq!(json["code"], "validation_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_coding_has_a_strong_tag_of_its_own_and_each_tag_is_understood() {
    let app = TestApp::embedded().await;
    let path = long_type(&app).await;
    let mut tags = vec![app.get(&path).await.header("etag").to_owned()];
    for coding in CODINGS {
        tags.push(header(&get(&app, &path, coding).await, "etag").to_owned());
    }
    for (index, tag) in tags.iter().enumerate() {
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        assert!(!tags[..index].contains(tag), "{tag}");
        for accepted in ["identity", "gzip"] {
            let known =
                app.request(Method::GET, &path).header("If-None-Match", tag).header("Accept-Encoding", accepted);
            let known = send(known).await;
            assert_eq!((known.status.as_u16(), known.header("etag")), (304, tag.as_str()), "{accepted}");
            assert_eq!((known.text.as_str(), known.header("vary")), ("", "accept-encoding"));
        }
    }
    let mut tag = tags[1].clone();
    for label in ["One", "Two", "Three"] {
        let patch = app.request(Method::PATCH, &path).header("If-Match", &tag).header("Accept-Encoding", "gzip");
        let patched = patch.json(&json!({"label": label})).send().await.expect("an answer");
        assert_eq!(patched.status(), 202);
        let stale = app.request(Method::PATCH, &path).header("If-Match", &tag).json(&json!({"label": "Stale"}));
        send(stale).await.error(412, "precondition_failed");
        // The tag in the answer to a change is the one of the resource, whatever the answer is packed in.
        tag = header(&patched, "etag").to_owned();
        assert!(!tag.contains("gzip"), "{tag}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_bodies_may_be_packed() {
    let app = TestApp::embedded().await;
    for coding in ["gzip", "GZIP", "x-gzip", "zstd", "br", "identity"] {
        let name = format!("type-{}", coding.to_lowercase());
        let body =
            json!({"name": if coding == "GZIP" { "upper".to_owned() } else { name }, "author_id": 1}).to_string();
        let bytes = match coding {
            "identity" => body.into_bytes(),
            "GZIP" | "x-gzip" => packed("gzip", body.as_bytes()),
            coding => packed(coding, body.as_bytes()),
        };
        let request = app.request(Method::POST, "/types/").header("Content-Type", "application/json");
        let answer = send(request.header("Content-Encoding", coding).body(bytes)).await;
        assert_eq!(answer.status, 201, "{coding}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_unpacks_to_more_than_the_limit_is_stopped_there() {
    let app = TestApp::embedded().await;
    let large = json!({"name": " ".repeat(50_000_000)}).to_string();
    for coding in CODINGS {
        let bomb = packed(coding, large.as_bytes());
        assert!(bomb.len() < 100_000, "{coding}");
        let request = app.request(Method::POST, "/types/").header("Content-Type", "application/json");
        send(request.header("Content-Encoding", coding).body(bomb)).await.error(413, "body_too_large");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coding_that_is_not_known_or_not_kept_is_refused() {
    let app = TestApp::embedded().await;
    let post = |coding: &str, body: Vec<u8>| {
        let request = app.request(Method::POST, "/types/").header("Content-Type", "application/json");
        send(request.header("Content-Encoding", coding).body(body))
    };
    for coding in ["deflate", "gzip, gzip", "compress", ""] {
        let answer = post(coding, b"{}".to_vec()).await;
        answer.error(415, "content_encoding_unknown");
        assert_eq!(answer.header("accept-encoding"), "zstd, br, gzip");
    }
    for coding in CODINGS {
        let whole = packed(coding, json!({"name": "cut short", "author_id": 1}).to_string().as_bytes());
        post(coding, b"{\"name\": \"plain\"}".to_vec()).await.error(400, "body_unreadable");
        post(coding, whole[..whole.len() - 5].to_vec()).await.error(400, "body_unreadable");
    }
}
