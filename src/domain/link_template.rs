//! Link templates with placeholders: which addresses may be rendered, and how values are inserted.
//!
//! Laws:
//! - A rendered address begins with http, https, mailto, ssh or tel, or it is relative and stays on its host.
//! - A value never decides the scheme of an address with a fixed part, and never ends its part of the address.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// Marks where a value goes.
const PLACE: &str = "{}";
const SCHEMES: [&str; 5] = ["http", "https", "mailto", "ssh", "tel"];

/// All characters except the unreserved ones of RFC 3986, which need no encoding anywhere in an address.
const IN_VALUES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The address of a mail (RFC 6068): commas and question marks would end it.
const IN_MAIL: &AsciiSet = &IN_VALUES.remove(b'@').remove(b'+');
/// A telephone number (RFC 3966): a semicolon would begin a parameter.
const IN_NUMBERS: &AsciiSet = &IN_VALUES.remove(b'+').remove(b'(').remove(b')').remove(b'*');
/// A host and its port; an `@` would make a user of what comes before.
const IN_HOSTS: &AsciiSet = &IN_VALUES.remove(b':').remove(b'[').remove(b']');
/// Characters that an address never contains. Percent signs stay, because they are already an encoding.
const IN_ADDRESSES: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'|').add(b'^');

/// An address that may be rendered, split at its placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTemplate {
    /// The fixed text before each placeholder, and after the last one; one more than there are placeholders.
    fixed: Vec<String>,
}

impl LinkTemplate {
    /// Reads an address with `{}` for each value; `None` when it must not be rendered.
    ///
    /// It refuses other schemes than the five (in any case), a scheme from a value, and addresses with a host but no
    /// scheme (`//host`). It also refuses characters that browsers reinterpret: they read backslashes as slashes, and
    /// ignore tabs and line ends.
    pub fn parse(href: &str) -> Option<Self> {
        let href = href.trim_matches(' ');
        if !is_allowed(href) {
            return None;
        }
        let fixed = href.split(PLACE).map(|text| utf8_percent_encode(text, IN_ADDRESSES).to_string()).collect();
        Some(Self { fixed })
    }

    /// How many values it takes.
    pub fn places(&self) -> usize {
        self.fixed.len() - 1
    }

    /// The address with its values, percent-encoded; `None` when there are too few values or one is empty. Surplus
    /// values are ignored.
    ///
    /// A template of only one placeholder takes a whole address as its value, for instance a home page. The same rules
    /// apply to this address. A value that is no address is encoded like any other.
    pub fn fill<S: AsRef<str>>(&self, values: &[S]) -> Option<String> {
        if values.len() < self.places() || values.iter().any(|value| value.as_ref().is_empty()) {
            return None;
        }
        if let ([before, after], [value, ..]) = (self.fixed.as_slice(), values)
            && before.is_empty()
            && after.is_empty()
        {
            return whole_address(value.as_ref());
        }
        let mut has_at = self.fixed.iter().any(|text| text.contains('@'));
        let mut href = self.fixed[0].clone();
        let mut before = self.fixed[0].clone();
        for (text, value) in self.fixed[1..].iter().zip(values) {
            href.extend(utf8_percent_encode(
                value.as_ref(),
                encoded_after(&before, has_at || value.as_ref().matches('@').count() > 1),
            ));
            has_at |= value.as_ref().contains('@');
            before.push_str(text);
            href.push_str(text);
        }
        Some(href)
    }
}

/// The characters to encode in a value, by its place: the fixed text before it says where that is. Values do not count,
/// because none of them ends its part of the address.
fn encoded_after(before: &str, has_at: bool) -> &'static AsciiSet {
    let Some(scheme) = scheme(before) else { return IN_VALUES };
    let rest = &before[scheme.len() + 1..];
    match scheme.to_ascii_lowercase().as_str() {
        // An address has one `@`, from the template or from the value.
        "mailto" if !rest.contains('?') && !has_at => IN_MAIL,
        "tel" if !rest.contains([';', '?']) => IN_NUMBERS,
        "http" | "https" | "ssh" if rest.strip_prefix("//").is_some_and(|host| !host.contains(['/', '?', '#'])) => {
            IN_HOSTS
        }
        _ => IN_VALUES,
    }
}

fn whole_address(value: &str) -> Option<String> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    if scheme(value).is_none() {
        return Some(utf8_percent_encode(value, IN_VALUES).to_string());
    }
    is_allowed(value).then(|| utf8_percent_encode(value, IN_ADDRESSES).to_string())
}

fn is_allowed(href: &str) -> bool {
    if href.is_empty() || href.contains(|c: char| c.is_control() || c == '\\') {
        return false;
    }
    match scheme(href) {
        Some(scheme) => SCHEMES.iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed)),
        None => !href.starts_with("//"),
    }
}

/// The text before a colon that comes before any slash, question mark or hash.
fn scheme(href: &str) -> Option<&str> {
    let end = href.find([':', '/', '?', '#'])?;
    href[end..].starts_with(':').then(|| &href[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(href: &str, values: &[&str]) -> Option<String> {
        LinkTemplate::parse(href)?.fill(values)
    }

    #[test]
    fn values_are_filled_in_order_and_encoded() {
        let both = filled("https://x/{}?q={}", &["a/b", "c&d=é"]);
        assert_eq!(both.as_deref(), Some("https://x/a%2Fb?q=c%26d%3D%C3%A9"));
        assert_eq!(filled("/local/{}", &["a-b.c_d~e"]).as_deref(), Some("/local/a-b.c_d~e"));
        assert_eq!(filled("https://x/", &[]).as_deref(), Some("https://x/"));
        assert_eq!(filled("https://x/{}", &["1", "2"]).as_deref(), Some("https://x/1"));
    }

    #[test]
    fn a_value_is_encoded_by_its_place() {
        for (href, value, expected) in [
            ("mailto:{}", "a+b-c@example.org", "mailto:a+b-c@example.org"),
            ("MailTo:{}", "a@x.org,b@x.org?bcc=c", "MailTo:a%40x.org%2Cb%40x.org%3Fbcc%3Dc"),
            ("mailto:{}@example.org", "a@evil.example", "mailto:a%40evil.example@example.org"),
            ("mailto:{}", "a@b@c", "mailto:a%40b%40c"),
            ("mailto:a@x.org?subject={}", "a@b & c", "mailto:a@x.org?subject=a%40b%20%26%20c"),
            ("tel:{}", "+49 (30) 12-3;ext=1", "tel:+49%20(30)%2012-3%3Bext%3D1"),
            ("https://{}/x", "host.example:8443", "https://host.example:8443/x"),
            ("https://{}/", "[2001:db8::1]", "https://[2001:db8::1]/"),
            ("https://user@{}/", "a@b/c", "https://user@a%40b%2Fc/"),
            ("ssh://{}", "a:22", "ssh://a:22"),
            ("https://x/{}", "a:b@c", "https://x/a%3Ab%40c"),
            ("https://x?q={}", "a:b", "https://x?q=a%3Ab"),
            ("https:{}", "//a", "https:%2F%2Fa"),
            ("x/{}", "a-b.c_d~e", "x/a-b.c_d~e"),
        ] {
            assert_eq!(filled(href, &[value]).as_deref(), Some(expected), "{href}");
        }
    }

    #[test]
    fn too_few_or_empty_values_give_no_link() {
        assert_eq!(filled("https://x/{}/{}", &["a"]), None);
        assert_eq!(filled("{}", &[" "]), None);
        assert_eq!(filled("https://x/{}", &[""]), None);
        assert_eq!(filled("https://x/{}", &["1", ""]), None);
    }

    #[test]
    fn five_schemes_and_relative_addresses_are_rendered() {
        let good = ["http://x", "HTTPS://x", "mailto:a@b", "ssh://x", "tel:+49", "/a", "a/b:c", "?q=a:b", "#a:b", "a"];
        for href in good {
            assert!(LinkTemplate::parse(href).is_some(), "{href}");
        }
    }

    #[test]
    fn other_schemes_are_not_rendered_however_they_are_written() {
        let bad = [
            "javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "java\nscript:alert(1)",
            "\u{1}javascript:alert(1)", "\u{a0}javascript:alert(1)", "\u{feff}javascript:alert(1)", "data:text/html,x",
            "vbscript:x", "file:///etc/passwd", ":x", "", "  ",
        ];
        for href in bad {
            assert_eq!(LinkTemplate::parse(href), None, "{href:?}");
        }
    }

    #[test]
    fn relative_addresses_stay_on_their_host() {
        for href in ["//host/x", "\\\\host", "/\\host", " //host", "/\t/host"] {
            assert_eq!(LinkTemplate::parse(href), None, "{href:?}");
        }
        assert_eq!(filled("/{}", &["/host"]).as_deref(), Some("/%2Fhost"));
        assert_eq!(filled("{}/{}", &["/", "host"]).as_deref(), Some("%2F/host"));
    }

    #[test]
    fn a_value_does_not_decide_the_scheme() {
        assert_eq!(LinkTemplate::parse("{}:alert(1)"), None);
        assert_eq!(LinkTemplate::parse("java{}:alert(1)"), None);
        assert_eq!(LinkTemplate::parse("{}://host"), None);
        assert_eq!(filled("{}{}", &["javascript:", "x"]).as_deref(), Some("javascript%3Ax"));
        assert_eq!(filled("{}/x", &["javascript:alert(1)"]).as_deref(), Some("javascript%3Aalert%281%29/x"));
    }

    #[test]
    fn a_whole_address_may_come_from_a_value() {
        assert_eq!(filled("{}", &["https://x.org/a?b=c%20d e"]).as_deref(), Some("https://x.org/a?b=c%20d%20e"));
        assert_eq!(filled("{}", &[" https://x.org\n"]).as_deref(), Some("https://x.org"));
        assert_eq!(filled("{}", &["readme"]).as_deref(), Some("readme"));
        assert_eq!(filled("{}", &["//host/x"]).as_deref(), Some("%2F%2Fhost%2Fx"));
        assert_eq!(filled("{}", &[" javascript:alert(1)"]), None);
        assert_eq!(filled("{}", &["Javascript:alert(1)"]), None);
        assert_eq!(filled("{}", &["java\nscript:alert(1)"]), None);
    }

    #[test]
    fn what_no_address_contains_is_encoded_in_the_fixed_part() {
        assert_eq!(filled("https://x/a b\"<{c}>?%20", &[]).as_deref(), Some("https://x/a%20b%22%3C%7Bc%7D%3E?%20"));
    }
}
