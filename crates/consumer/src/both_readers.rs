//! What a consumer and an observer say of their ring, in the same words.

use crate::consumer::Consumer;
use crate::observer::Observer;
use crate::table::Types;
use perfring_abi::Layout;
use perfring_ring::Anchors;
use perfring_shm::Location;

macro_rules! reader {
    ($reader:ident, $reads:ident) => {
        impl $reader {
            /// What tells wall-clock times of stamps: of all records that are published now. Take it
            /// anew for later ones, as somebody may set the clock.
            #[must_use]
            pub fn anchors(&self) -> Anchors {
                self.$reads.mapping().anchors()
            }

            /// The ring's type table, as it is now.
            #[must_use]
            pub fn types(&self) -> Types {
                Types::of(self.$reads.mapping().types())
            }

            /// Whether the type table has grown since this copy was taken.
            #[must_use]
            pub fn has_more_types(&self, than: &Types) -> bool {
                self.$reads.mapping().types().end() > than.end
            }

            /// The ring's shape and identity.
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

            /// Where the ring lives.
            #[must_use]
            pub fn location(&self) -> &Location {
                self.$reads.mapping().file().location()
            }
        }
    };
}

reader!(Consumer, cursor);
reader!(Observer, window);
