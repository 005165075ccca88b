//! Switches, servers and virtual machines.

use bson::{Bson, Document, doc};

use super::offices::{VENDORS, contract_of};
use super::places::location_code;
use super::{Thing, any_person};
use crate::demo::model::DemoKind;
use crate::demo::plan::{DemoPlan, SERVERS_PER_HYPERVISOR, SERVERS_PER_RACK, SWITCHES_PER_RACK};
use crate::demo::values::{Random, day, ip_address, mac_address};

/// The second number of the addresses: servers, their remote consoles, switches, virtual machines. A million objects
/// need four networks for servers and seven for virtual machines.
const SERVER_NETWORK: u32 = 16;
const CONSOLE_NETWORK: u32 = 32;
const SWITCH_NETWORK: u32 = 48;
const VIRTUAL_NETWORK: u32 = 64;

/// The lowest unit of the two that the switches of a rack fill.
const FIRST_SWITCH_UNIT: u32 = 41;

/// Vendor (its place among the vendors) and name of servers, by height in units.
const SERVER_MODELS: [[(usize, &str); 3]; 2] = [
    [(0, "PowerEdge R660"), (1, "ProLiant DL360 Gen11"), (2, "ThinkSystem SR630 V3")],
    [(0, "PowerEdge R760"), (1, "ProLiant DL380 Gen11"), (2, "ThinkSystem SR650 V3")],
];
const SWITCH_MODELS: [(usize, &str, u32, u32); 4] =
    [(3, "Nexus 93180YC-FX3", 48, 25), (3, "Nexus 9336C-FX2", 36, 100), (4, "7050SX3", 48, 25), (4, "7060X5", 32, 100)];

const ENVIRONMENTS: [&str; 6] = ["production", "production", "production", "staging", "staging", "test"];
const SYSTEMS: [&str; 6] = ["debian-12", "debian-12", "debian-13", "ubuntu-24-04", "rhel-9", "windows-server-2022"];
const SERVER_NOTES: [&str; 4] = [
    "Second power supply replaced.",
    "Firmware update planned for the next maintenance window.",
    "Moved here from another rack;\nthe label at the back is still the old one.",
    "Fan 3 is loud, part ordered.",
];

/// What a virtual machine is for: the beginning of its name, and a sentence.
const PURPOSES: [(&str, &str); 8] = [
    ("web", "Web front end."),
    ("api", "Application interface behind the load balancer."),
    ("db", "Database of one application."),
    ("mail", "Mail relay."),
    ("build", "Builds and tests software."),
    ("queue", "Message broker."),
    ("proxy", "Reverse proxy and certificates."),
    ("report", "Reports, at night."),
];

pub(super) fn switch(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let (rack, side) = (index / SWITCHES_PER_RACK, index % SWITCHES_PER_RACK);
    let (vendor, model, ports, speed) = random.pick(&SWITCH_MODELS);
    let letter = if side == 0 { 'a' } else { 'b' };
    let status = status(random);
    let values = doc! {
        "hostname": format!("{}-sw-{:05}{letter}", location_code(plan.location_of_rack(rack)), rack + 1),
        "inventory-number": inventory_number(plan.id(DemoKind::Switch, index)),
        "serial-number": random.serial(11),
        "vendor": VENDORS[vendor].0,
        "model": model,
        "status": status,
        "ports": ports,
        "speed-gbit": speed,
        "management-address": ip_address(SWITCH_NETWORK, index),
        "mac-address": mac_address(0x0100_0000 + index),
        "community": random.serial(12),
        "rack": plan.id(DemoKind::Rack, rack),
        "unit": FIRST_SWITCH_UNIT + side,
    };
    Thing { active: status != "retired", values }
}

pub(super) fn server(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let (rack, slot) = (index / SERVERS_PER_RACK, index % SERVERS_PER_RACK);
    // Every second server is two units high: pairs fill three units, and 25 servers end below the switches.
    let (unit, height) = (1 + slot / 2 * 3 + slot % 2, 1 + slot % 2);
    let (vendor, model) = random.pick(&SERVER_MODELS[(height - 1) as usize]);
    let role = role(index, random);
    let status = status(random);
    let mut values = doc! {
        "hostname": format!("{}-{}-{:06}", location_code(plan.location_of_rack(rack)), short(role), index + 1),
        "inventory-number": inventory_number(plan.id(DemoKind::Server, index)),
        "serial-number": random.serial(10),
        "vendor": VENDORS[vendor].0,
        "model": model,
        "status": status,
        "environment": random.pick(&ENVIRONMENTS),
        "role": role,
        "cpu-cores": random.pick(&[16, 24, 32, 48, 64]),
        "memory-gib": random.pick(&[128, 256, 384, 512, 1024]),
        "disk-tb": random.pick(&[1.92, 3.84, 7.68, 15.36]),
        "ip-address": ip_address(SERVER_NETWORK, index),
        "mac-address": mac_address(index),
        "console": format!("https://{}/", ip_address(CONSOLE_NETWORK, index)),
        "console-password": random.serial(16),
        "monitored": random.chance(92),
        "rack": plan.id(DemoKind::Rack, rack),
        "unit": unit,
        "height": height,
    };
    values.extend(purchase(plan, vendor, random));
    Thing { active: status != "retired", values }
}

fn purchase(plan: &DemoPlan, vendor: usize, random: &mut Random) -> Document {
    let bought = -i64::from(random.between(40, 2400));
    let years = i64::from(random.pick(&[3, 3, 5]));
    doc! {
        "owner": any_person(plan, random),
        "bought-on": day(bought),
        "warranty-until": day(bought + 365 * years),
        "price": random.price(4_200, 19_800),
        "notes": sometimes(15, random, |random| random.pick(&SERVER_NOTES).into()),
        "contract": sometimes(80, random, |random| contract_of(plan, vendor, random).into()),
    }
}

pub(super) fn virtual_machine(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let environment = random.pick(&ENVIRONMENTS);
    let (name, purpose) = random.pick(&PURPOSES);
    let host = random.below(plan.hypervisors()) * SERVERS_PER_HYPERVISOR;
    let created = -i64::from(random.between(1, 1800));
    let values = doc! {
        "hostname": format!("{name}-{}-{:06}", short(environment), index + 1),
        "environment": environment,
        "operating-system": random.pick(&SYSTEMS),
        "purpose": purpose,
        "host": plan.id(DemoKind::Server, host),
        "virtual-cpus": random.pick(&[1, 2, 2, 4, 4, 8, 16]),
        "memory-gib": random.pick(&[2, 4, 4, 8, 8, 16, 32, 64]),
        "disk-gb": random.between(2, 50) * 10,
        "ip-address": ip_address(VIRTUAL_NETWORK, index),
        "owner": any_person(plan, random),
        "backed-up": random.chance(if environment == "production" { 95 } else { 30 }),
        "created-on": day(created),
        "expires-on": sometimes(25, random, |random| random.day(30, 900).into()),
    };
    Thing { active: !random.chance(3), values }
}

fn inventory_number(id: i64) -> String {
    format!("INV-{id:07}")
}

/// The beginning of the word, as hostnames have it.
fn short(word: &str) -> &str {
    match word {
        "hypervisor" => "hyp",
        "database" => "db",
        "storage" => "sto",
        "compute" => "cmp",
        "backup" => "bak",
        "production" => "prod",
        "staging" => "stag",
        other => other,
    }
}

fn role(index: u32, random: &mut Random) -> &'static str {
    if index.is_multiple_of(SERVERS_PER_HYPERVISOR) {
        return "hypervisor";
    }
    random.pick(&["compute", "compute", "database", "storage", "backup"])
}

fn status(random: &mut Random) -> &'static str {
    match random.below(100) {
        0..3 => "planned",
        3..6 => "maintenance",
        6..10 => "retired",
        _ => "in-service",
    }
}

/// A value with a chance of `percent` in a hundred, else null.
fn sometimes(percent: u32, random: &mut Random, value: impl FnOnce(&mut Random) -> Bson) -> Bson {
    if random.chance(percent) { value(random) } else { Bson::Null }
}
