//! Sleeping and waking: a consumer that sleeps, producers that publish and wake and may die before they do, and a ring
//! with room for two records.
//!
//! | step | in the code |
//! |---|---|
//! | `Arms` to `Sleeps` | `Ring::prepare_sleep`, `ConsumerMapping::sleep` |
//! | `Looks`, `Takes`, `Wakes` | `is_awaited`, `owes_wake` and `futex::wake_if`: `wait_armed` is swapped, `wait_seq` is counted, `FUTEX_WAKE` |
//! | `Attaches` | the wake of a process that attaches |
//! | `Rouses` | the wake at the first refusal after a record |
//! | a tick | `until_tick` |

use stateright::{Checker, Model, Property};

const PRODUCERS: usize = 2;
const ROOM: u8 = 2;
/// Records that each producer would publish.
const RECORDS: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Sleep {
    /// No sleep is longer than a second.
    ticks: bool,
    /// A process that attaches, and a producer at its first refusal, wake without a look at `wait_armed`.
    rouses: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Consumer {
    Reads,
    /// Has loaded `wait_seq`.
    Arms(u8),
    /// Has stored `wait_armed`, and looks again.
    Checks(u8),
    /// Is about to call `FUTEX_WAIT`.
    Falls(u8),
    Sleeps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Producer {
    Attaches,
    Publishes,
    /// Has published: is a wake due?
    Looks,
    /// Has swapped `wait_armed`: counts, then wakes.
    Takes,
    Wakes,
    Rouses,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    head: u8,
    tail: u8,
    armed: bool,
    seq: u8,
    consumer: Consumer,
    producers: [(Producer, u8); PRODUCERS],
    /// How many records of this producer were refused since the last that was published.
    refused: [u8; PRODUCERS],
    /// The consumer slept on when a producer was done with its first refusal.
    slept_on: bool,
    deaths: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Consume,
    Tick,
    Produce(usize),
    Kill(usize),
}

impl State {
    fn wake(&mut self) {
        if self.consumer == Consumer::Sleeps {
            self.consumer = Consumer::Reads;
        }
    }
}

impl Sleep {
    fn consume(state: &mut State) {
        state.consumer = match state.consumer {
            Consumer::Reads if state.tail < state.head => {
                state.tail += 1;
                Consumer::Reads
            }
            Consumer::Reads => Consumer::Arms(state.seq),
            Consumer::Arms(seq) => {
                state.armed = true;
                Consumer::Checks(seq)
            }
            Consumer::Checks(_) if state.tail < state.head => {
                state.armed = false;
                Consumer::Reads
            }
            Consumer::Checks(seq) => Consumer::Falls(seq),
            Consumer::Falls(seq) if seq == state.seq => Consumer::Sleeps,
            Consumer::Falls(_) => Consumer::Reads,
            Consumer::Sleeps => Consumer::Sleeps,
        };
    }

    fn produce(self, state: &mut State, at: usize) {
        let (step, left) = state.producers[at];
        let mut left = left;
        let next = match step {
            Producer::Attaches => {
                if self.rouses {
                    state.wake();
                }
                Producer::Publishes
            }
            Producer::Publishes if left == 0 => return,
            Producer::Publishes if state.head - state.tail == ROOM => {
                state.refused[at] += 1;
                left -= 1;
                // A refusal wakes like a publish, regardless of the threshold.
                if state.refused[at] == 1 && self.rouses {
                    Producer::Rouses
                } else {
                    Producer::Looks
                }
            }
            Producer::Publishes => {
                state.refused[at] = 0;
                state.head += 1;
                left -= 1;
                Producer::Looks
            }
            Producer::Looks if std::mem::take(&mut state.armed) => Producer::Takes,
            Producer::Looks => Producer::Publishes,
            Producer::Takes => {
                state.seq += 1;
                Producer::Wakes
            }
            Producer::Wakes | Producer::Rouses => {
                state.wake();
                Producer::Publishes
            }
            Producer::Dead => return,
        };
        state.producers[at] = (next, left);
        state.slept_on |= next == Producer::Publishes
            && state.refused[at] == 1
            && state.consumer == Consumer::Sleeps;
    }
}

impl Model for Sleep {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            head: 0,
            tail: 0,
            armed: false,
            seq: 0,
            consumer: Consumer::Reads,
            producers: [(Producer::Attaches, RECORDS); PRODUCERS],
            refused: [0; PRODUCERS],
            slept_on: false,
            deaths: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Consume);
        if self.ticks {
            actions.push(Action::Tick);
        }
        for at in 0..PRODUCERS {
            actions.push(Action::Produce(at));
            if state.deaths < 1 {
                actions.push(Action::Kill(at));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Consume => Self::consume(&mut state),
            Action::Tick => state.wake(),
            Action::Produce(at) => self.produce(&mut state, at),
            // Or stopped for ever.
            Action::Kill(at) if state.producers[at].0 != Producer::Dead => {
                state.producers[at].0 = Producer::Dead;
                state.deaths += 1;
            }
            Action::Kill(_) => {}
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_SLEEP, |model, state: &State| {
                !rests(model, state)
                    || state.consumer != Consumer::Sleeps
                    || state.head == state.tail
            }),
            Property::always(NO_LOSS, |_, state: &State| !state.slept_on),
            Property::sometimes(SLEEPS, |_, state: &State| state.consumer == Consumer::Sleeps),
        ]
    }
}

/// Whether nothing happens any more, but for a death.
fn rests(model: &Sleep, state: &State) -> bool {
    let mut actions = Vec::new();
    model.actions(state, &mut actions);
    actions.retain(|action| !matches!(action, Action::Kill(_)));
    actions.into_iter().all(|action| model.next_state(state, action).is_none())
}

const NO_SLEEP: &str = "nobody sleeps for ever beside a record";
const NO_LOSS: &str = "a first refusal leaves nobody asleep";
const SLEEPS: &str = "the consumer sleeps";

/// Returns the names of the discoveries.
fn found(model: Sleep) -> Vec<&'static str> {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let mut found: Vec<_> = checker.discoveries().into_keys().collect();
    found.sort_unstable();
    found
}

#[test]
fn nobody_sleeps_for_ever_whoever_dies() {
    assert_eq!(found(Sleep { ticks: true, rouses: true }), [SLEEPS]);
}

#[test]
fn a_waker_that_dies_leaves_a_sleeper_without_ticks() {
    assert!(found(Sleep { ticks: false, rouses: true }).contains(&NO_SLEEP));
}

#[test]
fn a_full_ring_is_read_at_once_though_a_waker_has_died() {
    assert!(found(Sleep { ticks: true, rouses: false }).contains(&NO_LOSS));
}

// It may be about to sleep when it is roused, with `wait_seq` as it was.
#[test]
fn to_be_roused_does_not_replace_the_ticks() {
    let found = found(Sleep { ticks: false, rouses: true });
    assert!(found.contains(&NO_SLEEP) && !found.contains(&NO_LOSS));
}
