//! Shows the progress of long work: a bar on a terminal, otherwise lines from time to time.

use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Lines between the first and the last thing.
const LINES: u64 = 10;

/// Receives the progress of work. Several works may follow each other.
pub trait Progress {
    /// Work begins: the number and the name of its items, for instance `objects`.
    fn begin(&self, things: &str, total: u64);
    /// This many more items are done; the label describes them and may be empty.
    fn advance(&self, count: u64, label: &str);
    /// All are done.
    fn end(&self);
}

/// What suits the standard error of this process.
pub fn on_stderr() -> Box<dyn Progress> {
    if stderr().is_terminal() { Box::new(Bar::new()) } else { Box::new(Lines::default()) }
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64, _: &str) {}
    fn end(&self) {}
}

/// A bar that is drawn over itself.
struct Bar {
    bar: ProgressBar,
    label: RefCell<String>,
}

impl Bar {
    fn new() -> Self {
        Self { bar: ProgressBar::no_length(), label: RefCell::default() }
    }
}

impl Progress for Bar {
    fn begin(&self, things: &str, total: u64) {
        let template =
            format!("{{bar:40}} {{human_pos}} of {{human_len}} {things}, {{rate}} a second, {{eta}} left  {{msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is well-formed");
        // Its own notation of rates has a fraction of four digits.
        self.bar.set_style(style.with_key("rate", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{:.0}", state.per_sec());
        }));
        self.bar.reset();
        self.bar.set_length(total);
    }

    fn advance(&self, count: u64, label: &str) {
        if *self.label.borrow() != label {
            label.clone_into(&mut self.label.borrow_mut());
            self.bar.set_message(label.to_owned());
        }
        self.bar.inc(count);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Lines for logs and files.
#[derive(Default)]
struct Lines {
    things: RefCell<String>,
    total: Cell<u64>,
    done: Cell<u64>,
    begin: Cell<Option<Instant>>,
}

impl Progress for Lines {
    fn begin(&self, things: &str, total: u64) {
        things.clone_into(&mut self.things.borrow_mut());
        self.total.set(total);
        self.done.set(0);
        self.begin.set(Some(Instant::now()));
    }

    fn advance(&self, count: u64, label: &str) {
        let (before, total) = (self.done.get(), self.total.get().max(1));
        let done = before + count;
        self.done.set(done);
        if done * LINES / total > before * LINES / total {
            let seconds = self.begin.get().map_or(0.0, |begin| begin.elapsed().as_secs_f64());
            let label = if label.is_empty() { String::new() } else { format!(" ({label})") };
            let _ = writeln!(stderr(), "{done} of {total} {} in {seconds:.0} s{label}", self.things.borrow());
        }
    }

    fn end(&self) {}
}
