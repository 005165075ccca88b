//! From when until when a certificate is valid.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

/// The time before its end at which a certificate should be replaced.
const SOON: TimeDelta = TimeDelta::days(14);

/// A moment before every certificate and one after it, in seconds.
const ENDS: [u64; 2] = [0, 253_402_300_799];

/// The time in which clients take a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    /// Its first moment.
    from: DateTime<Utc>,
    /// Its last moment.
    until: DateTime<Utc>,
}

/// The state of a certificate at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its time has not begun.
    Early,
    /// Clients still accept it for a while.
    Good,
    /// It ends soon.
    EndsSoon,
    /// Its time is over.
    Over,
}

impl Validity {
    /// That of the certificate; nothing if it does not say.
    ///
    /// The library reports these times only when it refuses a certificate because of them, so it is asked for a moment
    /// before and one after them.
    pub(super) fn of(certificate: &CertificateDer<'_>, provider: &Arc<CryptoProvider>) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).ok()?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build().ok()?;
        let name = ServerName::try_from("localhost").ok()?;
        let refusal = |seconds| {
            let moment = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier.verify_server_cert(certificate, &[], &name, &[], moment).err()
        };
        let [before, behind] = ENDS.map(refusal);
        // What is valid since the beginning of that count is not refused then.
        let from = match before {
            Some(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
                time(not_before)?
            }
            _ => DateTime::UNIX_EPOCH,
        };
        match behind {
            Some(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                Some(Self { from, until: time(not_after)? })
            }
            Some(Error::InvalidCertificate(CertificateError::Expired)) => Some(Self::NEVER),
            _ => None,
        }
    }

    /// Ends before it begins, so that the library reports neither.
    const NEVER: Self = Self { from: DateTime::<Utc>::MAX_UTC, until: DateTime::<Utc>::MIN_UTC };

    /// The state of the certificate at `now`.
    pub(super) fn standing(&self, now: DateTime<Utc>) -> Standing {
        match now {
            _ if *self == Self::NEVER => Standing::Over,
            now if now < self.from => Standing::Early,
            now if now > self.until => Standing::Over,
            now if now > self.until - SOON => Standing::EndsSoon,
            _ => Standing::Good,
        }
    }

    /// The message about it at `now`, with the remedy; nothing for one that is valid for a while.
    pub(super) fn concern(&self, now: DateTime<Utc>) -> Option<String> {
        let text = |time: DateTime<Utc>| time.format("%Y-%m-%dT%H:%M:%SZ");
        let remedy = "put a new one there, and send SIGHUP to a service that runs";
        match self.standing(now) {
            Standing::Good => None,
            Standing::Over if *self == Self::NEVER => {
                Some(format!("the certificate ends before it begins, and clients refuse it; {remedy}"))
            }
            Standing::Early => Some(format!(
                "the certificate is valid from {} on, and clients refuse it until then; set the clock, or {remedy}",
                text(self.from)
            )),
            Standing::EndsSoon => Some(format!("the certificate is valid until {} only; {remedy}", text(self.until))),
            Standing::Over => {
                Some(format!("the certificate is over since {}, and clients refuse it; {remedy}", text(self.until)))
            }
        }
    }
}

fn time(moment: UnixTime) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(i64::try_from(moment.as_secs()).ok()?, 0)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::crypto::aws_lc_rs;

    use super::*;

    fn day(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z")).expect("a day").to_utc()
    }

    #[test]
    fn a_certificate_tells_its_first_and_its_last_moment() {
        let provider = Arc::new(aws_lc_rs::default_provider());
        for (from, until) in
            [((2024, 2, 29), (2025, 3, 1)), ((1970, 1, 1), (2049, 12, 31)), ((2051, 1, 1), (2060, 1, 1))]
        {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
            params.not_before = date_time_ymd(from.0, from.1, from.2);
            params.not_after = date_time_ymd(until.0, until.1, until.2);
            let made = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
            let found = Validity::of(made.der(), &provider).expect("a time");
            let of = |(year, month, day): (i32, u8, u8)| format!("{year}-{month:02}-{day:02}");
            assert_eq!((found.from, found.until), (day(&of(from)), day(&of(until))));
        }
    }

    #[test]
    fn a_certificate_is_told_of_in_its_last_two_weeks_and_outside_of_its_time() {
        let validity = Validity { from: day("2026-01-01"), until: day("2026-03-31") };
        for (now, standing, said) in [
            ("2025-12-31", Standing::Early, "valid from 2026-01-01T00:00:00Z on"),
            ("2026-01-01", Standing::Good, ""),
            ("2026-03-17", Standing::Good, ""),
            ("2026-03-18", Standing::EndsSoon, "valid until 2026-03-31T00:00:00Z only"),
            ("2026-04-01", Standing::Over, "over since 2026-03-31T00:00:00Z"),
        ] {
            let concern = validity.concern(day(now)).unwrap_or_default();
            assert_eq!(validity.standing(day(now)), standing, "{now}");
            assert!(concern.contains(said) && concern.is_empty() == said.is_empty(), "{now}: {concern}");
        }
    }
}
