//! How many things of each kind an inventory of a given size has, and which ids they get.

use super::model::DemoKind;

/// The sizes that a demo may have.
pub const SIZES: std::ops::RangeInclusive<u32> = 200..=1_000_000;

/// Reads a size from the command line.
///
/// # Errors
/// A sentence when it is no number or out of [`SIZES`].
pub fn accepted_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| SIZES.contains(size));
    size.ok_or_else(|| format!("must be a number from {} to {}", SIZES.start(), SIZES.end()))
}

/// Servers in a full rack.
pub const SERVERS_PER_RACK: u32 = 25;
/// Switches in each rack.
pub const SWITCHES_PER_RACK: u32 = 2;
/// One server of this number is a hypervisor, beginning with the first.
pub const SERVERS_PER_HYPERVISOR: u32 = 5;

/// The size of the inventory, kind by kind.
///
/// Ids begin at 1, in the order in which the kinds are loaded. So every reference leads to a smaller id, and each id is
/// known without the other things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoPlan {
    counts: [u32; DemoKind::ALL.len()],
}

impl DemoPlan {
    /// Divides this number of objects between the kinds.
    pub fn new(objects: u32) -> Self {
        let locations = (objects / 5000).clamp(2, 24);
        let racks = objects.div_ceil(4 * SERVERS_PER_RACK);
        let mut plan = Self { counts: [0; DemoKind::ALL.len()] };
        for (kind, count) in [
            (DemoKind::Location, locations),
            (DemoKind::Room, locations.max(racks / 20)),
            (DemoKind::Rack, racks),
            (DemoKind::Person, objects / 20),
            (DemoKind::Contract, objects / 25),
            (DemoKind::Switch, racks * SWITCHES_PER_RACK),
            (DemoKind::Server, objects / 4),
            (DemoKind::Licence, objects / 5),
        ] {
            plan.counts[kind as usize] = count;
        }
        plan.counts[DemoKind::VirtualMachine as usize] = objects - plan.total();
        plan
    }

    /// How many things of this kind there are.
    pub fn count(&self, kind: DemoKind) -> u32 {
        self.counts[kind as usize]
    }

    /// How many things there are.
    pub fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// The `public_id` of a thing, counted from 0 within its kind.
    pub fn id(&self, kind: DemoKind, index: u32) -> i64 {
        let before: u32 = self.counts[..kind as usize].iter().sum();
        i64::from(before + index + 1)
    }

    /// The room that a rack is in; racks are spread evenly.
    pub fn room_of_rack(&self, rack: u32) -> u32 {
        rack * self.count(DemoKind::Room) / self.count(DemoKind::Rack)
    }

    /// The location that a room is in; rooms are spread evenly.
    pub fn location_of_room(&self, room: u32) -> u32 {
        room * self.count(DemoKind::Location) / self.count(DemoKind::Room)
    }

    /// The location that a rack is in.
    pub fn location_of_rack(&self, rack: u32) -> u32 {
        self.location_of_room(self.room_of_rack(rack))
    }

    /// How many servers are hypervisors.
    pub fn hypervisors(&self) -> u32 {
        self.count(DemoKind::Server).div_ceil(SERVERS_PER_HYPERVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_every_size_add_up_and_every_server_has_a_rack() {
        for objects in (200..3000).chain([99_999, 100_000, 999_999, 1_000_000]) {
            let plan = DemoPlan::new(objects);
            assert_eq!(plan.total(), objects);
            assert!(DemoKind::ALL.iter().all(|&kind| plan.count(kind) > 0), "{plan:?}");
            assert!(plan.count(DemoKind::Server) <= plan.count(DemoKind::Rack) * SERVERS_PER_RACK, "{plan:?}");
            assert!(plan.count(DemoKind::VirtualMachine) * 100 >= objects * 39, "{plan:?}");
        }
    }

    #[test]
    fn ids_begin_with_one_and_leave_no_gap() {
        let plan = DemoPlan::new(200);
        let ids: Vec<i64> = DemoKind::ALL
            .iter()
            .flat_map(|&kind| (0..plan.count(kind)).map(move |index| (kind, index)))
            .map(|(kind, index)| plan.id(kind, index))
            .collect();
        assert_eq!(ids, (1..=200).collect::<Vec<i64>>());
    }

    #[test]
    fn every_room_and_location_is_used() {
        let plan = DemoPlan::new(1_000_000);
        let last_rack = plan.count(DemoKind::Rack) - 1;
        assert_eq!(plan.room_of_rack(0), 0);
        assert_eq!(plan.room_of_rack(last_rack), plan.count(DemoKind::Room) - 1);
        assert_eq!(plan.location_of_rack(last_rack), plan.count(DemoKind::Location) - 1);
    }
}
