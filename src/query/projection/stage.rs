//! Projections as stages of pipelines: `$project`, `$addFields`, `$unset`.

use bson::{Bson, Document};

use super::parse::{ProjectionParser, note_computed};
use super::{Branch, Child, Projection};
use crate::query::computed::Computed;
use crate::query::error::QueryError;
use crate::query::filter::parser::Parser;
use crate::query::path::check_field_path;

impl Projection {
    /// `$project`: as in `find`, without the operators that only `find` has.
    pub(in crate::query) fn of_stage(parser: &mut Parser, document: &Document) -> Result<Self, QueryError> {
        let limits = parser.limits;
        let mut stage = ProjectionParser::of_stage(std::mem::replace(parser, Parser::at(limits, "pipeline")));
        let projection = stage.read(document)?;
        *parser = stage.into_filter();
        Ok(projection)
    }

    /// `$unset`: everything but these paths.
    pub(in crate::query) fn leaving_out(parser: &mut Parser, paths: &[&str]) -> Result<Self, QueryError> {
        let limits = parser.limits;
        let mut stage = ProjectionParser::of_stage(std::mem::replace(parser, Parser::at(limits, "pipeline")));
        let projection = stage.without(paths)?;
        *parser = stage.into_filter();
        Ok(projection)
    }

    /// `$addFields`: everything, with computed members.
    pub(in crate::query) fn adding(parser: &mut Parser, document: &Document) -> Result<Self, QueryError> {
        let mut root = Branch::default();
        for (path, value) in document {
            parser.within(path.as_str(), |parser| {
                check_field_path(&parser.at, path)?;
                let steps: Vec<&str> = path.split('.').collect();
                add(parser, &steps, value, &mut root)
            })?;
        }
        note_computed(&mut root);
        Ok(Self { document: document.clone(), includes: false, root, afterwards: Vec::new(), entries: None })
    }
}

/// Adds the value for a path to the branch.
fn add(parser: &mut Parser, steps: &[&str], value: &Bson, branch: &mut Branch) -> Result<(), QueryError> {
    let collision = |parser: &Parser| parser.at.malformed(40176, "the path collides with another one of this stage");
    let Some((step, rest)) = steps.split_first() else { return Ok(()) };
    let place = branch.children.iter().position(|(name, _)| name == step);
    if rest.is_empty() {
        let Some(place) = place else {
            let child = child(parser, value)?;
            branch.children.push(((*step).to_owned(), child));
            return Ok(());
        };
        return match (&mut branch.children[place].1, value) {
            // Both set members below.
            (Child::Branch(below), Bson::Document(members))
                if !members.is_empty() && members.keys().all(|name| !name.starts_with('$')) =>
            {
                add_members(parser, members, below)
            }
            _ => Err(collision(parser)),
        };
    }
    let place = place.unwrap_or_else(|| {
        branch.children.push(((*step).to_owned(), Child::Branch(Branch::default())));
        branch.children.len() - 1
    });
    match &mut branch.children[place].1 {
        Child::Branch(below) => add(parser, rest, value, below),
        _ => Err(collision(parser)),
    }
}

/// An expression, or a document of what is set below.
fn child(parser: &mut Parser, value: &Bson) -> Result<Child, QueryError> {
    let Bson::Document(members) = value else {
        return Computed::parse(value, &mut parser.at).map(Child::Computed);
    };
    if members.is_empty() {
        return Err(parser.at.malformed(40180, "an empty document sets nothing; write {$literal: {}} for one"));
    }
    if members.keys().any(|name| name.starts_with('$')) {
        if members.len() > 1 {
            return Err(parser.at.malformed(40181, "an expression has exactly one member, the name of its operator"));
        }
        return Computed::parse(value, &mut parser.at).map(Child::Computed);
    }
    let mut branch = Branch::default();
    add_members(parser, members, &mut branch)?;
    Ok(Child::Branch(branch))
}

/// Adds the members of a document, which set deeper paths.
fn add_members(parser: &mut Parser, members: &Document, branch: &mut Branch) -> Result<(), QueryError> {
    for (name, value) in members {
        parser.within(name.as_str(), |parser| {
            if name.contains('.') {
                return Err(parser.at.malformed(40183, "a name within a document has no dot; nest the documents"));
            }
            check_field_path(&parser.at, name)?;
            add(parser, &[name.as_str()], value, branch)
        })?;
    }
    Ok(())
}
