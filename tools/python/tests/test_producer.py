import array
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import perfring
import pytest
from conftest import WATCHDOG

POLICIES = ["drop", "overwrite"]


def payloads(ring: str) -> list[bytes]:
    return [bytes(item) for item in perfring.Snapshot(ring) if isinstance(item, perfring.Record)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_all_ways_to_publish_meet_in_one_order(ring: str, policy: str, shared: bool) -> None:
    with perfring.Producer.create(ring, policy=policy, shared=shared) as producer:  # type: ignore[arg-type]
        assert (producer.policy, producer.shared) == (policy, shared)
        assert producer.publish(b"bytes")
        assert producer.publish(bytearray(b"bytearray"), 5000)
        assert producer.publish(array.array("I", [1, 2]), type=5001)
        assert producer.publish(np.array([3, 4], dtype="u4"), timeout=1.0)
        with producer.reserve(8, 5002) as view:
            view[:] = b"in place"
        short = producer.reserve(20)
        short.view[:5] = b"short"
        short.commit(5)
        with producer.batch() as batch:
            batch.publish(b"one")
            batch.publish(b"two", 5003)
            assert (len(batch), batch.published) == (2, 0)
        assert (batch.published, batch.lost) == (2, 0)
        assert producer.publish_array(np.arange(3, dtype="u2"), 5004) == 3
        assert producer.publish_array(np.eye(2, dtype="u1")) == 2
        assert producer.publish(b"")
        assert producer.totals["written_records"] == 14
    expected = [
        b"bytes",
        b"bytearray",
        array.array("I", [1, 2]).tobytes(),
        np.array([3, 4], dtype="u4").tobytes(),
        b"in place",
        b"short",
        b"one",
        b"two",
        *(np.arange(3, dtype="u2")[n : n + 1].tobytes() for n in range(3)),
        b"\1\0",
        b"\0\1",
        b"",
    ]
    assert payloads(ring) == expected
    kinds = [item.type for item in perfring.Snapshot(ring) if isinstance(item, perfring.Record)]
    assert kinds[:5] == [perfring.BYTES, 5000, 5001, perfring.BYTES, 5002]
    assert kinds[7] == 5003
    assert kinds[8:11] == [5004] * 3


@pytest.mark.parametrize("shared", [False, True])
def test_what_a_full_ring_refuses_is_counted_and_reported(ring: str, shared: bool) -> None:
    producer = perfring.Producer.create(ring, size=4096, shared=shared)
    published = sum(producer.publish(b"%064d" % n) for n in range(100))
    assert 0 < published < 100
    assert producer.totals["full_records"] == 100 - published
    rest = producer.publish_array(np.zeros(50, dtype="V64"))
    assert rest == 0
    with producer.batch() as batch:
        for _ in range(10):
            batch.publish(bytes(64))
    assert (batch.published, batch.lost) == (0, 10)
    with pytest.raises(perfring.Full, match="full") as full:
        producer.reserve(64)
    assert full.value.cause == "full"
    lost = 100 - published + 50 + 10 + 1
    assert producer.totals["full_records"] == lost
    consumer = perfring.Consumer(ring)
    drained = consumer.drain()
    assert len(drained) == published
    assert [(it.records, it.cause) for it in drained.lost] == [(lost, "full")]
    assert producer.publish(b"after")
    assert [bytes(item) for item in consumer.items(timeout=0)] == [b"after"]  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_a_wait_in_vain_is_one_loss_and_a_short_one_none(ring: str, shared: bool) -> None:
    producer = perfring.Producer.create(ring, size=4096, shared=shared)
    while producer.publish(bytes(1000)):
        pass
    before = producer.totals["full_records"]
    assert not producer.publish(bytes(1000), timeout=0.25)  # more than two slices
    assert producer.totals["full_records"] == before + 1
    consumer = perfring.Consumer(ring)

    def read() -> None:
        while producer.totals["written_records"] < 10:
            consumer.drain()

    reader = threading.Thread(target=read)
    reader.start()
    while producer.totals["written_records"] < 10:
        assert producer.publish(bytes(1000), timeout=None)
    reader.join()
    assert producer.totals["full_records"] == before + 1


@pytest.mark.parametrize("shared", [False, True])
def test_arrays_wait_for_room_and_lose_nothing(ring: str, shared: bool) -> None:
    producer = perfring.Producer.create(ring, size="64K", shared=shared)
    consumer = perfring.Consumer(ring)
    seen: list[int] = []

    def read() -> None:
        while len(seen) < 50_000:
            batch = consumer.drain(timeout=WATCHDOG)
            assert not batch.lost
            seen.extend(np.frombuffer(batch, dtype="u8").tolist())

    reader = threading.Thread(target=read)
    reader.start()
    assert producer.publish_array(np.arange(50_000, dtype="u8"), timeout=None) == 50_000
    reader.join()
    assert seen == list(range(50_000))
    assert producer.totals["full_records"] == 0


def test_an_exception_in_the_block_publishes_nothing(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    with pytest.raises(ZeroDivisionError), producer.reserve(4) as view:  # noqa: PT012
        view[:] = b"half"
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), producer.batch() as batch:  # noqa: PT012
        batch.publish(b"half")
        raise ZeroDivisionError
    assert payloads(ring) == []
    assert perfring.stat(ring)["discarded_records"] == 1
    assert producer.publish(b"whole")
    assert payloads(ring) == [b"whole"]


def test_a_reservation_ends_once(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    with producer.reserve(4) as view:
        view[:] = b"1234"
    with pytest.raises(ValueError, match="released"):
        view[0]
    reservation = producer.reserve(4)
    with pytest.raises(ValueError, match="5 bytes cannot be committed: 4 were reserved"):
        reservation.commit(5)
    with pytest.raises(perfring.PerfringError, match="reservation of this producer is open"):
        producer.publish(b"another")
    reservation.discard()
    for ended in (reservation.commit, reservation.discard, lambda: reservation.view):
        with pytest.raises(perfring.Closed, match="ended"):
            ended()
    with producer.reserve(4) as view:
        view[:] = b"kept"
    reservation = producer.reserve(4)
    with reservation:
        reservation.discard()  # in the block, too
    producer.reserve(4)  # dropped, it is discarded
    assert payloads(ring) == [b"1234", b"kept"]


def test_totals_are_available_while_a_reservation_is_open(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    producer.publish(b"before")
    with producer.reserve(4) as view:
        view[:] = b"open"
        assert producer.totals["written_records"] == 1
        assert producer.totals["full_records"] == 0
    assert producer.totals["written_records"] == 2


def test_several_reservations_of_a_shared_ring_end_in_any_order(ring: str) -> None:
    producer = perfring.Producer.create(ring, shared=True)
    older, younger = producer.reserve(5), producer.reserve(7)
    younger.view[:] = b"younger"
    younger.commit()
    assert payloads(ring) == []
    older.view[:] = b"older"
    older.commit()
    assert payloads(ring) == [b"older", b"younger"]


def test_many_producers_share_a_ring(ring: str) -> None:
    first = perfring.Producer.create(ring, shared=True)
    second = perfring.Producer(ring, name="second")
    assert first.publish(b"1")
    assert second.publish(b"2")
    names = [slot["name"] for slot in perfring.stat(ring)["slots"] if slot["alive"]]
    assert names[1] == "second"
    second.close()
    assert sum(slot["alive"] for slot in perfring.stat(ring)["slots"]) == 1
    assert payloads(ring) == [b"1", b"2"]


def test_one_producer_for_all_threads(ring: str) -> None:
    producer = perfring.Producer.create(ring, size="4M")

    def publish(thread: int) -> None:
        for n in range(1000):
            assert producer.publish(b"%d %d" % (thread, n), 5000 + thread)

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_thread: dict[int, list[bytes]] = {}
    for item in perfring.Snapshot(ring):
        assert isinstance(item, perfring.Record)
        by_thread.setdefault(item.type, []).append(bytes(item))
    for nth in range(4):
        assert by_thread[5000 + nth] == [b"%d %d" % (nth, n) for n in range(1000)]


def test_a_read_lock_on_a_ring_is_busy_and_says_so(ring: str) -> None:
    perfring.Producer.create(ring).close()
    # In another process: this one's would end with the first descriptor of the file that it closes.
    reader = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'rb') as ring:\n"
        "    fcntl.lockf(ring, fcntl.LOCK_SH)\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", reader, ring]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        with pytest.raises(perfring.Busy, match="has a read lock on it"):
            perfring.Producer(ring)
    perfring.Producer(ring).close()


def test_a_closed_producer_says_so_and_frees_its_place(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    with pytest.raises(perfring.Busy, match="has a producer already"):
        perfring.Producer(ring)
    producer.close()
    producer.close()
    assert producer.closed
    for use in (
        lambda: producer.publish(b""),
        lambda: producer.publish(b"", timeout=1),
        lambda: producer.reserve(1),
        lambda: producer.publish_array(b"1"),
        lambda: producer.totals,
        producer.__enter__,
    ):
        with pytest.raises(perfring.Closed, match="was closed"):
            use()
    with perfring.Producer(ring) as again:
        assert again.publish(b"again")


def test_the_options_are_the_rings(ring: str, tmp_path: Path) -> None:
    producer = perfring.Producer.create(
        ring,
        size="2M",
        policy="overwrite",
        shared=True,
        slots=3,
        time=True,
        evict="half",
        mode=0o640,
        types_size=4096,
        name="me",
    )
    stat = perfring.stat(ring)
    expected = {
        "data_size": 2 << 20,
        "policy": "overwrite",
        "producers": "many",
        "slot_count": 3,
        "time": True,
        "evict": "half",
        "max_len": producer.max_len,
    }
    assert expected.items() <= stat.items()
    assert stat["slots"][0]["name"] == "me"
    assert Path(ring).stat().st_mode & 0o777 == 0o640
    assert producer.timed
    assert producer.path == ring
    assert repr(producer) == f"<perfring.Producer {ring} (overwrite, many)>"
    with perfring.Producer.create(f"shm:perfring-test-{tmp_path.name}") as segment:
        assert segment.path.startswith("shm:")
    (Path("/dev/shm") / f"perfring-test-{tmp_path.name}").unlink()


@pytest.mark.parametrize("shared", [False, True])
def test_a_ring_is_opened_or_made(ring: str, shared: bool) -> None:
    with perfring.Producer.open_or_create(ring, size="64K", shared=shared) as producer:
        assert producer.publish(b"one")
        if not shared:
            with pytest.raises(perfring.Busy):
                perfring.Producer.open_or_create(ring, size="64K")
    with perfring.Producer.open_or_create(ring, size="64K", shared=shared, mode=0o640) as producer:
        assert producer.publish(b"two")
    assert payloads(ring) == [b"one", b"two"]
    with pytest.raises(FileExistsError, match="size 65536, where size 131072"):
        perfring.Producer.open_or_create(ring, size="128K", shared=shared)
    with pytest.raises(perfring.BadRing, match="producer"):
        perfring.Producer.open_or_create(ring, size="64K", shared=not shared)


@pytest.mark.parametrize("shared", [False, True])
def test_a_producer_finds_out_that_its_ring_was_removed_or_replaced(
    tmp_path: Path, shared: bool
) -> None:
    ring = tmp_path / "ring"
    with perfring.Producer.create(ring, shared=shared) as producer:
        assert not producer.removed
        ring.rename(tmp_path / "moved")
        assert not producer.removed  # readers find it under its new name
        with perfring.Producer.create(ring) as other:
            assert producer.removed  # replaced
            assert not other.removed
        ring.unlink()
        (tmp_path / "moved").rename(ring)
        assert not producer.removed
        ring.unlink()
        assert producer.removed
        assert producer.publish(b"nobody can open this file")
    with pytest.raises(perfring.Closed):
        _ = producer.removed


def test_an_open_reservation_is_in_the_way_of_asking_whether_the_ring_was_removed(
    ring: str,
) -> None:
    with perfring.Producer.create(ring) as producer:
        with producer.reserve(8), pytest.raises(perfring.Busy):
            _ = producer.removed
        assert not producer.removed
