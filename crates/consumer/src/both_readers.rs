//! Methods that a consumer and an observer share.

use crate::consumer::Consumer;
use crate::observer::Observer;
use crate::table::Types;
use perfring_abi::Layout;
use perfring_ring::Anchors;
use perfring_shm::Location;

macro_rules! reader {
    ($reader:ident, $reads:ident) => {
        impl $reader {
            /// Returns the anchors that convert timestamps to wall-clock times, for all records
            /// that are published now. Take them again for later records, because the clock may be
            /// set.
            #[must_use]
            pub fn anchors(&self) -> Anchors {
                self.$reads.mapping().anchors()
            }

            /// Returns a copy of the ring's type table as it is now.
            #[must_use]
            pub fn types(&self) -> Types {
                Types::of(self.$reads.mapping().types())
            }

            /// Returns whether the type table has grown since this copy was taken.
            #[must_use]
            pub fn has_more_types(&self, than: &Types) -> bool {
                self.$reads.mapping().types().end() > than.end
            }

            /// Returns the ring's shape and identity.
            #[must_use]
            pub fn layout(&self) -> &Layout {
                self.$reads.mapping().file().layout()
            }

            /// Returns the position after the newest record that is published now.
            #[must_use]
            #[inline]
            pub fn head(&self) -> u64 {
                self.$reads.mapping().head()
            }

            /// Returns the ring's location.
            #[must_use]
            pub fn location(&self) -> &Location {
                self.$reads.mapping().file().location()
            }
        }
    };
}

reader!(Consumer, cursor);
reader!(Observer, window);
