//! The outline of every document.

use maud::{DOCTYPE, Markup, html};

use crate::page::files;
use crate::page::texts::Texts;

/// A whole document; everything within its body is given.
pub fn document(texts: Texts, title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(texts.language()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – " (texts.say("product")) }
                link rel="stylesheet" href=(files::style());
                link rel="icon" type="image/svg+xml" href=(files::icon());
            }
            body { (body) }
        }
    }
}
