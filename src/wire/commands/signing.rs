//! Sign-in by SCRAM-SHA-256: `saslStart`, `saslContinue`, `logout`.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};

use super::options::Options;
use super::{Call, done};
use crate::auth::scram::ClientFirst;
use crate::wire::error::{WireError, code};
use crate::wire::session::SignedIn;

/// The one way to sign in.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";

/// Each connection has one conversation at a time.
const CONVERSATION: i32 = 1;

pub(super) async fn start(call: Call<'_>, options: &Options) -> Result<Vec<u8>, WireError> {
    options.only(&["mechanism", "payload", "autoAuthorize", "options"])?;
    done(first_step(call, options).await?)
}

/// The first step of a sign-in: who, and the salt for the proof.
pub(super) async fn first_step(call: Call<'_>, options: &Options) -> Result<Document, WireError> {
    let Call { shared, session, .. } = call;
    let mechanism = options.text("mechanism")?.unwrap_or_default();
    if mechanism != MECHANISM {
        let message =
            format!("Received authentication for mechanism {mechanism} which is not enabled; use {MECHANISM}");
        return Err(WireError::new(code::MECHANISM_UNAVAILABLE, message));
    }
    if options.database != "admin" && options.database != shared.parts.database {
        return Err(failed());
    }
    session.sign_out();
    let first = ClientFirst::parse(payload(options)?)
        .map_err(|error| WireError::new(code::AUTHENTICATION_FAILED, error.to_string()))?;
    let address = Some(session.address());
    let exchange = shared.parts.services.accounts.scram_begin(first, address).await?;
    let skips = options.document("options")?.and_then(|options| options.get_bool("skipEmptyExchange").ok());
    session.awaits_empty = !skips.unwrap_or(false);
    session.source.clone_from(&options.database);
    let answer = step(false, exchange.server_first());
    session.exchange = Some(exchange);
    Ok(answer)
}

/// The second step: the proof. Some drivers send a third, empty one.
pub(super) async fn go_on(call: Call<'_>, options: &Options) -> Result<Vec<u8>, WireError> {
    options.only(&["conversationId", "payload"])?;
    let Call { shared, session, .. } = call;
    let sent = payload(options)?;
    let Some(exchange) = session.exchange.take() else {
        if session.signed_in().is_some() && session.awaits_empty && sent.is_empty() {
            session.awaits_empty = false;
            return done(step(true, ""));
        }
        return Err(WireError::new(17, "No SASL session state found"));
    };
    let address = Some(session.address());
    // A wrong proof ends the conversation, not the connection, as in MongoDB.
    let signed_in = shared.parts.services.accounts.scram_finish(&exchange, sent, address).await?;
    let source = std::mem::take(&mut session.source);
    session.sign_in(SignedIn {
        user_name: exchange.user_name,
        source,
        token: signed_in.token,
        user_id: signed_in.caller.user_id,
    });
    done(step(!session.awaits_empty, &signed_in.answer))
}

/// Forgets who signed in.
pub(super) fn end(call: Call<'_>) -> Result<Vec<u8>, WireError> {
    call.shared.cursors.drop_connection(call.session.id);
    call.session.sign_out();
    done(Document::new())
}

fn payload(options: &Options) -> Result<&[u8], WireError> {
    match options.get("payload") {
        Some(Bson::Binary(binary)) => Ok(&binary.bytes),
        Some(Bson::String(text)) => Ok(text.as_bytes()),
        _ => Err(WireError::new(code::AUTHENTICATION_FAILED, "the payload of a sign-in is missing")),
    }
}

fn step(is_done: bool, payload: &str) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: payload.as_bytes().to_vec() };
    doc! { "conversationId": CONVERSATION, "done": is_done, "payload": payload }
}

fn failed() -> WireError {
    WireError::new(code::AUTHENTICATION_FAILED, "Authentication failed.")
}
