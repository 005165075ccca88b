//! Shows how far loading has come: a bar on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use super::load::Progress;
use super::model::Kind;

/// Lines between the first and the last object.
const LINES: u64 = 10;

/// What suits the standard error of this process.
pub fn on_stderr() -> Box<dyn Progress> {
    if stderr().is_terminal() { Box::new(Bar::new()) } else { Box::new(Lines::new()) }
}

/// A bar that is drawn over itself.
struct Bar {
    bar: ProgressBar,
    kind: Cell<Option<Kind>>,
}

impl Bar {
    fn new() -> Self {
        Self { bar: ProgressBar::no_length(), kind: Cell::new(None) }
    }
}

impl Progress for Bar {
    fn begin(&self, objects: u64) {
        let template = "{bar:40} {human_pos} of {human_len} objects, {per_sec}, {eta} left  {msg}";
        self.bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        self.bar.set_length(objects);
    }

    fn advance(&self, kind: Kind) {
        if self.kind.replace(Some(kind)) != Some(kind) {
            self.bar.set_message(kind.model().label);
        }
        self.bar.inc(1);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Lines for logs and files.
struct Lines {
    objects: Cell<u64>,
    done: Cell<u64>,
    begin: Cell<Option<Instant>>,
}

impl Lines {
    fn new() -> Self {
        Self { objects: Cell::new(0), done: Cell::new(0), begin: Cell::new(None) }
    }
}

impl Progress for Lines {
    fn begin(&self, objects: u64) {
        self.objects.set(objects);
        self.begin.set(Some(Instant::now()));
    }

    fn advance(&self, kind: Kind) {
        let done = self.done.get() + 1;
        self.done.set(done);
        let (objects, label) = (self.objects.get(), kind.model().label);
        if done * LINES / objects > (done - 1) * LINES / objects {
            let seconds = self.begin.get().map_or(0.0, |begin| begin.elapsed().as_secs_f64());
            eprintln!("{done} of {objects} objects in {seconds:.1} s ({label})");
        }
    }

    fn end(&self) {}
}
