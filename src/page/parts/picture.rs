//! Pictures as SVG. Colours are attributes, so that a picture is whole as a file; the sheet of the page replaces them.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};

use crate::exchange::graph::{Graph, Node};
use crate::page::address::of_object;

/// Measures in pixels: a box, and the distances from one box to the next.
const WIDTH: i32 = 200;
const HEIGHT: i32 = 40;
const ACROSS: i32 = 280;
const DOWN: i32 = 56;
const MARGIN: i32 = 10;
/// How many boxes are below each other.
const ROWS: usize = 12;
/// How many letters of a name a box has room for.
const LETTERS: usize = 26;

/// The objects of a graph as boxes: what refers to the first one is on its left, what it refers to on its right. A file has
/// no links, as it is looked at elsewhere.
pub fn of_graph(graph: &Graph, title: &str, is_file: bool) -> Markup {
    let (places, width, height) = places(graph);
    let place = |id: i64| places.get(&id).copied().unwrap_or_default();
    html! {
        svg.graph xmlns=[is_file.then_some("http://www.w3.org/2000/svg")] viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
            role="group" aria-label=(plain(title)) font-family="sans-serif" font-size="13" {
            defs {
                marker #arrow viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                    path.head d="M0 0L8 4L0 8z" fill="#57606a" {}
                }
            }
            @for edge in &graph.edges {
                path.edge d=(line(place(edge.from), place(edge.to))) fill="none" stroke="#57606a" marker-end="url(#arrow)" {
                    title { (plain(&edge.field)) }
                }
            }
            @for node in &graph.nodes {
                @let (x, y) = place(node.public_id);
                a href=[(!is_file).then(|| of_object(node.public_id))] {
                    title { (plain(&format!("{} · {}", node.summary_line, node.type_label))) }
                    rect.node.first[node.depth == 0].cut[graph.truncated.contains(&node.public_id)]
                        x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="4" fill="#ffffff" stroke="#57606a"
                        stroke-dasharray=[graph.truncated.contains(&node.public_id).then_some("4 3")] {}
                    text.name x=(x + 8) y=(y + 17) fill="#1b1f23" { (short(&node.summary_line)) }
                    text.kind x=(x + 8) y=(y + 33) fill="#57606a" font-size="11" { (short(&node.type_label)) }
                }
            }
        }
    }
}

/// The upper left corner of each box by the id of its object, and the size of the whole. A long column becomes several.
fn places(graph: &Graph) -> (HashMap<i64, (i32, i32)>, i32, i32) {
    let mut columns: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    let of_objects = columns_of(graph);
    for node in &graph.nodes {
        columns.entry(of_objects.get(&node.public_id).copied().unwrap_or_default()).or_default().push(node.public_id);
    }
    let (mut places, mut x, mut lowest) = (HashMap::new(), MARGIN, 0);
    for part in columns.values().flat_map(|column| column.chunks(ROWS)) {
        let mut y = MARGIN;
        for id in part {
            places.insert(*id, (x, y));
            y += DOWN;
        }
        x += ACROSS;
        lowest = lowest.max(y);
    }
    (places, x - ACROSS + WIDTH + MARGIN, lowest - DOWN + HEIGHT + MARGIN)
}

/// The column of each object: its distance from the first one, negative on the side of those that refer to it.
fn columns_of(graph: &Graph) -> HashMap<i64, i32> {
    let nodes: HashMap<i64, &Node> = graph.nodes.iter().map(|node| (node.public_id, node)).collect();
    // For each object one that is nearer, and whether it refers to that one.
    let mut nearer: HashMap<i64, (i64, bool)> = HashMap::new();
    for edge in &graph.edges {
        let depth = |id: i64| nodes.get(&id).map_or(0, |node| node.depth);
        if depth(edge.to) == depth(edge.from) + 1 {
            nearer.entry(edge.to).or_insert((edge.from, false));
        } else if depth(edge.from) == depth(edge.to) + 1 {
            nearer.entry(edge.from).or_insert((edge.to, true));
        }
    }
    let mut columns: HashMap<i64, i32> = HashMap::new();
    for node in &graph.nodes {
        let depth = i32::try_from(node.depth).unwrap_or(i32::MAX);
        let is_left = match nearer.get(&node.public_id) {
            Some((other, refers)) if node.depth == 1 => columns.contains_key(other) && *refers,
            Some((other, _)) => columns.get(other).is_some_and(|column| *column < 0),
            None => false,
        };
        columns.insert(node.public_id, if is_left { -depth } else { depth });
    }
    columns
}

/// A curve from one box to another: between the sides that face each other, or around the right side within a column.
fn line((from_x, from_y): (i32, i32), (to_x, to_y): (i32, i32)) -> String {
    let (from_y, to_y) = (from_y + HEIGHT / 2, to_y + HEIGHT / 2);
    let (from, to, bend) = match from_x.cmp(&to_x) {
        std::cmp::Ordering::Less => (from_x + WIDTH, to_x, (40, -40)),
        std::cmp::Ordering::Greater => (from_x, to_x + WIDTH, (-40, 40)),
        std::cmp::Ordering::Equal => (from_x + WIDTH, to_x + WIDTH, (50, 50)),
    };
    format!("M{from} {from_y}C{} {from_y} {} {to_y} {to} {to_y}", from + bend.0, to + bend.1)
}

/// What fits into a box.
fn short(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A text without the characters that XML does not have.
fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') { ' ' } else { letter })
        .collect()
}

/// A bar; `part` of `whole` is filled.
pub fn bar(part: u64, whole: u64) -> Markup {
    let percent = part.saturating_mul(100).checked_div(whole.max(1)).unwrap_or_default().max(u64::from(part > 0));
    html! {
        svg.bar width="100%" height="12" aria-hidden="true" {
            rect width={ (percent) "%" } height="12" rx="2" fill="#1d5b79" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::graph::Edge;

    fn node(public_id: i64, depth: usize, line: &str) -> Node {
        Node { public_id, type_id: 1, type_label: "Server".to_owned(), summary_line: line.to_owned(), depth }
    }

    fn edge(from: i64, to: i64) -> Edge {
        Edge { from, to, field: "rack".to_owned() }
    }

    #[test]
    fn what_refers_to_the_first_object_is_on_its_left_with_all_beyond_it() {
        let nodes = vec![node(1, 0, "a"), node(2, 1, "b"), node(3, 1, "c"), node(4, 2, "d"), node(5, 2, "e")];
        let edges = vec![edge(1, 2), edge(3, 1), edge(4, 3), edge(3, 5), edge(2, 3)];
        let columns = columns_of(&Graph { nodes, edges, truncated: vec![] });
        assert_eq!([1, 2, 3, 4, 5].map(|id| columns[&id]), [0, 1, -1, -2, -2]);
    }

    #[test]
    fn no_two_boxes_share_a_place() {
        let nodes: Vec<Node> = (1..=40).map(|id| node(id, usize::from(id > 1), "x")).collect();
        let edges = (2..=40).map(|id| if id % 2 == 0 { edge(1, id) } else { edge(id, 1) }).collect();
        let (places, width, height) = places(&Graph { nodes, edges, truncated: vec![] });
        let different: std::collections::HashSet<_> = places.values().collect();
        assert_eq!(different.len(), 40);
        assert!(places.values().all(|(x, y)| x + WIDTH <= width && y + HEIGHT <= height && *x > 0 && *y > 0));
    }

    #[test]
    fn a_picture_is_xml_whatever_the_names_are() {
        let nodes = vec![node(1, 0, "</svg><script>\u{1}&\"'"), node(2, 1, "\u{ffff}]]>")];
        let text =
            of_graph(&Graph { nodes, edges: vec![edge(1, 2)], truncated: vec![1] }, "\u{0}<b>", true).into_string();
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut open = 0;
        loop {
            match reader.read_event().expect("the picture is XML") {
                quick_xml::events::Event::Start(_) => open += 1,
                quick_xml::events::Event::End(_) => open -= 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(open, 0);
        assert!(!text.contains("<script") && !text.contains('\u{1}') && !text.contains('\u{0}'));
    }

    #[test]
    fn a_bar_shows_its_part() {
        assert!(bar(1, 4).into_string().contains("width=\"25%\""));
        assert!(bar(1, 1_000_000).into_string().contains("width=\"1%\""));
        assert!(bar(0, 0).into_string().contains("width=\"0%\""));
    }
}
