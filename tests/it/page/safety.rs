//! What the page refuses and hides, and the headers of its answers.

use std::collections::BTreeSet;

use inventory_service::page;
use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use crate::support::app::{TestApp, on_each_store, send};

/// What is sent: its name, headers and pairs.
type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, Vec<(String, String)>);

/// The addresses of all forms.
fn posts(id: i64, type_id: i64) -> [String; 13] {
    [
        format!("/ui/objects/{id}/edit"),
        format!("/ui/objects/{id}/delete"),
        format!("/ui/objects/{id}/restore"),
        format!("/ui/objects/{id}/revert"),
        format!("/ui/types/{type_id}/new"),
        format!("/ui/types/{type_id}/several"),
        format!("/ui/types/{type_id}/saved"),
        format!("/ui/types/{type_id}/import"),
        format!("/ui/types/{type_id}/definition"),
        "/ui/new-type".to_owned(),
        "/ui/people/".to_owned(),
        format!("/ui/people/{id}"),
        "/ui/sign-out".to_owned(),
    ]
}

on_each_store! {
    async fn what_comes_from_another_site_changes_nothing(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "web-1"})).await;
        let mut browser = Browser::of_admin(app).await;
        let form = browser.page(&format!("/ui/objects/{id}/edit")).await.form(&format!("/ui/objects/{id}/edit"));
        let whole: Vec<(String, String)> = form.with("f.hostname", "changed").with("to", "1").pairs().to_vec();
        let with_token = |token: Option<&str>| -> Vec<(String, String)> {
            let mut pairs: Vec<_> = whole.iter().filter(|(name, _)| name != "token").cloned().collect();
            pairs.extend(token.map(|token| ("token".to_owned(), token.to_owned())));
            pairs
        };
        let other = Browser::of_admin(app).await.page("/ui/").await.form("/ui/sign-out").get("token").to_owned();
        let own = app.origin.clone();
        let cases: [Case<'_>; 8] = [
            ("the cookie alone", vec![("origin", &own)], with_token(None)),
            ("a made-up token", vec![("origin", &own)], with_token(Some("00"))),
            ("a token of another session", vec![("origin", &own)], with_token(Some(&other))),
            ("another origin", vec![("origin", "http://evil.example")], whole.clone()),
            ("no origin at all", vec![], whole.clone()),
            ("an origin that is hidden", vec![("origin", "null")], whole.clone()),
            ("another site by fetch metadata", vec![("origin", &own), ("sec-fetch-site", "cross-site")], whole.clone()),
            ("another host of the same site", vec![("origin", &own), ("sec-fetch-site", "same-site")], whole.clone()),
        ];
        for (what, headers, pairs) in &cases {
            for path in posts(id, type_id) {
                let page = browser.send(Method::POST, &path, headers, Some(pairs)).await;
                assert_eq!(page.status, 403, "{what}: {path}");
                page.shows("Nothing was changed");
            }
        }
        let objects = app.get("/objects/").await.json();
        assert_eq!(objects["total"], 1, "{objects}");
        assert_eq!(objects["results"][0]["fields"][0]["value"], "web-1");
        browser.page("/ui/").await;
    }

    async fn another_site_cannot_sign_a_browser_in(app) {
        let mut browser = Browser::new(app);
        let pairs = [("user_name", "admin"), ("password", "correct horse battery")];
        let pairs: Vec<(String, String)> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let headers = [("origin", "https://evil.example")];
        let page = browser.send(Method::POST, "/ui/sign-in", &headers, Some(&pairs)).await;
        assert_eq!((page.status.as_u16(), browser.cookie.is_none()), (403, true));
    }

    async fn every_answer_has_a_policy_that_runs_and_loads_nothing_foreign(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "web-1"})).await;
        let mut browser = Browser::of_admin(app).await;
        let style = {
            let html = browser.page("/ui/").await.html;
            let (_, rest) = html.split_once("rel=\"stylesheet\" href=\"").expect("a sheet of styles");
            rest.split('"').next().expect("an address").to_owned()
        };
        let pages = [
            "/ui/".to_owned(), "/ui/sign-in".to_owned(), format!("/ui/types/{type_id}"), format!("/ui/objects/{id}"),
            format!("/ui/objects/{id}/edit"), format!("/ui/objects/{id}/delete"), "/ui/search?q=web".to_owned(),
            "/ui/changes/".to_owned(), format!("/ui/types/{type_id}/new"), "/ui/objects/999".to_owned(),
            "/ui/people/".to_owned(), "/ui/people/1".to_owned(), "/ui/people/x".to_owned(), "/ui/new-type".to_owned(), format!("/ui/types/{type_id}/definition"), format!("/ui/objects/{id}/graph"), format!("/ui/types/{type_id}/several?id={id}&set=hostname"), "/ui/nothing".to_owned(),
            "/ui/types/%ff".to_owned(), format!("/ui/types/{type_id}?filter=x"),
        ];
        for path in &pages {
            let page = browser.get(path).await;
            assert_eq!(page.header("cache-control"), "no-store", "{path}");
            assert!(page.header("content-type").starts_with("text/html"), "{path}: {}", page.html);
            for foreign in ["<script", "<style", "style=", "javascript:", "http://", "https://", " onclick"] {
                assert!(!page.html.contains(foreign), "{path}: {foreign}: {}", page.html);
            }
        }
        let file = browser.get(&style).await;
        assert_eq!((file.status.as_u16(), file.header("cache-control")), (200, "public, max-age=31536000, immutable"));
        for path in pages.iter().chain([&style]) {
            let page = browser.get(path).await;
            let policy = page.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
            assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{path}: {policy}");
            assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        }
    }

    async fn hidden_objects_are_neither_shown_nor_counted(app) {
        let hidden = hidden_type(app).await;
        let open = app.create_type("rack", &[("label", "text")]).await;
        let rack = app.create_object(open, &json!({"label": "rack-secret-neighbour"})).await;
        app.patch(&format!("/types/{hidden}"), &json!({"fields": [
            {"type": "text", "name": "codename", "label": "Codename"},
            {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [open]},
        ]})).await;
        let body = json!({"type_id": hidden, "author_id": 1, "fields": [
            {"name": "codename", "value": "thunder"}, {"name": "rack", "value": rack}]});
        let secret = app.created("/objects/", &body).await;
        close(app, hidden).await;
        let mut browser = Browser::of_admin(app).await;
        browser.page("/ui/").await.shows("Rack 1").hides("Hidden things");
        for path in [format!("/ui/types/{hidden}"), format!("/ui/types/{hidden}/new"), format!("/ui/objects/{secret}"),
            format!("/ui/objects/{secret}/edit"), format!("/ui/objects/{secret}/delete"), format!("/ui/export/{hidden}/csv"), format!("/ui/objects/{secret}/graph"),
            format!("/ui/objects/{secret}/graph.svg"), format!("/ui/types/{hidden}/several?all=yes")] {
            let page = browser.get(&path).await;
            assert!([403, 404].contains(&page.status.as_u16()), "{path}: {}", page.status);
            page.hides("thunder").hides("codename");
        }
        browser.page("/ui/?show=soon").await.hides("Hidden");
        browser.page(&format!("/ui/objects/{rack}/graph")).await.shows("It refers to no object that you may see").hides("thunder");
        browser.page(&format!("/ui/?by={hidden}.codename")).await.hides("thunder").hides("Codename");
        browser.page(&format!("/ui/objects/{rack}")).await.shows("No object that you may see refers to it").hides("thunder");
        browser.page(&format!("/ui/objects/{rack}/delete")).await.shows("No object that you may see refers to it");
        browser.page("/ui/search?q=thunder").await.shows("Nothing found");
        browser.page(&format!("/ui/search?q={secret}")).await.hides("thunder").hides("Hidden things");
        browser.page("/ui/changes/").await.hides("thunder").hides(&format!("/ui/objects/{secret}\""));
    }

    async fn a_user_who_may_not_see_objects_learns_nothing_of_them(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "thunder"})).await;
        let rights = json!(["base.framework.type.view", "base.framework.log.view", "base.framework.object.add",
            "base.framework.object.edit", "base.framework.object.delete"]);
        let group = app.created("/groups/", &json!({"name": "writers", "label": "Writers", "rights": rights})).await;
        app.created("/users/", &json!({"user_name": "eve", "password": "writes only 1", "group_id": group})).await;
        let mut browser = Browser::of(app, "eve", "writes only 1").await;
        browser.page("/ui/").await.shows("Server").hides("class=\"count\"").hides("Objects by type").hides("thunder");
        browser.page("/ui/changes/").await.hides("thunder").hides(&format!("/ui/objects/{id}\""));
        for path in ["edit", "delete"] {
            let page = browser.get(&format!("/ui/objects/{id}/{path}")).await;
            assert_eq!(page.status, 403, "{path}");
            page.hides("thunder");
        }
        browser.page(&format!("/ui/types/{type_id}/new")).await.hides("thunder");
        assert_eq!(browser.get(&format!("/ui/types/{type_id}/several?all=yes")).await.status, 403);
        assert_eq!(browser.get(&format!("/ui/objects/{id}/graph.svg")).await.status, 403);
    }

    async fn a_user_without_a_right_does_not_see_its_buttons_and_cannot_use_their_addresses(app) {
        let type_id = app.create_type("server", &[("hostname", "text"), ("key", "password")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "web-1", "key": "sesame"})).await;
        let rights = json!(["base.framework.object.view", "base.framework.type.view"]);
        let group = app.created("/groups/", &json!({"name": "readers", "label": "Readers", "rights": rights})).await;
        app.created("/users/", &json!({"user_name": "eve", "password": "reads only 1", "group_id": group})).await;
        let mut browser = Browser::of(app, "eve", "reads only 1").await;
        let page = browser.page(&format!("/ui/objects/{id}")).await;
        page.shows("web-1").hides("sesame").hides("/edit\"").hides("/delete\"");
        browser.page(&format!("/ui/types/{type_id}")).await.hides("/new\"").hides("/ui/export/").hides("/several").hides("/definition");
        assert_eq!(browser.get(&format!("/ui/types/{type_id}/definition")).await.status, 403);
        for path in ["/ui/new-type", "/ui/people/", "/ui/people/1"] {
            assert_eq!(browser.get(path).await.status, 403, "{path}");
        }
        browser.page(&format!("/ui/?by={type_id}.key")).await.hides("sesame");
        let several = format!("/ui/types/{type_id}/several?all=yes");
        browser.page(&several).await.hides("<button class=\"danger\"").hides("sesame");
        let token = browser.page("/ui/").await.form("/ui/sign-out").get("token").to_owned();
        let pairs = [("token", token.as_str()), ("expected", "1"), ("sure", "1"), ("do", "delete")];
        let pairs: Vec<(String, String)> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert_eq!(browser.post(&several, &pairs).await.status, 403);
        browser.page("/ui/search?q=sesame").await.shows("Nothing found");
        for path in ["edit", "delete"] {
            let page = browser.get(&format!("/ui/objects/{id}/{path}")).await;
            assert_eq!(page.status, 403);
            page.shows("You may not do this");
        }
    }
}

async fn hidden_type(app: &TestApp) -> i64 {
    let fields = json!([{"type": "text", "name": "codename", "label": "Codename"}]);
    app.created("/types/", &json!({"name": "hidden", "label": "Hidden things", "author_id": 1, "fields": fields})).await
}

/// Gives the objects of a type to a group in which nobody is.
async fn close(app: &TestApp, type_id: i64) {
    let acl = json!({"activated": true, "groups": {"includes": {"2": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
    let changed = app.patch(&format!("/types/{type_id}"), &json!({"acl": acl})).await;
    assert!(changed.status.is_success(), "{}", changed.text);
}

#[test]
fn every_form_of_the_page_is_tried_from_another_site() {
    let tried: BTreeSet<String> = posts(7, 7).iter().map(|path| path.replace("/7", "/{id}")).collect();
    let known: BTreeSet<String> = page::posts().iter().map(|path| (*path).to_owned()).collect();
    let beside: Vec<&String> = known.difference(&tried).collect();
    assert_eq!(beside, ["/ui/sign-in"], "add the form to posts()");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_turn_the_page_off() {
    let app = TestApp::embedded_with(&[("server.page", "false")]).await;
    let url = |path: &str| format!("{}{path}", app.origin);
    send(app.anonymous(Method::GET, &url("/ui/"))).await.error(404, "not_found");
    let home = app.anonymous(Method::GET, &url("/")).header("accept", "text/html").send().await.expect("an answer");
    assert_eq!(home.headers()["location"], "/docs/");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_the_service_leads_browsers_to_the_page_and_others_to_the_description() {
    let app = TestApp::embedded().await;
    for (accept, place) in
        [("text/html,application/xhtml+xml;q=0.9", "/ui/"), ("*/*", "/docs/"), ("application/json", "/docs/")]
    {
        let url = format!("{}/", app.origin);
        let home = app.anonymous(Method::GET, &url).header("accept", accept).send().await.expect("an answer");
        assert_eq!(home.headers()["location"], place, "{accept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_counts_as_requests_of_its_user() {
    let limits = [("server.rate_limit.user_per_minute", "5"), ("server.rate_limit.user_burst", "5")];
    let app = TestApp::embedded_with(&limits).await;
    let mut browser = Browser::of_admin(&app).await;
    let mut refused = None;
    for _ in 0..20 {
        let page = browser.get("/ui/").await;
        if page.status == 429 {
            refused = Some(page);
            break;
        }
    }
    let page = refused.expect("a refusal");
    page.shows("The service has much to do");
    assert!(!page.header("retry-after").is_empty());
}
