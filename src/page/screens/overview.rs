//! The first page of somebody who signed in: numbers by type, by the values of a field, and by day, and what ends soon. Each
//! number leads to its objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use bson::{Bson, DateTime, Document, doc};
use maud::{Markup, html};
use serde_json::json;

use super::people::VIEW_USERS;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::Field;
use crate::http::aggregate::read_pipeline;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_type};
use crate::page::found::{by_numbers, filter, may_list, some};
use crate::page::parts::frame::{Content, page};
use crate::page::parts::moment;
use crate::page::parts::picture::bar;
use crate::page::parts::value::clipped;
use crate::page::texts::Texts;
use crate::page::visitor::Visitor;
use crate::page::{ADD_TYPES, VIEW};
use crate::query::{Filter, Sort};
use crate::service::ListQuery;
use crate::service::history::entries::list_entries;
use crate::service::objects::aggregate::aggregate_objects;
use crate::service::resource::decode;
use crate::service::types::catalog::{TypeEntry, VIEW_TYPES};

/// The right to see the history.
pub const VIEW_LOG: &str = "base.framework.log.view";

/// How many values of a field are shown.
const MOST_VALUES: u64 = 20;
/// How many days the changes are counted for.
const DAYS: i64 = 14;
/// Within how many days something ends soon.
const SOON: [i64; 3] = [30, 60, 90];
/// The longest address that is a link, in bytes.
const LONGEST_ADDRESS: usize = 2048;
/// How many fields with dates are looked at.
const MOST_DATES: usize = 50;

/// A number that leads to its objects.
struct Row {
    label: String,
    count: u64,
    /// Where it leads; nothing where that would be too long for an address.
    address: Option<String>,
}

/// How many objects have a day soon in a field.
struct Ending {
    entry: Arc<TypeEntry>,
    name: String,
    label: String,
    counts: [u64; SOON.len()],
}

/// Shows the first page. The tree of types is next to it.
///
/// # Errors
/// Errors of the store.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let known = visitor.services().current_types().await?;
    let mut readable: Vec<Arc<TypeEntry>> =
        known.iter().filter(|entry| visitor.may(VIEW) && may_list(&visitor, &entry.object_type)).cloned().collect();
    let by_type = by_type(&visitor, &mut readable).await?;
    let chosen = chosen(&visitor, &readable);
    let by_value = match &chosen {
        Some((entry, field)) => by_value(&visitor, entry, field).await?,
        None => Vec::new(),
    };
    // What costs more in a larger inventory is counted when somebody asks for it.
    let (today, shown) = (midnight(&visitor), visitor.guest.asked("show"));
    let endings = if shown == Some("soon") { Some(endings(&visitor, &readable, today).await?) } else { None };
    let by_day = if shown == Some("days") { by_day(&visitor, today).await? } else { Vec::new() };
    let main = html! {
        h1 { (texts.say("overview")) }
        p { (texts.say("overview-text")) }
        ul.line {
            @if visitor.may(VIEW_LOG) {
                li { a href="/ui/changes/" { (texts.say("changes")) } }
                li { a href="/ui/changes/?action=DELETE" { (texts.say("deleted-objects")) } }
            }
            @if visitor.may(VIEW_USERS) { li { a href="/ui/people/" { (texts.say("people")) } } }
            @if visitor.may(ADD_TYPES) && visitor.may(VIEW_TYPES) { li { a href="/ui/new-type" { (texts.say("definition-new")) } } }
        }
        @if !readable.is_empty() {
            section {
                h2 { (texts.say("overview-types")) }
                (rows(texts, &by_type, "type"))
            }
            section {
                h2 { (texts.say("overview-values")) }
                (choice(texts, &readable, chosen.as_ref()))
                @if let Some((_, field)) = &chosen { (rows(texts, &by_value, field.title())) }
            }
            section {
                h2 { (texts.say("overview-soon")) }
                @match &endings {
                    Some(endings) if endings.is_empty() => p.note { (texts.say("overview-soon-none")) },
                    Some(endings) => (soon(texts, endings, today)),
                    None => p { a href="/ui/?show=soon" { (texts.say("show-soon")) } },
                }
            }
        }
        @if visitor.may(VIEW_LOG) {
            section {
                h2 { (texts.say("overview-days")) }
                @if by_day.is_empty() {
                    p { a href="/ui/?show=days" { (texts.say("show-days")) } }
                } @else {
                    (rows(texts, &by_day, "day"))
                }
            }
        }
    };
    page(&visitor, StatusCode::OK, Content::new(texts.say("overview"), main)).await
}

/// The beginning of today, in milliseconds.
fn midnight(visitor: &Visitor) -> i64 {
    visitor.services().now().timestamp_millis().div_euclid(moment::DAY) * moment::DAY
}

/// The numbers of the types. Brings the types into the same order: the largest first.
async fn by_type(visitor: &Visitor, readable: &mut Vec<Arc<TypeEntry>>) -> Result<Vec<Row>, ApiError> {
    let services = visitor.services();
    let mut counted = Vec::new();
    for entry in readable.drain(..) {
        let count = services.count_of(entry.object_type.public_id).await?;
        counted.push((count, entry));
    }
    counted.sort_by(|(one, of_one), (other, of_other)| {
        other.cmp(one).then_with(|| of_one.object_type.label.cmp(&of_other.object_type.label))
    });
    let row = |(count, entry): (u64, Arc<TypeEntry>)| {
        let object_type = &entry.object_type;
        let row = Row { label: object_type.label.clone(), count, address: Some(of_type(object_type.public_id)) };
        readable.push(entry);
        row
    };
    Ok(counted.into_iter().map(row).collect())
}

/// The field that the address names as `type.name`.
fn chosen(visitor: &Visitor, readable: &[Arc<TypeEntry>]) -> Option<(Arc<TypeEntry>, Field)> {
    let by = visitor.guest.asked("by")?;
    let mut all = readable.iter().flat_map(|entry| countable(entry).map(move |field| (entry, field)));
    all.find(|(entry, field)| by == key(entry, field)).map(|(entry, field)| (Arc::clone(entry), field.clone()))
}

fn countable(entry: &TypeEntry) -> impl Iterator<Item = &Field> {
    // A path cannot name a field with a dollar sign at its beginning.
    entry.object_type.fields.iter().filter(|field| !field.is_password() && !field.name.starts_with('$'))
}

fn key(entry: &TypeEntry, field: &Field) -> String {
    format!("{}.{}", entry.object_type.public_id, field.name)
}

async fn by_value(visitor: &Visitor, entry: &TypeEntry, field: &Field) -> Result<Vec<Row>, ApiError> {
    let (services, type_id) = (visitor.services(), entry.object_type.public_id);
    let stages: Vec<Bson> = vec![
        doc! {"$match": {"type_id": type_id}}.into(),
        doc! {"$group": {"_id": format!("$f.{}", field.name), "count": {"$sum": 1_i64}}}.into(),
        doc! {"$sort": {"count": -1, "_id": 1}}.into(),
        doc! {"$limit": i64::try_from(MOST_VALUES).unwrap_or(i64::MAX)}.into(),
    ];
    let pipeline = read_pipeline(&visitor.guest.state, &visitor.caller, &stages).await?;
    let groups = aggregate_objects(services, &visitor.caller, pipeline, MOST_VALUES).await?;
    let groups = groups.iter().map(decode).collect::<Result<Vec<Document>, _>>()?;
    let value = |group: &Document| group.get("_id").cloned().unwrap_or(Bson::Null);
    let is_reference = ValueKind::of(field) == ValueKind::Reference;
    let ids: BTreeSet<i64> = groups.iter().filter(|_| is_reference).filter_map(|group| value(group).as_i64()).collect();
    let named = by_numbers(visitor, &ids).await?;
    let row = |group: &Document| {
        let value = value(group);
        let label = match &value {
            Bson::String(text) if text.is_empty() => visitor.texts().say("empty"),
            Bson::Null => visitor.texts().say("empty"),
            Bson::Boolean(flag) => visitor.texts().say(if *flag { "yes" } else { "no" }),
            Bson::String(text) => {
                let option = field.options.iter().find(|option| field.has_choice() && option.name == *text);
                option.map_or(text, |option| &option.label).clone()
            }
            Bson::DateTime(day) => day.try_to_rfc3339_string().unwrap_or_default(),
            other => {
                let target = other.as_i64().and_then(|id| named.get(&id));
                target.map_or_else(|| other.to_string(), |target| target.line.clone())
            }
        };
        let count = group.get("count").and_then(Bson::as_i64).and_then(|count| u64::try_from(count).ok());
        let filter = json!({format!("f.{}", field.name): value.into_relaxed_extjson()}).to_string();
        let address = Address::new(of_type(type_id)).and("filter", filter).text();
        let address = Some(address).filter(|address| address.len() <= LONGEST_ADDRESS);
        Row { label, count: count.unwrap_or_default(), address }
    };
    Ok(groups.iter().map(row).collect())
}

/// How many entries each of the last days has; none for a visitor who may not see them.
async fn by_day(visitor: &Visitor, today: i64) -> Result<Vec<Row>, ApiError> {
    let mut rows = Vec::new();
    if !visitor.may(VIEW_LOG) {
        return Ok(rows);
    }
    for ago in 0..DAYS {
        let from = DateTime::from_millis(today - ago * moment::DAY);
        let until = DateTime::from_millis(today - (ago - 1) * moment::DAY);
        let condition = doc! {"resource": "objects", "time": {"$gte": from, "$lt": until}};
        let query = ListQuery::first(Filter::ours(&condition), Sort::by("sequence", true), 1);
        let page = list_entries(visitor.services(), &visitor.caller, query).await?.into_page();
        let label = day(from.timestamp_millis());
        let address = Address::new("/ui/changes/").and("from", &label).and("to", &label).text();
        rows.push(Row { label, count: page.map(|page| page.total).unwrap_or_default(), address: Some(address) });
    }
    Ok(rows)
}

async fn endings(visitor: &Visitor, readable: &[Arc<TypeEntry>], today: i64) -> Result<Vec<Ending>, ApiError> {
    let of_type = |entry: &Arc<TypeEntry>| {
        let dates = countable(entry).filter(|field| ValueKind::of(field) == ValueKind::Date);
        dates.map(|field| (Arc::clone(entry), field.clone())).collect::<Vec<_>>()
    };
    let mut endings = Vec::new();
    for (entry, field) in readable.iter().flat_map(of_type).take(MOST_DATES) {
        let mut counts = [0; SOON.len()];
        // Nothing within the longest time is nothing within the others.
        for (place, days) in SOON.iter().enumerate().rev() {
            let until = moment::in_filter(today + (days + 1) * moment::DAY);
            let span = json!({"$gte": moment::in_filter(today), "$lt": until});
            let condition = json!({"type_id": entry.object_type.public_id, format!("f.{}", field.name): span});
            let filter = filter(visitor, &condition).await?;
            counts[place] = some(visitor, filter, Sort::by("public_id", false), 1).await?.1;
            if counts[place] == 0 {
                break;
            }
        }
        if counts.iter().any(|count| *count > 0) {
            endings.push(Ending { entry, name: field.name.clone(), label: field.title().to_owned(), counts });
        }
    }
    Ok(endings)
}

/// A day in UTC, as forms of browsers write it.
fn day(millis: i64) -> String {
    DateTime::from_millis(millis).to_chrono().format("%Y-%m-%d").to_string()
}

fn rows(texts: Texts, rows: &[Row], of: &str) -> Markup {
    let most = rows.iter().map(|row| row.count).max().unwrap_or_default();
    let heading = match of {
        "type" | "day" => texts.say(of),
        label => label.to_owned(),
    };
    html! {
        table.bars {
            thead.unseen { tr { th scope="col" { (heading) } th scope="col" { (texts.say("count")) } td {} } }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { a href=[row.address.as_deref()] { bdi { (clipped(&row.label)) } } }
                        td.number { (row.count) }
                        td { (bar(row.count, most)) }
                    }
                }
            }
        }
    }
}

fn choice(texts: Texts, readable: &[Arc<TypeEntry>], chosen: Option<&(Arc<TypeEntry>, Field)>) -> Markup {
    let chosen = chosen.map(|(entry, field)| key(entry, field));
    html! {
        form.choices method="get" action="/ui/" {
            label { (texts.say("overview-by")) " "
                select name="by" {
                    option value="" {}
                    @for entry in readable {
                        optgroup label=(entry.object_type.label) {
                            @for field in countable(entry) {
                                @let key = key(entry, field);
                                option value=(key) selected[chosen.as_ref() == Some(&key)] { (field.title()) }
                            }
                        }
                    }
                }
            }
            button { (texts.say("show")) }
        }
    }
}

fn soon(texts: Texts, endings: &[Ending], today: i64) -> Markup {
    html! {
        div.wide { table.list {
            thead { tr {
                th scope="col" { (texts.say("type")) }
                th scope="col" { (texts.say("field")) }
                @for days in SOON { th.number scope="col" { (texts.with("within-days", &[("days", (days.unsigned_abs()).into())])) } }
            } }
            tbody {
                @for ending in endings {
                    tr {
                        th scope="row" { bdi { (ending.entry.object_type.label) } }
                        td { bdi { (ending.label) } }
                        @for (days, count) in SOON.iter().zip(ending.counts) {
                            @let address = Address::new(of_type(ending.entry.object_type.public_id))
                                .and(&format!("from.{}", ending.name), day(today))
                                .and(&format!("to.{}", ending.name), day(today + days * moment::DAY));
                            td.number { a href=(address.text()) { (count) } }
                        }
                    }
                }
            }
        } }
    }
}
