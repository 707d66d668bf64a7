//! iceoryx2: publish-subscribe of loaned samples, and its event service to sleep on.

use crate::contest::slots::{Erased, slots};
use ::iceoryx2::port::BackpressureAction;
use ::iceoryx2::port::SendError;
use ::iceoryx2::port::listener::Listener;
use ::iceoryx2::port::notifier::Notifier;
use ::iceoryx2::port::publisher::Publisher;
use ::iceoryx2::port::subscriber::Subscriber;
use ::iceoryx2::prelude::*;
use ::iceoryx2::service::port_factory::{event, publish_subscribe};
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::error::failed;
use perfring_bench::payload::sized;
use perfring_bench::waits::{Polls, until};
use perfring_bench::{BenchError, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// iceoryx2's `publish_subscribe` between processes.
pub struct Iceoryx2;

const NAME: &str = "iceoryx2";

impl Contestant for Iceoryx2 {
    type Sender = SampleSender;
    type Receiver = SampleReceiver;
    /// A node that keeps the service as it was created, for as long as it is used.
    type Held = Held;

    fn can() -> Can {
        Can::all(1 << 30)
    }

    fn about(setup: &Setup) -> About {
        let count = slots(setup.data_size, setup.payload);
        let full = if setup.overwrite {
            "safe overflow"
        } else {
            "no safe overflow, RetryUntilDelivered, yielding the core each 4096 retries"
        };
        let notify = if setup.sleeping { ", an event notified after each sample" } else { "" };
        let settings = format!(
            "ipc::Service, fixed-size payloads, subscriber buffer of {count} samples, loan_uninit \
             and send per record, {full}{notify}"
        );
        let waits = setup.polls_or("its Listener::timed_wait");
        About {
            version: "iceoryx2 0.10.0".to_owned(),
            location: Location::Processes,
            settings,
            waits,
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        let node = node(path)?;
        let events = if setup.sleeping { Some(events(&node, path, setup)?) } else { None };
        let service =
            sized!(setup.payload, N => service::<N>(&node, path, setup).map(Erased::new))?;
        let said = (0..setup.receivers).map(|index| connected(path, index)).collect();
        Ok(Held { said, _service: service, _events: events, _node: node })
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<SampleSender> {
        let node = node(path)?;
        let offering = Arc::new(AtomicBool::new(false));
        let end = sized!(setup.payload, N => publisher::<N>(&node, path, setup, &offering))?;
        let notifier = if setup.sleeping {
            let notifier = events(&node, path, setup)?.notifier_builder().create();
            Some(notifier.map_err(failed(NAME))?)
        } else {
            None
        };
        Ok(SampleSender { end, notifier, offering, _node: node })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<SampleReceiver> {
        let node = node(path)?;
        let listener = if setup.sleeping {
            let listener = events(&node, path, setup)?.listener_builder().create();
            Some(listener.map_err(failed(NAME))?)
        } else {
            None
        };
        let end = sized!(setup.payload, N => subscriber::<N>(&node, path, setup, index))?;
        Ok(SampleReceiver { end, listener, polls: Polls::new(setup.pace), _node: node })
    }
}

type Samples<const N: usize> = publish_subscribe::PortFactory<ipc::Service, [u8; N], ()>;
type Events = event::PortFactory<ipc::Service>;

/// The node and the services that must stay open.
pub struct Held {
    /// The files with which subscribers signal that they have polled for publishers.
    said: Vec<PathBuf>,
    _service: Erased,
    _events: Option<Events>,
    _node: Node<ipc::Service>,
}

impl Drop for Held {
    fn drop(&mut self) {
        for path in &self.said {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Creates a node whose files are in the directory of the path, and whose shared memory is named
/// after that directory, so that it can be removed even if the process was killed.
fn node(path: &Path) -> Result<Node<ipc::Service>> {
    set_log_level(LogLevel::Error);
    let dir = path.parent().unwrap_or(path);
    let prefix = dir.file_name().unwrap_or_default().to_string_lossy();
    let prefix = FileName::new(format!("{prefix}_").as_bytes()).map_err(failed(NAME))?;
    let root = dir.join("iceoryx2").to_string_lossy().into_owned();
    let root = ::iceoryx2::prelude::Path::new(root.as_bytes()).map_err(failed(NAME))?;
    let mut config = Config::default();
    config.global.prefix = prefix;
    config.global.set_root_path(&root);
    NodeBuilder::new().config(&config).create::<ipc::Service>().map_err(failed(NAME))
}

fn name(path: &Path) -> Result<ServiceName> {
    ServiceName::new(&path.to_string_lossy()).map_err(failed(NAME))
}

/// Opens or creates the service, identically for all ends, whichever comes first.
fn service<const N: usize>(
    node: &Node<ipc::Service>,
    path: &Path,
    setup: &Setup,
) -> Result<Samples<N>> {
    let count = usize::try_from(slots(setup.data_size, N)).unwrap_or(usize::MAX);
    node.service_builder(&name(path)?)
        .publish_subscribe::<[u8; N]>()
        .enable_safe_overflow(setup.overwrite)
        .subscriber_max_buffer_size(count)
        .subscriber_max_borrowed_samples(1)
        .history_size(0)
        .max_publishers(setup.senders.max(1))
        .max_subscribers(setup.receivers.max(1))
        .max_nodes(setup.senders + setup.receivers + 2)
        .open_or_create()
        .map_err(failed(NAME))
}

fn events(node: &Node<ipc::Service>, path: &Path, setup: &Setup) -> Result<Events> {
    node.service_builder(&name(&path.with_extension("event"))?)
        .event()
        .max_notifiers(setup.senders.max(1))
        .max_listeners(setup.receivers.max(1))
        .max_nodes(setup.senders + setup.receivers + 2)
        .open_or_create()
        .map_err(failed(NAME))
}

fn publisher<const N: usize>(
    node: &Node<ipc::Service>,
    path: &Path,
    setup: &Setup,
    offering: &Arc<AtomicBool>,
) -> Result<Erased> {
    let service = service::<N>(node, path, setup)?;
    let is_offer = Arc::clone(offering);
    let publisher = service
        .publisher_builder()
        .max_loaned_samples(1)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .set_backpressure_handler(move |info| {
            if is_offer.load(Ordering::Relaxed) {
                return BackpressureAction::DiscardDataAndFail;
            }
            if info.retries.is_multiple_of(4096) {
                std::thread::yield_now();
            }
            BackpressureAction::Retry
        })
        .create()
        .map_err(failed(NAME))?;
    if !setup.overwrite {
        until(NAME, "its subscribers did not come", || {
            let there = (0..setup.receivers).all(|index| connected(path, index).exists());
            Ok(there.then_some(()))
        })?;
    }
    Ok(Erased::new(publisher))
}

/// Opens a subscriber, which for lossless rings polls for publishers and signals that in a file.
///
/// A publisher's sample for a subscriber that has not yet polled for publishers is kept while there
/// is room in its buffer, and then silently lost, whatever the strategy.
fn subscriber<const N: usize>(
    node: &Node<ipc::Service>,
    path: &Path,
    setup: &Setup,
    index: usize,
) -> Result<Erased> {
    let service = service::<N>(node, path, setup)?;
    let subscriber = service.subscriber_builder().create().map_err(failed(NAME))?;
    if !setup.overwrite {
        until(NAME, "its publishers did not come", || {
            let there = service.dynamic_config().number_of_publishers();
            Ok((there >= setup.senders).then_some(()))
        })?;
        subscriber.has_samples().map_err(failed(NAME))?;
        std::fs::write(connected(path, index), b"")?;
    }
    Ok(Erased::new(subscriber))
}

fn connected(path: &Path, index: usize) -> PathBuf {
    path.with_extension(format!("connected-{index}"))
}

type Writer<const N: usize> = Publisher<ipc::Service, [u8; N], ()>;
type Reader<const N: usize> = Subscriber<ipc::Service, [u8; N], ()>;

/// Its writing end.
pub struct SampleSender {
    end: Erased,
    notifier: Option<Notifier<ipc::Service>>,
    offering: Arc<AtomicBool>,
    _node: Node<ipc::Service>,
}

impl SampleSender {
    #[inline(always)]
    fn put<const N: usize>(&mut self, number: u64, fill: &mut impl Fill<N>) -> Result<bool> {
        let publisher = self.end.get::<Writer<N>>()?;
        let mut sample = publisher.loan_uninit().map_err(failed(NAME))?;
        // SAFETY: any bytes are a [u8; N], and the loan has no other user.
        fill(unsafe { sample.payload_mut().assume_init_mut() }, number);
        // SAFETY: written by `fill`.
        match unsafe { sample.assume_init() }.send() {
            Ok(_) => {}
            Err(SendError::UnableToDeliver) => return Ok(false),
            Err(other) => return Err(failed(NAME)(other)),
        }
        if let Some(notifier) = &self.notifier {
            notifier.notify().map_err(failed(NAME))?;
        }
        Ok(true)
    }
}

impl Sender for SampleSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        for number in numbers {
            self.put(number, &mut fill)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        self.offering.store(true, Ordering::Relaxed);
        let answer = self.put(number, &mut fill);
        self.offering.store(false, Ordering::Relaxed);
        answer
    }
}

/// Its reading end.
pub struct SampleReceiver {
    end: Erased,
    listener: Option<Listener<ipc::Service>>,
    polls: Polls,
    _node: Node<ipc::Service>,
}

impl Receiver for SampleReceiver {
    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        let subscriber = self.end.get::<Reader<N>>()?;
        let Some(sample) = subscriber.receive().map_err(failed(NAME))? else { return Ok(false) };
        visit(sample.payload());
        self.polls.found();
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let Some(listener) = &self.listener else {
            return Err(BenchError::Cannot("sleep without being set up so"));
        };
        listener.timed_wait(|_| {}, timeout).map_err(failed(NAME))?;
        Ok(())
    }
}
