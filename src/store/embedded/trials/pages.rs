//! The log of pages below redb: against a byte array, through losses of power, with damage, and for a long time.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redb::{BackendError, StorageBackend};

use super::memory::{Event, Fate, Memory, PowerDisk};
use super::{Random, rounds};
use crate::store::embedded::file::pages::{Opened, Pages, Unopened, Use};
use crate::store::embedded::file::storage::Storage;

const PAGE: usize = 4096;
/// How many cuts of the power there are, each with five fates.
const CUTS: &str = "INVENTORY_PAGE_CUTS";

fn file() -> &'static Path {
    Path::new("/log")
}

fn create(memory: &Arc<Memory>) -> Pages {
    memory.create(file()).expect("a file");
    Pages::create(memory.open(file()).expect("it is there")).expect("a log")
}

fn open(memory: &Arc<Memory>) -> Pages {
    match Pages::open(memory.open(file()).expect("it is there")).expect("it opens") {
        Opened::Log(pages) => pages,
        Opened::Plain(_) => panic!("it is a log"),
    }
}

fn content(pages: &Pages) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(pages.len().expect("a length")).expect("it is small")];
    pages.read(0, &mut bytes).expect("it can be read");
    bytes
}

/// Applies the same operations to a log and to a byte array: mostly those of redb, at times others that it may use.
fn change(pages: &Pages, model: &mut Vec<u8>, random: &mut Random) {
    let count = model.len() / PAGE;
    match random.below(100) {
        0..3 => {
            let length = random.below(600) * PAGE;
            pages.set_len(length as u64).expect("it is set");
            model.resize(length, 0);
        }
        3 if count > 0 => {
            let (at, length) = (random.below(count * PAGE), random.below(2000));
            let bytes = filled(length.min(model.len() - at), random);
            pages.write(at as u64, &bytes).expect("it is written");
            model[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        4 => {
            let length = random.below(count * PAGE + 1);
            pages.set_len(length as u64).expect("it is set");
            model.truncate(length);
            pages.set_len((length.next_multiple_of(PAGE)) as u64).expect("it is set");
            model.resize(length.next_multiple_of(PAGE), 0);
        }
        _ => write(pages, model, 1 << random.below(3), random).expect("it is written"),
    }
}

fn write(pages: &Pages, model: &mut Vec<u8>, length: usize, random: &mut Random) -> io::Result<()> {
    let page = random.below(600);
    let bytes = filled(length * PAGE, random);
    pages.write((page * PAGE) as u64, &bytes)?;
    model.resize(model.len().max((page + length) * PAGE), 0);
    model[page * PAGE..(page + length) * PAGE].copy_from_slice(&bytes);
    Ok(())
}

fn filled(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for piece in bytes.chunks_mut(8) {
        piece.copy_from_slice(&random.next().to_le_bytes()[..piece.len()]);
    }
    bytes
}

#[test]
fn a_log_of_pages_is_a_row_of_bytes() {
    for seed in 0..20 {
        let (memory, mut random, mut model) = (Memory::recording(), Random(seed), Vec::new());
        let mut pages = create(&memory);
        for _ in 0..15 {
            for _ in 0..random.below(150) {
                change(&pages, &mut model, &mut random);
            }
            assert!(content(&pages) == model, "seed {seed}");
            match random.below(4) {
                0 => {
                    pages.sync_data().expect("it is synced");
                    pages.close().expect("it is closed");
                    pages = open(&memory);
                }
                1 => {
                    // As a process that is killed leaves it.
                    pages.sync_data().expect("it is synced");
                    pages = open(&memory);
                }
                _ => pages.sync_data().expect("it is synced"),
            }
            assert!(content(&pages) == model, "seed {seed}, opened again");
        }
    }
}

#[test]
fn what_was_not_synced_is_gone_as_a_whole() {
    let (memory, mut random, mut model) = (Memory::recording(), Random(1), Vec::new());
    let pages = create(&memory);
    change(&pages, &mut model, &mut random);
    pages.sync_data().expect("it is synced");
    let synced = model.clone();
    for _ in 0..1000 {
        change(&pages, &mut model, &mut random);
    }
    let files = memory.contents();
    assert!(content(&open(&Memory::of(files))) == synced);
    pages.close().expect("it is closed");
    assert!(content(&open(&memory)) == synced);
}

#[test]
fn looking_at_a_log_does_not_write_to_it() {
    let (memory, mut random, mut model) = (Memory::recording(), Random(2), Vec::new());
    let pages = create(&memory);
    for _ in 0..200 {
        change(&pages, &mut model, &mut random);
    }
    pages.sync_data().expect("it is synced");
    let files = memory.contents();
    let looked_at = open(&memory);
    assert!(content(&looked_at) == model);
    looked_at.sync_data().expect("nothing to do");
    looked_at.close().expect("it is closed");
    assert!(memory.contents() == files);
}

#[test]
fn the_first_sync_of_a_new_log_writes_and_syncs_its_batch_alone() {
    let memory = Memory::recording();
    let pages = create(&memory);
    let created = memory.events().len();
    pages.sync_data().expect("nothing to do");
    assert_eq!(memory.events().len(), created);
    pages.write(0, &filled(PAGE, &mut Random(15))).expect("it is written");
    pages.sync_data().expect("it is synced");
    let events = memory.events().split_off(created);
    assert!(
        matches!(&events[..], [Event::Write(_, _, part), Event::SyncBegun(_), Event::Sync(_)] if part.len() == 2 * PAGE),
        "{} events",
        events.len()
    );
}

/// What a log has to say after a loss of power.
#[derive(Debug, Clone, PartialEq, Default)]
struct State {
    content: Arc<Vec<u8>>,
    /// The number of the last record, and of the last one that was released.
    last: u64,
    released: u64,
}

impl State {
    /// Whether this is what a log has.
    fn is_of(&self, pages: &Pages) -> bool {
        let records = pages.records_after(self.released).expect("they can be read");
        let numbers = self.released + 1..=self.last;
        content(pages) == *self.content && records.into_iter().eq(numbers.map(|number| (number, record(number))))
    }
}

/// The bytes of the record of this number; some are longer than the rest of a segment, or than a segment.
fn record(number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let length = [1, 100, 5_000, 20_000, 300_000, 1_500_000][random.below(60).saturating_sub(54)] + random.below(5_000);
    filled(length, &mut random)
}

/// Sessions of a log that end by closing, by a kill, or by a kill in a sync; and each state that should be durable.
struct History {
    memory: Arc<Memory>,
    pages: Pages,
    /// What was written last, durable or not.
    model: Vec<u8>,
    states: Vec<State>,
}

impl History {
    fn of(random: &mut Random, most_changes: usize) -> (Vec<Event>, Vec<State>) {
        let memory = Memory::recording();
        let pages = create(&memory);
        let mut history = Self { memory, pages, model: Vec::new(), states: vec![State::default()] };
        for _ in 0..60 {
            for _ in 0..random.below(most_changes) {
                change(&history.pages, &mut history.model, random);
                if random.below(most_changes) < 3 {
                    history.append(random);
                }
            }
            history.sync_and_end(random.below(10));
            if random.below(3) == 0 {
                history.release();
            }
        }
        (history.memory.events(), history.states)
    }

    fn last(&self) -> State {
        self.states.last().cloned().unwrap_or_default()
    }

    fn begin(&mut self, state: State) {
        self.memory.note(Event::Begun(self.states.len(), BTreeMap::new()));
        self.states.push(state);
    }

    fn settle(&self) {
        self.memory.note(Event::Settled(self.states.len() - 1, BTreeMap::new()));
    }

    /// Appends a record, while pages are written as readers have redb write them. At times a sync fails.
    fn append(&mut self, random: &mut Random) {
        let number = self.last().last + 1;
        self.begin(State { last: number, ..self.last() });
        self.memory.set_sync_time(Duration::from_millis(1));
        self.memory.fail_after(random.below(12));
        let appended = thread::scope(|scope| {
            let appended = scope.spawn(|| self.pages.append(number, &record(number)));
            for _ in 0..random.below(8) * 40 {
                if write(&self.pages, &mut self.model, 1, random).is_err() {
                    break;
                }
            }
            appended.join().expect("it does not panic")
        });
        self.memory.set_sync_time(Duration::ZERO);
        match appended {
            Ok(is_taken) => {
                assert!(is_taken, "there is room");
                self.memory.fail_after(usize::MAX);
                self.settle();
            }
            Err(_) => self.open_again(),
        }
    }

    fn release(&mut self) {
        let last = self.last();
        self.begin(State { released: last.last, ..last });
        self.pages.release(last.last).expect("it is written");
        // What another process left need not be durable by that.
    }

    fn sync_and_end(&mut self, end: usize) {
        self.begin(State { content: Arc::new(self.model.clone()), ..self.last() });
        self.memory.set_killed(end == 0);
        // The first one or the second one fails, if there are enough.
        self.memory.fail_after(if end >= 8 { end - 8 } else { usize::MAX });
        let synced = self.pages.sync_data();
        if synced.is_ok() {
            self.settle();
        }
        self.memory.set_killed(false);
        self.memory.fail_after(usize::MAX);
        if end == 2 {
            self.pages.close().expect("it is closed");
        }
        if end <= 2 || synced.is_err() {
            self.open_again();
        }
    }

    /// In a sync that did not return, or failed, all may have been there or nothing.
    fn open_again(&mut self) {
        self.memory.fail_after(usize::MAX);
        self.pages = open(&self.memory);
        let found = self.states[self.states.len() - 2..].iter().find(|state| state.is_of(&self.pages));
        let found = found.expect("one of them is there").clone();
        self.model = (*found.content).clone();
        self.begin(found);
    }
}

#[test]
fn a_loss_of_power_leaves_what_was_synced_or_all_of_a_batch_behind_it() {
    let mut random = Random(3);
    for session in 0..8 {
        let (events, states) = History::of(&mut random, if session % 4 == 0 { 400 } else { 60 });
        let begun = events.iter().position(|event| matches!(event, Event::Sync(_))).expect("it was made") + 1;
        for _ in 0..rounds(CUTS, 160) / 8 {
            let moment = begun + random.below(events.len() - begun);
            let (mut disk, mut settled, mut attempted) = (PowerDisk::default(), 0, 0);
            for event in &events[..moment] {
                disk.follow(event);
                match event {
                    Event::Begun(number, _) => attempted = *number,
                    Event::Settled(number, _) => settled = *number,
                    _ => {}
                }
            }
            for fate in [Fate::Lost, Fate::Kept, Fate::Random, Fate::Torn(512), Fate::Torn(4096)] {
                let memory = Memory::of(disk.cut(fate, &mut random));
                let pages = open(&memory);
                let known = states[settled..=attempted.max(settled)].iter().find(|state| state.is_of(&pages));
                let Some(found) = known else {
                    panic!("{fate:?} at {moment} of {}, after {settled}, before {attempted}", events.len());
                };
                go_on(&memory, found.clone(), &mut random);
            }
        }
    }
}

/// A log on what the disk has when the power goes now.
fn after_a_loss_of_power(memory: &Arc<Memory>) -> Pages {
    let mut disk = PowerDisk::default();
    memory.events().iter().for_each(|event| disk.follow(event));
    open(&Memory::of(disk.cut(Fate::Lost, &mut Random(0))))
}

#[test]
fn parts_in_front_of_a_record_whose_sync_failed_are_made_durable_with_it() {
    let (memory, mut random) = (Memory::recording(), Random(12));
    let pages = create(&memory);
    assert!(pages.append(1, &record(1)).expect("it is written"));
    // More than is staged, so that a part of the batch is there before the record.
    pages.write(0, &filled(400 * PAGE, &mut random)).expect("it is written");
    memory.fail_after(0);
    pages.append(2, &record(2)).expect_err("the sync fails");
    let pages = open(&memory);
    assert_eq!(pages.records_after(0).expect("they can be read").len(), 2);
    assert!(pages.append(3, &record(3)).expect("it is written"));
    let found = after_a_loss_of_power(&memory).records_after(0).expect("they can be read");
    assert!(found.into_iter().eq((1..=3).map(|number| (number, record(number)))));
}

#[test]
fn a_superblock_whose_sync_failed_is_made_durable_before_the_chain_in_front_of_it_is_given_up() {
    let (memory, mut random, count) = (Memory::recording(), Random(13), 8000);
    let mut pages = create(&memory);
    let mut model = filled(count * PAGE, &mut random);
    pages.write(0, &model).expect("it is written");
    pages.sync_data().expect("it is synced");
    let (mut failed, mut since) = (0, 0);
    while failed < 2 || since < 8 {
        let bytes = filled(100 * PAGE, &mut random);
        pages.write(0, &bytes).expect("it is written");
        model[..bytes.len()].copy_from_slice(&bytes);
        // The batch, the map, and then the superblock.
        memory.fail_after(if failed < 2 { 2 } else { usize::MAX });
        if pages.sync_data().is_err() {
            memory.fail_after(usize::MAX);
            (failed, since) = (failed + 1, 0);
            pages = open(&memory);
            assert!(content(&pages) == model);
        } else if failed > 0 {
            since += 1;
            assert!(content(&after_a_loss_of_power(&memory)) == model, "{since} batches after failure {failed}");
        }
    }
}

#[test]
fn a_batch_whose_sync_failed_is_made_durable_before_a_full_disk_is_cleared() {
    let (memory, mut random) = (Memory::recording(), Random(14));
    let pages = create(&memory);
    let mut model = filled(1000 * PAGE, &mut random);
    pages.write(0, &model).expect("it is written");
    pages.sync_data().expect("it is synced");
    // On a full disk a checkpoint is due after this number of pages.
    let bytes = filled(300 * PAGE, &mut random);
    pages.write(0, &bytes).expect("it is written");
    model[..bytes.len()].copy_from_slice(&bytes);
    memory.fail_after(0);
    pages.sync_data().expect_err("the sync fails");
    memory.fail_after(usize::MAX);
    let pages = open(&memory);
    assert!(content(&pages) == model);
    let begun = memory.events().len();
    memory.set_room(memory.contents()[file()].len() as u64);
    assert!(!pages.promise(10_000, Use::Changing).expect("the disk is only full"));
    let (mut disk, mut syncs) = (PowerDisk::default(), 0);
    for (at, event) in memory.events().iter().enumerate() {
        disk.follow(event);
        if at >= begun && matches!(event, Event::Sync(_)) {
            syncs += 1;
            let found = content(&open(&Memory::of(disk.cut(Fate::Lost, &mut Random(0)))));
            assert!(found == model, "the power went behind sync {syncs}");
        }
    }
    assert!(syncs > 2, "{syncs} syncs: there was no checkpoint");
}

/// The rest is usable, and leftovers of the lost batch do not count as a part of the log.
fn go_on(memory: &Arc<Memory>, mut state: State, random: &mut Random) {
    let pages = open(memory);
    let mut model = (*state.content).clone();
    for round in 0..3 {
        for _ in 0..random.below(20) {
            change(&pages, &mut model, random);
        }
        if round != 1 {
            state.last += 1;
            assert!(pages.append(state.last, &record(state.last)).expect("it is written"));
            assert!(state.is_of(&open(&Memory::of(memory.contents()))));
        }
        pages.sync_data().expect("it is synced");
        state.content = Arc::new(model.clone());
        assert!(state.is_of(&open(&Memory::of(memory.contents()))));
    }
}

#[test]
fn a_page_that_is_not_what_was_written_is_never_given_out() {
    let (memory, mut random, mut model) = (Memory::recording(), Random(4), vec![0; 500 * PAGE]);
    let pages = create(&memory);
    for _ in 0..10 {
        for _ in 0..200 {
            let (at, bytes) = (random.below(500) * PAGE, filled(PAGE, &mut random));
            pages.write(at as u64, &bytes).expect("it is written");
            model[at..at + PAGE].copy_from_slice(&bytes);
        }
        pages.sync_data().expect("it is synced");
    }
    pages.set_len(model.len() as u64).expect("it is set");
    pages.sync_data().expect("it is synced");
    pages.close().expect("it is closed");
    let (mut damaged, mut refused) = (0, 0);
    for _ in 0..300 {
        let mut files = memory.contents();
        let bytes = files.get_mut(file()).expect("it is there");
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        let Ok(Opened::Log(pages)) = Pages::open(Memory::of(files).open(file()).expect("there")) else {
            refused += 1;
            continue;
        };
        assert_eq!(pages.len().expect("a length"), model.len() as u64);
        for (number, right) in model.chunks_exact(PAGE).enumerate() {
            let mut page = vec![0; PAGE];
            let read = pages.read((number * PAGE) as u64, &mut page);
            // Ones are no page, see `NO_PAGE`.
            let is_none = page.iter().all(|byte| *byte == 0xff);
            damaged += usize::from(is_none || read.is_err());
            assert!(page == right || is_none || read.is_err(), "byte {at}, page {number}");
        }
    }
    assert!(damaged > 50, "{damaged} pages and {refused} files were found damaged");
}

#[test]
fn a_log_that_is_written_for_a_long_time_does_not_grow_with_what_is_written() {
    let (memory, mut random) = (Memory::of(BTreeMap::new()), Random(5));
    let pages = create(&memory);
    let count = 3000;
    let mut write = |batch: usize| {
        for _ in 0..batch {
            let page = random.below(count);
            pages.write((page * PAGE) as u64, &filled(PAGE, &mut random)).expect("it is written");
        }
        pages.sync_data().expect("it is synced");
    };
    for batch in [100, 1000] {
        for _ in 0..60_000 / batch {
            write(batch);
        }
    }
    let length = memory.contents()[file()].len();
    // Live slots, garbage, a batch and the segments cleared for it, room of this checkpoint and the next one, page
    // maps.
    let most = count * PAGE * 3 / 2 + 2048 * PAGE + 3 * 1000 * PAGE + 2 * 512 * PAGE + 5 * 1024 * 1024;
    assert!(length < most, "{length} of {most}");
}

#[test]
fn what_a_large_batch_took_is_given_back() {
    let (memory, mut random, mut model) = (Memory::of(BTreeMap::new()), Random(6), Vec::new());
    let pages = create(&memory);
    for _ in 0..30_000 {
        change(&pages, &mut model, &mut random);
    }
    pages.sync_data().expect("it is synced");
    let before = memory.contents()[file()].len();
    for _ in 0..900 {
        for _ in 0..10 {
            change(&pages, &mut model, &mut random);
        }
        pages.sync_data().expect("it is synced");
    }
    let after = memory.contents()[file()].len();
    assert!(after * 2 < before, "{after} of {before}");
    assert!(content(&open(&memory)) == model);
}

/// A file on a disk that has faults.
#[derive(Debug)]
struct Flawed {
    file: Box<dyn StorageBackend>,
    /// The file cannot become longer than this.
    room: Arc<AtomicU64>,
    /// Nothing that touches this byte can be read.
    unreadable: Arc<AtomicU64>,
}

impl Flawed {
    fn opened(memory: &Arc<Memory>, room: &Arc<AtomicU64>, unreadable: &Arc<AtomicU64>) -> Pages {
        let file = memory.open(file()).expect("it is there");
        let flawed = Self { file, room: Arc::clone(room), unreadable: Arc::clone(unreadable) };
        log(Pages::open(Box::new(flawed)).expect("it opens"))
    }
}

impl StorageBackend for Flawed {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if (offset..offset + out.len() as u64).contains(&self.unreadable.load(Ordering::SeqCst)) {
            return Err(io::Error::other("a sector that cannot be read"));
        }
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset + data.len() as u64 > self.room.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write(offset, data)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }
}

fn log(opened: Opened) -> Pages {
    match opened {
        Opened::Log(pages) => pages,
        Opened::Plain(_) => panic!("it is a log"),
    }
}

/// A log of this number of random pages on a disk that is then full, and what it has to hold.
fn full(pages: usize, random: &mut Random) -> (Arc<Memory>, Arc<AtomicU64>, Vec<u8>) {
    let memory = Memory::of(BTreeMap::new());
    let room = Arc::new(AtomicU64::new(u64::MAX));
    let log = create(&memory);
    let model = filled(pages * PAGE, random);
    for (number, piece) in model.chunks(PAGE).enumerate() {
        log.write((number * PAGE) as u64, piece).expect("it is written");
    }
    log.sync_data().expect("it is synced");
    // What is left free while a log grows.
    assert!(log.promise(100, Use::Adding(100)).expect("there is room"));
    log.release(0).expect("there is room");
    room.store(memory.contents()[file()].len() as u64, Ordering::SeqCst);
    (memory, room, model)
}

#[test]
fn what_is_there_can_be_changed_on_a_full_disk_and_what_would_grow_is_refused() {
    let unreadable = Arc::new(AtomicU64::new(u64::MAX));
    for (megabytes, size) in [(2, 5), (30, 5), (30, 20), (60, 60)] {
        let mut random = Random(7);
        let count = megabytes * 256;
        let (memory, room, mut model) = full(count, &mut random);
        let pages = Flawed::opened(&memory, &room, &unreadable);
        let mut refused = 0;
        for round in 0..600 {
            // Each tenth one adds pages at the end.
            let is_growing = round % 10 == 0;
            let use_ = if is_growing { Use::Adding((size * PAGE) as u64) } else { Use::Changing };
            if !pages.promise(size as u64, use_).expect("nothing is wrong") {
                assert!(is_growing, "{megabytes} MiB, {size} pages, round {round}");
                refused += 1;
                continue;
            }
            let from = if is_growing { model.len() } else { 0 };
            for number in 0..size {
                let at = if is_growing { from + number * PAGE } else { random.below(count) * PAGE };
                let bytes = filled(PAGE, &mut random);
                model.resize(model.len().max(at + PAGE), 0);
                model[at..at + PAGE].copy_from_slice(&bytes);
                pages.write(at as u64, &bytes).expect("it was promised");
            }
            pages.sync_data().expect("it was promised");
            pages.release(round).expect("it was promised");
        }
        assert!(refused > 10, "{megabytes} MiB, {size} pages: {refused} refused");
        assert!(content(&pages) == model);
        assert!(content(&Flawed::opened(&memory, &room, &unreadable)) == model);
        room.store(u64::MAX, Ordering::SeqCst);
        assert!(pages.promise(100, Use::Adding(100)).expect("nothing is wrong"), "there is room again");
        pages.write(model.len() as u64, &filled(PAGE * 100, &mut random)).expect("it is written");
        pages.sync_data().expect("it is written");
    }
}

#[test]
fn a_page_that_cannot_be_read_keeps_nobody_from_writing_others() {
    let (memory, mut random) = (Memory::of(BTreeMap::new()), Random(8));
    let (room, unreadable) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU64::new(u64::MAX)));
    drop(create(&memory));
    let pages = Flawed::opened(&memory, &room, &unreadable);
    let write = |page: usize, random: &mut Random| {
        pages.write((page * PAGE) as u64, &filled(PAGE, random)).expect("it is written");
    };
    (0..2000).for_each(|page| write(page, &mut random));
    pages.sync_data().expect("it is synced");
    // The first page stays where it is.
    unreadable.store(5 * PAGE as u64, Ordering::SeqCst);
    for _ in 0..400 {
        (0..50).for_each(|_| write(1 + random.below(1999), &mut Random(random.next())));
        pages.sync_data().expect("it is synced");
    }
    assert!(pages.read(0, &mut [0; PAGE]).is_err());
    // A quarter of what was written.
    assert!(memory.contents()[file()].len() < 2000 * PAGE * 5 / 2 + 2048 * PAGE);
}

#[test]
fn records_that_were_released_take_no_room() {
    let (memory, mut random) = (Memory::of(BTreeMap::new()), Random(10));
    let pages = create(&memory);
    pages.write(0, &filled(500 * PAGE, &mut random)).expect("it is written");
    pages.sync_data().expect("it is synced");
    for number in 1..20_000 {
        assert!(pages.append(number, &filled(9_000, &mut random)).expect("it is written"));
        if number % 20 == 0 {
            pages.write(random.below(500) as u64 * PAGE as u64, &filled(PAGE, &mut random)).expect("it is written");
            pages.sync_data().expect("it is synced");
            pages.release(number).expect("it is written");
        }
    }
    // 180 MB of records went through it.
    let length = memory.contents()[file()].len();
    assert!(length < 24 * 1024 * 1024, "{length}");
}

#[test]
fn a_record_is_not_taken_where_its_pages_could_not_follow() {
    let (mut random, unreadable) = (Random(11), Arc::new(AtomicU64::new(u64::MAX)));
    let (memory, room, mut model) = full(3_000, &mut random);
    let pages = Flawed::opened(&memory, &room, &unreadable);
    let mut number = 0;
    room.fetch_add(3 * 1024 * 1024, Ordering::SeqCst);
    assert!(pages.promise(60, Use::Changing).expect("nothing is wrong"));
    // A few more records fit as well.
    while pages.append(number + 1, &record(number + 1)).expect("nothing is wrong") {
        number += 1;
        assert!(number < 1_000, "nothing is kept free for the pages");
    }
    for page in 0..60 {
        let bytes = filled(PAGE, &mut random);
        pages.write(page * PAGE as u64, &bytes).expect("it is written");
        model[usize::try_from(page).expect("it is small") * PAGE..][..PAGE].copy_from_slice(&bytes);
    }
    pages.sync_data().expect("there is room for what changes");
    assert!(content(&open(&Memory::of(memory.contents()))) == model);
    pages.release(number).expect("there is room");
    room.store(u64::MAX, Ordering::SeqCst);
    pages.write(model.len() as u64, &filled(PAGE * 100, &mut random)).expect("it is written");
    pages.sync_data().expect("there is room again");
    assert!(pages.append(number + 1, &record(number + 1)).expect("nothing is wrong"));
}

#[test]
fn what_a_log_begins_with_is_there_twice() {
    let (memory, mut random, mut model) = (Memory::of(BTreeMap::new()), Random(9), Vec::new());
    let pages = create(&memory);
    for _ in 0..300 {
        change(&pages, &mut model, &mut random);
    }
    pages.sync_data().expect("it is synced");
    pages.close().expect("it is closed");
    for slots in [&[0, 1][..], &[1, 2], &[2, 3], &[0, 3]] {
        let mut files = memory.contents();
        let bytes = files.get_mut(file()).expect("it is there");
        for slot in slots {
            bytes[slot * PAGE + 100] ^= 1;
        }
        assert!(content(&open(&Memory::of(files))) == model, "{slots:?}");
    }
    let mut files = memory.contents();
    let bytes = files.get_mut(file()).expect("it is there");
    for slot in 0..4 {
        bytes[slot * PAGE + 100] ^= 1;
    }
    let refused = Pages::open(Memory::of(files).open(file()).expect("there"));
    assert!(matches!(refused, Err(Unopened::Damaged(_))), "{refused:?}");
}
