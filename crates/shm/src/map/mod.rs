//! Mappings of the ring's file, and the windows on them.

pub(crate) mod address_range;
pub(crate) mod attached;
pub(crate) mod aux_mirror;
pub(crate) mod batch_reservation;
pub(crate) mod consumer_mapping;
pub(crate) mod consumer_window;
pub(crate) mod control;
pub(crate) mod copy_window;
pub(crate) mod cpu_slow;
pub(crate) mod cpu_window;
mod free_slot;
pub(crate) mod handler_mutex;
#[cfg(test)]
mod holes_tests;
#[cfg(test)]
mod image_tests;
pub(crate) mod inspect;
mod keep;
mod loan;
pub(crate) mod metrics;
pub(crate) mod mirror;
pub(crate) mod named_seat;
pub(crate) mod observer_mapping;
pub(crate) mod pages;
pub(crate) mod payload;
pub(crate) mod pin_window;
pub(crate) mod plain;
pub(crate) mod raw;
pub(crate) mod read_window;
pub(crate) mod recover;
pub(crate) mod reservation;
#[cfg(test)]
mod rouse_tests;
#[cfg(test)]
mod seat_tests;
mod shared_pair;
mod shared_reserve;
pub(crate) mod shared_window;
pub(crate) mod sleeper;
pub(crate) mod write_window;
