//! Metrics: counts and times of requests and of store calls, in the text format of Prometheus.
//!
//! One set for each service. An update costs a look-up in a map and one or two atomic additions.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// Upper bounds of the histogram of times, in seconds: from answers out of memory to ends of time budgets.
const SECONDS: [f64; 14] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// Upper bounds of the numbers of units that share a commit.
const UNITS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// All that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: HistogramVec,
    under_way: IntGauge,
    store_calls: HistogramVec,
    refused_queries: IntCounterVec,
    cache_lookups: IntCounterVec,
    panics: IntCounter,
    search_pending: IntGauge,
    search_objects: IntCounter,
    sign_ins: IntCounterVec,
    deliveries: IntCounterVec,
    writable: IntGauge,
    objects: IntGaugeVec,
    streams: IntGauge,
    behind: IntCounter,
    /// Created by the first figure; other stores have none.
    embedded: OnceLock<Embedded>,
}

/// Figures of the embedded store.
#[derive(Debug)]
struct Embedded {
    file_bytes: IntGauge,
    disk_bytes: IntGauge,
    unused_bytes: IntGauge,
    unused_age: Gauge,
    queue_length: IntGauge,
    damaged: IntGauge,
    full: IntGauge,
    commits: IntCounter,
    group_units: Histogram,
    free_bytes: IntGauge,
    backups: IntCounterVec,
    last_backup: Gauge,
}

/// The figures of the embedded store at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddedFigures {
    /// The length of its file.
    pub file_bytes: u64,
    /// What the file takes on disk: less, where it is longer than what was ever written.
    pub disk_bytes: u64,
    /// The estimated unused part of it at the last measurement.
    pub unused_bytes: u64,
    /// How long ago that was.
    pub unused_age: Duration,
    /// Units that wait for the writer.
    pub queue_length: u64,
    /// Whether a damaged page was found.
    pub is_damaged: bool,
    /// Whether the last write that adds something found no room.
    pub is_full: bool,
    /// The bytes on its disk that the service may still take; 0 where the system does not say.
    pub free_bytes: u64,
}

/// Figures that are looked up when metrics are asked for.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// Defects that were met.
    pub panics: u64,
    /// Parts of the index of words that are to be made, if that is known.
    pub search_pending: Option<u64>,
    /// Objects that this process has looked at for it.
    pub search_looked_at: u64,
    /// Those of the embedded store.
    pub embedded: Option<EmbeddedFigures>,
    /// Whether the store takes writes.
    pub is_writable: bool,
    /// The number of objects by the name of their type, if they could be counted.
    pub objects: Option<Vec<(String, u64)>>,
    /// Open streams of changes.
    pub streams: u64,
    /// How many times a follower of changes was so slow that it had to read the store.
    pub behind: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A set in which nothing has happened yet.
    ///
    /// # Panics
    /// When two of them have one name, which the tests would show.
    pub fn new() -> Self {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self())).expect("it is the only one");
        let build =
            IntGaugeVec::new(Opts::new("inventory_build_info", "1, with the version of this build."), &["version"]);
        let build = add(&registry, build);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let refused_queries = counters(
            &registry,
            "inventory_refused_queries_total",
            "Filters, sorts, projections and other parameters that were refused, by the code of the answer.",
            &["code"],
        );
        // Without it the metric would be absent until the first refusal, and an alert on it would be none.
        refused_queries.with_label_values(&["parameter_invalid"]).inc_by(0);
        let store_calls = add(
            &registry,
            times(
                "inventory_store_call_duration_seconds",
                "Calls of the store and their time, by operation and outcome.",
                &["operation", "outcome"],
            ),
        );
        // Refused writes, for the same reason.
        for outcome in ["no_room", "unavailable"] {
            let _ = store_calls.with_label_values(&["commit", outcome]);
        }
        Self {
            requests: add(
                &registry,
                times(
                    "inventory_http_request_duration_seconds",
                    "Requests and the time to their answers, by route, method and status.",
                    &["route", "method", "status"],
                ),
            ),
            under_way: add(
                &registry,
                IntGauge::new("inventory_http_requests_under_way", "Requests that wait for their answer."),
            ),
            store_calls,
            refused_queries,
            cache_lookups: counters(
                &registry,
                "inventory_cache_lookups_total",
                "Questions to what is kept in memory, by cache and whether it knew the answer (hit, miss).",
                &["cache", "outcome"],
            ),
            panics: add(
                &registry,
                IntCounter::new("inventory_panics_total", "Defects that were met while a request was handled."),
            ),
            search_pending: add(
                &registry,
                IntGauge::new(
                    "inventory_search_pending",
                    "Parts of the index of words that are to be made: all objects, or those of a changed type. 0: complete.",
                ),
            ),
            search_objects: add(
                &registry,
                IntCounter::new("inventory_search_objects_total", "Objects looked at to complete the index of words."),
            ),
            sign_ins: counters(
                &registry,
                "inventory_sign_ins_total",
                "Sign-ins with a name and a password, by outcome (accepted, refused, held_back).",
                &["outcome"],
            ),
            deliveries: counters(
                &registry,
                "inventory_webhook_deliveries_total",
                "Attempts to deliver to webhooks, by outcome (delivered, failed, paused).",
                &["outcome"],
            ),
            writable: add(
                &registry,
                IntGauge::new("inventory_store_writable", "1 while the store takes writes, 0 otherwise."),
            ),
            objects: add(
                &registry,
                IntGaugeVec::new(Opts::new("inventory_objects", "Objects, by the name of their type."), &["type"]),
            ),
            streams: add(&registry, IntGauge::new("inventory_change_streams", "Open streams of changes.")),
            behind: add(
                &registry,
                IntCounter::new(
                    "inventory_followers_behind_total",
                    "How often a follower of changes (a stream, a webhook) was so slow that it had to read the store.",
                ),
            ),
            embedded: OnceLock::new(),
            registry,
        }
    }

    /// A request begins; it runs until the returned value is dropped.
    pub fn begin(&self) -> UnderWay {
        self.under_way.inc();
        UnderWay(self.under_way.clone())
    }

    /// A request was answered. `route` is the pattern, never the path: there are as many as in the description.
    pub fn answered(&self, route: &str, method: &str, status: &str, time: Duration) {
        self.requests.with_label_values(&[route, method, status]).observe(time.as_secs_f64());
    }

    /// A filter, sort, projection or other parameter was refused.
    pub fn refused(&self, code: &str) {
        self.refused_queries.with_label_values(&[code]).inc();
    }

    /// Counts a call of the store and its time.
    pub fn store_call(&self, operation: &str, outcome: &str, time: Duration) {
        self.store_calls.with_label_values(&[operation, outcome]).observe(time.as_secs_f64());
    }

    /// The embedded store committed `units` units at once.
    pub fn committed(&self, units: usize) {
        let embedded = self.embedded();
        embedded.commits.inc();
        // There are no more than a few hundred in a group.
        embedded.group_units.observe(f64::from(u32::try_from(units).unwrap_or(u32::MAX)));
    }

    /// A backup of the embedded store was sent, or not.
    pub fn backup(&self, is_made: bool) {
        self.embedded().backups.with_label_values(&[if is_made { "made" } else { "failed" }]).inc();
    }

    /// When the last backup was made.
    pub fn last_backup(&self, at: Option<SystemTime>) {
        let seconds = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
        self.embedded().last_backup.set(seconds.as_secs_f64());
    }

    fn embedded(&self) -> &Embedded {
        self.embedded.get_or_init(|| Embedded::new(&self.registry))
    }

    /// All of it as text, with figures that are looked up for the occasion.
    pub fn text(
        &self,
        caches: &[(&str, &Tally)],
        sign_ins: &Outcomes,
        deliveries: &Outcomes,
        moment: Moment,
    ) -> String {
        sign_ins.raise(&self.sign_ins);
        deliveries.raise(&self.deliveries);
        for (cache, tally) in caches {
            let (hits, misses) = tally.take();
            self.cache_lookups.with_label_values(&[cache, "hit"]).inc_by(hits);
            self.cache_lookups.with_label_values(&[cache, "miss"]).inc_by(misses);
        }
        self.panics.inc_by(moment.panics.saturating_sub(self.panics.get()));
        if let Some(pending) = moment.search_pending {
            self.search_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        }
        self.writable.set(i64::from(moment.is_writable));
        self.streams.set(i64::try_from(moment.streams).unwrap_or(i64::MAX));
        self.behind.inc_by(moment.behind.saturating_sub(self.behind.get()));
        // Types that are gone have no number.
        self.objects.reset();
        for (name, count) in moment.objects.unwrap_or_default() {
            self.objects.with_label_values(&[&name]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.search_objects.inc_by(moment.search_looked_at.saturating_sub(self.search_objects.get()));
        if let Some(figures) = moment.embedded {
            let own = self.embedded();
            for (gauge, value) in [
                (&own.file_bytes, figures.file_bytes),
                (&own.disk_bytes, figures.disk_bytes),
                (&own.unused_bytes, figures.unused_bytes),
                (&own.queue_length, figures.queue_length),
                (&own.damaged, u64::from(figures.is_damaged)),
                (&own.full, u64::from(figures.is_full)),
                (&own.free_bytes, figures.free_bytes),
            ] {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
            own.unused_age.set(figures.unused_age.as_secs_f64());
        }
        let families = self.registry.gather();
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

impl Embedded {
    fn new(registry: &Registry) -> Self {
        let gauge = |name, help| add(registry, IntGauge::new(name, help));
        let backups = counters(
            registry,
            "inventory_backups_total",
            "Backups that the service was asked for, by outcome (made, failed).",
            &["outcome"],
        );
        for outcome in ["made", "failed"] {
            let _ = backups.with_label_values(&[outcome]);
        }
        let units = HistogramOpts::new("inventory_embedded_group_units", "Units that one commit made durable.");
        Self {
            file_bytes: gauge("inventory_embedded_file_bytes", "Length of the file of the embedded store."),
            disk_bytes: gauge("inventory_embedded_disk_bytes", "What the file of the embedded store takes on disk."),
            unused_bytes: gauge(
                "inventory_embedded_unused_bytes",
                "About how much of the file of the embedded store holds nothing, from samples.",
            ),
            unused_age: add(
                registry,
                Gauge::new(
                    "inventory_embedded_unused_age_seconds",
                    "How long ago inventory_embedded_unused_bytes was measured.",
                ),
            ),
            queue_length: gauge(
                "inventory_embedded_queue_length", "Units that wait for the writer of the embedded store.",
            ),
            full: gauge(
                "inventory_embedded_full",
                "1 while the disk of the embedded store has no room for what is written.",
            ),
            damaged: gauge(
                "inventory_embedded_damaged",
                "1 when a damaged page of the embedded store was met since the start of the service.",
            ),
            free_bytes: gauge(
                "inventory_embedded_free_bytes",
                "Bytes on the disk of the embedded store that the service may still take.",
            ),
            backups,
            last_backup: add(
                registry,
                Gauge::new(
                    "inventory_last_backup_timestamp_seconds",
                    "When the service made its last backup, in seconds since 1970; 0: it never did.",
                ),
            ),
            commits: add(
                registry,
                IntCounter::new("inventory_embedded_commits_total", "Commits of the embedded store."),
            ),
            group_units: add(registry, Histogram::with_opts(units.buckets(UNITS.to_vec()))),
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct UnderWay(IntGauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How an attempt to deliver to a webhook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has the event.
    Delivered,
    /// It is tried again.
    Failed,
    /// The webhook was paused.
    Paused,
}

/// How a sign-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    /// Name and password were right.
    Accepted,
    /// They were not, or the user is locked.
    Refused,
    /// Refused unchecked after too many failures.
    HeldBack,
}

/// How much ended in which way since the start: deliveries or sign-ins.
#[derive(Debug)]
pub struct Outcomes {
    names: [&'static str; 3],
    counts: [AtomicU64; 3],
}

impl Outcomes {
    /// Of attempts to deliver, see [`Delivery`].
    pub fn of_deliveries() -> Self {
        Self { names: ["delivered", "failed", "paused"], counts: Default::default() }
    }

    /// Of sign-ins, see [`SignIn`].
    pub fn of_sign_ins() -> Self {
        Self { names: ["accepted", "refused", "held_back"], counts: Default::default() }
    }

    /// One more ended, in the way with this number.
    pub fn note(&self, outcome: usize) {
        self.counts[outcome].fetch_add(1, Ordering::Relaxed);
    }

    /// Raises the counters to these numbers.
    fn raise(&self, counters: &IntCounterVec) {
        for (name, count) in self.names.iter().zip(&self.counts) {
            let counter = counters.with_label_values(&[*name]);
            counter.inc_by(count.load(Ordering::Relaxed).saturating_sub(counter.get()));
        }
    }
}

/// Hits and misses since they were last taken.
#[derive(Debug, Default)]
pub struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Tally {
    /// Notes a look-up in the cache.
    pub fn note(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes hits and misses, and starts again from zero.
    fn take(&self) -> (u64, u64) {
        (self.hits.swap(0, Ordering::Relaxed), self.misses.swap(0, Ordering::Relaxed))
    }
}

fn times(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<HistogramVec> {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()), labels)
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    add(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

fn add<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("the name and the labels are good ones");
    registry.register(Box::new(collector.clone())).expect("no two have one name");
    collector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_told() {
        let (metrics, tally) = (Metrics::new(), Tally::default());
        let (sign_ins, deliveries) = (Outcomes::of_sign_ins(), Outcomes::of_deliveries());
        metrics.answered("/rest/types/", "GET", "200", Duration::from_millis(3));
        metrics.store_call("find", "ok", Duration::from_millis(1));
        metrics.refused("query_unknown_operator");
        assert!(
            !metrics.text(&[], &sign_ins, &deliveries, Moment::default()).contains("inventory_embedded"),
            "there is no embedded store"
        );
        metrics.committed(3);
        sign_ins.note(SignIn::Refused as usize);
        deliveries.note(Delivery::Failed as usize);
        tally.note(true);
        tally.note(true);
        tally.note(false);
        let under_way = metrics.begin();
        let figures = EmbeddedFigures {
            file_bytes: 4096,
            disk_bytes: 2048,
            unused_bytes: 1024,
            unused_age: Duration::from_millis(1500),
            queue_length: 1,
            is_damaged: true,
            is_full: true,
            free_bytes: 512,
        };
        metrics.backup(false);
        metrics.last_backup(SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(2500)));
        let moment = Moment {
            panics: 2,
            embedded: Some(figures),
            search_pending: Some(1),
            search_looked_at: 3,
            is_writable: true,
            objects: Some(vec![("server".to_owned(), 7)]),
            streams: 4,
            behind: 5,
        };
        let text = metrics.text(&[("types", &tally)], &sign_ins, &deliveries, moment);
        for line in [
            r#"inventory_http_request_duration_seconds_count{method="GET",route="/rest/types/",status="200"} 1"#,
            r#"inventory_http_request_duration_seconds_bucket{method="GET",route="/rest/types/",status="200",le="0.005"} 1"#,
            r#"inventory_store_call_duration_seconds_count{operation="find",outcome="ok"} 1"#,
            r#"inventory_refused_queries_total{code="query_unknown_operator"} 1"#,
            r#"inventory_cache_lookups_total{cache="types",outcome="hit"} 2"#,
            r#"inventory_cache_lookups_total{cache="types",outcome="miss"} 1"#,
            r#"inventory_embedded_group_units_bucket{le="4"} 1"#,
            "inventory_embedded_commits_total 1",
            "inventory_embedded_file_bytes 4096",
            "inventory_embedded_disk_bytes 2048",
            "inventory_embedded_unused_bytes 1024",
            "inventory_embedded_unused_age_seconds 1.5",
            "inventory_embedded_damaged 1",
            "inventory_embedded_full 1",
            "inventory_http_requests_under_way 1",
            "inventory_panics_total 2",
            "inventory_store_writable 1",
            r#"inventory_objects{type="server"} 7"#,
            "inventory_change_streams 4",
            "inventory_followers_behind_total 5",
            "inventory_embedded_free_bytes 512",
            r#"inventory_backups_total{outcome="failed"} 1"#,
            r#"inventory_backups_total{outcome="made"} 0"#,
            "inventory_last_backup_timestamp_seconds 2.5",
            r#"inventory_store_call_duration_seconds_count{operation="commit",outcome="no_room"} 0"#,
            r#"inventory_sign_ins_total{outcome="refused"} 1"#,
            r#"inventory_sign_ins_total{outcome="accepted"} 0"#,
            r#"inventory_webhook_deliveries_total{outcome="failed"} 1"#,
            &format!("inventory_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
        for usual in [
            "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds",
            "process_start_time_seconds",
        ] {
            assert!(text.contains(usual), "{usual}");
        }
        drop(under_way);
        let moment = Moment { panics: 2, ..Moment::default() };
        let text = metrics.text(&[("types", &tally)], &sign_ins, &deliveries, moment);
        assert!(!text.contains("inventory_objects{"), "a type that is gone has no number");
        assert!(text.contains("inventory_http_requests_under_way 0") && text.contains("inventory_panics_total 2"));
        assert!(text.contains(r#"{cache="types",outcome="hit"} 2"#), "what was told is not told twice");
    }
}
