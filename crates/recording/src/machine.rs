//! The machine that recorded.

use perfring_consumer::advanced::MachineClock;
use perfring_events::timeline::wall_now;
use std::fs;

/// The program that recorded, its machine and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The boot of the machine, as `/proc/sys/kernel/random/boot_id` has it: timestamps of
    /// recordings of one boot are of one clock.
    pub boot: [u8; 16],
    /// The timestamps' clock when the recording began, ns; 0 if it was unknown.
    pub clock_ns: u64,
    /// The wall clock at that moment, ns since 1970.
    pub wall_ns: u64,
    /// The machine's name.
    pub host: String,
    /// The program that wrote it, with its version.
    pub writer: String,
}

impl Machine {
    /// Describes this machine at this moment.
    pub(super) fn here() -> Self {
        Machine {
            boot: boot(),
            clock_ns: MachineClock::find().map_or(0, |clock| clock.now_ns()),
            wall_ns: wall_now(),
            host: kernel("hostname"),
            writer: concat!("perfring ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Returns the id of this boot of the machine; zeros if it is unknown.
pub(crate) fn boot() -> [u8; 16] {
    uuid::Uuid::try_parse(&kernel("random/boot_id")).unwrap_or_default().into_bytes()
}

fn kernel(file: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{file}"));
    text.unwrap_or_default().trim().to_owned()
}
