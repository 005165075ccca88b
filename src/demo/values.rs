//! Believable values out of a number: the same ones for the same number, on every machine and in every release.

use bson::DateTime;

/// The step of `SplitMix64`, the golden ratio in 64 bits: every state comes up once before one comes again.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// Sets this inventory apart from what another program would make with the same generator.
const SEED: u64 = 0x1A2B_57E4_0DC0_FFEE;
/// Dates of the demo lie around 1 January 2026, so that they stay the same from one day to the next.
const REFERENCE_DAY: i64 = 20_454;
const MILLIS_PER_DAY: i64 = 86_400_000;
/// Digits and capitals that cannot be taken for one another.
const SERIAL_LETTERS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// A source of numbers that look random (`SplitMix64`).
///
/// It is written out here because the generators of a library may change with its version, and the demo must not.
#[derive(Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers of one thing: those of other things are not needed to make them.
    pub fn of(kind: u32, index: u32) -> Self {
        // Mixed once, because plain neighbours as states would give sequences that overlap.
        Self { state: mix(SEED ^ (u64::from(kind) << 32) ^ u64::from(index)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = ((self.next() >> 32) * u64::from(bound)) >> 32;
        u32::try_from(scaled).expect("the product of two fractions is below both")
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// True with a chance of `percent` in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of the items, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let count = u32::try_from(items.len()).expect("the lists of the demo are short");
        items[self.below(count) as usize]
    }

    /// Capitals and digits, as on the label of a device.
    pub fn serial(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(self.pick(SERIAL_LETTERS))).collect()
    }

    /// A licence key of five groups.
    pub fn licence_key(&mut self) -> String {
        let groups: Vec<String> = (0..5).map(|_| self.serial(5)).collect();
        groups.join("-")
    }

    /// An amount of money with cents, in steps of five.
    pub fn price(&mut self, low: u32, high: u32) -> f64 {
        f64::from(self.between(low * 20, high * 20)) / 20.0
    }

    /// A day between `earliest` and `latest` days after the reference day; before it when negative.
    pub fn day(&mut self, earliest: i32, latest: i32) -> DateTime {
        let span = latest.abs_diff(earliest);
        day(i64::from(earliest) + i64::from(self.between(0, span)))
    }
}

/// The beginning of the day `offset` days after the reference day.
pub fn day(offset: i64) -> DateTime {
    DateTime::from_millis((REFERENCE_DAY + offset) * MILLIS_PER_DAY)
}

/// The first name and the family name of the person with this index: all pairs come up before one comes again.
pub fn person_name(index: u32) -> (&'static str, &'static str) {
    let pairs = pairs_of_names();
    // A prime that divides neither list walks through all pairs without an order that people would notice.
    let pair =
        u32::try_from((u64::from(index) * 7919 + 13) % u64::from(pairs)).expect("it is below the number of pairs");
    let first = FIRST_NAMES[pair as usize % FIRST_NAMES.len()];
    let last = LAST_NAMES[pair as usize / FIRST_NAMES.len()];
    (first, last)
}

/// The part of a person's address before the `@`, different for each person.
pub fn mailbox(index: u32) -> String {
    let (first, last) = person_name(index);
    let name = format!("{}.{}", first.to_lowercase(), last.to_lowercase());
    match index / pairs_of_names() {
        0 => name,
        again => format!("{name}{}", again + 1),
    }
}

fn pairs_of_names() -> u32 {
    u32::try_from(FIRST_NAMES.len() * LAST_NAMES.len()).expect("the lists of the demo are short")
}

/// The address of the host with this number in the network `10.<network>.0.0`, and in those that follow it.
pub fn ip_address(network: u32, host: u32) -> String {
    // 254 of 256: neither the network's own address nor the broadcast address is a host's.
    let (block, last) = (host / 254, host % 254 + 1);
    format!("10.{}.{}.{last}", network + block / 256, block % 256)
}

/// A hardware address out of the range that everybody may give away.
pub fn mac_address(number: u32) -> String {
    let [first, second, third, fourth] = number.to_be_bytes();
    format!("02:1c:{first:02x}:{second:02x}:{third:02x}:{fourth:02x}")
}

/// The mixing of `SplitMix64`: near numbers become far ones.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

const FIRST_NAMES: [&str; 48] = [
    "Ada", "Ahmed", "Alice", "Amara", "Anders", "Anita", "Bruno", "Camille", "Carlos", "Chen", "Clara", "Daniel",
    "Diana", "Elena", "Emil", "Emma", "Farah", "Felix", "Grace", "Hanna", "Hugo", "Ines", "Ivan", "Jana", "Jonas",
    "Julia", "Kenji", "Laura", "Leila", "Liam", "Lucia", "Marek", "Maria", "Mei", "Milan", "Nadia", "Noah", "Olga",
    "Omar", "Paula", "Priya", "Rafael", "Rosa", "Samuel", "Sofia", "Tomas", "Vera", "Yusuf",
];

const LAST_NAMES: [&str; 60] = [
    "Adler", "Almeida", "Andersen", "Bauer", "Becker", "Bianchi", "Brown", "Carter", "Castro", "Chen", "Costa",
    "Dubois", "Edwards", "Eriksen", "Ferrari", "Fischer", "Fontaine", "Garcia", "Gomez", "Haas", "Hansen", "Horvat",
    "Ito", "Jansen", "Jensen", "Kaya", "Keller", "Khan", "Kim", "Kowalski", "Kumar", "Lang", "Larsen", "Laurent",
    "Lehmann", "Lindgren", "Marino", "Martin", "Meyer", "Moreau", "Nakamura", "Nielsen", "Novak", "Nowak", "Okafor",
    "Olsen", "Patel", "Peeters", "Petrov", "Popescu", "Ricci", "Rossi", "Santos", "Schmidt", "Silva", "Svensson",
    "Tanaka", "Weber", "Wright", "Zimmer",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_numbers_of_a_thing_never_change() {
        let mut random = Random::of(3, 14);
        let numbers: Vec<u32> = (0..4).map(|_| random.below(1_000_000)).collect();
        assert_eq!(numbers, [480_222, 110_490, 867_906, 422_097]);
        assert_eq!(Random::of(3, 14).serial(10), "H5VF664JB3");
    }

    #[test]
    fn it_is_the_generator_that_it_says() {
        let mut random = Random { state: 1_234_567 };
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_keep_their_bounds_and_reach_them() {
        let mut random = Random::of(1, 1);
        let seen: HashSet<u32> = (0..1000).map(|_| random.between(5, 8)).collect();
        assert_eq!(seen, HashSet::from([5, 6, 7, 8]));
    }

    #[test]
    fn every_person_has_a_mailbox_of_his_own() {
        let mailboxes: HashSet<String> = (0..50_000).map(mailbox).collect();
        assert_eq!(mailboxes.len(), 50_000);
    }

    #[test]
    fn addresses_differ_and_are_addresses() {
        let addresses: HashSet<String> = (0..450_000).map(|host| ip_address(64, host)).collect();
        assert_eq!(addresses.len(), 450_000);
        assert!(addresses.iter().all(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
        assert_eq!(mac_address(0x0102_0304), "02:1c:01:02:03:04");
    }

    #[test]
    fn the_reference_day_is_the_first_of_2026() {
        assert_eq!(day(0).try_to_rfc3339_string().expect("a day"), "2026-01-01T00:00:00Z");
        assert_eq!(day(-1).try_to_rfc3339_string().expect("a day"), "2025-12-31T00:00:00Z");
    }
}
