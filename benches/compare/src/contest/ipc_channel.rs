//! The crate ipc-channel, by its channel of bytes: nothing is serialised. Each message is a record.
//! It has neither batches nor a way to be told that there is no room.

use super::common::Polls;
use super::handed::{self, Held, Whose};
use super::{About, Can, Contestant, Home, Receiver, Sender, Setup};
use crate::CompareError;
use ipc_channel::ipc::{
    IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender, bytes_channel, channel,
};
use ipc_channel::{IpcError, TryRecvError};
use nix::sys::socket::{getsockopt, sockopt};
use perfring_bench::contest::Waits;
use std::cell::RefCell;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Channels of ipc-channel: one, of which every sender has a clone.
pub struct IpcChannel;

const NAME: &str = "ipc-channel";

fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> CompareError {
    CompareError::Contestant { contestant: NAME, source: source.into() }
}

/// A sender asks for the channel's writing end: it sends the end of a channel for the answer.
type Ask = IpcSender<IpcBytesSender>;

/// Where the name is that sender number `index` asks at.
fn name_at(path: &Path, index: usize) -> PathBuf {
    path.with_extension(format!("server-{index}"))
}

impl Contestant for IpcChannel {
    type Sender = IpcChannelSender;
    type Receiver = IpcChannelReceiver;
    type Held = (Held, Vec<Held>);

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("a full channel makes its senders wait"),
            receivers: Err("a channel has one receiver"),
            sleeping: Err("its channel of bytes can sleep for ever, not for so long"),
            refuses: Err("its send waits for room, and there is no other"),
        }
    }

    fn about(setup: &Setup) -> About {
        About {
            name: "ipc_channel",
            version: "ipc-channel 0.23".into(),
            home: Home::Processes,
            settings:
                "bytes_channel, a message a record, its own buffers (SO_SNDBUF of the system)"
                    .into(),
            waits: Polls::about(setup.pace),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        // Its sockets have what the system gives everybody, each sender's one.
        let socket = std::os::unix::net::UnixDatagram::unbound().ok()?;
        let size = getsockopt(&socket, sockopt::SndBuf).ok()?;
        Some((size * setup.senders) as u64)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Self::Held, CompareError> {
        let held = Held::new(path);
        let mut names = Vec::new();
        for index in 0..setup.senders {
            let (server, name) = IpcOneShotServer::<Ask>::new()?;
            let at = name_at(path, index);
            std::fs::write(&at, name)?;
            names.push(Held::new(&at));
            held.lay(Whose::Sender(index), server);
        }
        Ok((held, names))
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<IpcChannelSender, CompareError> {
        let name = std::fs::read_to_string(name_at(path, index))?;
        let ask = IpcSender::<Ask>::connect(name)?;
        let (answer, answered) = channel()?;
        ask.send(answer).map_err(failed)?;
        let sender = answered.recv().map_err(failed)?;
        Ok(IpcChannelSender { sender })
    }

    fn receiver(
        path: &Path,
        setup: &Setup,
        _index: usize,
    ) -> Result<IpcChannelReceiver, CompareError> {
        let (sender, receiver) = bytes_channel()?;
        for index in 0..setup.senders {
            let server: IpcOneShotServer<Ask> = handed::take(path, Whose::Sender(index))?;
            let (_asks, answer) = server.accept().map_err(failed)?;
            answer.send(sender.clone()).map_err(failed)?;
        }
        Ok(IpcChannelReceiver { receiver, came: None, waits: Waits::new(setup.pace), gone: false })
    }
}

/// The writing end.
pub struct IpcChannelSender {
    sender: IpcBytesSender,
}

impl Sender for IpcChannelSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let mut slot = [0; N];
        for number in numbers {
            fill(&mut slot, number);
            self.sender.send(&slot)?;
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        _number: u64,
        _fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        Err(CompareError::Cannot("refuse: its send waits for room"))
    }
}

/// The reading end.
pub struct IpcChannelReceiver {
    receiver: IpcBytesReceiver,
    /// A record that came and was not shown.
    came: Option<Vec<u8>>,
    waits: Waits,
    /// All senders have gone.
    gone: bool,
}

impl IpcChannelReceiver {
    #[inline(always)]
    fn fetch(&mut self) -> Result<bool, TryRecvError> {
        if self.came.is_none() && !self.gone {
            match self.receiver.try_recv() {
                Ok(bytes) => self.came = Some(bytes),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::IpcError(IpcError::Disconnected)) => self.gone = true,
                Err(error) => return Err(error),
            }
        }
        Ok(self.came.is_some())
    }
}

impl Receiver for IpcChannelReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        while self.next(&mut visit)? {
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        self.fetch().map_err(failed)?;
        let Some(bytes) = self.came.take() else { return Ok(false) };
        let record = bytes.as_slice().try_into().map_err(failed)?;
        visit(record);
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        // To look is to receive. What fails here fails again in `drain`. The waits are taken out
        // meanwhile: the look needs the rest.
        let mut waits =
            std::mem::replace(&mut self.waits, Waits::new(perfring_bench::Pace::Latency));
        let me = RefCell::new(&mut *self);
        waits.wait(|| me.borrow_mut().fetch().unwrap_or(true));
        self.waits = waits;
    }

    fn sleep(&mut self, _timeout: Duration) -> Result<(), CompareError> {
        Err(CompareError::Cannot("sleep for so long"))
    }
}
