//! What a type and a category of the demo are made of.

/// The kinds of things in the demo, each after the kinds that it refers to: the order in which they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoKind {
    /// A site.
    Location,
    /// A room of a location.
    Room,
    /// A rack in a room.
    Rack,
    /// Someone who works in a location.
    Person,
    /// An agreement with a vendor, looked after by a person.
    Contract,
    /// A switch at the top of a rack.
    Switch,
    /// A server in a rack.
    Server,
    /// A virtual machine on a server.
    VirtualMachine,
    /// The right to use a software on a server or a virtual machine.
    Licence,
}

impl DemoKind {
    /// All of them, in the order in which they are loaded.
    pub const ALL: [Self; 9] = [
        Self::Location,
        Self::Room,
        Self::Rack,
        Self::Person,
        Self::Contract,
        Self::Switch,
        Self::Server,
        Self::VirtualMachine,
        Self::Licence,
    ];

    /// The `public_id` of its type.
    pub fn type_id(self) -> i64 {
        self as i64 + 1
    }
}

/// A type. Its fields are in its sections.
#[derive(Debug)]
pub struct TypeModel {
    /// In kebab case.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// In the order in which they are shown.
    pub sections: &'static [Section],
    /// Links to other tools.
    pub links: &'static [Link],
    /// Names of the fields that sum up an object.
    pub summary: &'static [&'static str],
}

/// Fields that are shown together.
#[derive(Debug)]
pub struct Section {
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// Its fields; for a section that shows another object: the one field that refers to it.
    pub fields: &'static [Field],
    /// The part of the other object that it shows.
    pub shows: Option<Shown>,
}

/// A part of another object.
#[derive(Debug)]
pub struct Shown {
    /// The kind of the other object.
    pub kind: DemoKind,
    /// The section there.
    pub section: &'static str,
    /// Names of the fields to show; empty: all of the section.
    pub fields: &'static [&'static str],
}

/// A link to another tool.
#[derive(Debug)]
pub struct Link {
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// The address, `{}` for each value.
    pub href: &'static str,
    /// Names of the fields with the values.
    pub fields: &'static [&'static str],
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// The kind that rendering and validation know.
    pub kind: &'static str,
    /// Unique within its type.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    pub(super) required: bool,
    pub(super) pattern: Option<&'static str>,
    pub(super) help: Option<&'static str>,
    pub(super) value: Option<&'static str>,
    pub(super) options: &'static [(&'static str, &'static str)],
    pub(super) targets: &'static [Target],
}

/// What a field may refer to, and how that is summed up there.
#[derive(Debug)]
pub struct Target {
    /// The kind of the other object.
    pub kind: DemoKind,
    /// A line with `{}` for each value.
    pub line: &'static str,
    /// Names of the fields of the other object with the values.
    pub fields: &'static [&'static str],
}

impl Field {
    /// A field with a value of this kind.
    pub const fn new(kind: &'static str, name: &'static str, label: &'static str) -> Self {
        Self { kind, name, label, required: false, pattern: None, help: None, value: None, options: &[], targets: &[] }
    }

    /// A field with one of these options: name and label of each.
    pub const fn choice(
        kind: &'static str,
        name: &'static str,
        label: &'static str,
        options: &'static [(&'static str, &'static str)],
    ) -> Self {
        let mut field = Self::new(kind, name, label);
        field.options = options;
        field
    }

    /// A field that refers to another object.
    pub const fn reference(name: &'static str, label: &'static str, targets: &'static [Target]) -> Self {
        let mut field = Self::new("ref", name, label);
        field.targets = targets;
        field
    }

    /// The field of a section that shows another object.
    pub const fn section_reference(name: &'static str, label: &'static str, targets: &'static [Target]) -> Self {
        let mut field = Self::reference(name, label, targets);
        field.kind = "ref-section-field";
        field
    }

    /// The same field, which no object may lack.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same field, whose whole value matches a regular expression.
    #[must_use]
    pub const fn matching(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// The same field with a word of help.
    #[must_use]
    pub const fn help(mut self, text: &'static str) -> Self {
        self.help = Some(text);
        self
    }

    /// The same field with the value that an object has which does not say otherwise.
    #[must_use]
    pub const fn or(mut self, value: &'static str) -> Self {
        self.value = Some(value);
        self
    }
}

/// A category; its `public_id` is its place in the list, from 1.
#[derive(Debug)]
pub struct CategoryModel {
    /// In kebab case.
    pub name: &'static str,
    /// What people see.
    pub label: &'static str,
    /// An icon class.
    pub icon: &'static str,
    /// The name of the parent category, which precedes it in the list.
    pub parent: Option<&'static str>,
    /// The kinds whose types are in it.
    pub kinds: &'static [DemoKind],
}
