//! Graphs of objects as JSON, and in the languages of Graphviz, Mermaid and `GraphML`.
//!
//! Law: no text of an object is read as a part of the language around it.

use std::fmt::Write;

use quick_xml::escape::escape;

/// Pictures show at most this many characters of a text.
const LONGEST_LABEL: usize = 200;

/// Objects around an object, and their references to each other.
#[derive(Debug, Default, serde::Serialize, utoipa::ToSchema)]
#[schema(as = ObjectGraph)]
pub struct Graph {
    /// The objects that the caller may see, by their distance and id.
    pub nodes: Vec<Node>,
    /// All references among them.
    pub edges: Vec<Edge>,
    /// The ids of nodes that have further neighbours, or may have some.
    pub truncated: Vec<i64>,
}

/// An object of a graph.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
#[schema(as = GraphNode)]
pub struct Node {
    /// Its id.
    pub public_id: i64,
    /// The id of its type.
    pub type_id: i64,
    /// The name of its type for people.
    pub type_label: String,
    /// What sums the object up.
    pub summary_line: String,
    /// How many references it is away.
    #[schema(value_type = u64)]
    pub depth: usize,
}

/// A reference of a graph.
#[derive(Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = GraphEdge)]
pub struct Edge {
    /// The object that refers.
    pub from: i64,
    /// The object that is referred to.
    pub to: i64,
    /// The name of the field.
    pub field: String,
}

/// The format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// An object with nodes, edges and truncated.
    Json,
    /// For Graphviz.
    Dot,
    /// For Mermaid.
    Mermaid,
    /// XML for programs that draw and analyse graphs.
    GraphMl,
}

impl GraphFormat {
    /// The format with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "dot" => Self::Dot,
            "mermaid" => Self::Mermaid,
            "graphml" => Self::GraphMl,
            _ => Self::Json,
        }
    }

    /// The media type of its text.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Dot => "text/vnd.graphviz; charset=utf-8",
            Self::Mermaid => "text/plain; charset=utf-8",
            Self::GraphMl => "application/graphml+xml",
        }
    }
}

impl Graph {
    /// The graph in a format.
    pub fn text(&self, format: GraphFormat) -> String {
        let mut text = String::new();
        let written = match format {
            GraphFormat::Json => {
                return serde_json::to_string(self).expect("a graph holds numbers and texts");
            }
            GraphFormat::Dot => self.write_dot(&mut text),
            GraphFormat::Mermaid => self.write_mermaid(&mut text),
            GraphFormat::GraphMl => self.write_graphml(&mut text),
        };
        written.expect("a text takes everything");
        text
    }

    fn is_truncated(&self, node: &Node) -> bool {
        self.truncated.contains(&node.public_id)
    }

    fn write_dot(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("digraph objects {\n");
        for node in &self.nodes {
            let style = if self.is_truncated(node) { ", style=dashed" } else { "" };
            writeln!(out, "  \"{}\" [label=\"{}\"{style}];", node.public_id, in_dot(&node.label()))?;
        }
        for edge in &self.edges {
            writeln!(out, "  \"{}\" -> \"{}\" [label=\"{}\"];", edge.from, edge.to, in_dot(&shortened(&edge.field)))?;
        }
        out.push_str("}\n");
        Ok(())
    }

    fn write_mermaid(&self, out: &mut String) -> std::fmt::Result {
        // Of ids that other tools stored some may be negative.
        let name = |id: i64| format!("n{id}").replace('-', "_");
        out.push_str("flowchart LR\n");
        for node in &self.nodes {
            writeln!(out, "  {}[\"{}\"]", name(node.public_id), in_mermaid(&node.label()))?;
        }
        for edge in &self.edges {
            let label = in_mermaid(&shortened(&edge.field));
            writeln!(out, "  {} -->|\"{label}\"| {}", name(edge.from), name(edge.to))?;
        }
        let truncated: Vec<String> = self.truncated.iter().map(|id| name(*id)).collect();
        if !truncated.is_empty() {
            writeln!(out, "  classDef truncated stroke-dasharray:5\n  class {} truncated", truncated.join(","))?;
        }
        Ok(())
    }

    fn write_graphml(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        out.push_str("<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
        let members = [("type_id", "long"), ("type_label", "string"), ("summary_line", "string"), ("depth", "int")];
        for (name, kind) in members.into_iter().chain([("truncated", "boolean")]) {
            writeln!(out, "  <key id=\"{name}\" for=\"node\" attr.name=\"{name}\" attr.type=\"{kind}\"/>")?;
        }
        out.push_str("  <key id=\"field\" for=\"edge\" attr.name=\"field\" attr.type=\"string\"/>\n");
        out.push_str("  <graph id=\"objects\" edgedefault=\"directed\">\n");
        for node in &self.nodes {
            write!(out, "    <node id=\"n{}\"><data key=\"type_id\">{}</data>", node.public_id, node.type_id)?;
            write!(out, "<data key=\"type_label\">{}</data>", in_xml(&node.type_label))?;
            write!(out, "<data key=\"summary_line\">{}</data>", in_xml(&node.summary_line))?;
            write!(out, "<data key=\"depth\">{}</data>", node.depth)?;
            writeln!(out, "<data key=\"truncated\">{}</data></node>", self.is_truncated(node))?;
        }
        for edge in &self.edges {
            write!(out, "    <edge source=\"n{}\" target=\"n{}\">", edge.from, edge.to)?;
            writeln!(out, "<data key=\"field\">{}</data></edge>", in_xml(&edge.field))?;
        }
        out.push_str("  </graph>\n</graphml>\n");
        Ok(())
    }
}

impl Node {
    fn label(&self) -> String {
        format!("{}\n{}", shortened(&self.summary_line), shortened(&self.type_label))
    }
}

fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(LONGEST_LABEL).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// A text between the quotes of Graphviz. There `\` begins an escape, and `&` an entity.
fn in_dot(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '&' => escaped.push_str("&amp;"),
            '\n' => escaped.push_str("\\n"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

/// A text between the quotes of Mermaid. All but letters, digits and spaces is written as the number of the character: Mermaid
/// looks for patterns in whole lines.
fn in_mermaid(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("<br>"),
            character if character.is_control() => escaped.push(' '),
            character if character.is_alphanumeric() || character == ' ' => escaped.push(character),
            character => {
                escaped.push('#');
                escaped.push_str(&u32::from(character).to_string());
                escaped.push(';');
            }
        }
    }
    escaped
}

/// A text in XML, which has no way to write most control characters.
fn in_xml(text: &str) -> String {
    let is_allowed =
        |character: char| matches!(character, '\t' | '\n' | ' '..='\u{FFFD}' | '\u{10000}'..) && character != '\u{7F}';
    let text: String =
        text.chars().map(|character| if is_allowed(character) { character } else { '\u{FFFD}' }).collect();
    escape(text.as_str()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text that a language could take for a part of itself.
    const HARD: &str = "a\"b\\ <b>&amp;</b>\n]]>#35;`|{}\u{1}";

    fn graph() -> Graph {
        let node = |public_id, line: &str| Node {
            public_id,
            type_id: 1,
            type_label: "Server".to_owned(),
            summary_line: line.to_owned(),
            depth: 0,
        };
        Graph {
            nodes: vec![node(1, HARD), node(2, "plain")],
            edges: vec![Edge { from: 1, to: 2, field: "on \"it\"".to_owned() }],
            truncated: vec![2],
        }
    }

    #[test]
    fn in_dot_quotes_and_backslashes_are_escaped() {
        let expected = "digraph objects {\n  \"1\" [label=\"a\\\"b\\\\ <b>&amp;amp;</b>\\n]]>#35;`|{} \\nServer\"];\n  \"2\" \
                        [label=\"plain\\nServer\", style=dashed];\n  \"1\" -> \"2\" [label=\"on \\\"it\\\"\"];\n}\n";
        assert_eq!(graph().text(GraphFormat::Dot), expected);
    }

    #[test]
    fn in_mermaid_only_letters_digits_and_spaces_stand_for_themselves() {
        let text = graph().text(GraphFormat::Mermaid);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "flowchart LR");
        let first = "  n1[\"a#34;b#92; #60;b#62;#38;amp#59;#60;#47;b#62;<br>#93;#93;#62;#35;35#59;#96;#124;#123;#125; \
                     <br>Server\"]";
        assert_eq!(lines[1], first);
        assert_eq!(
            lines[3..],
            ["  n1 -->|\"on #34;it#34;\"| n2", "  classDef truncated stroke-dasharray:5", "  class n2 truncated"]
        );
    }

    #[test]
    fn graphml_is_read_back_as_the_same_texts() {
        let text = graph().text(GraphFormat::GraphMl);
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut found = Vec::new();
        let mut current = String::new();
        loop {
            use quick_xml::events::Event;
            match reader.read_event().expect("the XML is well formed") {
                Event::Text(part) => current.push_str(&part),
                Event::GeneralRef(name) => {
                    current
                        .push_str(quick_xml::escape::resolve_predefined_entity(&name).expect("it is a known entity"));
                }
                Event::End(_) => found.push(std::mem::take(&mut current).trim().to_owned()),
                Event::Eof => break,
                _ => {}
            }
        }
        assert!(found.contains(&HARD.replace('\u{1}', "\u{FFFD}")), "{found:?}");
        assert!(found.contains(&"on \"it\"".to_owned()), "{found:?}");
    }

    #[test]
    fn pictures_show_the_beginning_of_a_long_text() {
        let mut graph = graph();
        graph.nodes[1].summary_line = "x".repeat(300);
        assert!(graph.text(GraphFormat::Dot).contains(&format!("\"{}…\\nServer\"", "x".repeat(200))));
        assert!(graph.text(GraphFormat::Json).contains(&"x".repeat(300)));
    }
}
