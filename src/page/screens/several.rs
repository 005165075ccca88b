//! Changes or deletes several objects of a list: those that are ticked, or all that were found.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::delete::reference_choice;
use super::edit::{target_labels, typed, value_of};
use super::list::Question;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::Field;
use crate::domain::on_delete::OnDelete;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_object, of_type};
use crate::page::answer::leads_to;
use crate::page::found::{Named, named, number_in, some};
use crate::page::parts::control::{self, Problem, Shown};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::refusal;
use crate::page::parts::value::clipped;
use crate::page::visitor::{Form, Visitor};
use crate::page::{DELETE, EDIT, VIEW};
use crate::query::{Filter, Sort};
use crate::service::objects::bulk::{Selection, delete_selected, patch_selected};

/// How many of the objects are named.
const NAMED: u64 = 10;

/// The objects that the address selects.
struct Chosen {
    question: Question,
    filter: Filter,
    count: u64,
    first: Vec<Named>,
    /// The parameters that select them.
    asked: Vec<(String, String)>,
}

/// What is wrong with what was sent.
#[derive(Default)]
struct Refused {
    status: StatusCode,
    message: Option<String>,
    problem: Option<Problem>,
}

impl Chosen {
    async fn read(visitor: &Visitor, request: &HttpRequest) -> Result<Self, ApiError> {
        visitor.needs(VIEW)?;
        let question = Question::read(visitor, request).await?;
        let mut filter = question.selected(visitor).await?;
        let mut asked = question.asked().to_vec();
        let ids: Vec<i64> =
            visitor.guest.query.iter().filter(|(name, _)| name == "id").filter_map(|(_, id)| number_in(id)).collect();
        if visitor.guest.asked("all").is_some() {
            asked.push(("all".to_owned(), "yes".to_owned()));
        } else {
            asked.extend(ids.iter().map(|id| ("id".to_owned(), id.to_string())));
            filter = filter.and(Filter::one_of("public_id", ids));
        }
        let (first, count) = some(visitor, filter.clone(), Sort::by("public_id", false), NAMED).await?;
        let known = visitor.services().current_types().await?;
        let first = first.iter().map(|object| named(visitor, &known, object)).collect();
        Ok(Self { question, filter, count, first, asked })
    }

    fn path(&self) -> String {
        format!("{}/several", of_type(self.question.type_id()))
    }

    /// Where forms are sent: the address that selects the same objects.
    fn address(&self) -> Address {
        Address::of(self.path(), &self.asked)
    }

    /// The fields that can be set for several objects.
    fn fields(&self) -> impl Iterator<Item = (usize, &Field)> {
        let fields = self.question.entry.object_type.fields.iter().enumerate();
        fields.filter(|(_, field)| !field.is_password())
    }

    fn field(&self, visitor: &Visitor) -> Option<(usize, &Field)> {
        let wanted = visitor.guest.asked("set")?;
        self.fields().find(|(_, field)| field.name == wanted)
    }

    /// Back to the list, with the number of objects that were changed, or are gone.
    fn done(&self, is_deletion: bool) -> HttpResponse {
        let address = Address::of(of_type(self.question.type_id()), self.question.asked()).and("done", self.count);
        leads_to(&if is_deletion { address.and("gone", "yes") } else { address }.text())
    }
}

/// Shows which objects were chosen, and asks what to do with them.
///
/// # Errors
/// 404 for a type that the visitor may not read; a filter that cannot be understood; errors of the store.
pub async fn ask(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let chosen = Chosen::read(&visitor, &request).await?;
    answer(&visitor, &chosen, &[], Refused::default()).await
}

/// Changes or deletes the objects: all of them, or none.
///
/// # Errors
/// As [`ask`]; 403 without the right; what only another address can mend.
pub async fn carry_out(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let visitor = &form.visitor;
    let chosen = Chosen::read(visitor, &request).await?;
    let is_deletion = form.get("do") == Some("delete");
    visitor.needs(if is_deletion { DELETE } else { EDIT })?;
    let count = |name| form.get(name).and_then(|count| count.trim().parse::<u64>().ok());
    let expected_count = count("expected").unwrap_or_default();
    let most = visitor.guest.state.params.max_bulk;
    let selection = Selection { filter: chosen.filter.clone(), expected_count, most };
    if is_deletion {
        if count("sure") != Some(expected_count) {
            let message = visitor.texts().with("several-sure", &[("count", chosen.count.into())]);
            return refused(visitor, &chosen, &[], Refused { message: Some(message), ..Refused::default() }).await;
        }
        let on_references = OnDelete::named(form.get("references").unwrap_or("refuse"));
        return match delete_selected(visitor.services(), &visitor.caller, &selection, on_references).await {
            Ok(_) => Ok(chosen.done(true)),
            Err(error) => said(visitor, &chosen, &[], error.into()).await,
        };
    }
    let (patch, sent) = match patch(&form, &chosen).await? {
        Ok(patch) => patch,
        Err((problem, sent)) => {
            let problem = Refused { problem: Some(problem), ..Refused::default() };
            return refused(visitor, &chosen, &sent, problem).await;
        }
    };
    match patch_selected(visitor.services(), &visitor.caller, &selection, &patch).await {
        Ok(_) => Ok(chosen.done(false)),
        Err(error) => said(visitor, &chosen, &sent, error.into()).await,
    }
}

/// The change, and what was typed for it.
type Change = Result<(Value, Vec<String>), (Problem, Vec<String>)>;

async fn patch(form: &Form, chosen: &Chosen) -> Result<Change, ApiError> {
    let visitor = &form.visitor;
    match form.get("do") {
        Some("activate") => return Ok(Ok((json!({"active": true}), Vec::new()))),
        Some("deactivate") => return Ok(Ok((json!({"active": false}), Vec::new()))),
        Some("set") => {}
        _ => return Err(ApiError::parameter("do", "must be set, activate, deactivate or delete")),
    }
    let (_, field) = chosen.field(visitor).ok_or_else(|| ApiError::parameter("set", "must be a field of the type"))?;
    let sent = typed(form, field);
    // An empty control may be an oversight.
    if sent.is_empty() && ValueKind::of(field) != ValueKind::Checkbox && form.get("clear").is_none() {
        return Ok(Err((Problem::new(visitor.texts().say("several-empty")), sent)));
    }
    Ok(match value_of(visitor, &chosen.question.entry, field, &sent).await? {
        Ok(value) => Ok((json!({"fields": [{"name": field.name, "value": value}]}), sent)),
        Err(problem) => Err((problem, sent)),
    })
}

/// The page again, with what the service says against the change.
async fn said(visitor: &Visitor, chosen: &Chosen, typed: &[String], error: ApiError) -> Result<HttpResponse, ApiError> {
    let error = refusal::mendable(error)?;
    let mut message = error.message().to_owned();
    for place in error.places() {
        message = format!("{message}; {}", place.message);
    }
    let (status, message) = (error.status(), Some(message));
    answer(visitor, chosen, typed, Refused { status, message, problem: None }).await
}

async fn refused(
    visitor: &Visitor,
    chosen: &Chosen,
    typed: &[String],
    refused: Refused,
) -> Result<HttpResponse, ApiError> {
    answer(visitor, chosen, typed, Refused { status: StatusCode::BAD_REQUEST, ..refused }).await
}

async fn answer(
    visitor: &Visitor,
    chosen: &Chosen,
    typed: &[String],
    refused: Refused,
) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let title = texts.say("several");
    let object_type = &chosen.question.entry.object_type;
    let field = chosen.field(visitor);
    let of_types = match field {
        Some((_, field)) => target_labels(&*visitor.services().current_types().await?, object_type, field),
        None => String::new(),
    };
    let shown = field.map(|(place, field)| {
        let problem = refused.problem.as_ref();
        control::shown(texts, &Shown { field, place, typed, was: "", problem, meanwhile: None, of_types: &of_types })
    });
    let main = html! {
        @if let Some(message) = &refused.message {
            div.errors role="alert" { h2 { (texts.say("errors-title")) } p lang="en" { bdi { (message) } } }
        }
        p.above { a href=(of_type(object_type.public_id)) { bdi { (object_type.label) } } }
        h1 { (title) }
        p.large { (texts.with("objects", &[("count", chosen.count.into())])) }
        @if chosen.count == 0 {
            p { (texts.say("several-none")) }
        } @else {
            ul.line {
                @for named in &chosen.first { li { a href=(of_object(named.id)) { bdi { (clipped(&named.line)) } } } }
                @if chosen.count > NAMED { li { "…" } }
            }
            @if visitor.may(EDIT) { (changes(visitor, chosen, shown.as_ref())) }
            @if visitor.may(DELETE) { (deletion(visitor, chosen)) }
        }
    };
    page(visitor, refused.status, Content::new(title, main).about(object_type.public_id)).await
}

fn changes(visitor: &Visitor, chosen: &Chosen, control: Option<&Markup>) -> Markup {
    let texts = visitor.texts();
    let set = chosen.field(visitor).map(|(_, field)| field.name.as_str());
    let count = [("count", chosen.count.into())];
    html! {
        section {
            h2 { (texts.say("several-set")) }
            form.choices method="get" action=(chosen.path()) {
                @for (name, value) in &chosen.asked { input type="hidden" name=(name) value=(value); }
                label { (texts.say("field")) " "
                    select name="set" {
                        @for (_, field) in chosen.fields() {
                            option value=(field.name) selected[set == Some(&*field.name)] { (field.title()) }
                        }
                    }
                }
                button { (texts.say("forward")) }
            }
            @if let (Some(control), Some(set)) = (control, set) {
                form.edit method="post" action=(chosen.address().and("set", set).text()) novalidate {
                    (token(visitor))
                    input type="hidden" name="expected" value=(chosen.count);
                    (control)
                    label.choice { input type="checkbox" name="clear" value="yes"; (texts.say("several-clear")) }
                    button.main name="do" value="set" { (texts.with("several-change", &count)) }
                }
            }
        }
        section {
            h2 { (texts.say("active")) }
            form.actions method="post" action=(chosen.address().text()) {
                (token(visitor))
                input type="hidden" name="expected" value=(chosen.count);
                button name="do" value="activate" { (texts.with("several-activate", &count)) }
                button name="do" value="deactivate" { (texts.with("several-deactivate", &count)) }
            }
        }
    }
}

fn deletion(visitor: &Visitor, chosen: &Chosen) -> Markup {
    let texts = visitor.texts();
    html! {
        section {
            h2 { (texts.say("delete")) }
            form method="post" action=(chosen.address().text()) {
                (token(visitor))
                input type="hidden" name="expected" value=(chosen.count);
                (reference_choice(texts))
                div.field {
                    label for="sure" { (texts.with("several-sure", &[("count", chosen.count.into())])) }
                    input #sure name="sure" inputmode="numeric" autocomplete="off";
                }
                button.danger name="do" value="delete" { (texts.with("several-delete", &[("count", chosen.count.into())])) }
            }
        }
    }
}
