//! What search finds an object by: the texts of its values, and the terms that are kept of them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bson::Decimal128;
use bson::raw::RawDocument;
use bson::spec::ElementType;

use super::object_type::{Field, ObjectType};
use super::references::references;
use super::type_indexes::TypeIndex;
use super::words::{Whole, alone, each_word, reference};
use crate::json::write::{DateStyle, write_date_text, write_value};
use crate::raw::{CorruptBson, Elements, Value, named_value};

/// At most this many words of an object, and as many of its references, are kept. Those of its first entries are.
pub const MOST_TERMS: usize = 1000;

/// How deep values are looked into.
const DEEPEST: usize = 20;

/// The term that every object has.
pub const EVERY: &str = "";

/// Gives each text of an object's values, with the position of the field in the type: texts, numbers, times, and the labels of
/// options; no passwords, and no references.
///
/// # Errors
/// When the object is not BSON.
pub fn each_text(
    object: &RawDocument,
    object_type: &ObjectType,
    mut take: impl FnMut(usize, &str),
) -> Result<(), CorruptBson> {
    let Some(mut entries) = Elements::of(object).member("fields")?.and_then(Value::as_array) else { return Ok(()) };
    while let Some(entry) = entries.next_element()? {
        let Some((name, value)) = named_value(entry.value)? else { continue };
        let Some(position) = str::from_utf8(name).ok().and_then(|name| object_type.position(name)) else { continue };
        let field = &object_type.fields[position];
        if is_searched(field) {
            of_value(value, field, DEEPEST, &mut |text| take(position, text))?;
        }
    }
    Ok(())
}

/// Whether the values of the field are looked for.
pub fn is_searched(field: &Field) -> bool {
    !field.is_password() && !field.is_reference()
}

fn of_value(value: Value<'_>, field: &Field, depth: usize, take: &mut impl FnMut(&str)) -> Result<(), CorruptBson> {
    if matches!(value.element_type(), ElementType::Array | ElementType::EmbeddedDocument) {
        let mut elements = value.elements();
        while depth > 0
            && let Some(element) = elements.next_element()?
        {
            of_value(element.value, field, depth - 1, take)?;
        }
        return Ok(());
    }
    let Some(text) = text_of(value)? else { return Ok(()) };
    take(&text);
    if field.has_choice()
        && let Some(option) = field.options.iter().find(|option| option.name == text)
        && option.label != option.name
    {
        take(&option.label);
    }
    Ok(())
}

/// A single value as people read it; nothing for what has no words.
fn text_of(value: Value<'_>) -> Result<Option<Cow<'_, str>>, CorruptBson> {
    let text = match value.element_type() {
        ElementType::String => return Ok(value.as_str().map(Cow::Borrowed)),
        ElementType::Int32 | ElementType::Int64 => return Ok(value.as_integer().map(|it| it.to_string().into())),
        ElementType::Decimal128 => return Ok(Some(Decimal128::from_bytes(value.fixed()).to_string().into())),
        ElementType::Double => {
            let mut text = Vec::new();
            write_value(value, DateStyle::Iso, &mut text)?;
            text
        }
        ElementType::DateTime => {
            let mut text = Vec::new();
            write_date_text(value.as_millis().unwrap_or_default(), DateStyle::Iso, &mut text);
            // Of a day the date is enough.
            text.strip_suffix(b"T00:00:00").map(<[u8]>::to_vec).unwrap_or(text)
        }
        _ => return Ok(None),
    };
    Ok(String::from_utf8(text).ok().map(Cow::Owned))
}

/// The terms of an object, in order: [`EVERY`], its words, the keys of its whole values, and its references.
///
/// A word that is all of a value is there with the mark for that alone.
///
/// # Errors
/// When the object is not BSON.
pub fn terms(object: &RawDocument, object_type: &ObjectType) -> Result<Vec<String>, CorruptBson> {
    let (mut kept, mut count) = (BTreeSet::new(), 0);
    each_text(object, object_type, |_, text| {
        if count < MOST_TERMS {
            count += add(text, &mut kept);
        }
    })?;
    let mut terms: Vec<String> = kept.into_iter().collect();
    let mut referred = references(object, object_type)?;
    referred.truncate(MOST_TERMS);
    terms.extend(referred.into_iter().map(|(_, id)| reference(id)));
    terms.push(EVERY.to_owned());
    terms.sort_unstable();
    terms.dedup();
    // The word follows in this order with its mark.
    let is_marked = |word: &String, next: &String| *next == alone(word);
    let doubled: Vec<usize> =
        terms.windows(2).enumerate().filter(|(_, pair)| is_marked(&pair[0], &pair[1])).map(|(at, _)| at).collect();
    for at in doubled.into_iter().rev() {
        terms.remove(at);
    }
    Ok(terms)
}

/// Adds the words of a text, and its key; returns how many there are, with repetitions. Of a long text the words that come first in
/// order are kept, so that it takes no more memory than others.
fn add(text: &str, terms: &mut BTreeSet<String>) -> usize {
    let mut keep = |term: String| {
        terms.insert(term);
        if terms.len() > MOST_TERMS {
            terms.pop_last();
        }
    };
    let (mut count, mut whole, mut only) = (0, Whole::default(), None);
    each_word(text, |word, _, is_part| {
        count += 1;
        if is_part {
            return keep(word);
        }
        whole.add(&word);
        // The first one is kept with its mark if it stays alone.
        match &mut only {
            None => only = Some(Some(word)),
            Some(first) => {
                first.take().into_iter().for_each(&mut keep);
                keep(word);
            }
        }
    });
    let Some(key) = whole.key() else { return count };
    keep(key);
    if only.flatten().is_some() { count } else { count + 1 }
}

/// The texts of the fields that sum up an object, as its summary line shows them, with blanks between them.
///
/// # Errors
/// When the object is not BSON.
pub fn summary(object: &RawDocument, object_type: &ObjectType) -> Result<String, CorruptBson> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let place = |position: usize| object_type.layout.summary.iter().position(|at| *at == position);
    let Some(mut entries) = Elements::of(object).member("fields")?.and_then(Value::as_array) else {
        return Ok(String::new());
    };
    while let Some(entry) = entries.next_element()? {
        let Some((name, value)) = named_value(entry.value)? else { continue };
        let Some(position) = str::from_utf8(name).ok().and_then(|name| object_type.position(name)) else { continue };
        let field = &object_type.fields[position];
        if let (Some(place), true) = (place(position), is_searched(field)) {
            let mut own = Vec::new();
            plain_texts(value, DEEPEST, &mut own)?;
            texts.extend(own.into_iter().map(|text| (place, text)));
        }
    }
    texts.sort_by_key(|(place, _)| *place);
    let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join(" | "))
}

fn plain_texts(value: Value<'_>, depth: usize, texts: &mut Vec<String>) -> Result<(), CorruptBson> {
    if matches!(value.element_type(), ElementType::Array | ElementType::EmbeddedDocument) {
        let mut elements = value.elements();
        while depth > 0
            && let Some(element) = elements.next_element()?
        {
            plain_texts(element.value, depth - 1, texts)?;
        }
        return Ok(());
    }
    texts.extend(text_of(value)?.map(Cow::into_owned));
    Ok(())
}

/// What of a field decides about terms: its name, whether it is searched, whether it refers to objects, and its options with
/// their labels.
pub type FieldShape = (String, bool, bool, Vec<(String, String)>);

/// What of a type decides about the terms of its objects, and about their values in its indexes: two types that agree in it
/// give the same.
pub fn shape(object_type: &ObjectType) -> (Vec<FieldShape>, Vec<TypeIndex>) {
    let of_field = |field: &Field| {
        let options = field.options.iter().filter(|_| field.has_choice() && is_searched(field));
        let options = options.map(|option| (option.name.clone(), option.label.clone())).collect();
        (field.name.clone(), is_searched(field), field.is_reference(), options)
    };
    (object_type.fields.iter().map(of_field).collect(), TypeIndex::all_of(object_type))
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;
    use crate::domain::words::{whole, words};

    fn server() -> ObjectType {
        let options = vec![doc! { "name": "prod", "label": "Production" }];
        let stored = doc! {
            "public_id": 1,
            "fields": [
                { "type": "text", "name": "host" },
                { "type": "password", "name": "secret" },
                { "type": "ref", "name": "rack", "ref_types": [2] },
                { "type": "select", "name": "state", "options": options },
                { "type": "number", "name": "units" },
            ],
            "render_meta": { "summary": { "fields": ["state", "host", "secret"] } },
        };
        ObjectType::from_document(&bson::raw::RawDocumentBuf::try_from(stored).unwrap()).unwrap()
    }

    #[test]
    fn terms_are_words_whole_values_labels_and_references_but_no_passwords() {
        let object = rawdoc! { "fields": [
            { "name": "host", "value": "web-1 web" }, { "name": "secret", "value": "hunter2" },
            { "name": "rack", "value": 7 }, { "name": "state", "value": "prod" }, { "name": "units", "value": 2.5 },
            { "name": "gone", "value": "old" },
        ] };
        let terms = terms(&object, &server()).unwrap();
        let whole = whole(&words("web-1 web")).unwrap();
        let expected = ["", &whole, "\u{3}7", "1", "2.5\u{1}", "prod\u{1}", "production\u{1}", "web", "web-1"];
        assert_eq!(terms, expected);
    }

    #[test]
    fn a_word_that_is_also_a_whole_value_is_kept_once() {
        let object = rawdoc! { "fields": [{ "name": "host", "value": ["web", "the web"] }] };
        let terms = terms(&object, &server()).unwrap();
        assert_eq!(terms.iter().filter(|term| term.starts_with("web")).count(), 1);
    }

    /// All words and keys of texts as they are, without a bound of what is in memory.
    fn all_terms(texts: &[&str]) -> Vec<String> {
        let mut terms = BTreeSet::new();
        for text in texts {
            let words = words(text);
            let only = words.iter().filter(|word| !word.is_part).count() == 1;
            let shown = words.iter().filter(|word| !only || word.is_part).map(|word| word.folded.clone());
            terms.extend(shown.chain(whole(&words)));
        }
        terms.into_iter().take(MOST_TERMS).collect()
    }

    #[test]
    fn terms_are_gathered_as_if_all_words_were_there_at_once() {
        let long: Vec<String> = (0..3000).map(|number| format!("w{}-{number}", number * 7 % 911)).collect();
        let long = long.join(" ");
        for texts in [
            &["", " - "][..],
            &["one"],
            &["web-1"],
            &["web-1 web-1"],
            &["a", "b a", "a.b c"],
            &[&long],
            &[&long, "late"],
        ] {
            let mut terms = BTreeSet::new();
            let mut count = 0;
            for text in texts {
                if count < MOST_TERMS {
                    count += add(text, &mut terms);
                }
            }
            let known = if texts.len() > 1 && texts[0].len() > 9000 { &texts[..1] } else { texts };
            assert_eq!(terms.into_iter().collect::<Vec<_>>(), all_terms(known), "{}", texts.join("|").len());
        }
    }

    #[test]
    fn the_words_of_an_object_are_bounded() {
        let text: Vec<String> = (0..5000).map(|number| format!("w{number}")).collect();
        let object = rawdoc! { "fields": [{ "name": "host", "value": text.join(" ") }] };
        assert!(terms(&object, &server()).unwrap().len() <= 2 * MOST_TERMS + 1);
    }

    #[test]
    fn the_summary_has_the_fields_in_their_order_without_passwords() {
        let object = rawdoc! { "fields": [
            { "name": "host", "value": "web-1" }, { "name": "secret", "value": "hunter2" }, { "name": "state", "value": "prod" },
        ] };
        assert_eq!(summary(&object, &server()).unwrap(), "prod | web-1");
    }
}
