"""Other processes: forked, spawned, killed."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import perfring
import pytest
from conftest import WATCHDOG


def in_child(what: Callable[[], None]) -> None:
    """Runs it in a forked child; fails if it raises there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            what()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("policy", ["drop", "overwrite"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_forked_child_is_refused_clearly_and_disturbs_nobody(
    ring: str, policy: str, shared: bool
) -> None:
    producer = perfring.Producer.create(ring, policy=policy, shared=shared)  # type: ignore[arg-type]
    consumer, observer = perfring.Consumer(ring), perfring.Observer(ring)
    producer.publish(b"parent")
    record = consumer.read()
    assert isinstance(record, perfring.Record)
    reservation = producer.reserve(8)

    def child() -> None:
        for use in (
            lambda: producer.publish(b"child"),
            lambda: producer.publish(b"child", timeout=1),
            lambda: producer.reserve(1),
            lambda: producer.totals,
            reservation.commit,
            consumer.read,
            consumer.wait,
            consumer.drain,
            observer.read,
            observer.snapshot,
            lambda: next(iter(observer)),
        ):
            with pytest.raises(perfring.Forked, match="attach again here"):
                use()
        if policy == "drop":  # its memory is zeros here, and that is no record's content
            for look in (len, bytes, memoryview, lambda record: record.value):
                with pytest.raises(perfring.Forked):
                    look(record)
        producer.close()
        consumer.close()
        observer.close()
        with perfring.Observer(ring) as own:
            assert isinstance(own.read(), perfring.Record)

    in_child(child)
    reservation.view[:] = b"and on.."
    reservation.commit()
    assert bytes(consumer.read()) == b"and on.."  # type: ignore[arg-type]
    assert bytes(record) == b"parent"
    assert perfring.stat(ring)["written_records"] == 2


PUBLISHER = """
import perfring, sys
with perfring.Producer(sys.argv[1]) as producer:
    producer.publish(b"attached")
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["one", "many", "cpu"])
@pytest.mark.parametrize("state", ["detached", "dead"])
def test_stat_tells_a_producer_that_detached_from_one_that_was_killed(
    tmp_path: Path, command: str, kind: str, state: str
) -> None:
    path = tmp_path / "ring"
    # A ring per CPU is that of the CPU on which the processes run.
    here = {min(os.sched_getaffinity(0))}

    def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments, stdin=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, here)
        )

    with start(command, "create", path, "--producers", kind) as create:
        assert create.wait() == 0
    ring = next(path.iterdir()) if kind == "cpu" else path
    publish: list[str | Path] = (
        [command, "publish", path] if kind == "cpu" else [sys.executable, "-c", PUBLISHER, path]
    )
    with start(*publish) as process, perfring.Consumer(ring) as consumer:
        assert process.stdin is not None
        if kind == "cpu":
            process.stdin.write(b"attached\n")
            process.stdin.flush()
        record = consumer.read(timeout=WATCHDOG)
        assert isinstance(record, perfring.Record)
        assert bytes(record) == b"attached"
        del record
        if state == "dead":
            process.kill()
    assert (process.returncode == 0) == (state == "detached")
    stat = perfring.stat(ring)
    # A slot that nobody had is taken first, so the last one is this process's.
    owner = stat["producer"] if kind == "one" else stat["slots"][-1]
    assert owner is not None
    assert (owner["state"], owner["alive"], owner["pid"]) == (state, False, process.pid)
    assert (owner["uid"] is None) == (state == "detached")
    assert stat["consumer"]["state"] == "detached"


def test_what_belongs_to_a_process_is_not_pickled(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    for thing in (producer, perfring.Consumer(ring), perfring.Observer(ring)):
        with pytest.raises(TypeError, match="pass the path to the other one"):
            pickle.dumps(thing)


def publish_there(ring: str, records: int) -> None:
    with perfring.Producer(ring) as producer:
        for n in range(records):
            assert producer.publish(b"%d" % n, timeout=None)


def test_multiprocessing_with_spawn(ring: str) -> None:
    perfring.Producer.create(ring, size="64K").close()
    process = multiprocessing.get_context("spawn").Process(
        target=publish_there, args=(ring, 20_000)
    )
    process.start()
    with perfring.Consumer(ring) as consumer:
        seen: list[bytes] = []
        while len(seen) < 20_000:
            for item in consumer.drain(timeout=WATCHDOG):
                assert isinstance(item, perfring.Record)
                seen.append(bytes(item))
    process.join()
    assert process.exitcode == 0
    assert seen == [b"%d" % n for n in range(20_000)]


HOLDS = """
import perfring, sys
producer = perfring.Producer(sys.argv[1])
for n in range(10):
    producer.publish(b"%d" % n)
view = producer.reserve(100).view
view[:50] = b"x" * 50
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("policy", ["drop", "overwrite"])
@pytest.mark.parametrize("shared", [False, True])
def test_killed_with_a_reservation_it_costs_that_alone(
    ring: str, policy: str, shared: bool
) -> None:
    perfring.Producer.create(ring, policy=policy, shared=shared).close()  # type: ignore[arg-type]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, ring], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"holds\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with perfring.Producer(ring) as producer:
        assert producer.publish(b"next")
    # In a shared ring a waiting consumer ends what the dead one left before the next record.
    items: list[bytes] = []
    with perfring.Consumer(ring) as consumer:
        for item in consumer:
            assert isinstance(item, perfring.Record)
            items.append(bytes(item))
            if items[-1] == b"next":
                break
    assert items == [*(b"%d" % n for n in range(10)), b"next"]
    stat = perfring.stat(ring)
    assert stat["written_records"] == 11
    assert stat["reclaimed_records"] == (1 if shared else 0)


CLOSE = """
import _ctypes, ctypes, os, sys
import perfring

library = perfring._native.__file__
perfring.Producer.create(sys.argv[1]).publish(b"from a library")
handle = ctypes.CDLL(library)._handle
closed = 0
try:
    while closed < 100:
        _ctypes.dlclose(handle)
        closed += 1
except OSError:  # it is not open any more
    pass
with open("/proc/self/maps") as maps:
    os._exit(0 if closed > 1 and library in maps.read() else 1)
"""


def test_a_library_that_has_attached_to_a_ring_is_never_unloaded(ring: str) -> None:
    # Its handlers of forks and of SIGBUS outlive its last user.
    assert subprocess.run([sys.executable, "-c", CLOSE, ring], check=False).returncode == 0
