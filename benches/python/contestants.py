"""The contestants: ways to send and to receive between two processes.

All are set up to lose nothing: a sender that is too fast waits. `channel` is made in the parent
and given to both processes; the other two are made in one of them each.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from payloads import payloads, turns, wrong

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnContext


class Sender(Protocol):
    """The producer's side."""

    def send(self, count: int) -> None:
        """Sends `count` payloads from the first on."""


class Receiver(Protocol):
    """The consumer's side."""

    def receive(self, count: int) -> int:
        """Reads until that many arrived or are lost, checks each, and returns the lost ones."""


class Contestant:
    """A way to send bytes from one process to another."""

    name = ""
    settings = ""
    package: str | None = None
    """The modules that must be installed, by the name to import."""

    def missing(self) -> str | None:
        """Returns why it cannot run, if so."""
        if self.package is None:
            return None
        try:
            importlib.import_module(self.package)
        except ImportError as error:
            return f"{self.package} is not installed ({error})"
        return None

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Any:
        """Returns the arguments of both processes."""
        raise NotImplementedError

    def sender(self, channel: Any, size: int) -> Sender:
        """Returns the producer's side."""
        raise NotImplementedError

    def receiver(self, channel: Any, size: int) -> Receiver:
        """Returns the consumer's side."""
        raise NotImplementedError


class OneByOne:
    """Sends and receives with a call for each record."""

    def __init__(self, size: int, call: Any) -> None:
        self.payloads = payloads(size)
        self.call = call

    def send(self, count: int) -> None:
        send = self.call
        for payload in turns(self.payloads, count):
            send(payload)

    def receive(self, count: int) -> int:
        receive = self.call
        for due in turns(self.payloads, count):
            if (got := receive()) != due:
                raise wrong(got, due)
        return 0


class Queue(Contestant):
    """`multiprocessing.Queue`, as it is commonly used."""

    name = "multiprocessing.Queue"
    settings = "put, get; no limit to its length"

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Any:
        return context.Queue()

    def sender(self, channel: Any, size: int) -> Sender:
        return OneByOne(size, channel.put)

    def receiver(self, channel: Any, size: int) -> Receiver:
        return OneByOne(size, channel.get)


class Pipe(Contestant):
    """`multiprocessing.Pipe`, with raw bytes."""

    name = "multiprocessing.Pipe"
    settings = "one-way, send_bytes, recv_bytes"

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Any:
        return context.Pipe(duplex=False)

    def sender(self, channel: tuple[Connection, Connection], size: int) -> Sender:
        return OneByOne(size, channel[1].send_bytes)

    def receiver(self, channel: tuple[Connection, Connection], size: int) -> Receiver:
        return OneByOne(size, channel[0].recv_bytes)


class Zmq(Contestant):
    """PUSH and PULL over a Unix socket."""

    name = "pyzmq ipc://"
    settings = (
        "PUSH, PULL, copying; high-water marks 10,000, from 1 KiB on 1,000 (its default): faster so"
    )
    package = "zmq"

    def socket(self, kind: str, size: int) -> Any:
        """Returns a socket with the limits that were found to be fastest."""
        zmq: Any = importlib.import_module("zmq")
        socket = zmq.Context.instance().socket(getattr(zmq, kind))
        socket.set_hwm(10_000 if size < 1024 else 1000)
        socket.linger = 0
        return socket

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Any:
        return f"ipc://{directory}/{size}.zmq"

    def sender(self, channel: str, size: int) -> Sender:
        socket = self.socket("PUSH", size)
        socket.connect(channel)
        return OneByOne(size, socket.send)

    def receiver(self, channel: str, size: int) -> Receiver:
        socket = self.socket("PULL", size)
        socket.bind(channel)
        return OneByOne(size, socket.recv)


class Iceoryx2(Contestant):
    """Publish and subscribe in shared memory, with loaned samples.

    Its own `write_payload` and `payload` wrap the same pointers in ctypes objects; the copies to
    and from `payload_ptr` here take less.
    """

    name = "iceoryx2"
    settings = "loan, write, send; no overflow, a buffer of 1,024 samples; the reader polls"
    package = "iceoryx2"

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Any:
        return f"perfring-bench-{uuid.uuid4().hex}"

    def service(self, channel: str, size: int) -> tuple[Any, Any]:
        """Returns the node, which must live as long as its ports, and the service."""
        iox2: Any = importlib.import_module("iceoryx2")
        iox2.set_log_level(iox2.LogLevel.Error)

        class Payload(ctypes.Structure):
            _fields_ = [("words", ctypes.c_uint64 * (size // 8))]

        node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        service = (
            node.service_builder(iox2.ServiceName.new(channel))
            .publish_subscribe(Payload)
            .max_publishers(1)
            .max_subscribers(1)
            .enable_safe_overflow(False)
            .subscriber_max_buffer_size(1024)
            .history_size(0)
            .open_or_create()
        )
        return node, service

    def sender(self, channel: str, size: int) -> Sender:
        iox2: Any = importlib.import_module("iceoryx2")
        node, service = self.service(channel, size)
        strategy = iox2.BackpressureStrategy.RetryUntilDelivered
        publisher = service.publisher_builder().backpressure_strategy(strategy).create()
        memmove = ctypes.memmove

        def send(payload: bytes, node: Any = node) -> None:
            sample = publisher.loan_uninit()
            memmove(sample.payload_ptr, payload, size)
            sample.assume_init().send()

        return OneByOne(size, send)

    def receiver(self, channel: str, size: int) -> Receiver:
        node, service = self.service(channel, size)
        subscriber = service.subscriber_builder().buffer_size(1024).create()
        string_at = ctypes.string_at

        def receive(node: Any = node) -> bytes:
            while (sample := subscriber.receive()) is None:
                pass
            return string_at(sample.payload_ptr, size)

        return OneByOne(size, receive)


PEERS: list[Contestant] = [Queue(), Pipe(), Zmq(), Iceoryx2()]
