"""Measures what a record costs on its way out of the sidecar: the time of the whole process.

    python benches/python/way_out.py PERFRING MAPPER [--before OLDER] [--records N] [--only WAY]

PERFRING is the command with all outputs. MAPPER is the example `mapper` of `perfring-otlp`, which
writes the ring of log records. With OLDER, another build of the command, both take turns, and a
last column has the ratio. rotel, if it is installed, receives the bodies of `http` by OTLP/HTTP and
forwards them to the same receiver: a peer for that row.

A run of `perfring sidecar --once` reads a copy of the ring to its end and delivers all of it. The
processor time is that of the ended process, less that of one with a ring of one record. The
receiver then finds each record once by its number and as many bodies, or the script ends with an
error.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import machine
from payloads import WrongRecordError
from peers import shared_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNS = 5
SERIES = 10_000
SCRAPES = 40
BODY = b"a request was served"
PATTERN = re.compile(rb"\x0a\x06number\x12.\x18([\x80-\xff]*[\x00-\x7f])", re.DOTALL)
"""The attribute `number` of a log record in OTLP: its name, and its value as a varint."""


@dataclass(frozen=True)
class Cost:
    """What a process has used."""

    seconds: float
    memory: int
    """The most resident bytes."""


class Receiver:
    """A server that keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.address = ""

    def verify(self, records: int) -> None:
        """Check that each number is there once."""
        numbers: list[int] = []
        bodies = 0
        for body in self.bodies:
            plain = zlib.decompress(body, 31) if body.startswith(b"\x1f\x8b") else body
            bodies += plain.count(BODY)
            for found in PATTERN.finditer(plain):
                digits = found[1]
                numbers.append(sum((digit & 127) << (7 * at) for at, digit in enumerate(digits)))
        verify(numbers, bodies, records)


def verify(numbers: list[int], bodies: int, records: int) -> None:
    """Check that each number is there once, and as many bodies."""
    if bodies != records or sorted(numbers) != list(range(records)):
        raise WrongRecordError(f"{len(numbers)} numbers and {bodies} bodies of {records} records")


def answer(stream: socket.socket, bodies: list[bytes]) -> None:
    """Answer each request of a connection with success."""
    with stream, stream.makefile("rb", 1 << 18) as lines:
        while True:
            length = 0
            while (line := lines.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                return
            bodies.append(lines.read(length))
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def over_http() -> Iterator[Receiver]:
    """Receive OTLP over HTTP."""
    receiver = Receiver()
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiver.address = f"http://127.0.0.1:{server.getsockname()[1]}"

        def accept() -> None:
            while True:
                try:
                    stream = server.accept()[0]
                except OSError:
                    return
                args = (stream, receiver.bodies)
                threading.Thread(target=answer, args=args, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield receiver
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def over_grpc() -> Iterator[Receiver]:
    """Receive OTLP over gRPC."""
    grpc: Any = importlib.import_module("grpc")
    receiver = Receiver()

    def export(body: bytes, _: Any) -> bytes:
        receiver.bodies.append(body)
        return b""

    handler = grpc.unary_unary_rpc_method_handler(export)
    service = "opentelemetry.proto.collector.logs.v1.LogsService"
    server = grpc.server(
        futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 1 << 26)]
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {"Export": handler})]
    )
    receiver.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield receiver
    server.stop(None)


class Lines(Receiver):
    """A file of JSON lines."""

    def verify(self, records: int) -> None:
        """Check that each number is in a line."""
        with Path(self.address).open("rb") as lines:
            rows = [json.loads(line) for line in lines if BODY in line]
        numbers = [row["fields"]["number"] for row in rows]
        verify(numbers, len(rows), records)


@contextmanager
def to_file() -> Iterator[Receiver]:
    """Have a file written."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as place:
        receiver = Lines()
        receiver.address = str(Path(place) / "lines.jsonl")
        yield receiver


class Stream(Receiver):
    """A JetStream stream, whose messages are OTLP."""

    def __init__(self, store: Path, server: subprocess.Popen[bytes]) -> None:
        super().__init__()
        self.store, self.server = store, server

    def verify(self, records: int) -> None:
        """Look for the records in the stream's files."""
        self.server.terminate()
        self.server.wait()
        self.bodies = [path.read_bytes() for path in sorted(self.store.rglob("*.blk"))]
        super().verify(records)


@contextmanager
def to_nats() -> Iterator[Receiver]:
    """Receive in a stream of NATS, on file."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as place:
        port = free_port()
        command = ["nats-server", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", place]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        connect(port).close()
        receiver = Stream(Path(place), server)
        receiver.address = f"nats://127.0.0.1:{port}"
        try:
            yield receiver
        finally:
            server.kill()
            server.wait()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def connect(port: int) -> socket.socket:
    """Connect to a server that is starting."""
    for _ in range(1000):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise TimeoutError(port)


@dataclass(frozen=True)
class Way:
    """A way out of the sidecar."""

    name: str
    receiver: Callable[[], Any]
    output: str
    rule: str = ""


OTLP = 'type = "otlp"\nendpoint = "{address}"\n'
RULE = '[[rule]]\nname = "none"\nwhere = ["number<0"]\ndrop = true\n'
WAYS = {
    "http": Way("OTLP/HTTP", over_http, OTLP + 'compression = "none"\n'),
    "gzip": Way("OTLP/HTTP, gzip", over_http, OTLP + 'compression = "gzip"\n'),
    "rule": Way("OTLP/HTTP, a rule by a field", over_http, OTLP + 'compression = "none"\n', RULE),
    "grpc": Way("OTLP/gRPC", over_grpc, OTLP + 'protocol = "grpc"\ncompression = "none"\n'),
    "json": Way("JSON lines in a file", to_file, 'type = "json"\npath = "{address}"\n'),
    "nats": Way("JetStream, OTLP", to_nats, 'type = "nats"\nservers = ["{address}"]\n'),
}


def ended(process: subprocess.Popen[bytes]) -> Cost:
    """Wait for a process; return what it has used."""
    memory = 0
    # Its own figure at the end has the memory of this process, whose copy it was first.
    while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
        said = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", said)
        memory = int(found[1]) << 10 if found else memory
        time.sleep(0.005)
    _, status, used = waited
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, memory)


def sidecar(command: str, way: Way, ring: Path, address: str) -> Cost:
    """Let a sidecar deliver a copy of this ring."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as place:
        rings = Path(place) / "rings"
        rings.mkdir()
        shutil.copy(ring, rings / "ring")
        config = Path(place) / "sidecar.toml"
        output = "[[output]]\n" + way.output.format(address=address)
        config.write_text(f'log_interval = "0"\n[[input]]\ndir = "{rings}"\n{output}{way.rule}')
        return ended(subprocess.Popen([command, "sidecar", "--config", str(config), "--once"]))


def run(command: str, way: Way, rings: tuple[Path, Path], records: int) -> tuple[Cost, list[bytes]]:
    """Deliver all records; return the costs of one in ns, and what was received."""
    with way.receiver() as receiver:
        cost = sidecar(command, way, rings[0], receiver.address)
        receiver.verify(records)
        bodies = receiver.bodies
    with way.receiver() as receiver:
        start = sidecar(command, way, rings[1], receiver.address)
        receiver.verify(1)
    return Cost((cost.seconds - start.seconds) / (records - 1) * 1e9, cost.memory), bodies


def forward(rotel: str, bodies: list[bytes], records: int) -> Cost:
    """Let rotel receive and forward these bodies; return the costs of a record in ns."""

    def once(bodies: list[bytes], records: int) -> Cost:
        with over_http() as receiver, tempfile.TemporaryDirectory() as place:
            port, unused = free_port(), free_port()
            args = ["start", "--otlp-http-endpoint", f"127.0.0.1:{port}"]
            args += ["--otlp-grpc-endpoint", f"127.0.0.1:{unused}"]
            args += ["--exporter", "otlp", "--otlp-exporter-endpoint", receiver.address]
            args += ["--otlp-exporter-protocol", "http", "--otlp-exporter-compression", "none"]
            args += ["--pid-file", f"{place}/pid", "--log-file", f"{place}/log"]
            process = subprocess.Popen(
                [rotel, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            connect(port).close()
            to = http.client.HTTPConnection("127.0.0.1", port)
            for body in bodies:
                head = {"content-type": "application/x-protobuf"}
                to.request("POST", "/v1/logs", body, head)
                answered = to.getresponse()
                if answered.status != 200:
                    raise RuntimeError(answered.read())
                answered.read()
            process.send_signal(signal.SIGTERM)
            cost = ended(process)
            receiver.verify(records)
            return cost

    cost, start = once(bodies, records), once([], 0)
    return Cost((cost.seconds - start.seconds) / records * 1e9, cost.memory)


def scrape(command: str, ring: Path) -> tuple[float, int]:
    """Return the processor time of a scrape of all series, in seconds, and the sidecar's memory."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as place:
        port = free_port()
        rings = Path(place) / "rings"
        rings.mkdir()
        shutil.copy(ring, rings / "ring")
        config = Path(place) / "sidecar.toml"
        output = f'[[output]]\ntype = "prometheus"\nlisten = "127.0.0.1:{port}"\nseries = 20000\n'
        config.write_text(
            f'log_interval = "0"\nmetrics_interval = "1h"\n[[input]]\ndir = "{rings}"\n{output}'
        )
        process = subprocess.Popen([command, "sidecar", "--config", str(config)])
        connect(port).close()
        page = b""
        while page.count(b"\nrequests_total{") < SERIES:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as got:
                page = got.read()

        def used() -> float:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before = used()
        for _ in range(SCRAPES):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as got:
                page = got.read()
            if page.count(b"\nrequests_total{") != SERIES:
                raise WrongRecordError(f"{page.count(b'requests_total{')} series")
        each = (used() - before) / SCRAPES
        process.send_signal(signal.SIGTERM)
        return each, ended(process).memory


def middle(values: list[float], digits: int = 0) -> str:
    """Return the median of some values and their range."""
    shown = [f"{of:,.{digits}f}" for of in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def main() -> None:
    """Measure all ways, in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", metavar="PERFRING")
    parser.add_argument("mapper", metavar="MAPPER")
    parser.add_argument("--before", metavar="OLDER")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--only", nargs="*", choices=[*WAYS, "scrape"])
    args = parser.parse_args()
    ways = [key for key in WAYS if not args.only or key in args.only]
    if shutil.which("nats-server") is None and "nats" in ways:
        ways.remove("nats")
        print("there is no nats-server: that row is left out", file=sys.stderr)
    commands = [args.command, *([args.before] if args.before else [])]
    found = importlib.util.find_spec("rotel")
    rotel = str(Path(found.origin or "").with_name("rotel-agent")) if found else None
    costs: dict[tuple[str, str], list[Cost]] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=shared_memory())))
        rings = (place / "many", place / "one")
        for ring, records in zip(rings, (args.records, 1), strict=True):
            subprocess.run([args.mapper, "log", "0", str(records), str(ring)], check=True)
        for _ in range(args.turns):
            for key in ways:
                for command in commands:
                    cost, bodies = run(command, WAYS[key], rings, args.records)
                    costs.setdefault((key, command), []).append(cost)
                    if key == "http" and command == args.command and rotel:
                        cost = forward(rotel, bodies, args.records)
                        costs.setdefault((key, "rotel"), []).append(cost)
        print(json.dumps(machine()))
        print(f"{args.records} log records of two attributes, each verified; {args.turns} turns")
        print("processor time of the process, ns a record; its most memory, MiB")
        for (key, command), all_costs in costs.items():
            times = [cost.seconds for cost in all_costs]
            memory = statistics.median(cost.memory for cost in all_costs) / 2**20
            ratio = ""
            if (own := costs[key, args.command]) is not all_costs:
                ratios = [b.seconds / a.seconds for a, b in zip(own, all_costs, strict=True)]
                ratio = middle(ratios, 2)
            name = {args.command: "perfring", args.before: "before"}.get(command, command)
            print(f"{WAYS[key].name:30} {name:9} {middle(times):>28} {memory:6.0f} {ratio}")
        if not args.only or "scrape" in args.only:
            ring = place / "series"
            subprocess.run([args.mapper, "series", "0", str(SERIES), str(ring)], check=True)
            scraped = [scrape(args.command, ring) for _ in range(args.turns)]
            each, memories = zip(*scraped, strict=True)
            memory = statistics.median(memories) / 2**20
            times = [of * 1e3 for of in each]
            name = f"a scrape of {SERIES:,} series, ms"
            print(f"{name:30} {'perfring':9} {middle(times, 1):>28} {memory:6.0f}")


if __name__ == "__main__":
    main()
