//! Laws of texts that types bring: addresses of links, and patterns of fields.

use fancy_regex::Regex;
use inventory_service::domain::link_template::LinkTemplate;
use inventory_service::domain::object_fields::{compile_pattern, parse_date};

const SCHEMES: [&str; 5] = ["http", "https", "mailto", "ssh", "tel"];

/// Reads lines: an address or a pattern, then values.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    link(lines[0], &lines[1..]);
    pattern(lines[0], lines.get(1).unwrap_or(&""));
    for line in lines {
        let _ = parse_date(line);
    }
}

/// A rendered address keeps to the schemes and to its host, and no value ends the part that contains it.
fn link(href: &str, values: &[&str]) {
    let Some(template) = LinkTemplate::parse(href) else { return };
    assert_eq!(template.places(), href.matches("{}").count(), "{href:?}");
    let Some(filled) = template.fill(values) else { return };
    let is_plain = filled.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>`{}|^\\".contains(&byte));
    assert!(is_plain, "{filled:?}");
    match filled.split_once([':', '/', '?', '#']) {
        Some((scheme, _)) if filled[scheme.len()..].starts_with(':') => {
            assert!(SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)), "{filled:?}");
        }
        _ => assert!(!filled.starts_with("//"), "{filled:?}"),
    }
    let fixed: Vec<&str> = href.trim_matches(' ').split("{}").collect();
    if fixed.len() > 1 && fixed.iter().any(|part| !part.is_empty()) {
        // The fixed text alone has the separators of an address.
        for separator in [':', '/', '?', '#', '&', '@', ';'] {
            let begins = |schemes: &[&str]| {
                filled
                    .split_once(':')
                    .is_some_and(|(scheme, _)| schemes.iter().any(|it| scheme.eq_ignore_ascii_case(it)))
            };
            // A value brings the one `@` of an address, or the port of a host.
            let has_host = fixed[0].split_once("//").is_some_and(|(_, host)| !host.contains(['/', '?', '#']));
            if separator == ':' && has_host && begins(&["http", "https", "ssh"]) {
                continue;
            }
            if separator == '@' && !href.contains('@') && begins(&["mailto"]) {
                assert!(filled.matches('@').count() <= 1, "{filled:?} of {href:?}");
                continue;
            }
            let count = fixed.iter().map(|part| part.matches(separator).count()).sum::<usize>();
            assert_eq!(filled.matches(separator).count(), count, "{separator} in {filled:?} of {href:?}");
        }
    }
}

/// What is accepted as a pattern is a valid pattern alone, and has to match the whole value.
fn pattern(pattern: &str, value: &str) {
    let Ok(compiled) = compile_pattern(pattern) else { return };
    assert!(Regex::new(pattern).is_ok(), "{pattern:?} is no pattern by itself");
    if let Ok(Some(found)) = compiled.find(value) {
        assert_eq!((found.start(), found.end()), (0, value.len()), "{pattern:?} in {value:?}");
    }
}
