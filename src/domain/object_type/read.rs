//! Reads an [`ObjectType`] tolerantly from a stored document.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bson::raw::RawDocument;
use bson::{Bson, DateTime, Document, doc};

use super::layout::{Layout, role};
use super::{
    Acl, External, ExternalFragments, Field, FieldFragments, FieldOption, LinkTemplate, ObjectType, ObjectTypeError,
    PLAIN_SECTION, REF_SECTION, ReferenceSummary, Role, Section, SectionReference, TypeFragments,
};
use crate::domain::document::number;
use crate::domain::on_delete::OnDelete;

const DEFAULT_VERSION: &str = "1.0.0";

pub(super) fn object_type(document: &RawDocument) -> Result<ObjectType, ObjectTypeError> {
    let document = Document::try_from(document).map_err(|error| ObjectTypeError::Corrupt(error.to_string()))?;
    let public_id = Members(&document).integer("public_id").ok_or(ObjectTypeError::NoPublicId)?;
    Ok(compile(public_id, &document))
}

/// The placeholder of a deleted type: only its id.
pub(super) fn missing(public_id: i64) -> ObjectType {
    compile(public_id, &doc! { "active": false, "version": "" })
}

fn compile(public_id: i64, document: &Document) -> ObjectType {
    let members = Members(document);
    let render_meta = members.inner("render_meta");
    let sections: Vec<Section> = render_meta.documents("sections").map(section).collect();
    let externals: Vec<External> = render_meta.documents("externals").map(external).collect();
    let summary_fields = render_meta.inner("summary").texts("fields");
    let (fields, positions) = fields(members, &sections);
    let name = members.text("name").unwrap_or_default();
    let mut object_type = ObjectType {
        public_id,
        label: members.text("label").filter(|label| !label.is_empty()).unwrap_or_else(|| name.clone()),
        name,
        active: members.boolean("active").unwrap_or(true),
        version: members.text("version").unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
        author_id: members.integer("author_id"),
        creation_time: members.time("creation_time"),
        icon: render_meta.text("icon"),
        description: members.text("description"),
        indexes: members.items("indexes").iter().filter_map(names).collect(),
        layout: Layout::new(&fields, &positions, &sections, &summary_fields, &externals),
        fields,
        sections,
        externals,
        summary_fields,
        acl: Acl::from_document(members.inner("acl").0),
        positions,
        fragments: TypeFragments::default(),
    };
    object_type.fragments = TypeFragments::of(&object_type, document.get_document("acl").ok());
    object_type
}

/// The texts of a list that has no others.
fn names(list: &Bson) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The fields, and their positions by name. Fields without a name are skipped. Of two with the same name the first one
/// counts.
fn fields(members: Members<'_>, sections: &[Section]) -> (Vec<Field>, HashMap<String, usize>) {
    let mut fields: Vec<Field> = Vec::new();
    let mut positions = HashMap::new();
    for mut field in members.documents("fields").filter_map(field) {
        let Entry::Vacant(place) = positions.entry(field.name.clone()) else { continue };
        place.insert(fields.len());
        field.role = role(&field, sections);
        field.fragments = FieldFragments::of(&field);
        fields.push(field);
    }
    (fields, positions)
}

fn field(members: Members<'_>) -> Option<Field> {
    let name = members.text("name")?;
    Some(Field {
        label: members.text("label").unwrap_or_else(|| name.clone()),
        kind: members.text("type").unwrap_or_else(|| "text".to_owned()),
        required: members.boolean("required").unwrap_or(false),
        regex: members.text("regex").filter(|pattern| !pattern.is_empty()),
        options: members.documents("options").filter_map(option).collect(),
        multiple: members.boolean("multiple").unwrap_or(false),
        ref_types: members.integers("ref_types"),
        on_delete: members.text("on_delete").map_or_else(OnDelete::default, |word| OnDelete::named(&word)),
        summaries: members.documents("summaries").filter_map(summary).collect(),
        value: members.0.get("value").cloned().unwrap_or(Bson::Null),
        description: members.text("description"),
        placeholder: members.text("placeholder"),
        helper_text: members.text("helperText"),
        role: Role::Plain,
        fragments: FieldFragments::default(),
        name,
    })
}

fn option(members: Members<'_>) -> Option<FieldOption> {
    let name = members.text("name")?;
    Some(FieldOption { label: members.text("label").unwrap_or_else(|| name.clone()), name })
}

fn summary(members: Members<'_>) -> Option<ReferenceSummary> {
    Some(ReferenceSummary {
        type_id: members.integer("type_id")?,
        line: line(&members.text("line").unwrap_or_default()),
        label: members.text("label").unwrap_or_default(),
        fields: members.texts("fields"),
        icon: members.text("icon"),
        prefix: members.boolean("prefix").unwrap_or(true),
    })
}

/// The texts around the placeholders `{}` of a line.
fn line(text: &str) -> Vec<String> {
    if text.trim().is_empty() { Vec::new() } else { text.split("{}").map(str::to_owned).collect() }
}

fn section(members: Members<'_>) -> Section {
    let kind = members.text("type").unwrap_or_else(|| PLAIN_SECTION.to_owned());
    let name = members.text("name").unwrap_or_default();
    Section {
        label: members.text("label").unwrap_or_else(|| name.clone()),
        fields: members.texts("fields"),
        reference: if kind == REF_SECTION { section_reference(members.inner("reference")) } else { None },
        kind,
        name,
    }
}

fn section_reference(members: Members<'_>) -> Option<SectionReference> {
    Some(SectionReference {
        type_id: members.integer("type_id")?,
        section_name: members.text("section_name")?,
        selected_fields: members.texts("selected_fields"),
    })
}

fn external(members: Members<'_>) -> External {
    let href = members.text("href").unwrap_or_default();
    let name = members.text("name").unwrap_or_default();
    let mut external = External {
        label: members.text("label").unwrap_or_else(|| name.clone()),
        icon: members.text("icon"),
        fields: members.texts("fields"),
        link: LinkTemplate::parse(&href),
        href,
        name,
        fragments: ExternalFragments::default(),
    };
    external.fragments = ExternalFragments::of(&external);
    external
}

/// The members of a stored document; malformed ones count as absent.
#[derive(Clone, Copy)]
struct Members<'a>(&'a Document);

impl<'a> Members<'a> {
    fn inner(self, name: &str) -> Members<'a> {
        static NONE: std::sync::LazyLock<Document> = std::sync::LazyLock::new(Document::new);
        Members(self.0.get_document(name).unwrap_or(&NONE))
    }

    fn items(self, name: &str) -> &'a [Bson] {
        self.0.get_array(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn documents(self, name: &str) -> impl Iterator<Item = Members<'a>> {
        self.items(name).iter().filter_map(Bson::as_document).map(Members)
    }

    fn text(self, name: &str) -> Option<String> {
        self.0.get_str(name).ok().map(str::to_owned)
    }

    fn texts(self, name: &str) -> Vec<String> {
        self.items(name).iter().filter_map(Bson::as_str).map(str::to_owned).collect()
    }

    fn integer(self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(number)
    }

    /// A list of integers; some tools store a single one without a list.
    fn integers(self, name: &str) -> Vec<i64> {
        let bare = self.integer(name);
        self.items(name).iter().filter_map(number).chain(bare).collect()
    }

    fn boolean(self, name: &str) -> Option<bool> {
        self.0.get_bool(name).ok()
    }

    fn time(self, name: &str) -> Option<DateTime> {
        self.0.get_datetime(name).ok().copied()
    }
}
