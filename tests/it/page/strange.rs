//! Values, labels and names with HTML, scripts, marks of direction and 10,000 letters: everywhere they are texts.

use serde_json::{Value, json};

use super::browser::{Browser, Piece, pieces};
use crate::support::app::{TestApp, on_each_store};

/// A text that would be seen if anything wrote it as it is: a tag, the end of an attribute, of a textarea and of a title.
fn strange(place: &str) -> String {
    format!("</title></textarea><script>alert(1)</script>\"><img src=x onerror=alert(2)>'&amp;\u{202e}{place}\u{2066}")
}

fn long(letter: &str) -> String {
    format!("<b>{}", letter.repeat(10_000))
}

/// A type whose names and labels are strange, and an object whose values are.
async fn world(app: &TestApp) -> (i64, i64, i64) {
    let options = json!([{"name": strange("option"), "label": strange("option label")}]);
    let texts = ["text", "textarea", "email", "tel", "href", "password", "made-up"];
    let mut fields: Vec<Value> = texts.iter().map(|kind| field(kind, json!({}))).collect();
    fields.push(field("select", json!({"options": options})));
    fields.push(field("radio", json!({"options": options})));
    fields.push(
        json!({"type": "select", "name": "several", "label": strange("several"), "options": options, "multiple": true}),
    );
    fields.push(json!({"type": "text", "name": "long", "label": long("x")}));
    let names: Vec<&str> = texts.to_vec();
    let body = json!({"name": "strange", "label": strange("type label"), "description": strange("type description"),
        "author_id": 1, "fields": fields, "render_meta": {
            "sections": [{"type": "section", "name": "s", "label": strange("section"), "fields": names}],
            "summary": {"fields": ["text"]},
            "externals": [{"name": "e", "label": strange("external"), "icon": "fa-book", "href": "https://x.example/{}", "fields": ["text"]}]}});
    let type_id = app.created("/types/", &body).await;
    app.created("/categories/", &json!({"name": "odd", "label": strange("category"), "types": [type_id]})).await;
    let referring = json!({"name": "referring", "label": strange("referring type"), "author_id": 1,
        "fields": [{"type": "ref", "name": "to", "label": strange("ref"), "ref_types": [type_id]}]});
    let referring = app.created("/types/", &referring).await;
    let mut values: serde_json::Map<String, Value> =
        texts.iter().map(|kind| ((*kind).to_owned(), strange(kind).into())).collect();
    values.insert("select".to_owned(), strange("option").into());
    values.insert("radio".to_owned(), strange("option").into());
    values.insert("several".to_owned(), json!([strange("option")]));
    values.insert("long".to_owned(), long("y").into());
    let id = app.create_object(type_id, &Value::Object(values)).await;
    let other = app.create_object(referring, &json!({"to": id})).await;
    (type_id, id, other)
}

fn field(kind: &str, more: Value) -> Value {
    let mut field = json!({"type": kind, "name": kind, "label": strange(&format!("label of {kind}")),
        "description": strange("description"), "placeholder": strange("placeholder"), "helperText": strange("help")});
    let members = more.as_object().cloned().unwrap_or_default();
    field.as_object_mut().expect("an object").extend(members);
    field
}

/// No tag and no attribute comes from a value.
#[track_caller]
fn is_plain(path: &str, html: &str) {
    for piece in pieces(html) {
        let Piece::Begin(name, attributes) = piece else { continue };
        assert!(!["script", "img", "b", "iframe", "style"].contains(&name.as_str()), "{path}: <{name}>");
        for (name, value) in attributes {
            assert!(!name.starts_with("on") && name != "style", "{path}: {name}");
            if name == "href" || name == "action" {
                let is_own = value.starts_with("/ui/") || value.starts_with('#');
                assert!(is_own || value.starts_with("https://x.example/"), "{path}: {value}");
            }
        }
    }
    assert!(!html.contains("<script"), "{path}");
}

on_each_store! {
    async fn strange_texts_are_texts_on_every_screen(app) {
        let (type_id, id, other) = world(app).await;
        let changed = json!({"fields": [{"name": "text", "value": strange("changed")}, {"name": "long", "value": "short"}]});
        let answer = app.request(reqwest::Method::PATCH, &format!("/objects/{id}")).json(&changed);
        let answer = answer.header("inventory-comment", "%3Cscript%3Ealert(3)%3C%2Fscript%3E");
        let answer = crate::support::app::send(answer).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        let mut browser = Browser::of_admin(app).await;
        for path in [
            "/ui/".to_owned(), format!("/ui/types/{type_id}"), format!("/ui/objects/{id}"), format!("/ui/objects/{other}"),
            format!("/ui/objects/{id}/edit"), format!("/ui/objects/{other}/edit"), format!("/ui/objects/{id}/delete"),
            format!("/ui/types/{type_id}/new"), "/ui/search?q=script".to_owned(), "/ui/changes/".to_owned(),
            format!("/ui/objects/{id}?at=2026"), format!("/ui/types/{type_id}?has.text=%3Cscript%3E%22%3E"),
            format!("/ui/types/{type_id}?filter=%3Cscript%3E%22%3E"), format!("/ui/types/{type_id}?sort=%3Cscript%3E%22%3E"),
            "/ui/search?q=%3Cscript%3E%22%3E%3C%2Ftitle%3E".to_owned(), "/ui/sign-in?next=%22%3E%3Cscript%3E".to_owned(),
            format!("/ui/objects/{other}/graph"), format!("/ui/objects/{id}/graph?direction=%3Cscript%3E&depth=x&type=%22"),
            format!("/ui/?by={type_id}.text"), format!("/ui/?by={type_id}.select"), "/ui/?by=%3Cscript%3E".to_owned(),
            format!("/ui/types/{type_id}/several?id={id}&set=text"), format!("/ui/types/{type_id}/several?all=yes&set=select"),
            format!("/ui/types/{type_id}/definition"), "/ui/changes/?who=%3Cscript%3E%22&from=%22%3E".to_owned(), "/ui/%3Cscript%3E".to_owned(), format!("/ui/types/{type_id}?%3Cscript%3E=%22%3E"),
        ] {
            let page = browser.get(&path).await;
            assert!(page.status.as_u16() < 500, "{path}: {}", page.status);
            is_plain(&path, &page.html);
        }
        let page = browser.page(&format!("/ui/objects/{id}")).await;
        for wanted in ["<script>alert(1)</script>", "onerror=alert(2)>'&amp;", "textarea", "label of email", "section"] {
            page.shows(wanted);
        }
        page.shows("Comment: <script>alert(3)</script>");
        let history = page.html.matches("\u{2068}&lt;/title&gt;").count();
        assert!(history > 1, "values in sentences have marks of direction around them: {history}");
    }

    async fn a_long_text_is_short_in_a_list_and_whole_on_its_page(app) {
        let (type_id, id, _) = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let list = browser.page(&format!("/ui/types/{type_id}?column=long")).await;
        assert!(!list.text().contains(&"y".repeat(201)), "{}", list.text());
        list.shows(&"y".repeat(190));
        browser.page(&format!("/ui/objects/{id}")).await.shows(&long("y"));
    }

    async fn strange_texts_come_back_from_a_form_as_they_were(app) {
        let (_, id, _) = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let before = app.get(&format!("/objects/{id}/native")).await.json();
        let action = format!("/ui/objects/{id}/edit");
        let form = browser.page(&action).await.form(&action);
        assert_eq!(form.get("f.text"), strange("text"));
        assert_eq!(form.get("f.textarea"), strange("textarea"));
        browser.submitted(&form.with("f.long", "now short")).await.shows("Saved.");
        let after = app.get(&format!("/objects/{id}/native")).await.json();
        for (old, new) in before["fields"].as_array().into_iter().flatten().zip(after["fields"].as_array().into_iter().flatten()) {
            assert!(old == new || new["value"] == "now short", "{new}");
        }
    }
}
