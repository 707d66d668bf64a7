//! The lock of a shared ring, and liveness: seats, their epochs and their reuse, locks of open file descriptions,
//! forks, readers.
//!
//! | step | in the code |
//! |---|---|
//! | `Opened`, `Registered`, `Seated` | `SharedWindow::attach`: `fork::hold_off`, `RingFile::open`, `NotForChildren::new`, `RingFile::take` |
//! | `Ready` | `RingFile::sign` has added 1 to the slot's epoch |
//! | `Sees`, `SeesDead`, `Repairs` | `owner.rs`: a compare-and-swap from 0, or from the very word of a dead holder |
//! | `First`, `Second`, `Unlocks` | any two stores under the lock that belong together, and the end of it |

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;

const PROCESSES: usize = 3;
const SLOTS: usize = 3;

/// The mends and parts of the protocol: each can be switched off.
#[derive(Clone, Copy, Debug)]
struct Seats {
    /// No fork between opening a ring and registering it for the handler in the child.
    holds_off_forks: bool,
    /// System is queried as if for a read lock.
    asks_for_a_read_lock: bool,
    /// The lock word has the epoch of its holder's seat.
    has_epochs: bool,
    /// Of several successors one wins.
    swaps_exactly: bool,
    /// A successor repairs the half-finished work of its predecessor.
    repairs: bool,
}

const AS_IT_IS: Seats = Seats {
    holds_off_forks: true,
    asks_for_a_read_lock: true,
    has_epochs: true,
    swaps_exactly: true,
    repairs: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word {
    slot: usize,
    epoch: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Opened,
    Registered,
    Seated,
    Ready,
    Sees(Word),
    SeesDead(Word),
    Repairs,
    First,
    Second,
    Unlocks,
    /// It has published, or was refused.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    step: Step,
    /// Its seat, and the word that it stores in the lock.
    own: Word,
    /// The number of earlier processes in this place: an open file description belongs to one of them.
    life: u8,
    /// A child of it lives that has its open file description.
    is_shared: bool,
}

/// The open file description of a process, in this life or an earlier one.
type Description = (usize, u8);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lock: Option<Word>,
    epochs: [u8; SLOTS],
    /// The holder of the lock on the slot's byte.
    seats: [Option<Description>; SLOTS],
    /// A process has a read lock on the byte.
    read_locked: [bool; SLOTS],
    /// Two words that are stored under the lock, one after the other.
    first: u8,
    second: u8,
    processes: [Process; PROCESSES],
    /// Of processes that are dead, those whose children still have the description.
    orphaned: Vec<Description>,
    refused_beside_a_dead_one: bool,
    deaths: u8,
    forks: u8,
    readers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step(usize),
    Kill(usize),
    Fork(usize),
    ReadLock(usize),
}

impl State {
    fn is_dead(&self, slot: usize) -> bool {
        self.seats[slot].is_none_or(|(process, life)| self.processes[process].life != life)
    }
}

impl Seats {
    /// The result of a process's look at a seat.
    fn looks_alive(self, state: &State, slot: usize) -> bool {
        state.seats[slot].is_some() || (!self.asks_for_a_read_lock && state.read_locked[slot])
    }

    fn word(self, slot: usize, epoch: u8) -> Word {
        Word { slot, epoch: if self.has_epochs { epoch } else { 0 } }
    }

    fn step(self, state: &mut State, at: usize) {
        let Process { step, own, life, .. } = state.processes[at];
        let next = match step {
            Step::Opened => Step::Registered,
            Step::Registered => {
                let free = (0..SLOTS).find(|&s| state.seats[s].is_none() && !state.read_locked[s]);
                let Some(slot) = free else { return };
                state.seats[slot] = Some((at, life));
                state.processes[at].own = Word { slot, epoch: 0 };
                Step::Seated
            }
            Step::Seated => {
                state.epochs[own.slot] += 1;
                state.processes[at].own = self.word(own.slot, state.epochs[own.slot]);
                Step::Ready
            }
            Step::Ready => match state.lock {
                Some(word) => Step::Sees(word),
                None => {
                    state.lock = Some(own);
                    Step::First
                }
            },
            // A word of its own seat was left by the seat's previous holder.
            Step::Sees(word) if word.slot == own.slot || !self.looks_alive(state, word.slot) => {
                Step::SeesDead(word)
            }
            Step::Sees(word) => {
                state.refused_beside_a_dead_one |=
                    state.lock == Some(word) && state.is_dead(word.slot);
                Step::Idle
            }
            Step::SeesDead(word) if !self.swaps_exactly || state.lock == Some(word) => {
                state.lock = Some(own);
                if self.repairs { Step::Repairs } else { Step::First }
            }
            Step::SeesDead(_) => Step::Ready,
            Step::Repairs => {
                state.second = state.first;
                Step::First
            }
            Step::First => {
                state.first += 1;
                Step::Second
            }
            Step::Second => {
                state.second = state.first;
                Step::Unlocks
            }
            Step::Unlocks => {
                state.lock = None;
                Step::Idle
            }
            Step::Idle => Step::Idle,
        };
        state.processes[at].step = next;
    }
}

impl Model for Seats {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let own = Word { slot: 0, epoch: 0 };
        let absent = Process { step: Step::Opened, own, life: 0, is_shared: false };
        vec![State {
            lock: None,
            epochs: [0; SLOTS],
            seats: [None; SLOTS],
            read_locked: [false; SLOTS],
            first: 0,
            second: 0,
            processes: [absent; PROCESSES],
            orphaned: Vec::new(),
            refused_beside_a_dead_one: false,
            deaths: 0,
            forks: 0,
            readers: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, process) in state.processes.iter().enumerate() {
            if process.step != Step::Idle {
                actions.push(Action::Step(at));
            }
            // Before that it has nothing that others meet.
            let has_seat = !matches!(process.step, Step::Opened | Step::Registered);
            if has_seat && state.deaths < 2 {
                actions.push(Action::Kill(at));
            }
            let may_fork = process.step != Step::Opened || !self.holds_off_forks;
            if may_fork && state.forks < 1 {
                actions.push(Action::Fork(at));
            }
        }
        for slot in 0..SLOTS {
            // A read lock is refused beside the write lock of a seat.
            if state.seats[slot].is_none() && !state.read_locked[slot] && state.readers < 1 {
                actions.push(Action::ReadLock(slot));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Step(at) => self.step(&mut state, at),
            Action::Kill(at) => {
                let Process { life, is_shared, .. } = state.processes[at];
                if is_shared {
                    state.orphaned.push((at, life));
                } else {
                    // The kernel drops the locks of a description that no process has.
                    for seat in &mut state.seats {
                        seat.take_if(|of| *of == (at, life));
                    }
                }
                let own = Word { slot: 0, epoch: 0 };
                state.processes[at] =
                    Process { step: Step::Opened, own, life: life + 1, is_shared: false };
                state.deaths += 1;
            }
            Action::Fork(at) => {
                // The handler in the child closes registered descriptors.
                if state.processes[at].step == Step::Opened {
                    state.processes[at].is_shared = true;
                    state.forks += 1;
                }
            }
            Action::ReadLock(slot) => {
                state.read_locked[slot] = true;
                state.readers += 1;
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn inside(process: &&Process) -> bool {
            matches!(process.step, Step::Repairs | Step::First | Step::Second | Step::Unlocks)
        }
        vec![
            Property::always(ONE_INSIDE, |_, state: &State| {
                state.processes.iter().filter(inside).count() <= 1
            }),
            Property::always(WHOLE, |_, state: &State| {
                state
                    .processes
                    .iter()
                    .all(|process| process.step != Step::First || state.first == state.second)
            }),
            Property::always(NO_DEAD_HOLDER, |_, state: &State| !state.refused_beside_a_dead_one),
            // Without these, the other properties could be vacuous.
            Property::sometimes(TAKEN_OVER, |_, state: &State| {
                state.processes.iter().any(|process| process.step == Step::Repairs)
            }),
        ]
    }
}

const ONE_INSIDE: &str = "one at most is under the lock";
const WHOLE: &str = "who comes under the lock finds what belongs together";
const NO_DEAD_HOLDER: &str = "nobody is refused beside a dead holder";
const TAKEN_OVER: &str = "the lock is taken over";

/// Returns whether a property is found broken.
fn breaks(model: Seats, property: &'static str) -> bool {
    let only = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = model.checker().threads(2).finish_when(only).spawn_bfs().join();
    checker.discovery(property).is_some()
}

#[test]
fn nobody_is_beside_another_under_the_lock_nor_refused_by_the_dead() {
    let checker = AS_IT_IS.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    assert_eq!(checker.discoveries().into_keys().collect::<Vec<_>>(), [TAKEN_OVER]);
}

#[test]
fn a_fork_between_open_and_registration_keeps_a_dead_producer_alive() {
    assert!(breaks(Seats { holds_off_forks: false, ..AS_IT_IS }, NO_DEAD_HOLDER));
}

#[test]
fn a_read_lock_would_make_the_dead_look_alive() {
    assert!(breaks(Seats { asks_for_a_read_lock: false, ..AS_IT_IS }, NO_DEAD_HOLDER));
}

#[test]
fn without_epochs_a_successor_takes_the_lock_from_who_lives() {
    assert!(breaks(Seats { has_epochs: false, ..AS_IT_IS }, ONE_INSIDE));
}

#[test]
fn of_two_successors_that_store_both_would_win() {
    assert!(breaks(Seats { swaps_exactly: false, ..AS_IT_IS }, ONE_INSIDE));
}

#[test]
fn without_a_repair_a_death_between_two_stores_is_left_to_the_next() {
    assert!(breaks(Seats { repairs: false, ..AS_IT_IS }, WHOLE));
}
