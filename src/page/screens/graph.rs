//! What an object depends on, and what depends on it: as a picture and as a table.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::object::id_of;
use crate::exchange::graph::Graph;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_object};

use crate::page::parts::control::type_choice;
use crate::page::parts::frame::{Content, page};
use crate::page::parts::{picture, value};
use crate::page::visitor::Visitor;
use crate::service::objects::graph::{Direction, GraphQuery, around};
use crate::service::types::catalog::Types;

/// How many objects a picture has, and how far it goes without `depth`.
const MOST: usize = 60;
const DEPTH: usize = 1;
/// The depths that can be chosen.
const DEPTHS: std::ops::RangeInclusive<usize> = 1..=4;

/// The directions that can be chosen, with the keys of their texts.
const DIRECTIONS: [(&str, &str); 3] = [("both", "graph-both"), ("out", "graph-out"), ("in", "graph-in")];

/// What the address asks for.
struct Question {
    id: i64,
    direction: &'static str,
    depth: usize,
    type_id: Option<i64>,
}

impl Question {
    fn read(visitor: &Visitor, request: &HttpRequest) -> Result<Self, ApiError> {
        let asked = |name| visitor.guest.asked(name);
        let known = DIRECTIONS.iter().map(|(word, _)| *word);
        let direction = known.into_iter().find(|word| asked("direction") == Some(word)).unwrap_or("both");
        let depth = asked("depth").and_then(|depth| depth.parse().ok()).filter(|depth| DEPTHS.contains(depth));
        let type_id = asked("type").and_then(|id| id.parse().ok());
        Ok(Self { id: id_of(request)?, direction, depth: depth.unwrap_or(DEPTH), type_id })
    }

    async fn run(&self, visitor: &Visitor) -> Result<Graph, ApiError> {
        let direction = match self.direction {
            "in" => Direction::In,
            "out" => Direction::Out,
            _ => Direction::Both,
        };
        let types = self.type_id.map(|id| vec![id]);
        let query = GraphQuery { direction, depth: self.depth, types, most: MOST };
        Ok(around(visitor.services(), &visitor.caller, self.id, query).await?)
    }

    /// The address of the picture as a file.
    fn file(&self) -> String {
        let address = Address::new(format!("{}/graph.svg", of_object(self.id)));
        let address = address.and("direction", self.direction).and("depth", self.depth);
        self.type_id.map_or_else(|| address.clone(), |id| address.clone().and("type", id)).text()
    }
}

/// Shows the objects around an object.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let question = Question::read(&visitor, &request)?;
    let graph = question.run(&visitor).await?;
    let types = visitor.services().current_types().await?;
    let texts = visitor.texts();
    let root = graph.nodes.first();
    let name = root.map(|node| value::clipped(&node.summary_line)).unwrap_or_default();
    let title = texts.with("graph-title", &[("name", (&name).into())]);
    let main = html! {
        p.above { a href=(of_object(question.id)) { bdi { (name) } } }
        h1 { (title) }
        (controls(&visitor, &question, &types))
        @if graph.edges.is_empty() {
            p { (texts.say("graph-none")) }
        } @else {
            div.wide { (picture::of_graph(&graph, &title, false)) }
            @if !graph.truncated.is_empty() { p.note { (texts.say("graph-cut")) } }
            p { a href=(question.file()) { (texts.say("graph-file")) } }
            (table(&visitor, &graph, &types))
        }
    };
    page(&visitor, StatusCode::OK, Content::new(title, main)).await
}

/// Sends the picture as a file.
///
/// # Errors
/// As [`show`].
pub async fn file(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let question = Question::read(&visitor, &request)?;
    let graph = question.run(&visitor).await?;
    let name = graph.nodes.first().map(|node| node.summary_line.clone()).unwrap_or_default();
    let disposition = format!("attachment; filename=\"object-{}.svg\"", question.id);
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "image/svg+xml"))
        .insert_header((header::CONTENT_DISPOSITION, disposition))
        .body(picture::of_graph(&graph, &name, true).into_string()))
}

fn controls(visitor: &Visitor, question: &Question, types: &Types) -> Markup {
    let texts = visitor.texts();
    html! {
        form.choices method="get" action={ (of_object(question.id)) "/graph" } {
            label { (texts.say("graph-direction")) " "
                select name="direction" {
                    @for (word, key) in DIRECTIONS {
                        option value=(word) selected[word == question.direction] { (texts.say(key)) }
                    }
                }
            }
            label { (texts.say("graph-depth")) " "
                select name="depth" {
                    @for depth in DEPTHS { option value=(depth) selected[depth == question.depth] { (depth) } }
                }
            }
            (type_choice(visitor, types, question.type_id))
            button { (texts.say("show")) }
        }
    }
}

/// The references as a table, for those who do not see the picture.
fn table(visitor: &Visitor, graph: &Graph, types: &Types) -> Markup {
    let texts = visitor.texts();
    let node = |id: i64| graph.nodes.iter().find(|node| node.public_id == id);
    let label = |type_id: i64, name: &str| {
        let field =
            types.get(type_id).and_then(|entry| entry.object_type.field(name).map(|field| field.title().to_owned()));
        field.unwrap_or_else(|| name.to_owned())
    };
    html! {
        div.wide {
            table.list {
                thead { tr {
                    th scope="col" { (texts.say("graph-from")) }
                    th scope="col" { (texts.say("graph-field")) }
                    th scope="col" { (texts.say("graph-to")) }
                } }
                tbody {
                    @for edge in &graph.edges {
                        @if let (Some(from), Some(to)) = (node(edge.from), node(edge.to)) {
                            tr {
                                td { a href=(of_object(from.public_id)) { bdi { (value::clipped(&from.summary_line)) } } }
                                td { bdi { (label(from.type_id, &edge.field)) } }
                                td { a href=(of_object(to.public_id)) { bdi { (value::clipped(&to.summary_line)) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
