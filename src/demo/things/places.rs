//! Locations, rooms and racks.

use bson::doc;

use super::Thing;
use crate::demo::model::DemoKind;
use crate::demo::plan::DemoPlan;
use crate::demo::values::Random;

/// Where a location may be.
struct City {
    name: &'static str,
    code: &'static str,
    country: &'static str,
    street: &'static str,
    dial: &'static str,
    latitude: f64,
    longitude: f64,
}

const fn city(
    (name, code): (&'static str, &'static str),
    (country, dial): (&'static str, &'static str),
    street: &'static str,
    (latitude, longitude): (f64, f64),
) -> City {
    City { name, code, country, street, dial, latitude, longitude }
}

const CITIES: [City; 24] = [
    city(("Berlin", "ber"), ("Germany", "+49 30"), "Ringstraße 14", (52.52, 13.405)),
    city(("Zürich", "zrh"), ("Switzerland", "+41 44"), "Hafenweg 3", (47.376, 8.541)),
    city(("Amsterdam", "ams"), ("Netherlands", "+31 20"), "Kanaalkade 88", (52.37, 4.895)),
    city(("Paris", "par"), ("France", "+33 1"), "12 rue du Canal", (48.857, 2.352)),
    city(("Wien", "vie"), ("Austria", "+43 1"), "Am Nordufer 21", (48.208, 16.373)),
    city(("Kraków", "krk"), ("Poland", "+48 12"), "ul. Ogrodowa 5", (50.065, 19.945)),
    city(("Praha", "prg"), ("Czechia", "+420 2"), "Nádražní 40", (50.075, 14.438)),
    city(("København", "cph"), ("Denmark", "+45 33"), "Havnegade 17", (55.676, 12.568)),
    city(("Stockholm", "sto"), ("Sweden", "+46 8"), "Sjögatan 9", (59.329, 18.069)),
    city(("Oslo", "osl"), ("Norway", "+47 22"), "Skogveien 2", (59.913, 10.752)),
    city(("Helsinki", "hel"), ("Finland", "+358 9"), "Satamakatu 30", (60.17, 24.938)),
    city(("Dublin", "dub"), ("Ireland", "+353 1"), "61 Quay Road", (53.35, -6.26)),
    city(("London", "lon"), ("United Kingdom", "+44 20"), "7 Dock Lane", (51.507, -0.128)),
    city(("Madrid", "mad"), ("Spain", "+34 91"), "Calle del Olmo 26", (40.417, -3.704)),
    city(("Lisboa", "lis"), ("Portugal", "+351 21"), "Rua da Praia 11", (38.722, -9.139)),
    city(("Milano", "mil"), ("Italy", "+39 02"), "Via dei Tigli 8", (45.464, 9.19)),
    city(("Budapest", "bud"), ("Hungary", "+36 1"), "Folyó utca 19", (47.498, 19.04)),
    city(("București", "buh"), ("Romania", "+40 21"), "Strada Teilor 4", (44.427, 26.103)),
    city(("Athína", "ath"), ("Greece", "+30 21"), "Odos Limanou 33", (37.984, 23.728)),
    city(("Tallinn", "tll"), ("Estonia", "+372 6"), "Sadama 12", (59.437, 24.754)),
    city(("Montréal", "yul"), ("Canada", "+1 514"), "450 rue du Port", (45.502, -73.567)),
    city(("Chicago", "chi"), ("United States", "+1 312"), "900 Lake Drive", (41.878, -87.63)),
    city(("São Paulo", "sao"), ("Brazil", "+55 11"), "Avenida das Palmeiras 77", (-23.55, -46.633)),
    city(("Singapore", "sin"), ("Singapore", "+65 6"), "5 Harbour Walk", (1.352, 103.82)),
];

const KINDS: [(&str, &str); 3] =
    [("data-centre", "data centre"), ("colocation", "colocation"), ("office", "technical office")];

/// The code that hostnames begin with. No plan has two locations in one city.
pub(super) fn location_code(location: u32) -> String {
    format!("{}1", city_of(location).code)
}

/// A telephone number in the city of the location.
pub(super) fn phone_number(location: u32, random: &mut Random) -> String {
    format!("{} {:03} {:03}", city_of(location).dial, random.below(1000), random.below(1000))
}

fn city_of(location: u32) -> &'static City {
    &CITIES[location as usize % CITIES.len()]
}

pub(super) fn location(index: u32, random: &mut Random) -> Thing {
    let city = city_of(index);
    // The first one has the racks of the smallest inventory.
    let (kind, label) = if index == 0 { KINDS[0] } else { random.pick(&KINDS) };
    Thing::in_use(doc! {
        "name": format!("{} {label}", city.name),
        "code": location_code(index),
        "kind": kind,
        "opened-on": random.day(-7000, -1500),
        "street": city.street,
        "city": city.name,
        "country": city.country,
        "reception": phone_number(index, random),
        "latitude": city.latitude,
        "longitude": city.longitude,
    })
}

pub(super) fn room(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let location = plan.location_of_room(index);
    Thing::in_use(doc! {
        "name": format!("{} room {:03}", location_code(location).to_uppercase(), index + 1),
        "floor": random.between(0, 4),
        "cooling-kw": random.between(8, 40) * 10,
        "access": random.pick(&["badge", "badge", "badge-and-pin", "escort"]),
        "location": plan.id(DemoKind::Location, location),
    })
}

pub(super) fn rack(plan: &DemoPlan, index: u32, random: &mut Random) -> Thing {
    let room = plan.room_of_rack(index);
    let row = char::from(random.pick(b"ABCDEFGH"));
    Thing::in_use(doc! {
        "name": format!("{}-R{:05}", location_code(plan.location_of_room(room)).to_uppercase(), index + 1),
        "row": row.to_string(),
        "power-feed": random.pick(&["a", "b", "a-and-b", "a-and-b"]),
        "max-load-kg": random.pick(&[800, 1000, 1200]),
        "locked": random.chance(85),
        "room": plan.id(DemoKind::Room, room),
    })
}
