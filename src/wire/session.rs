//! The state of a connection's client: who signed in, with which token, and the client's address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::error::{WireError, code};
use super::shared::{Shared, address};
use crate::admission::Ticket;
use crate::auth::scram::Exchange;
use crate::service::Caller;
use crate::service::accounts::scram::SessionToken;

/// The state of a connection.
pub(super) struct Session {
    /// Its number.
    pub(super) id: i64,
    /// Where the client is.
    pub(super) peer: SocketAddr,
    signed_in: Option<SignedIn>,
    /// A sign-in that has begun.
    pub(super) exchange: Option<Exchange>,
    /// The database of this sign-in.
    pub(super) source: String,
    /// Whether the next message of a client ends its sign-in: it only says that it has seen the proof.
    pub(super) awaits_empty: bool,
}

/// Who signed in.
pub(super) struct SignedIn {
    /// The name as it was sent.
    pub(super) user_name: String,
    /// The database that the client named with its user name.
    pub(super) source: String,
    /// The token.
    pub(super) token: SessionToken,
    /// The user's id, for tickets.
    pub(super) user_id: i64,
}

impl Session {
    pub(super) fn new(id: i64, peer: SocketAddr) -> Self {
        Self { id, peer, signed_in: None, exchange: None, source: String::new(), awaits_empty: false }
    }

    /// The address of the client.
    pub(super) fn address(&self) -> IpAddr {
        address(self.peer)
    }

    /// The user, if the client has signed in.
    pub(super) fn signed_in(&self) -> Option<&SignedIn> {
        self.signed_in.as_ref()
    }

    /// The client has signed in.
    pub(super) fn sign_in(&mut self, signed_in: SignedIn) {
        self.signed_in = Some(signed_in);
    }

    /// The client has signed out.
    pub(super) fn sign_out(&mut self) {
        self.signed_in = None;
        self.exchange = None;
    }

    /// The ticket of the next command.
    pub(super) fn ticket(&self, shared: &Shared) -> Ticket {
        match &self.signed_in {
            Some(signed_in) => shared.parts.services.admission.ticket(signed_in.user_id),
            None => Ticket::default(),
        }
    }

    /// The caller, with the rights of this moment. A revoked token ends the connection.
    ///
    /// # Errors
    /// Code 13 when the client has not signed in, code 18 when the token is no longer valid.
    pub(super) async fn caller(&self, shared: &Shared, command: &str) -> Result<Arc<Caller>, WireError> {
        let Some(signed_in) = &self.signed_in else {
            let message = format!("command {command} requires authentication");
            return Err(WireError::new(code::UNAUTHORIZED, message));
        };
        let found = shared.parts.services.accounts.scram_caller(&signed_in.token).await;
        found.map_err(|error| {
            let error = WireError::from(error);
            if error.code == code::AUTHENTICATION_FAILED { error.and_close() } else { error }
        })
    }
}
