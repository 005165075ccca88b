//! `hello` and its older names: what the server is, and perhaps the first step of a sign-in.

use bson::{Bson, DateTime, Document, doc};

use super::options::Options;
use super::{Call, done, signing};
use crate::wire::codec::{Compressor, LARGEST_MESSAGE};
use crate::wire::error::WireError;

/// The protocol of MongoDB 6.0.
const WIRE_VERSION: i32 = 17;

/// The largest document of MongoDB.
const LARGEST_DOCUMENT: i32 = 16 * 1024 * 1024;

/// Describes the server. The client's description of itself is ignored.
pub(super) async fn hello(call: Call<'_>, options: &Options) -> Result<Vec<u8>, WireError> {
    let offered = options.array("compression")?.unwrap_or_default();
    let agreed = offered.iter().filter_map(Bson::as_str).filter_map(Compressor::named).map(Compressor::name);
    let compression: Vec<&str> = agreed.collect();
    let is_primary = if options.command == "hello" { "isWritablePrimary" } else { "ismaster" };
    let mut answer = doc! { "helloOk": true, is_primary: true };
    answer.extend(doc! {
        "maxBsonObjectSize": LARGEST_DOCUMENT,
        "maxMessageSizeBytes": i32::try_from(LARGEST_MESSAGE).unwrap_or(i32::MAX),
        "maxWriteBatchSize": 100_000,
        "localTime": DateTime::from_chrono(call.shared.parts.services.clock.now()),
        "logicalSessionTimeoutMinutes": 30,
        "connectionId": call.session.id,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION,
        "readOnly": true,
    });
    if !compression.is_empty() {
        answer.insert("compression", compression);
    }
    if options.get("saslSupportedMechs").is_some() {
        // The same for every name, so that it does not disclose who exists.
        answer.insert("saslSupportedMechs", vec![signing::MECHANISM]);
    }
    if let Some(speculative) = options.document("speculativeAuthenticate")? {
        // A first step that fails is left out; the client then begins again, and gets the error.
        if let Ok(step) = first_step(call, options, speculative).await {
            answer.insert("speculativeAuthenticate", step);
        }
    }
    done(answer)
}

async fn first_step(call: Call<'_>, options: &Options, asked: &Document) -> Result<Document, WireError> {
    let database = asked.get_str("db").unwrap_or(&options.database).to_owned();
    let mut asked = asked.clone();
    asked.remove("db");
    let inner = Options::read("saslStart", asked, Some(&database))?;
    signing::first_step(call, &inner).await
}
