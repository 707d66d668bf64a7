//! Who has a seat of a ring.

use crate::row::Holder;
use std::fmt;

/// A producer or a consumer of a ring. Two processes may have one pid, and one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Who {
    writes: bool,
    pid: u32,
    name: String,
    attached_ns: u64,
}

impl Who {
    pub(super) fn of(writes: bool, holder: &Holder) -> Self {
        let Holder { pid, ref name, attached_ns, .. } = *holder;
        Who { writes, pid, name: name.clone(), attached_ns }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.writes { "producer" } else { "consumer" };
        write!(f, "{role} {}, pid {}", self.name, self.pid)
    }
}
