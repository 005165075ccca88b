//! What the service says against a form.

use maud::{Markup, html};

use crate::http::error::ApiError;
use crate::page::texts::Texts;

/// A refusal that the form can show, so that nothing that was typed is lost.
///
/// # Errors
/// The error, if no form can mend it: the session ended, something does not exist, the service failed.
pub fn mendable(error: ApiError) -> Result<ApiError, ApiError> {
    let is_final = [401, 404].contains(&error.code().status()) || error.status().is_server_error();
    if is_final { Err(error) } else { Ok(error) }
}

/// A refusal in lines: the message, then each place with what is wrong there.
pub fn lines(error: &ApiError, place: impl Fn(&str) -> String) -> Vec<String> {
    let of_places = error.places().iter().map(|at| format!("{}: {}", place(&at.pointer), at.message));
    std::iter::once(error.message().to_owned()).chain(of_places).collect()
}

/// The lines above a form; nothing where there are none. `text` is a note before them.
pub fn shown(texts: Texts, lines: &[String], text: Option<&str>) -> Markup {
    html! {
        @if !lines.is_empty() {
            div.errors role="alert" {
                h2 { (texts.say("errors-title")) }
                @if let Some(text) = text { p { (texts.say(text)) } }
                ul lang="en" { @for line in lines { li { bdi { (line) } } } }
            }
        }
    }
}
