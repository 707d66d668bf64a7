//! What the ways to use one ring have in common.

use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Location, Setup, failed};
use perfring_producer::{Evict, Options, Policy, Producers};
use std::path::Path;
use std::time::Duration;

/// How long a sender waits for room: longer than any live reader takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Records of a batch.
pub(super) const BATCH: u64 = 64;
/// With payloads larger than this, a batch saves nothing.
pub(super) const BATCHED_MAX: usize = 1024;

/// What a ring cannot do.
pub(super) const ONE_CONSUMER: Cannot = Cannot {
    wait_for_many: Err("a ring waits for one consumer; its observers are never waited for"),
    ..Cannot::NOTHING
};

/// Wraps the error of a call.
pub(super) fn error<E: std::error::Error + Send + Sync + 'static>(source: E) -> CompareError {
    failed("perfring")(source)
}

/// Returns everything that a ring can do, with one sender.
pub(super) fn can() -> Can {
    Can {
        payload: 65_472,
        lossless: Ok(()),
        senders: Err("a ring of one producer; `perfring shared` and `perfring rings` have many"),
        overwrite: Ok(()),
        receivers: Ok(()),
        sleeping: Ok(()),
        refuses: Ok(()),
    }
}

pub(super) fn about(name: &'static str, setup: &Setup, how: &str) -> About {
    let mode = match (setup.overwrite, setup.receivers) {
        (false, _) => "lossless",
        (true, 1) => "overwrite, an observer",
        (true, _) => "overwrite, observers",
    };
    About {
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        location: Location::Processes,
        settings: format!("{} KiB, {mode}, {how}", setup.data_size / 1024),
        waits: if setup.sleeping {
            "its own, asleep on a futex of the ring".to_owned()
        } else {
            format!("its own, pace {:?}", setup.pace).to_lowercase()
        },
    }
}

pub(super) fn options(setup: &Setup, producers: Producers, evict: Evict) -> Options {
    let policy = if setup.overwrite { Policy::Overwrite } else { Policy::Drop };
    Options { size: setup.data_size, policy, evict, producers, ..Options::default() }
}

pub(super) fn create(path: &Path, setup: &Setup, producers: Producers) -> Result<(), CompareError> {
    perfring_producer::files::create(path, &options(setup, producers, Evict::Exact)).map_err(error)
}
