//! The types and categories of the demo, as data.

use super::model::{CategoryModel, DemoKind, Field, Link, Section, Shown, Target, TypeModel};

const STATUS: &[(&str, &str)] =
    &[("planned", "Planned"), ("in-service", "In service"), ("maintenance", "Maintenance"), ("retired", "Retired")];
const ENVIRONMENT: &[(&str, &str)] = &[("production", "Production"), ("staging", "Staging"), ("test", "Test")];
const HOSTNAME: &str = "[a-z0-9]+(-[a-z0-9]+)*";
const INVENTORY_NUMBER: &str = "INV-[0-9]{7}";

const PERSON_LINE: &[Target] =
    &[Target { kind: DemoKind::Person, line: "{} {}, {}", fields: &["first-name", "last-name", "department"] }];
const RACK_LINE: &[Target] = &[Target { kind: DemoKind::Rack, line: "{}, row {}", fields: &["name", "row"] }];
const CONTRACT_LINE: &[Target] = &[Target { kind: DemoKind::Contract, line: "{} ({})", fields: &["number", "vendor"] }];

pub(super) const LOCATION: TypeModel = TypeModel {
    name: "location",
    label: "Location",
    icon: "fas fa-building",
    description: "A site with rooms and people.",
    sections: &[
        Section {
            name: "site",
            label: "Site",
            fields: &[
                Field::new("text", "name", "Name").required(),
                Field::new("text", "code", "Code").required().matching("[a-z]{3}[0-9]{1,2}"),
                Field::choice(
                    "select",
                    "kind",
                    "Kind",
                    &[("data-centre", "Data centre"), ("colocation", "Colocation"), ("office", "Office")],
                ),
                Field::new("date", "opened-on", "Opened on"),
            ],
            shows: None,
        },
        Section {
            name: "address",
            label: "Address",
            fields: &[
                Field::new("textarea", "street", "Street"),
                Field::new("text", "city", "City"),
                Field::new("text", "country", "Country"),
                Field::new("tel", "reception", "Reception"),
                Field::new("number", "latitude", "Latitude"),
                Field::new("number", "longitude", "Longitude"),
            ],
            shows: None,
        },
    ],
    links: &[Link {
        name: "map",
        label: "Map",
        icon: "fas fa-map-marker-alt",
        href: "https://www.openstreetmap.org/?mlat={}&mlon={}",
        fields: &["latitude", "longitude"],
    }],
    summary: &["name", "city"],
};

pub(super) const ROOM: TypeModel = TypeModel {
    name: "room",
    label: "Room",
    icon: "fas fa-door-open",
    description: "A room with racks.",
    sections: &[
        Section {
            name: "room",
            label: "Room",
            fields: &[
                Field::new("text", "name", "Name").required(),
                Field::new("number", "floor", "Floor"),
                Field::new("number", "cooling-kw", "Cooling (kW)"),
                Field::choice(
                    "radio",
                    "access",
                    "Access",
                    &[("badge", "Badge"), ("badge-and-pin", "Badge and PIN"), ("escort", "With an escort")],
                ),
            ],
            shows: None,
        },
        Section {
            name: "site",
            label: "Site",
            fields: &[Field::section_reference(
                "location",
                "Location",
                &[Target { kind: DemoKind::Location, line: "{}, {}", fields: &["name", "country"] }],
            )
            .required()],
            shows: Some(Shown { kind: DemoKind::Location, section: "address", fields: &["street", "city", "country"] }),
        },
    ],
    links: &[],
    summary: &["name"],
};

pub(super) const RACK: TypeModel = TypeModel {
    name: "rack",
    label: "Rack",
    icon: "fas fa-grip-lines",
    description: "A rack that holds switches and servers.",
    sections: &[
        Section {
            name: "rack",
            label: "Rack",
            fields: &[
                Field::new("text", "name", "Name").required(),
                Field::new("text", "row", "Row"),
                Field::new("number", "height-units", "Height units").or("42"),
                Field::choice("radio", "power-feed", "Power feed", &[("a", "A"), ("b", "B"), ("a-and-b", "A and B")]),
                Field::new("number", "max-load-kg", "Largest load (kg)"),
                Field::new("checkbox", "locked", "Locked").or("true"),
            ],
            shows: None,
        },
        Section {
            name: "place",
            label: "Place",
            fields: &[Field::section_reference(
                "room",
                "Room",
                &[Target { kind: DemoKind::Room, line: "{}, floor {}", fields: &["name", "floor"] }],
            )
            .required()],
            shows: Some(Shown { kind: DemoKind::Room, section: "site", fields: &[] }),
        },
    ],
    links: &[],
    summary: &["name", "row"],
};

pub(super) const PERSON: TypeModel = TypeModel {
    name: "person",
    label: "Person",
    icon: "fas fa-user",
    description: "Someone who owns systems or looks after contracts.",
    sections: &[
        Section {
            name: "person",
            label: "Person",
            fields: &[
                Field::new("text", "first-name", "First name").required(),
                Field::new("text", "last-name", "Last name").required(),
                Field::new("number", "personnel-number", "Personnel number"),
                Field::choice(
                    "select",
                    "department",
                    "Department",
                    &[
                        ("platform", "Platform"),
                        ("network", "Network"),
                        ("databases", "Databases"),
                        ("security", "Security"),
                        ("purchasing", "Purchasing"),
                        ("applications", "Applications"),
                    ],
                ),
                Field::new("date", "joined-on", "Joined on"),
                Field::new("checkbox", "on-call", "On call").or("false"),
            ],
            shows: None,
        },
        Section {
            name: "contact",
            label: "Contact",
            fields: &[
                Field::new("email", "email", "E-mail").required(),
                Field::new("tel", "phone", "Phone"),
                Field::reference(
                    "office",
                    "Office",
                    &[Target { kind: DemoKind::Location, line: "{}, {}", fields: &["name", "city"] }],
                ),
            ],
            shows: None,
        },
    ],
    links: &[Link {
        name: "write",
        label: "Write a mail",
        icon: "fas fa-envelope",
        href: "mailto:{}",
        fields: &["email"],
    }],
    summary: &["first-name", "last-name", "department"],
};

pub(super) const CONTRACT: TypeModel = TypeModel {
    name: "contract",
    label: "Contract",
    icon: "fas fa-file-signature",
    description: "An agreement with a vendor.",
    sections: &[
        Section {
            name: "terms",
            label: "Terms",
            fields: &[
                Field::new("text", "number", "Number").required().matching("C-[0-9]{4}-[0-9]{5}"),
                Field::new("text", "vendor", "Vendor").required(),
                Field::choice(
                    "select",
                    "kind",
                    "Kind",
                    &[("maintenance", "Maintenance"), ("leasing", "Leasing"), ("licences", "Licences")],
                ),
                Field::new("date", "begins-on", "Begins on"),
                Field::new("date", "ends-on", "Ends on"),
                Field::new("number", "price-per-year", "Price per year"),
                Field::choice("radio", "currency", "Currency", &[("eur", "EUR"), ("chf", "CHF"), ("usd", "USD")]),
                Field::new("checkbox", "renews-itself", "Renews itself"),
            ],
            shows: None,
        },
        Section {
            name: "support",
            label: "Support",
            fields: &[
                Field::new("tel", "hotline", "Hotline"),
                Field::new("href", "portal", "Portal"),
                Field::new("text", "portal-user", "User in the portal"),
                Field::new("password", "portal-password", "Password in the portal"),
                Field::reference("owner", "Looked after by", PERSON_LINE).required(),
                Field::new("textarea", "notes", "Notes"),
            ],
            shows: None,
        },
    ],
    links: &[Link {
        name: "portal",
        label: "Support portal",
        icon: "fas fa-life-ring",
        href: "{}",
        fields: &["portal"],
    }],
    summary: &["number", "vendor", "kind"],
};

pub(super) const SWITCH: TypeModel = TypeModel {
    name: "switch",
    label: "Switch",
    icon: "fas fa-network-wired",
    description: "A network switch at the top of a rack.",
    sections: &[
        Section {
            name: "identity",
            label: "Identity",
            fields: &[
                Field::new("text", "hostname", "Hostname").required().matching(HOSTNAME),
                Field::new("text", "inventory-number", "Inventory number").required().matching(INVENTORY_NUMBER),
                Field::new("text", "serial-number", "Serial number"),
                Field::new("text", "vendor", "Vendor"),
                Field::new("text", "model", "Model"),
                Field::choice("select", "status", "Status", STATUS),
            ],
            shows: None,
        },
        Section {
            name: "network",
            label: "Network",
            fields: &[
                Field::new("number", "ports", "Ports"),
                Field::new("number", "speed-gbit", "Speed (Gbit/s)"),
                Field::new("text", "management-address", "Management address"),
                Field::new("text", "mac-address", "MAC address"),
                Field::new("password", "community", "SNMP community"),
            ],
            shows: None,
        },
        Section {
            name: "place",
            label: "Place",
            fields: &[Field::reference("rack", "Rack", RACK_LINE).required(), Field::new("number", "unit", "Unit")],
            shows: None,
        },
    ],
    links: &[Link {
        name: "graphs",
        label: "Traffic",
        icon: "fas fa-chart-area",
        href: "https://monitoring.example.org/switches/{}/traffic",
        fields: &["hostname"],
    }],
    summary: &["hostname", "model"],
};

pub(super) const SERVER: TypeModel = TypeModel {
    name: "server",
    label: "Server",
    icon: "fas fa-server",
    description: "A physical server in a rack.",
    sections: &[
        Section {
            name: "identity",
            label: "Identity",
            fields: &[
                Field::new("text", "hostname", "Hostname").required().matching(HOSTNAME),
                Field::new("text", "inventory-number", "Inventory number").required().matching(INVENTORY_NUMBER),
                Field::new("text", "serial-number", "Serial number"),
                Field::new("text", "vendor", "Vendor"),
                Field::new("text", "model", "Model"),
                Field::choice("select", "status", "Status", STATUS),
                Field::choice("radio", "environment", "Environment", ENVIRONMENT),
                Field::choice(
                    "select",
                    "role",
                    "Role",
                    &[
                        ("hypervisor", "Hypervisor"),
                        ("database", "Database"),
                        ("storage", "Storage"),
                        ("compute", "Compute"),
                        ("backup", "Backup"),
                    ],
                ),
            ],
            shows: None,
        },
        Section {
            name: "hardware",
            label: "Hardware",
            fields: &[
                Field::new("number", "cpu-cores", "CPU cores"),
                Field::new("number", "memory-gib", "Memory (GiB)"),
                Field::new("number", "disk-tb", "Disk (TB)"),
            ],
            shows: None,
        },
        Section {
            name: "network",
            label: "Network",
            fields: &[
                Field::new("text", "ip-address", "IP address"),
                Field::new("text", "mac-address", "MAC address"),
                Field::new("href", "console", "Remote console"),
                Field::new("password", "console-password", "Password of the remote console")
                    .help("Seen by those who may edit objects."),
                Field::new("checkbox", "monitored", "Monitored").or("true"),
            ],
            shows: None,
        },
        Section {
            name: "place",
            label: "Place",
            fields: &[
                Field::reference("rack", "Rack", RACK_LINE).required(),
                Field::new("number", "unit", "Unit").help("The lowest one that it fills."),
                Field::new("number", "height", "Height").help("In units."),
            ],
            shows: None,
        },
        Section {
            name: "purchase",
            label: "Purchase",
            fields: &[
                Field::reference("owner", "Owner", PERSON_LINE),
                Field::new("date", "bought-on", "Bought on"),
                Field::new("date", "warranty-until", "Warranty until"),
                Field::new("number", "price", "Price (EUR)"),
                Field::new("textarea", "notes", "Notes"),
            ],
            shows: None,
        },
        Section {
            name: "support",
            label: "Support",
            fields: &[Field::section_reference("contract", "Maintenance contract", CONTRACT_LINE)],
            shows: Some(Shown {
                kind: DemoKind::Contract,
                section: "support",
                fields: &["hotline", "portal", "owner"],
            }),
        },
    ],
    links: &[
        Link {
            name: "monitoring",
            label: "Monitoring",
            icon: "fas fa-heartbeat",
            href: "https://monitoring.example.org/hosts/{}",
            fields: &["hostname"],
        },
        Link { name: "ssh", label: "Log in", icon: "fas fa-terminal", href: "ssh://{}", fields: &["ip-address"] },
        Link {
            name: "ticket",
            label: "Open a ticket",
            icon: "fas fa-ticket-alt",
            href: "https://tickets.example.org/new?asset={}&subject={}",
            fields: &["object_id", "inventory-number"],
        },
    ],
    summary: &["hostname", "ip-address", "status"],
};

pub(super) const VIRTUAL_MACHINE: TypeModel = TypeModel {
    name: "virtual-machine",
    label: "Virtual machine",
    icon: "fas fa-cube",
    description: "A virtual machine on a hypervisor.",
    sections: &[
        Section {
            name: "identity",
            label: "Identity",
            fields: &[
                Field::new("text", "hostname", "Hostname").required().matching(HOSTNAME),
                Field::choice("radio", "environment", "Environment", ENVIRONMENT),
                Field::choice(
                    "select",
                    "operating-system",
                    "Operating system",
                    &[
                        ("debian-12", "Debian 12"),
                        ("debian-13", "Debian 13"),
                        ("ubuntu-24-04", "Ubuntu 24.04"),
                        ("rhel-9", "RHEL 9"),
                        ("windows-server-2022", "Windows Server 2022"),
                    ],
                ),
                Field::new("textarea", "purpose", "Purpose"),
            ],
            shows: None,
        },
        Section {
            name: "resources",
            label: "Resources",
            fields: &[
                Field::reference(
                    "host",
                    "Host",
                    &[Target { kind: DemoKind::Server, line: "{} ({})", fields: &["hostname", "model"] }],
                )
                .required(),
                Field::new("number", "virtual-cpus", "Virtual CPUs"),
                Field::new("number", "memory-gib", "Memory (GiB)"),
                Field::new("number", "disk-gb", "Disk (GB)"),
                Field::new("text", "ip-address", "IP address"),
            ],
            shows: None,
        },
        Section {
            name: "operation",
            label: "Operation",
            fields: &[
                Field::reference("owner", "Owner", PERSON_LINE),
                Field::new("checkbox", "backed-up", "Backed up").or("false"),
                Field::new("date", "created-on", "Created on"),
                Field::new("date", "expires-on", "Expires on"),
            ],
            shows: None,
        },
    ],
    links: &[Link {
        name: "monitoring",
        label: "Monitoring",
        icon: "fas fa-heartbeat",
        href: "https://monitoring.example.org/hosts/{}",
        fields: &["hostname"],
    }],
    summary: &["hostname", "ip-address"],
};

pub(super) const LICENCE: TypeModel = TypeModel {
    name: "software-licence",
    label: "Software licence",
    icon: "fas fa-key",
    description: "The right to use a software.",
    sections: &[
        Section {
            name: "licence",
            label: "Licence",
            fields: &[
                Field::new("text", "product", "Product").required(),
                Field::new("text", "vendor", "Vendor"),
                Field::new("password", "licence-key", "Licence key"),
                Field::new("number", "seats", "Seats"),
                Field::new("date", "expires-on", "Expires on"),
            ],
            shows: None,
        },
        Section {
            name: "use",
            label: "Use",
            fields: &[
                Field::reference("contract", "Contract", CONTRACT_LINE),
                Field::reference(
                    "installed-on",
                    "Installed on",
                    &[
                        Target { kind: DemoKind::Server, line: "{} ({})", fields: &["hostname", "model"] },
                        Target {
                            kind: DemoKind::VirtualMachine,
                            line: "{} ({})",
                            fields: &["hostname", "operating-system"],
                        },
                    ],
                ),
            ],
            shows: None,
        },
    ],
    links: &[],
    summary: &["product", "vendor"],
};

pub(super) const CATEGORIES: &[CategoryModel] = &[
    CategoryModel { name: "infrastructure", label: "Infrastructure", icon: "fas fa-sitemap", parent: None, kinds: &[] },
    CategoryModel {
        name: "sites",
        label: "Sites",
        icon: "fas fa-building",
        parent: Some("infrastructure"),
        kinds: &[DemoKind::Location, DemoKind::Room, DemoKind::Rack],
    },
    CategoryModel {
        name: "compute",
        label: "Compute",
        icon: "fas fa-microchip",
        parent: Some("infrastructure"),
        kinds: &[DemoKind::Server, DemoKind::VirtualMachine],
    },
    CategoryModel {
        name: "network",
        label: "Network",
        icon: "fas fa-network-wired",
        parent: Some("infrastructure"),
        kinds: &[DemoKind::Switch],
    },
    CategoryModel {
        name: "software",
        label: "Software",
        icon: "fas fa-code",
        parent: None,
        kinds: &[DemoKind::Licence, DemoKind::VirtualMachine],
    },
    CategoryModel {
        name: "organisation",
        label: "Organisation",
        icon: "fas fa-users",
        parent: None,
        kinds: &[DemoKind::Person],
    },
    CategoryModel {
        name: "agreements",
        label: "Agreements",
        icon: "fas fa-handshake",
        parent: Some("organisation"),
        kinds: &[DemoKind::Contract, DemoKind::Licence],
    },
];
