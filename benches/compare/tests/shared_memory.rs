//! Each rival does what it claims: between two processes, every byte verified, and a full ring refuses or overwrites as it claims.

#[path = "shared_memory_tests/ends.rs"]
mod ends;
#[path = "shared_memory_tests/promises.rs"]
mod promises;

use ends::{CHILD, send_all};
use perfring_bench::BenchError;
use perfring_bench::contestant::{Contestant, Setup};
use perfring_bench::payload::sized;
use perfring_compare::contest;
use promises::{many_receive, many_send, overtaken, overwrites, refuses, sleeps, streams};
use std::env::var;
use std::path::PathBuf;

macro_rules! contestants {
    ($($(#[$built:meta])? $module:ident: $contestant:ty;)*) => {
        $($(#[$built])? mod $module {
            use super::*;

            type Who = $contestant;

            fn here() -> bool {
                match Who::check() {
                    Ok(()) => true,
                    Err(why) => {
                        eprintln!("{}: {why}", stringify!($module));
                        false
                    }
                }
            }

            #[test]
            fn moves_every_byte_between_processes() {
                if here() && Who::can().lossless.is_ok() {
                    streams::<Who>(stringify!($module));
                }
            }

            #[test]
            fn a_full_one_refuses() {
                if here() && Who::can().refuses.is_ok() {
                    refuses::<Who>();
                }
            }

            #[test]
            fn keeps_the_newest_where_it_overwrites() {
                if here() && Who::can().overwrite.is_ok() {
                    overwrites::<Who>();
                }
            }

            #[test]
            fn an_overtaken_reader_sees_no_torn_record() {
                if here() && Who::can().overwrite.and(Who::can().follow).is_ok() {
                    overtaken::<Who>();
                }
            }

            #[test]
            fn many_may_send() {
                if here() && Who::can().senders.is_ok() {
                    many_send::<Who>();
                }
            }

            #[test]
            fn many_may_receive() {
                if here() && Who::can().receivers.is_ok() && Who::can().lossless.is_ok() {
                    many_receive::<Who>();
                }
            }

            #[test]
            fn a_sleeping_receiver_is_woken() {
                if here() && Who::can().sleeping.is_ok() {
                    sleeps::<Who>();
                }
            }
        })*

        /// The sender of another test.
        #[test]
        #[ignore = "run by the others"]
        fn child() {
            let Ok(order) = var(CHILD) else { return };
            let order: serde_json::Value = serde_json::from_str(&order).expect("an order");
            let setup: Setup = serde_json::from_value(order["setup"].clone()).expect("a set-up");
            let path = PathBuf::from(order["path"].as_str().expect("a path"));
            let count = order["count"].as_u64().expect("a count");
            match order["name"].as_str() {
                $($(#[$built])? Some(stringify!($module)) => sized!(setup.payload, N => Ok::<_, BenchError>(
                    send_all::<$contestant, N>(&path, &setup, count)
                ))
                .expect("a payload"),)*
                other => unreachable!("{other:?}"),
            }
        }
    };
}

contestants! {
    agrona_one: contest::agrona::OneToOne;
    agrona_many: contest::agrona::ManyToOne;
    agrona_broadcast: contest::agrona::Broadcast;
    bpf: contest::bpf::Bpf;
    lttng: contest::lttng::Lttng;
    pipe: contest::pipe::Pipe;
    ringfire: contest::ringfire::Ringfire;
    shmem_ipc: contest::shmem_ipc::ShmemIpc;
    #[cfg(feature = "iceoryx2")]
    iceoryx2: contest::iceoryx2::Iceoryx2;
}
