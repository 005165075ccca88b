//! The output of commands, and its end when nobody reads it.

use std::fmt;
use std::io::{self, Write};

use crate::logging::escaped;

/// The status of a program that a closed pipe ended, as shells report it: 128 and the number of the signal.
pub const CLOSED_PIPE: u8 = 141;

/// The standard output took no more.
#[derive(Debug, thiserror::Error)]
#[error("the standard output cannot be written: {0}")]
struct NotWritten(io::Error);

/// The standard output of a command. Its errors say that they are of the output.
pub(super) struct Output(io::Stdout);

/// The standard output of this process.
pub(super) fn stdout() -> Output {
    Output(io::stdout())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(not_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(not_written)
    }
}

fn not_written(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), NotWritten(error))
}

/// Whether a command ended because the reader of its output closed it, as `head` does.
pub fn is_closed_pipe(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<io::Error>() else { return false };
    let written = error.get_ref().and_then(|inner| inner.downcast_ref::<NotWritten>());
    written.is_some() && error.kind() == io::ErrorKind::BrokenPipe
}

/// Prints a line of the answer. Use it as [`say!`].
pub(super) fn line(text: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(stdout(), "{}", harmless(text))
}

/// What people may read on a terminal. Names and values of clients are in it, so characters that a terminal would obey
/// are escaped; the ends of lines stay.
pub fn harmless(text: impl fmt::Display) -> String {
    let lines: Vec<String> = text.to_string().split('\n').map(escaped).collect();
    lines.join("\n")
}

/// Prints a line for people, apart from the answer, to standard error; failures to write are ignored.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", harmless(text));
}

/// Prints a line of the answer to a command, and returns an error when nobody reads it.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::output::line(format_args!($($text)*))? };
}
pub(super) use say;

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn nothing_in_a_line_moves_the_cursor_of_a_terminal() {
        let told = harmless(format_args!("rack {}\nnext", "\u{1b}[2Jr1\r\u{9b}1A\u{202e}"));
        assert_eq!(told, "rack \\u{1b}[2Jr1\\r\\u{9b}1A\\u{202e}\nnext");
        assert_eq!(harmless("K\u{f6}ln \u{2713}"), "K\u{f6}ln \u{2713}");
    }
}
