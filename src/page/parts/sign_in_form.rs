//! The form in which somebody signs in, also in the middle of another form.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use maud::{Markup, html};

use crate::http::session::PAGE;
use crate::page::answer;
use crate::page::answer::document;
use crate::page::guard::TOKEN;
use crate::page::texts::Texts;

/// What names of kept values begin with.
pub const KEPT: &str = "kept.";

/// The longest name and password.
pub const LONGEST: usize = 1024;

/// The form for somebody whose session ended while they typed; what they typed is in it.
pub fn interrupted(texts: Texts, next: &str, sent: &[(String, String)]) -> HttpResponse {
    // A new password is typed again.
    let kept = sent.iter().filter(|(name, _)| name != TOKEN && name != "password");
    let kept: Vec<(String, String)> = kept.cloned().collect();
    let note = Some(texts.say(if kept.is_empty() { "sign-in-again" } else { "sign-in-kept" }));
    answer(texts, StatusCode::UNAUTHORIZED, &Shown { next: within(next), name: "", note, problem: None, kept: &kept })
}

/// An address within the page; any other leads to the first page.
pub fn within(next: &str) -> &str {
    let plain = |sign: char| sign.is_ascii_graphic() && sign != '\\';
    if next.starts_with(PAGE) && next.chars().all(plain) { next } else { PAGE }
}

/// What the form shows.
pub struct Shown<'a> {
    /// Where the sign-in leads.
    pub next: &'a str,
    /// The name that was typed.
    pub name: &'a str,
    /// Why it is here.
    pub note: Option<String>,
    /// What went wrong.
    pub problem: Option<String>,
    /// What was typed into another form.
    pub kept: &'a [(String, String)],
}

/// The form as an answer.
pub fn answer(texts: Texts, status: StatusCode, shown: &Shown<'_>) -> HttpResponse {
    answer::html(status, document(texts, &texts.say("sign-in"), form(texts, shown)))
}

fn form(texts: Texts, shown: &Shown<'_>) -> Markup {
    html! {
        main.alone {
            h1 { (texts.say("product")) }
            @if let Some(note) = &shown.note { p.note role="status" { (note) } }
            form.sign-in action="/ui/sign-in" method="post" {
                @if let Some(problem) = &shown.problem { p.error #problem role="alert" { (problem) } }
                input type="hidden" name="next" value=(shown.next);
                @for (name, value) in shown.kept { input type="hidden" name={ (KEPT) (name) } value=(value); }
                div.field {
                    label for="user_name" { (texts.say("sign-in-name")) }
                    input #user_name name="user_name" value=(shown.name) autocomplete="username" autocapitalize="none"
                        spellcheck="false" required maxlength=(LONGEST) autofocus;
                }
                div.field {
                    label for="password" { (texts.say("sign-in-password")) }
                    input #password type="password" name="password" autocomplete="current-password" required maxlength=(LONGEST)
                        aria-describedby=[shown.problem.as_ref().map(|_| "problem")];
                }
                button.main { (texts.say("sign-in")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_leads_nowhere_but_into_the_page() {
        assert_eq!(within("/ui/objects/7?at=3"), "/ui/objects/7?at=3");
        for next in ["", "//example.org", "https://example.org/ui/", "/rest/", "/ui/\\x", "/ui/ x", "/ui/\r\nA: b"] {
            assert_eq!(within(next), PAGE, "{next:?}");
        }
    }
}
