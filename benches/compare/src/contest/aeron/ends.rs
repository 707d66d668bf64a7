//! A publication and a subscription.

use super::driver::{Invoked, invoked};
use super::frame::{NAME, STREAM, frame, subscribed};
use perfring_bench::contestant::{Fill, Receiver, Sender, Setup, Visit};
use perfring_bench::error::failed;
use perfring_bench::waits::{PATIENCE, Polls, until};
use perfring_bench::{BenchError, Result};
use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronPublication, AeronSubscription, Handlers,
    bindings, cformat,
};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a poll, and its records.
const POLL: usize = 64 << 10;
const POLLED: usize = 1024;
/// Empty polls after which the invoked driver gets a turn, for its keep-alives.
const IDLE: u32 = 4096;

const BACK_PRESSURED: i64 = -2;
const ADMIN_ACTION: i64 = -3;

const CHANNEL: &std::ffi::CStr = c"aeron:ipc";

/// A client, whose conductor has the thread that it has by default.
fn client(path: &Path) -> Result<Aeron> {
    until(NAME, "no media driver came", || {
        let context = AeronContext::new().map_err(failed(NAME))?;
        (|| {
            context.set_dir(&cformat!("{}", path.display()))?;
            context.set_pre_touch_mapped_memory(true)?;
            // By default an error ends the process; here the stream stops, and that is detected.
            context.set_error_handler(Some(|_: c_int, _: &str| {}))
        })()
        .map_err(failed(NAME))?;
        let Ok(client) = Aeron::new(&context) else { return Ok(None) };
        client.start().map_err(failed(NAME))?;
        Ok(Some(client))
    })
}

enum Way {
    Exclusive(AeronExclusivePublication),
    Concurrent(AeronPublication),
}

/// Its writing end.
pub struct Publication {
    way: Way,
    _client: Aeron,
}

impl Publication {
    pub(super) fn add(path: &Path, setup: &Setup) -> Result<Self> {
        let client = client(path)?;
        until(NAME, "its subscribers did not come", || {
            let there = (0..setup.receivers).all(|index| subscribed(path, index).exists());
            Ok(there.then_some(()))
        })?;
        let way = if setup.senders > 1 {
            let publication = client.add_publication(CHANNEL, STREAM, PATIENCE);
            Way::Concurrent(publication.map_err(failed(NAME))?)
        } else {
            let publication = client.add_exclusive_publication(CHANNEL, STREAM, PATIENCE);
            Way::Exclusive(publication.map_err(failed(NAME))?)
        };
        until(NAME, "its publication is not connected", || {
            let connected = match &way {
                Way::Exclusive(publication) => publication.is_connected(),
                Way::Concurrent(publication) => publication.is_connected(),
            };
            Ok(connected.then_some(()))
        })?;
        Ok(Publication { way, _client: client })
    }
}

#[cold]
fn refused(code: i64) -> BenchError {
    failed(NAME)(format!("a claim failed with code {code}"))
}

impl Sender for Publication {
    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let mut claim = bindings::aeron_buffer_claim_t {
            frame_header: std::ptr::null_mut(),
            data: std::ptr::null_mut(),
            length: 0,
        };
        loop {
            let position = match &self.way {
                Way::Exclusive(publication) => {
                    let publication = publication.get_inner();
                    // SAFETY: a publication that is not closed before it is dropped, used by this
                    // thread, and a claim to write to.
                    unsafe {
                        bindings::aeron_exclusive_publication_try_claim(
                            publication,
                            N,
                            &raw mut claim,
                        )
                    }
                }
                Way::Concurrent(publication) => {
                    let publication = publication.get_inner();
                    // SAFETY: as above; this kind may be used by many.
                    unsafe { bindings::aeron_publication_try_claim(publication, N, &raw mut claim) }
                }
            };
            match position {
                0.. => break,
                BACK_PRESSURED => return Ok(false),
                // A term change: try again at once.
                ADMIN_ACTION => {}
                other => return Err(refused(other)),
            }
        }
        // SAFETY: N claimed bytes that no other thread touches until they are committed.
        fill(unsafe { &mut *claim.data.cast::<[u8; N]>() }, number);
        // SAFETY: the claim that was made, once.
        if unsafe { bindings::aeron_buffer_claim_commit(&raw mut claim) } < 0 {
            return Err(failed(NAME)("a claim could not be committed"));
        }
        Ok(true)
    }
}

/// Its reading end.
pub struct Fragments {
    subscription: AeronSubscription,
    polls: Polls,
    /// The driver, if this thread is to call it.
    driver: Option<Arc<Invoked>>,
    /// Bytes read since it was called, and how many make a call worthwhile.
    read: usize,
    call_at: usize,
    idle: u32,
    _client: Aeron,
}

impl Fragments {
    pub(super) fn add(path: &Path, setup: &Setup, index: usize, term: usize) -> Result<Self> {
        let client = client(path)?;
        let subscription = client
            .add_subscription(CHANNEL, STREAM, Handlers::NONE, Handlers::NONE, PATIENCE)
            .map_err(failed(NAME))?;
        std::fs::write(subscribed(path, index), b"")?;
        // Present records become visible only once the client's conductor has seen the log, some
        // milliseconds after the publication was created: an empty poll before that means nothing.
        until(NAME, "no publication came", || {
            let images = subscription.image_count().map_err(failed(NAME))?;
            Ok((images > 0 || setup.senders == 0).then_some(()))
        })?;
        Ok(Fragments {
            subscription,
            polls: Polls::new(setup.pace),
            driver: if index == 0 { invoked(path) } else { None },
            read: 0,
            // The driver moves the limit by an eighth of the window, which is half a term.
            call_at: term / 16,
            idle: 0,
            _client: client,
        })
    }

    #[inline(always)]
    fn poll<const N: usize, F: FnMut(&[u8; N])>(
        &mut self,
        limit: usize,
        visit: &mut F,
    ) -> Result<u64> {
        let subscription = self.subscription.get_inner();
        // SAFETY: a subscription that is not closed before it is dropped, polled by this thread
        // only; the handler is the one for this type of closure, which lives through the call.
        let count = unsafe {
            bindings::aeron_subscription_poll(
                subscription,
                Some(handle::<N, F>),
                std::ptr::from_mut(visit).cast(),
                limit,
            )
        };
        let count = u64::try_from(count).map_err(|_| failed(NAME)("a poll failed"))?;
        if count > 0 {
            self.polls.found();
            self.idle = 0;
            self.read += count as usize * frame(N);
            if self.read >= self.call_at {
                self.call();
            }
        }
        Ok(count)
    }

    #[inline]
    fn call(&mut self) {
        self.read = 0;
        if let Some(driver) = &self.driver {
            driver.call();
        }
    }
}

/// Passes a fragment to the closure behind `visit`. Records are never split, and have one length.
unsafe extern "C-unwind" fn handle<const N: usize, F: FnMut(&[u8; N])>(
    visit: *mut c_void,
    buffer: *const u8,
    length: usize,
    _: *mut bindings::aeron_header_t,
) {
    if length == N {
        // SAFETY: what `poll` was given: a closure of this type that it borrows.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: so many bytes of a term, which stay until the position moves, after the poll.
        visit(unsafe { &*buffer.cast::<[u8; N]>() });
    }
}

impl Receiver for Fragments {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let limit = (POLL / frame(N)).clamp(1, POLLED);
        let mut total = 0;
        loop {
            let count = self.poll(limit, &mut visit)?;
            total += count;
            if count < limit as u64 {
                break;
            }
        }
        // Nothing more: what was read should become free space.
        if total == 0 && self.read > 0 {
            self.call();
        }
        Ok(total)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        Ok(self.poll(1, &mut visit)? > 0)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
        self.idle += 1;
        if self.idle == IDLE {
            self.idle = 0;
            self.call();
        }
    }
}
