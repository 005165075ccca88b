//! Users and groups: who there is, a new user, and the change of one.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use bson::{Document, doc};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::edit::document;
use crate::domain::document::{flag, integer, text};
use crate::domain::group::USER_GROUP;
use crate::http::error::ApiError;
use crate::page::answer::leads_to;
use crate::page::found::escaped;
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::refusal;
use crate::page::parts::value::clipped;
use crate::page::texts::Texts;
use crate::page::visitor::{Form, Visitor};
use crate::query::{Filter, Limits, Sort};
use crate::service::accounts::users::{change_user, create_user, delete_user, list_users};
use crate::service::precondition::{IfMatch, entity_tag};
use crate::service::resource::{self, Groups, NewState, Resource, Users, decode};
use crate::service::{ErrorCode, ListQuery, ServiceError};

/// The rights to see, to add, to change and to remove users, and to see groups.
pub const VIEW_USERS: &str = "base.user-management.user.view";
const ADD_USERS: &str = "base.user-management.user.add";
/// The right to change users.
pub const EDIT_USERS: &str = "base.user-management.user.edit";
const DELETE_USERS: &str = "base.user-management.user.delete";
const VIEW_GROUPS: &str = "base.user-management.group.view";

/// How many users a page has.
const MOST: u64 = 200;
/// How many groups are read.
const MOST_GROUPS: u64 = 1000;

/// The members that are texts, with the keys of their labels.
const MEMBERS: [(&str, &str); 4] = [
    ("user_name", "sign-in-name"),
    ("first_name", "people-first-name"),
    ("last_name", "people-last-name"),
    ("email", "people-email"),
];

/// What is in a form.
struct Draft {
    texts: BTreeMap<&'static str, String>,
    group_id: i64,
    is_active: bool,
    /// What the user was when the form was made.
    tag: String,
}

/// What the service says against a form.
type Refused = Option<(StatusCode, Vec<String>)>;

impl Draft {
    fn blank() -> Self {
        Self { texts: BTreeMap::new(), group_id: USER_GROUP, is_active: true, tag: String::new() }
    }

    fn stored(user: &Document, tag: String) -> Self {
        let member = |(name, _): (&'static str, _)| (name, user.get_str(name).unwrap_or_default().to_owned());
        Self {
            texts: MEMBERS.map(member).into(),
            group_id: user.get_i64("group_id").unwrap_or(USER_GROUP),
            is_active: user.get_bool("active").unwrap_or_default(),
            tag,
        }
    }

    fn sent(form: &Form) -> Self {
        let member = |(name, _): (&'static str, _)| (name, form.get(name).unwrap_or_default().trim().to_owned());
        let group_id = form.get("group_id").and_then(|id| id.parse().ok());
        Self {
            texts: MEMBERS.map(member).into(),
            group_id: group_id.unwrap_or(USER_GROUP),
            is_active: form.get("active").is_some(),
            tag: form.get("tag").unwrap_or_default().to_owned(),
        }
    }

    /// What differs from another state, with the new password if one was typed.
    fn patch(&self, before: &Self, password: Option<&str>) -> Value {
        let mut patch = Map::new();
        for (name, text) in &self.texts {
            if before.texts.get(name).map_or("", String::as_str) != text {
                let value = Some(text.as_str()).filter(|text| !text.is_empty());
                patch.insert((*name).to_owned(), value.into());
            }
        }
        if self.group_id != before.group_id {
            patch.insert("group_id".to_owned(), self.group_id.into());
        }
        if self.is_active != before.is_active {
            patch.insert("active".to_owned(), self.is_active.into());
        }
        if let Some(password) = password {
            patch.insert("password".to_owned(), password.into());
        }
        patch.into()
    }
}

/// The groups by their ids: the label, and the rights.
async fn groups(visitor: &Visitor) -> Result<BTreeMap<i64, (String, Vec<String>)>, ApiError> {
    if !visitor.may(VIEW_GROUPS) {
        return Ok(BTreeMap::new());
    }
    let query = ListQuery::first(Filter::all(), Sort::by("public_id", false), MOST_GROUPS);
    let listed = resource::list::<Groups>(visitor.services(), &query).await?;
    let found = listed.into_page().unwrap_or_default().documents;
    let mut groups = BTreeMap::new();
    for group in found.iter() {
        let rights = decode(group)?.get_array("rights").cloned().unwrap_or_default();
        let rights = rights.iter().filter_map(|right| right.as_str().map(str::to_owned)).collect();
        let label = text(group, "label").or_else(|| text(group, "name")).unwrap_or_default();
        groups.insert(integer(group, "public_id").unwrap_or_default(), (label.to_owned(), rights));
    }
    Ok(groups)
}

/// Shows users and groups.
///
/// # Errors
/// Errors of the store.
pub async fn list(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    answer_list(&visitor, &Draft::blank(), None).await
}

async fn answer_list(visitor: &Visitor, draft: &Draft, refused: Refused) -> Result<HttpResponse, ApiError> {
    visitor.needs(VIEW_USERS)?;
    let texts = visitor.texts();
    let groups = groups(visitor).await?;
    let asked = visitor.guest.asked("name").unwrap_or_default();
    let pattern = doc! {"$regex": format!("^{}", escaped(asked)), "$options": "i"};
    let filter = Filter::parse(&doc! {"user_name": pattern}, &Limits::NONE)?;
    let query = ListQuery::first(filter, Sort::by("user_name", false), MOST);
    let found = list_users(visitor.services(), &query).await?.into_page().unwrap_or_default();
    let status = refused.as_ref().map_or(StatusCode::OK, |(status, _)| *status);
    let main = html! {
        (refusal::shown(texts, refused.as_ref().map_or(&[], |(_, lines)| lines), None))
        (notice(visitor))
        h1 { (texts.say("people")) }
        form.choices method="get" action="/ui/people/" {
            label { (texts.say("sign-in-name")) " " input name="name" value=(asked) autocomplete="off"; }
            button { (texts.say("filter")) }
        }
        p role="status" {
            (texts.with("people-count", &[("count", found.total.into())]))
            @if found.total > MOST { " " (texts.with("people-first", &[("count", MOST.into())])) }
        }
        div.wide { table.list {
            thead { tr {
                @for (_, key) in MEMBERS { th scope="col" { (texts.say(key)) } }
                th scope="col" { (texts.say("people-group")) }
                th scope="col" { (texts.say("active")) }
            } }
            tbody {
                @for user in found.documents.iter() {
                    @let is_active = flag(user, "active").unwrap_or_default();
                    @let group = integer(user, "group_id").unwrap_or_default();
                    tr.off[!is_active] {
                        @for (index, (name, _)) in MEMBERS.iter().enumerate() {
                            @let shown = clipped(text(user, name).unwrap_or_default());
                            @if index == 0 {
                                th scope="row" { a href=(of_user(integer(user, "public_id").unwrap_or_default())) { bdi { (shown) } } }
                            } @else {
                                td { bdi { (shown) } }
                            }
                        }
                        td { bdi { (groups.get(&group).map_or_else(|| format!("#{group}"), |(label, _)| label.clone())) } }
                        td { (texts.say(if is_active { "yes" } else { "no" })) }
                    }
                }
            }
        } }
        @if visitor.may(ADD_USERS) {
            section {
                h2 { (texts.say("people-new")) }
                (form(visitor, "/ui/people/", draft, &groups, true))
            }
        }
        @if !groups.is_empty() {
            section {
                h2 { (texts.say("people-groups")) }
                @for (label, rights) in groups.values() {
                    details {
                        summary { bdi { (label) } " " span.count { (rights.len()) } }
                        ul { @for right in rights { li { code { (right) } } } }
                    }
                }
            }
        }
    };
    page(visitor, status, Content::new(texts.say("people"), main)).await
}

/// Stores a new user.
///
/// # Errors
/// As a new user over REST, except for what the form can mend.
pub async fn create(form: Form) -> Result<HttpResponse, ApiError> {
    let (visitor, draft) = (&form.visitor, Draft::sent(&form));
    visitor.needs(ADD_USERS)?;
    let mut body = json!({"group_id": draft.group_id, "active": draft.is_active});
    for (name, text) in draft.texts.iter().filter(|(_, text)| !text.is_empty()) {
        body[*name] = text.as_str().into();
    }
    body["password"] = form.sent("password").unwrap_or_default().into();
    match create_user(visitor.services(), &visitor.caller, &document(&body)?).await {
        Ok(_) => Ok(leads_to("/ui/people/?done=created")),
        Err(error) => answer_list(visitor, &draft, Some(said(visitor.texts(), error)?)).await,
    }
}

/// Shows the form of a user.
///
/// # Errors
/// 404 for no such user; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (_, draft) = stored(&visitor, id_of(&request)?).await?;
    answer_one(&visitor, id_of(&request)?, &draft, None).await
}

/// Changes or removes a user.
///
/// # Errors
/// As a change over REST, except for what the form can mend.
pub async fn save(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (visitor, id, draft) = (&form.visitor, id_of(&request)?, Draft::sent(&form));
    let (services, caller) = (visitor.services(), &visitor.caller);
    let condition = IfMatch::Tags(vec![draft.tag.clone()]);
    let outcome = if form.get("do") == Some("delete") {
        visitor.needs(DELETE_USERS)?;
        let (user, _) = stored(visitor, id).await?;
        if form.get("sure").map(str::trim) != user.get_str("user_name").ok() {
            let message = visitor.texts().say("people-sure");
            return answer_one(visitor, id, &draft, Some((StatusCode::BAD_REQUEST, vec![message]))).await;
        }
        delete_user(services, caller, id, &condition, false).await
    } else {
        visitor.needs(EDIT_USERS)?;
        let (_, before) = stored(visitor, id).await?;
        let patch = draft.patch(&before, form.get("password"));
        change_user(services, caller, id, &condition, NewState::Patch(&patch)).await
    };
    match outcome {
        Ok(_) => Ok(leads_to("/ui/people/?done=saved")),
        Err(error) => answer_one(visitor, id, &draft, Some(said(visitor.texts(), error)?)).await,
    }
}

fn id_of(request: &HttpRequest) -> Result<i64, ApiError> {
    let id = request.match_info().get("id").and_then(|id| id.parse().ok());
    id.ok_or_else(|| ApiError::of(ErrorCode::UserNotFound))
}

fn of_user(id: i64) -> String {
    format!("/ui/people/{id}")
}

async fn stored(visitor: &Visitor, id: i64) -> Result<(Document, Draft), ApiError> {
    let user = resource::get::<Users>(visitor.services(), id).await?;
    let view = Users::view(&user);
    let document = decode(&view)?;
    let draft = Draft::stored(&document, entity_tag(&view));
    Ok((document, draft))
}

/// What a form can mend, in words; anything else stays an error.
fn said(texts: Texts, error: ServiceError) -> Result<(StatusCode, Vec<String>), ApiError> {
    let error = refusal::mendable(error.into())?;
    if error.status() == StatusCode::PRECONDITION_FAILED {
        return Ok((error.status(), vec![texts.say("conflict-again")]));
    }
    Ok((error.status(), refusal::lines(&error, |pointer| pointer.trim_start_matches('/').to_owned())))
}

async fn answer_one(visitor: &Visitor, id: i64, draft: &Draft, refused: Refused) -> Result<HttpResponse, ApiError> {
    visitor.needs(VIEW_USERS)?;
    let (texts, groups) = (visitor.texts(), groups(visitor).await?);
    let (document, present) = stored(visitor, id).await?;
    // A deletion sends no members.
    let draft = if draft.texts.values().all(String::is_empty) { &present } else { draft };
    let name = document.get_str("user_name").unwrap_or_default();
    let status = refused.as_ref().map_or(StatusCode::OK, |(status, _)| *status);
    let main = html! {
        (refusal::shown(texts, refused.as_ref().map_or(&[], |(_, lines)| lines), None))
        p.above { a href="/ui/people/" { (texts.say("people")) } " · #" (id) }
        h1 { bdi { (clipped(name)) } }
        @if visitor.may(EDIT_USERS) { (form(visitor, &of_user(id), draft, &groups, false)) }
        @if visitor.may(DELETE_USERS) {
            form method="post" action=(of_user(id)) {
                (token(visitor))
                input type="hidden" name="tag" value=(draft.tag);
                div.field {
                    label for="sure" { (texts.say("people-sure")) }
                    input #sure name="sure" autocomplete="off" autocapitalize="none";
                }
                button.danger name="do" value="delete" { (texts.say("people-delete")) }
            }
        }
    };
    page(visitor, status, Content::new(clipped(name), main)).await
}

fn notice(visitor: &Visitor) -> Markup {
    let key = match visitor.guest.asked("done") {
        Some("created") => "created-now",
        Some(_) => "changed-now",
        None => return html! {},
    };
    html! { p.notice role="status" { (visitor.texts().say(key)) } }
}

fn form(
    visitor: &Visitor,
    action: &str,
    draft: &Draft,
    groups: &BTreeMap<i64, (String, Vec<String>)>,
    is_new: bool,
) -> Markup {
    let texts = visitor.texts();
    html! {
        form.edit method="post" action=(action) novalidate {
            (token(visitor))
            input type="hidden" name="tag" value=(draft.tag);
            @for (name, key) in MEMBERS {
                div.field {
                    label for=(name) { (texts.say(key)) }
                    input id=(name) name=(name) value=(draft.texts.get(name).map_or("", String::as_str)) autocomplete="off";
                }
            }
            div.field {
                label for="group_id" { (texts.say("people-group")) }
                select #group_id name="group_id" {
                    @for (id, (label, _)) in groups { option value=(id) selected[*id == draft.group_id] { (label) } }
                    @if !groups.contains_key(&draft.group_id) {
                        option value=(draft.group_id) selected { "#" (draft.group_id) }
                    }
                }
            }
            div.field {
                label for="password" { (texts.say("sign-in-password")) }
                @if !is_new { p.hint { (texts.say("password-hint")) } }
                input #password type="password" name="password" autocomplete="new-password";
            }
            div.field.choice {
                input #active type="checkbox" name="active" value="true" checked[draft.is_active];
                label for="active" { (texts.say("active")) }
            }
            button.main { (texts.say(if is_new { "create" } else { "save" })) }
        }
    }
}
