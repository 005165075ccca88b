//! A browser without scripts: it keeps a cookie, follows links, and fills in forms as they are on the page.

use reqwest::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, COOKIE, HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::{Method, StatusCode};

use crate::support::app::{ADMIN_PASSWORD, TestApp};

/// A browser of one person.
pub(super) struct Browser<'a> {
    pub(super) app: &'a TestApp,
    pub(super) cookie: Option<String>,
    pub(super) language: &'static str,
}

/// A page that a browser got.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) html: String,
}

/// A form as it is on a page, to be filled in.
#[derive(Debug, Clone)]
pub(super) struct Form {
    action: String,
    pairs: Vec<(String, String)>,
}

/// A piece of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// A tag that begins, with its attributes.
    Begin(String, Vec<(String, String)>),
    End(String),
    Text(String),
}

impl<'a> Browser<'a> {
    /// Of nobody yet.
    pub(super) fn new(app: &'a TestApp) -> Self {
        Self { app, cookie: None, language: "en" }
    }

    /// Of the first administrator, signed in.
    pub(super) async fn of_admin(app: &'a TestApp) -> Self {
        Self::of(app, "admin", ADMIN_PASSWORD).await
    }

    /// Of a user, signed in.
    pub(super) async fn of(app: &'a TestApp, name: &str, password: &str) -> Self {
        let mut browser = Self::new(app);
        let page = browser.sign_in(name, password, "/ui/").await;
        assert_eq!(page.status, 303, "{}", page.html);
        browser
    }

    pub(super) async fn sign_in(&mut self, name: &str, password: &str, next: &str) -> Page {
        let pairs = [("user_name", name), ("password", password), ("next", next)];
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.post("/ui/sign-in", &pairs).await
    }

    pub(super) async fn get(&mut self, path: &str) -> Page {
        self.send(Method::GET, path, &[], None).await
    }

    /// A page that must be there.
    pub(super) async fn page(&mut self, path: &str) -> Page {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.html);
        page
    }

    /// A form that is sent from a page of the service.
    pub(super) async fn post(&mut self, path: &str, pairs: &[(String, String)]) -> Page {
        let origin = self.app.origin.clone();
        self.send(Method::POST, path, &[(ORIGIN.as_str(), &origin)], Some(pairs)).await
    }

    pub(super) async fn submit(&mut self, form: &Form) -> Page {
        self.post(&form.action, &form.pairs).await
    }

    /// Sends a form, which must lead on, and follows.
    pub(super) async fn submitted(&mut self, form: &Form) -> Page {
        let page = self.submit(form).await;
        assert_eq!(page.status, 303, "{}", page.text());
        self.page(&page.location()).await
    }

    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        pairs: Option<&[(String, String)]>,
    ) -> Page {
        let mut request = self.app.anonymous(method, &format!("{}{path}", self.app.origin));
        request = request.header(ACCEPT_LANGUAGE, self.language).header("accept", "text/html");
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(pairs) = pairs {
            let mut body = url::form_urlencoded::Serializer::new(String::new());
            let body = body.extend_pairs(pairs).finish();
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        }
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status(), answer.headers().clone());
        if let Some(cookie) = headers.get(SET_COOKIE) {
            let cookie = cookie.to_str().expect("ASCII").split(';').next().unwrap_or_default();
            self.cookie = Some(cookie.to_owned()).filter(|cookie| !cookie.ends_with('='));
        }
        Page { status, headers, html: answer.text().await.expect("a text") }
    }
}

impl Page {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }

    pub(super) fn location(&self) -> String {
        self.header(LOCATION.as_str()).to_owned()
    }

    /// What a reader sees, without marks of direction, in one line.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for piece in pieces(&self.html) {
            match piece {
                Piece::Text(piece) => text.push_str(&piece),
                Piece::Begin(name, _) | Piece::End(name) if ["bdi", "a", "span", "time"].contains(&name.as_str()) => {}
                _ => text.push(' '),
            }
        }
        let text: String = text.chars().filter(|sign| !['\u{2068}', '\u{2069}'].contains(sign)).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(super) fn shows(&self, wanted: &str) -> &Self {
        assert!(self.text().contains(wanted), "{wanted:?} is not in: {}", self.text());
        self
    }

    #[track_caller]
    pub(super) fn hides(&self, unwanted: &str) -> &Self {
        assert!(!self.html.contains(unwanted), "{unwanted:?} is in: {}", self.text());
        self
    }

    /// The address of the link with this text.
    #[track_caller]
    pub(super) fn link(&self, wanted: &str) -> String {
        let pieces = pieces(&self.html);
        for (index, piece) in pieces.iter().enumerate() {
            let Piece::Begin(name, attributes) = piece else { continue };
            if name != "a" {
                continue;
            }
            let inner = pieces[index + 1..].iter().take_while(|piece| **piece != Piece::End("a".to_owned()));
            let text: String = inner
                .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None })
                .collect();
            if text.trim().replace(['\u{2068}', '\u{2069}'], "") == wanted {
                return value(attributes, "href").unwrap_or_default();
            }
        }
        panic!("no link {wanted:?} in: {}", self.text());
    }

    /// The form that is sent to this path.
    #[track_caller]
    pub(super) fn form(&self, action: &str) -> Form {
        let pieces = pieces(&self.html);
        let mut pairs = Vec::new();
        let (mut is_inside, mut is_found) = (false, false);
        let mut selected: Option<(String, Option<String>)> = None;
        let mut area: Option<(String, String)> = None;
        for piece in &pieces {
            match piece {
                Piece::Begin(name, attributes) if name == "form" => {
                    is_inside = value(attributes, "action").as_deref() == Some(action);
                    is_found |= is_inside;
                }
                Piece::End(name) if name == "form" => is_inside = false,
                _ if !is_inside => {}
                Piece::Begin(name, attributes) if name == "input" => pairs.extend(input(attributes)),
                Piece::Begin(name, attributes) if name == "select" => {
                    selected = value(attributes, "name").map(|name| (name, None));
                }
                Piece::Begin(name, attributes) if name == "option" => {
                    if let Some((_, chosen)) = &mut selected
                        && (chosen.is_none() || value(attributes, "selected").is_some())
                    {
                        *chosen = value(attributes, "value");
                    }
                }
                Piece::End(name) if name == "select" => {
                    pairs.extend(selected.take().map(|(name, chosen)| (name, chosen.unwrap_or_default())));
                }
                Piece::Begin(name, attributes) if name == "textarea" => {
                    area = value(attributes, "name").map(|name| (name, String::new()));
                }
                Piece::Text(text) => area.iter_mut().for_each(|(_, typed)| typed.push_str(text)),
                Piece::End(name) if name == "textarea" => {
                    // The first line end after the tag is none of the text; browsers send their own.
                    let line_ends = |typed: String| typed.strip_prefix('\n').unwrap_or(&typed).replace('\n', "\r\n");
                    pairs.extend(area.take().map(|(name, typed)| (name, line_ends(typed))));
                }
                _ => {}
            }
        }
        assert!(is_found, "no form to {action} in: {}", self.text());
        Form { action: action.to_owned(), pairs }
    }
}

/// What a browser sends of an input.
fn input(attributes: &[(String, String)]) -> Option<(String, String)> {
    let kind = value(attributes, "type").unwrap_or_default();
    let is_box = ["checkbox", "radio"].contains(&kind.as_str());
    if is_box && value(attributes, "checked").is_none() {
        return None;
    }
    Some((value(attributes, "name")?, value(attributes, "value").unwrap_or_default()))
}

fn value(attributes: &[(String, String)], wanted: &str) -> Option<String> {
    attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
}

impl Form {
    /// With this value of a control in place of those that it has.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.pairs.retain(|(known, _)| known != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without any value of a control, as an unchecked box.
    #[must_use]
    pub(super) fn without(mut self, name: &str) -> Self {
        self.pairs.retain(|(known, _)| known != name);
        self
    }

    #[track_caller]
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found.map_or_else(|| panic!("no {name} in {:?}", self.pairs), |(_, value)| value.as_str())
    }

    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }
}

/// The pieces of a document. A document with a tag or an attribute that the templates do not write fails the test.
pub(super) fn pieces(html: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = html;
    while let Some(place) = rest.find('<') {
        if place > 0 {
            pieces.push(Piece::Text(decoded(&rest[..place])));
        }
        let end = end_of_tag(&rest[place..]);
        let tag = &rest[place + 1..place + end];
        rest = &rest[place + end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            pieces.push(Piece::End(name.to_owned()));
        } else if !tag.starts_with('!') {
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{tag:?} is no tag");
            pieces.push(Piece::Begin(name.to_owned(), attributes_of(attributes)));
        }
    }
    pieces.push(Piece::Text(decoded(rest)));
    pieces
}

/// Where a tag ends: at the first `>` outside of quotes.
fn end_of_tag(text: &str) -> usize {
    let mut is_quoted = false;
    let end = text.char_indices().find(|(_, sign)| {
        is_quoted ^= *sign == '"';
        *sign == '>' && !is_quoted
    });
    end.expect("a tag ends").0
}

fn attributes_of(mut text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    while !text.trim_start().is_empty() {
        text = text.trim_start();
        let name_end = text.find([' ', '=']).unwrap_or(text.len());
        let (name, after) = text.split_at(name_end);
        assert!(name.chars().all(|c| c.is_ascii_alphabetic() || "-1234567890".contains(c)), "{name:?} is no attribute");
        match after.strip_prefix("=\"") {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"').expect("quotes end");
                attributes.push((name.to_owned(), decoded(value)));
                text = after;
            }
            None => {
                attributes.push((name.to_owned(), String::new()));
                text = after;
            }
        }
    }
    attributes
}

fn decoded(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}
