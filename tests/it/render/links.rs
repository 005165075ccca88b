//! External links: which are rendered, and with what in them.

use bson::{DateTime, Document, doc};

use super::{World, object, text_type};

/// The addresses in the view of an object with these values, for links with these addresses and fields.
fn addresses(links: &[(&str, &[&str])], values: Document) -> Vec<String> {
    let externals: Vec<Document> = links
        .iter()
        .map(|(href, fields)| doc! { "name": "n", "href": *href, "label": "l", "icon": "i", "fields": *fields })
        .collect();
    let mut object_type = text_type(1, &["a", "b"]);
    object_type.insert("render_meta", doc! { "externals": externals });
    let view = World::new().with_type(object_type).view(object(7, 1, values));
    let rendered = view["type_information"]["externals"].as_array().unwrap().clone();
    rendered.iter().map(|external| external["href"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn values_fill_the_places_in_order_percent_encoded() {
    let at = DateTime::from_millis(0);
    let links: &[(&str, &[&str])] = &[("https://x/{}/{}", &["b", "a"]), ("/objects/{}", &["object_id"])];
    assert_eq!(addresses(links, doc! { "a": "1 & 2", "b": true }), ["https://x/true/1%20%26%202", "/objects/7"]);
    assert_eq!(addresses(&[("?{}", &["a"])], doc! { "a": at }), ["?1970-01-01T00%3A00%3A00"]);
}

#[test]
fn a_link_without_all_its_values_is_left_out() {
    let links: &[(&str, &[&str])] = &[("https://x/{}", &["a"]), ("https://x/{}/{}", &["b"]), ("https://y/{}", &["b"])];
    assert_eq!(addresses(links, doc! { "b": "1" }), ["https://y/1"]);
    assert_eq!(addresses(links, doc! { "a": null, "b": "1" }), ["https://y/1"]);
    assert_eq!(addresses(links, doc! { "a": "", "b": "1" }), ["https://y/1"]);
    assert_eq!(addresses(links, doc! { "a": ["x"], "b": "1" }), ["https://y/1"]);
    assert_eq!(addresses(&[("https://x/{}", &["gone"])], doc! { "a": "1" }), [""; 0]);
}

#[test]
fn a_link_that_takes_no_value_is_rendered() {
    assert_eq!(addresses(&[("https://x/all", &[])], doc! {}), ["https://x/all"]);
}

#[test]
fn addresses_that_could_run_something_are_left_out() {
    let bad = [
        "javascript:alert({})", "JAVASCRIPT:{}", " \tjavascript:{}", "data:text/html,{}", "{}:x", "//evil/{}",
        "\\\\evil/{}",
    ];
    for href in bad {
        assert_eq!(addresses(&[(href, &["a"])], doc! { "a": "javascript" }), [""; 0], "{href:?}");
    }
    assert_eq!(addresses(&[("{}", &["a"])], doc! { "a": "javascript:alert(1)" }), [""; 0]);
}

#[test]
fn a_field_may_hold_the_whole_address() {
    assert_eq!(
        addresses(&[("{}", &["a"])], doc! { "a": "https://www.example.org/?a=b" }),
        ["https://www.example.org/?a=b"]
    );
}
