//! People, contracts and licences.

use bson::doc;

use super::places::phone_number;
use super::{Thing, any_person};
use crate::demo::model::DemoKind;
use crate::demo::plan::{DemoPlan, SERVERS_PER_HYPERVISOR};
use crate::demo::values::{Random, day, mailbox, person_name};

/// Vendors and their addresses, hardware first. Contract after contract goes to the next one, so that the smallest
/// inventory has a contract with each.
pub(super) const VENDORS: [(&str, &str); 8] = [
    ("Dell", "dell"),
    ("HPE", "hpe"),
    ("Lenovo", "lenovo"),
    ("Cisco", "cisco"),
    ("Arista", "arista"),
    ("Microsoft", "microsoft"),
    ("Red Hat", "redhat"),
    ("Veeam", "veeam"),
];
const HARDWARE_VENDORS: usize = 5;

/// Vendor (its place among the vendors) and name.
const PRODUCTS: [(usize, &str); 7] = [
    (5, "Windows Server 2022 Datacenter"),
    (5, "SQL Server 2022 Standard"),
    (5, "Visual Studio Professional"),
    (6, "Red Hat Enterprise Linux Server"),
    (6, "OpenShift Container Platform"),
    (7, "Backup and Replication"),
    (7, "Data Platform Advanced"),
];

const DEPARTMENTS: [&str; 6] = ["platform", "network", "databases", "security", "purchasing", "applications"];
const CONTRACT_NOTES: [&str; 3] = [
    "Prices are negotiated each spring.",
    "Parts arrive within four hours on working days,\nnext day at weekends.",
    "Terminate three months before the end.",
];

/// The id of a contract with the vendor.
pub(super) fn contract_of(plan: &DemoPlan, vendor: usize, random: &mut Random) -> i64 {
    let (count, step) = (plan.count(DemoKind::Contract), VENDORS.len());
    let first = u32::try_from(vendor).expect("there are few vendors");
    let step = u32::try_from(step).expect("there are few vendors");
    let contracts = (count - first).div_ceil(step);
    plan.id(DemoKind::Contract, first + step * random.below(contracts))
}

pub(super) fn person(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let (first_name, last_name) = person_name(index);
    let office = random.below(plan.count(DemoKind::Location));
    let values = doc! {
        "first-name": first_name,
        "last-name": last_name,
        "personnel-number": 10_001 + index,
        "department": random.pick(&DEPARTMENTS),
        "joined-on": random.day(-6000, -20),
        "on-call": random.chance(20),
        "email": format!("{}@example.org", mailbox(index)),
        "phone": phone_number(office, random),
        "office": plan.id(DemoKind::Location, office),
    };
    // Some have left.
    Thing { active: !random.chance(4), values }
}

pub(super) fn contract(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let place = index as usize % VENDORS.len();
    let (vendor, address) = VENDORS[place];
    let years_ago = random.between(1, 6);
    // Within the year in the number.
    let begins = -365 * i64::from(years_ago) + i64::from(random.between(2, 300));
    let ends = begins + 365 * i64::from(random.pick(&[3, 5, 5, 7]));
    let kind =
        if place < HARDWARE_VENDORS { random.pick(&["maintenance", "maintenance", "leasing"]) } else { "licences" };
    let notes = random.chance(30).then(|| random.pick(&CONTRACT_NOTES));
    let values = doc! {
        "number": format!("C-{}-{:05}", 2026 - years_ago, index + 1),
        "vendor": vendor,
        "kind": kind,
        "begins-on": day(begins),
        "ends-on": day(ends),
        "price-per-year": random.price(900, 48_000),
        "currency": random.pick(&["eur", "eur", "eur", "chf", "usd"]),
        "renews-itself": random.chance(60),
        "hotline": format!("+49 800 {:07}", random.below(10_000_000)),
        "portal": format!("https://support.{address}.example/contracts/{}", index + 1),
        "portal-user": format!("customer-{:06}", random.below(1_000_000)),
        "portal-password": random.serial(14),
        "owner": any_person(plan, random),
        "notes": notes,
    };
    Thing { active: ends > 0, values }
}

pub(super) fn licence(plan: &DemoPlan, random: &mut Random) -> Thing {
    let (vendor, product) = random.pick(&PRODUCTS);
    let on_server = random.chance(30);
    let installed_on = if on_server {
        plan.id(DemoKind::Server, random.below(plan.hypervisors()) * SERVERS_PER_HYPERVISOR)
    } else {
        plan.id(DemoKind::VirtualMachine, random.below(plan.count(DemoKind::VirtualMachine)))
    };
    let expires = random.chance(70).then(|| random.day(-200, 1000));
    Thing::in_use(doc! {
        "product": product,
        "vendor": VENDORS[vendor].0,
        "licence-key": random.licence_key(),
        "seats": random.pick(&[1, 1, 2, 5, 10, 25]),
        "expires-on": expires,
        "contract": contract_of(plan, vendor, random),
        "installed-on": installed_on,
    })
}
