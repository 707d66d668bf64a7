//! A process that publishes in a ring per CPU is killed, stopped, moved to another CPU, interrupted by
//! a signal handler that also publishes, or forked, at each instruction of its restartable sequences. It is also
//! killed, stopped and interrupted between the sequences, under the lock. Three other producers continue meanwhile:
//! two on its CPU and one on another.
//!
//! Inside a sequence a breakpoint stops it, see [`cpu::traced`]. Between sequences it is stepped, and the ring
//! is compared after each instruction: it dies after each instruction that has changed the ring, and at every n-th. With
//! `PERFRING_LONG`, at all of them.
//!
//! Seen red: with `data_head` stored before the payload, the plays inside sequences; with a sequence hidden from the
//! kernel while another process publishes, the plays that stop under the lock; with a handler that waits for the mutex
//! which it has interrupted, the plays of signals under the lock; with a million aborts for a call, the single steps; with a
//! sleep of three seconds, the consumer that no process wakes for a record.

#[cfg(target_arch = "x86_64")]
mod cpu {
    pub(crate) mod asleep;
    pub(crate) mod others;
    pub(crate) mod sections;
    pub(crate) mod single_steps;
    pub(crate) mod stage;
    pub(crate) mod traced;
    pub(crate) mod under_lock;
}

#[cfg(target_arch = "x86_64")]
use self::cpu::asleep::after_the_commit;
#[cfg(target_arch = "x86_64")]
use self::cpu::sections::{forked, held, inside};
#[cfg(target_arch = "x86_64")]
use self::cpu::single_steps::stepped;
#[cfg(target_arch = "x86_64")]
use self::cpu::stage::Fate;
#[cfg(target_arch = "x86_64")]
use self::cpu::under_lock::between;

#[cfg(not(target_arch = "x86_64"))]
#[test]
fn at_each_instruction() {
    perfring_tests::skip("only the instructions of x86-64 are stopped at");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_death_in_a_sequence_leaves_the_whole_record_or_nothing() {
    inside(Fate::Death);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_that_stands_in_a_sequence_hinders_nobody_and_begins_it_anew() {
    inside(Fate::Stop);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_that_is_migrated_in_a_sequence_publishes_on_its_new_cpu() {
    inside(Fate::Move);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signal_handler_publishes_in_the_middle_of_a_sequence() {
    inside(Fate::Signal);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_child_that_is_forked_in_a_sequence_of_another_thread_publishes_nothing() {
    forked();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_writes_into_no_reservation_of_another_thread_though_a_peer_opens_the_ring() {
    held();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_death_between_closing_and_opening_costs_its_own_record_at_most() {
    between(Fate::Death);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn who_stands_between_closing_and_opening_is_not_robbed_and_nobody_waits_for_ever() {
    between(Fate::Stop);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signal_handler_that_publishes_under_the_lock_is_refused_at_once() {
    between(Fate::Signal);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_that_is_single_stepped_ends_with_a_counted_refusal_and_the_ring_goes_on() {
    stepped();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_consumer_that_nobody_tells_of_a_record_reads_it_at_the_next_second() {
    after_the_commit();
}
