//! Laws of files that come: every line has its place, and a cell that was understood is written so that it is understood
//! again.

use bson::{Bson, RawDocumentBuf, doc};
use inventory_service::domain::Violations;
use inventory_service::domain::object_fields::ValueKind;
use inventory_service::domain::object_type::ObjectType;
use inventory_service::domain::schema::refuse_foreign_values;
use inventory_service::exchange::cell;
use inventory_service::exchange::columns::Heading;
use inventory_service::exchange::csv::{self, Delimiter, Table};
use inventory_service::exchange::encoding::{ENCODINGS, decode};
use inventory_service::exchange::locale::Locale;

const KINDS: [ValueKind; 6] =
    [ValueKind::Text, ValueKind::Number, ValueKind::Checkbox, ValueKind::Reference, ValueKind::Date, ValueKind::Any];

/// Reads a byte that chooses encoding and delimiter, and a file.
pub fn hold(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else { return };
    let encoding = ENCODINGS.get(usize::from(choice % 8)).map(|(_, encoding)| *encoding);
    let text = match decode(file, encoding) {
        Ok(text) => text,
        Err((line, reason)) => return assert!(line >= 1 && !reason.is_empty()),
    };
    if let Some(encoding) = encoding {
        let marked = file.strip_prefix(encoding.mark()).unwrap_or(file);
        assert_eq!(encoding.encode(text.clone().into_owned()).as_deref(), Ok(marked), "{encoding:?}: {text:?}");
    }
    let delimiter =
        ["comma", "semicolon", "tab", "pipe"].get(usize::from(choice / 8)).and_then(|n| Delimiter::named(n));
    match csv::read(&text, delimiter) {
        Ok(table) => table_of(&table, &text),
        Err((line, reason)) => assert!(is_line_of(line, &text) && !reason.is_empty(), "line {line} of {text:?}"),
    }
}

/// From 1 to the number of lines.
fn is_line_of(line: u64, text: &str) -> bool {
    (1..=text.split('\n').count() as u64).contains(&line)
}

fn table_of(table: &Table, text: &str) {
    let mut last = 0;
    for (line, _) in &table.rows {
        assert!(is_line_of(*line, text) && *line >= last, "line {line} behind {last} of {text:?}");
        last = *line;
    }
    let object_type = object_type();
    for name in &table.header {
        if let Ok(Heading::Field(position)) = Heading::read(name, &object_type) {
            let written = cell::guarded(&object_type.fields[position].name);
            assert_eq!(Heading::read(&written, &object_type), Ok(Heading::Field(position)), "{name:?}");
        }
    }
    let rows = table.rows.iter().flat_map(|(_, row)| row.iter());
    for text in table.header.iter().map(String::as_str).chain(rows) {
        for kind in KINDS {
            cell_of(kind, text);
        }
    }
    written_again(table);
}

/// Every cell in quotes is the same table.
fn written_again(table: &Table) {
    let quoted = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
    let line = |cells: Vec<String>| cells.join(";") + "\n";
    let mut text = line(table.header.iter().map(|cell| quoted(cell)).collect());
    for (_, row) in &table.rows {
        text.push_str(&line(row.iter().map(quoted).collect()));
    }
    let again = csv::read(&text, Delimiter::named("semicolon")).unwrap_or_else(|error| panic!("{text:?}: {error:?}"));
    assert_eq!(again.header, table.header, "{text:?}");
    let cells = |table: &Table| -> Vec<Vec<String>> {
        table.rows.iter().map(|(_, row)| row.iter().map(str::to_owned).collect()).collect()
    };
    assert_eq!(cells(&again), cells(table), "{text:?}");
}

fn cell_of(kind: ValueKind, text: &str) {
    let value = match cell::read(kind, text, &Locale::default()) {
        Ok(value) => value,
        Err(reason) => return assert!(!reason.is_empty(), "{text:?}"),
    };
    let mut foreign = Violations::new();
    refuse_foreign_values(&value, &mut String::new(), &mut foreign);
    if !foreign.is_empty() {
        return;
    }
    let written = cell::text_of(kind, &value).expect("what was read can be stored");
    let again = cell::read(kind, &written, &Locale::default());
    assert_eq!(again.as_ref(), Ok(&value), "{kind:?} {text:?} {written:?}");
    let is_number = matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_));
    assert!(is_number || !written.starts_with(cell::FORMULA), "{kind:?} {text:?} {written:?}");
}

fn object_type() -> ObjectType {
    let field = |name: &str, kind: &str| doc! { "name": name, "type": kind };
    let fields = [
        field("name", "text"),
        field("active", "checkbox"),
        field("=cmd", "number"),
        field("room", "ref"),
        field("fields.name", "date"),
        field("", "any"),
    ];
    let document = doc! { "public_id": 1, "name": "rack", "fields": fields.to_vec() };
    let raw = RawDocumentBuf::try_from(document).expect("a type");
    ObjectType::from_document(&raw).expect("a type")
}
