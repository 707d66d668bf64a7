//! The perfring algorithm: reserve, commit, evict, read.
//!
//! Safe code over a [`Header`](perfring_abi::Header) of atomics and a slice of 64-bit atomic words.
//! Loom, Miri and property tests therefore run, on a heap ring (`heap` feature), the same code that
//! runs on a mapping. Nothing here makes a system call, and no record causes an allocation.
//!
//! Modules, bottom up: [`Ring`] (`view`) is the view that all others work on. `record` has the one
//! test of what a record is and the walk over records (the fast paths of `consumer::borrow` and
//! `producer::tail` step by themselves, with that test). `seq_latch` and `counters` keep the
//! totals, and `totals` reads all of them together. `recount` brings totals up to a position,
//! `oldest` finds the oldest record and counts what was overwritten before it. `reserve` implements
//! reservations and the reasons for refusing one. `holder` reads and writes the owner info of a
//! seat. `named` has the tails of named consumers. `wait` implements sleep and wake.
//!
//! Above these are `producer` (the exclusive one), `shared` (one of many), `consumer` (of a drop
//! ring) and `observer`. `aux_area` handles payloads that are too long for the data area, `kernel`
//! reads the kernel's rings, `kernel_copy` those in overwrite mode, `bpf` its BPF maps, `types` is the type table, `time`
//! converts timestamps to wall-clock times, `heap` is a ring for tests. Making room and evicting the oldest records is implemented in
//! `producer/room.rs` and `tail.rs`, and in `shared/locked_room.rs` and `evict.rs`.
//!
//! # Orderings
//!
//! This is the only crate that orders accesses to a ring's shared words. Each site carries its
//! letter; `proto/ABI.md` and `proto/perfring.h` repeat this table.
//!
//! | letter | site | pairs with | so that |
//! |---|---|---|---|
//! | A | a producer stores `data_head` (release): `producer/room.rs`, `shared/publish.rs`, `shared/sweep.rs` | B | a reader that sees the head sees every record before it |
//! | B | a reader loads `data_head` (acquire; on read-only pages relaxed, then an acquire fence) | A | |
//! | C | the consumer of a drop ring stores `aux_tail` (release), and `data_tail` (release), or a named one its own tail: `consumer/release.rs`, `named.rs` | D | what the consumer has read is not overwritten before it has read it, and the lines that it write-touches are not stored over new records |
//! | D | the producer loads `data_tail`, or `aux_tail` (acquire), or the tails of named consumers, and passes them on by a release store of `data_tail` | C | |
//! | E | a producer stores `data_tail`, or `aux_tail` (overwrite; a drop ring's has loaded it, D), and its totals, then a release fence, then writes over the oldest records, or ranges | F | a reader that copied any new byte sees the tail past its record, or range |
//! | F | a reader has copied a record, or a range; an acquire fence, then it loads `data_tail`, the totals, or `aux_tail`, again; of the kernel's ring in overwrite mode it loads `data_head`, before whose store the kernel has a barrier | E | |
//! | G | the writer of a sequence latch stores the first word, a release fence, the body, the last word (release) | H | a copy whose first and last word agree is whole |
//! | H | a reader of a sequence latch loads the last word, an acquire fence, the body, an acquire fence, the first word | G | |
//! | I | a producer stores `data_head`, a light fence, loads `wait.armed` | J | a consumer never sleeps past a record: one of the two sees the other |
//! | J | a consumer stores `wait.armed`, a heavy fence, loads `data_head` | I | |
//! | K | the consumer stores `data_tail`, or a named one its tail, a light fence, loads `space.armed` | L | a producer never sleeps past free space |
//! | L | a producer stores `space.armed`, a heavy fence, loads `data_tail`, and the tails of named consumers | K | |
//! | M | a producer of a shared ring takes the lock word by compare-and-swap (acquire) and releases it (release); in a ring per CPU `cpu_state` is stored (release) and loaded (acquire) likewise | M | the holder of the lock sees all earlier writes made under it |
//! | N | a reservation of a shared ring is ended by a swap of its header word (release); a reader of a word that may be open loads it (acquire) | N | a record that is seen as ended is whole |
//! | O | a producer of a shared ring has ended a record, or has stored `producer_pos` (release); a full fence, then it loads `data_head`, `producer_pos` (acquire) and the header words from there on | O | of an older record that ends and a younger one that has ended, one side sees the other; and no word before `producer_pos` is an older one |
//! | P | a producer that holds the type table's lock has written an entry, then stores `types_used` (release) | P | a reader that sees the count (relaxed, then an acquire fence) sees every entry before it |
//! | Q | a producer has written an anchor, then stores `anchors_written` (release); a release fence before the next anchor's words | Q | a reader that sees the count (relaxed, then an acquire fence) sees the anchor, and one that sees a word of the next sees the count before it, when it checks again after an acquire fence |
//! | R | a producer stores `lock` odd, a release fence, perf's time fields, `lock` even (release) | R | a perf reader that finds the same even `lock` before and after has fields of one moment |
//! | S | a producer stores `tail_next`, a full fence, loads the tails of named consumers, then stores `data_tail`: `named.rs` | T | a named consumer that joins is not passed: one of the two sees the other |
//! | T | a named consumer that joins stores its tail, a full fence, loads `tail_next` | S | |
//! | U | a producer that holds the type table's lock has written a block of the metrics area, then stores `metrics_used` (release) | U | a reader that sees the count (relaxed, then an acquire fence) sees every block before it |
//! | V | a measurement is added to a histogram's sum, least and greatest, then to its bucket (release); a gauge gets its first value, then the mark that it is set (release) | V | a reader that has loaded the buckets, or the mark, then an acquire fence, then the others, has the sum of at least what it counts, or a value |
//! | W | a process that takes a block of the metrics area over stores 0 as its owner, a release fence, the other words, the owner (release) | W | a reader that loads the same owner before and after the other words, with acquire fences between, has words of that owner |
//!
//! Light and heavy fences are the asymmetric pair of P1202 (Goldblatt, "Asymmetric Thread Fences").
//! The heavy side is `membarrier(2)` and costs microseconds, once per sleep. The light side keeps
//! the compiler from reordering and costs nothing. Where `membarrier` is unavailable, the light
//! side is a full fence, see [`Fences`].
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod aux_area;
mod bpf;
mod consumer;
mod consumer_seats;
mod counters;
#[cfg(any(feature = "heap", loom))]
pub mod heap;
mod holder;
mod kernel;
mod kernel_copy;
mod lost;
mod metrics;
mod named;
mod observer;
mod oldest;
mod producer;
mod read_error;
mod record;
mod recount;
mod reserve;
mod seq_latch;
mod shared;
#[cfg(all(test, not(loom)))]
mod steps;
mod time;
mod told;
mod told_latch;
mod totals;
mod types;
mod view;
mod wait;
#[cfg(all(test, not(any(loom, miri))))] // too many for them
mod walk_tests;

pub use bpf::{BpfFault, BpfFrame, BpfPages, BpfReader, BpfRole, BpfStep, BpfView};
pub use consumer::borrow::Reader;
pub use consumer_seats::{ConsumerFigures, consumer_seats};
pub use counters::{
    ConsumerTotals, Count, Front, ProducerTotals, ReaderId, Refused, ResumePoint, Saved,
};
pub use holder::{OwnerInfo, Seat, SeatState, sign_off};
pub use kernel::{KernelFrame, KernelReader};
pub use kernel_copy::KernelCopy;
pub use lost::Lost;
pub use metrics::{
    AreaBlock, BadArea, BadPart, BlockOwner, BlockPlace, Bucket, Buckets, MetricKind, MetricValue,
    MetricsArea, MetricsFill, MetricsWriter, NewBlock, NoBlock, add, add_f64, adjust, measure,
    raise, set,
};
pub use named::{NamedSeat, Seats, drop_dead, slowest_seats};
pub use observer::copy::{CopyReader, Start};
pub use observer::intact::RingCopy;
pub use producer::exclusive::{End, Writer};
pub use read_error::ReadError;
pub use record::{AuxRange, Corrupt, Frame, FrameWords, Next, Place};
pub use recount::newest_timestamp;
pub use reserve::{Claim, Refusal, Reserved, Site};
pub use shared::cpu::{OPEN, Sequence, close, is_awaited, owes_wake, section};
pub use shared::locked_room::Unattached;
pub use shared::owner::{LOCK_ROUNDS, Recovered, recover};
pub use shared::publish::SharedWriter;
pub use shared::slot::{ProducerFigures, producer_seats};
pub use shared::span::{BatchSpan, SpanMark};
pub use time::{Anchor, Anchors, Reading, Scale};
pub use told::Told;
pub use totals::RingTotals;
pub use types::{TableFull, TypeTableArea, TypeTableWriter};
pub use view::{Ring, Shared, System, spoil};
pub use wait::{Fences, Owed, Wake, WakeAt, full_fence};
