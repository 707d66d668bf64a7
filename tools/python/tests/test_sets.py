"""Ring sets and the merge: order, loss, damage, death, and what is given twice."""

import asyncio
import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import perfring
import pytest
from conftest import WATCHDOG
from perfring import (
    Lost,
    Merge,
    Merged,
    Observer,
    Record,
    RingFailed,
    RingGone,
    RingSet,
    Snapshot,
)


@pytest.fixture
def rings(tmp_path: Path) -> RingSet:
    return RingSet(tmp_path / "rings")


def until(merge: Merge, enough: Callable[[list[Merged]], bool]) -> list[Merged]:
    """What comes, until it is enough."""
    seen: list[Merged] = []
    end = time.monotonic() + WATCHDOG
    while not enough(seen):
        assert time.monotonic() < end, seen
        seen += merge.drain(timeout=0.1)
    return seen


def records(seen: list[Merged]) -> list[tuple[str, bytes]]:
    return [(one.ring, bytes(one.item)) for one in seen if isinstance(one.item, Record)]


def some(count: int) -> Callable[[list[Merged]], bool]:
    return lambda seen: len(records(seen)) >= count


def test_records_of_many_rings_come_in_the_order_of_time(rings: RingSet) -> None:
    producers = [rings.producer(f"p{n}") for n in range(4)]
    for n in range(1000):
        assert producers[n * 7 % 4].publish(n.to_bytes(4, "little"))
    with rings.merge(delay=0.02) as merge:
        seen = until(merge, some(1000))
        assert merge.rings == ["p0", "p1", "p2", "p3"]
    expected = [(f"p{n * 7 % 4}", n.to_bytes(4, "little")) for n in range(1000)]
    assert records(seen) == expected
    assert [one.late for one in seen] == [0] * 1000
    times = [one.time for one in seen]
    assert times == sorted(times)
    assert all(isinstance(one.item, Record) and one.time == one.item.time for one in seen)


def test_rings_per_cpu_are_read_like_any_others(command: str, tmp_path: Path) -> None:
    rings = str(tmp_path / "rings")
    subprocess.run([command, "create", rings, "--producers", "cpu", "--time"], check=True)
    for text in (b"one\ntwo\n", b"three\n"):
        subprocess.run([command, "publish", rings], check=True, input=text)
    with Merge(rings, 0.02) as merge:
        seen = until(merge, some(3))
    assert [bytes(one.item) for one in seen if isinstance(one.item, Record)] == [
        b"one",
        b"two",
        b"three",
    ]
    assert all(one.ring.startswith("rings/cpu") for one in seen)


def writers(items: Iterable[object]) -> list[tuple[int | None, int | None]]:
    return [(item.pid, item.tid) for item in items if isinstance(item, Record)]


def test_records_say_who_wrote_them(command: str, tmp_path: Path) -> None:
    rings = str(tmp_path / "rings")
    options = ["--producers", "cpu", "--time", "--sample-id"]
    subprocess.run([command, "create", rings, *options], check=True)
    with subprocess.Popen([command, "publish", rings], stdin=subprocess.PIPE) as publisher:
        publisher.communicate(b"one\ntwo\n")
        who = (publisher.pid, publisher.pid)
    found = 0
    for ring in Path(rings).iterdir():
        with Observer(ring) as observer:
            for item in observer.items(timeout=0):
                assert isinstance(item, Record)
                assert (item.pid, item.tid) == who
        with Observer(ring) as observer:
            batch = observer.drain()
            assert batch.sample_id
            assert writers(batch) == [who] * len(batch)
            found += len(batch)
        snapshot = Snapshot(ring)
        drained = snapshot.drain()
        assert writers(drained) == [who] * len(drained)
        assert perfring.stat(ring)["sample_id"] is True
    assert found == 2
    with Merge(rings, 0.02) as merge:
        seen = until(merge, some(2))
    assert writers(one.item for one in seen) == [who, who]


def test_rings_that_come_later_are_read_too(rings: RingSet) -> None:
    with rings.merge(delay=0.01) as merge:
        assert merge.read() is None
        assert merge.rings == []
        for name in ("one", "two"):
            with rings.producer(name) as producer:
                producer.publish(name.encode())
            assert records(until(merge, some(1))) == [(name, name.encode())]
        assert merge.rings == ["one", "two"]


def test_a_directory_that_comes_later_is_followed(tmp_path: Path) -> None:
    with Merge(tmp_path / "later", 0.01) as merge:
        assert merge.drain() == []
        rings = RingSet(tmp_path / "later")
        with rings.producer("one") as producer:
            producer.publish(b"hello")
        assert records(until(merge, some(1))) == [("one", b"hello")]


def test_a_ring_without_a_file_is_read_to_its_end_and_reported(rings: RingSet) -> None:
    producer = rings.producer("short")
    producer.publish(b"before")
    with rings.merge(delay=0.01) as merge:
        assert records(until(merge, some(1))) == [("short", b"before")]
        (ring,) = rings.rings()
        ring.path.unlink()
        producer.publish(b"after")
        seen = until(merge, some(1))
        assert merge.drain(timeout=0.2) == [], "it has a producer, who may go on"
        producer.publish(b"still")
        seen += until(merge, some(1))
        producer.close()
        seen += until(merge, lambda seen: any(isinstance(one.item, RingGone) for one in seen))
        *_, last = seen
        assert records(seen) == [("short", b"after"), ("short", b"still")]
        assert isinstance(last.item, RingGone)
        assert (last.ring, last.item.path, last.item.uuid) == ("short", str(ring.path), ring.uuid)
        assert merge.drain(timeout=0.05) == []
        assert merge.rings == []


def test_another_ring_of_the_same_name_is_read_after_the_first(rings: RingSet) -> None:
    with rings.producer("name") as producer:
        producer.publish(b"old")
    with rings.merge(delay=0.01) as merge:
        until(merge, some(1))
        (ring,) = rings.rings()
        ring.path.unlink()
        with rings.producer("name") as producer:
            producer.publish(b"new")
        seen = until(merge, lambda seen: len(seen) >= 2)
        assert records(seen) == [("name", b"new")]
        assert [one.ring for one in seen if isinstance(one.item, RingGone)] == ["name"]


def test_what_was_read_is_released_by_the_next_read(rings: RingSet) -> None:
    producer = rings.producer("one")
    for n in range(3):
        producer.publish(bytes([n]))
    path = producer.path

    def unread() -> int:
        present = perfring.stat(path)["present_records"]
        assert isinstance(present, int)
        return present

    merge = rings.merge(delay=0.01)
    first = until(merge, some(1))
    while len(first) < 3:
        first += merge.drain(timeout=1)
    left = unread()
    assert left > 0, "the last read is not released"
    assert merge.read() is None
    assert unread() == 0
    merge.close()


def test_a_clean_end_releases_and_an_exception_does_not(rings: RingSet) -> None:
    producer = rings.producer("one")
    producer.publish(b"a")

    def fail() -> None:
        with rings.merge(delay=0.01) as merge:
            assert records(until(merge, some(1))) == [("one", b"a")]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with rings.merge(delay=0.01) as merge:
        assert records(until(merge, some(1))) == [("one", b"a")], "again"
    producer.publish(b"b")
    with rings.merge(delay=0.01) as merge:
        assert records(until(merge, some(1))) == [("one", b"b")], "and not again"


def test_what_a_killed_reader_had_last_comes_again(rings: RingSet) -> None:
    producer = rings.producer("one")
    for n in range(10):
        producer.publish(bytes([n]))
    script = """
        import sys
        from perfring import Merge

        for merged in Merge(sys.argv[1], 0.01):
            print(bytes(merged.item)[0], flush=True)
            if bytes(merged.item)[0] == 4:
                sys.stdin.read()
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(rings.dir)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(run, text=True, **pipes) as reader:  # type: ignore[call-overload]
        lines = [reader.stdout.readline() for _ in range(5)]
        reader.kill()
    assert lines == [f"{n}\n" for n in range(5)]
    with rings.merge(delay=0.01) as merge:
        seen = [bytes(one)[0] for _, one in records(until(merge, some(6)))]
    assert seen == [4, 5, 6, 7, 8, 9]


def test_an_observer_leaves_everything_where_it_is(rings: RingSet) -> None:
    producer = rings.producer("one")
    producer.publish(b"a")
    with rings.merge(delay=0.01, observe=True) as merge:
        assert records(until(merge, some(1))) == [("one", b"a")]
        assert merge.read() is None
        assert "observes" in repr(merge)
    with rings.merge(delay=0.01, observe=True, start="latest") as merge:
        while merge.rings != ["one"]:
            assert merge.drain(timeout=0.01) == []
        producer.publish(b"b")
        assert records(until(merge, some(1))) == [("one", b"b")]
    with perfring.Consumer(producer.path) as consumer:
        left = [bytes(item) for item in consumer.items(0) if isinstance(item, Record)]
    assert left == [b"a", b"b"]
    with pytest.raises(ValueError, match="observe"):
        rings.merge(start="latest")


def test_losses_are_reported_with_their_ring_and_counted_exactly(rings: RingSet) -> None:
    full = rings.producer("full", size="4K")
    lapped = rings.producer("lapped", size="4K", policy="overwrite")
    published = refused = 0
    for _ in range(1000):
        if full.publish(b"x" * 32):
            published += 1
        else:
            refused += 1
        lapped.publish(b"y" * 32)
    assert refused > 0
    with rings.merge(delay=0.01) as merge:
        seen = until(
            merge, lambda seen: sum(name == "full" for name, _ in records(seen)) >= published
        )
        while not full.publish(b"and on"):  # what is read last is not released yet
            refused += 1
            seen += merge.drain()
        seen += until(merge, lambda seen: ("full", b"and on") in records(seen))

    def lost(ring: str) -> int:
        items = [one.item for one in seen if one.ring == ring]
        return sum(item.records for item in items if isinstance(item, Lost))

    def read(ring: str) -> int:
        return sum(1 for name, _ in records(seen) if name == ring)

    assert (read("full"), lost("full")) == (published + 1, refused)
    assert read("lapped") + lost("lapped") == 1000
    assert lost("lapped") > 0
    print(f"{lost('full')} refused, {lost('lapped')} overwritten, all reported")


def test_a_file_that_is_not_a_ring_is_reported_and_the_others_are_read(rings: RingSet) -> None:
    (rings.dir / "readme").write_text("rings of the shop")
    with rings.producer("good") as producer:
        producer.publish(b"hello")
    assert [path.name for path, _ in rings.others()] == ["readme"]
    with rings.merge(delay=0.01) as merge:
        seen = until(merge, lambda seen: len(seen) >= 2)
        assert merge.drain(timeout=0.05) == [], "reported once"
    assert records(seen) == [("good", b"hello")]
    (failed,) = (one for one in seen if isinstance(one.item, RingFailed))
    assert isinstance(failed.item, RingFailed)
    assert failed.ring == "readme"
    assert failed.item.path == str(rings.dir / "readme")
    assert failed.item.why
    assert not failed.item.retried


def test_a_damaged_ring_is_reported_and_set_aside(rings: RingSet) -> None:
    bad, good = rings.producer("bad"), rings.producer("good")
    bad.publish(b"x" * 100)
    with open(bad.path, "r+b") as file:
        file.seek(file.read().index(b"x" * 100) - 16)
        file.write(b"\xff" * 16)  # header and stamp
    good.publish(b"after")
    with rings.merge(delay=0.01) as merge:
        seen = until(merge, lambda seen: len(seen) >= 2)
        assert merge.rings == ["good"]
        os.rename(bad.path, rings.dir / "bad.seen")
        assert merge.drain(timeout=0.2) == [], "it is the same ring, reported once"
    assert records(seen) == [("good", b"after")]
    (failed,) = (one.item for one in seen if isinstance(one.item, RingFailed))
    assert "set aside" in failed.why


def test_a_ring_that_another_consumes_is_reported_and_read_later(rings: RingSet) -> None:
    producer = rings.producer("one")
    producer.publish(b"hello")
    other = perfring.Consumer(producer.path, name="the other one")
    with rings.merge(delay=0.01) as merge:
        (failed,) = until(merge, lambda seen: len(seen) >= 1)
        assert isinstance(failed.item, RingFailed)
        assert failed.item.retried
        assert "the other one" in failed.item.why
        assert repr(failed.item).count("tried again") == 1
        other.close()
        assert records(until(merge, some(1))) == [("one", b"hello")]


def test_a_dead_producers_ring_is_gone_on_with(rings: RingSet) -> None:
    script = """
        import os, sys
        from perfring import RingSet

        producer = RingSet(sys.argv[1]).producer("worker")
        producer.publish(b"from the first")
        os.kill(os.getpid(), 9)
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(rings.dir)]
    assert subprocess.run(run).returncode == -signal.SIGKILL
    with rings.producer("worker") as producer:
        producer.publish(b"from the second")
        with pytest.raises(perfring.Busy, match="worker"):
            rings.producer("worker")
    with rings.merge(delay=0.01) as merge:
        seen = records(until(merge, some(2)))
    assert seen == [("worker", b"from the first"), ("worker", b"from the second")]


def test_names_and_shapes(rings: RingSet) -> None:
    own = [rings.producer() for _ in range(3)]
    names = {ring.name for ring in rings.rings()}
    assert len(names) == 3
    assert all(str(os.getpid()) in name for name in names)
    for producer in own:
        producer.close()
    rings.producer("shaped", size="64K").close()
    rings.producer("shaped", size="128K").close()
    sizes = {ring.name: ring.size for ring in rings.rings() if ring.name not in names}
    assert sizes == {"shaped": 1 << 16, "shaped.2": 1 << 17}
    for name in ("", ".hidden", "a/b", "x" * 201):
        with pytest.raises(ValueError, match="cannot name a ring"):
            rings.producer(name)
    one, two = rings.producer("all", shared=True), rings.producer("all", shared=True)
    assert one.publish(b"1")
    assert two.publish(b"2")
    (ring,) = (ring for ring in rings.rings() if ring.name == "all")
    assert ring.shared
    assert ring.timed
    assert ring.uuid == perfring.stat(ring.path)["uuid"]


def test_whose_directory_it_may_be(tmp_path: Path) -> None:
    rings = tmp_path / "open"
    rings.mkdir(mode=0o777)
    rings.chmod(0o777)
    with pytest.raises(PermissionError, match="others may write") as raised:
        RingSet(rings)
    assert 'say that it is shared (access="shared")' in str(raised.value)
    assert (raised.value.errno, raised.value.filename) == (1, str(rings))
    assert RingSet(rings, access="shared").dir == rings
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        RingSet(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        RingSet(tmp_path / "a" / "b")
    with pytest.raises(ValueError, match="shared"):
        RingSet(rings, access="nobody")  # type: ignore[arg-type]


def test_a_set_goes_to_another_process(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    rings.chmod(0o777)
    for again in (
        pickle.loads(pickle.dumps(RingSet(rings, access="shared"))),
        copy.deepcopy(RingSet(rings, access="shared")),
    ):
        assert type(again) is RingSet
        assert again.dir == rings
    # The directory is made anew as the first one was.
    packed = pickle.dumps(RingSet(tmp_path / "other", mode=0o750))
    (tmp_path / "other").rmdir()
    assert pickle.loads(packed).dir.stat().st_mode & 0o777 == 0o750


def test_the_default_directory_is_that_of_rust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert RingSet().dir == tmp_path / "perfring" == RingSet.default_dir()
    assert (tmp_path / "perfring").stat().st_mode & 0o777 == 0o700


def test_pruning_removes_what_nobody_needs(rings: RingSet) -> None:
    rings.producer("quiet").close()
    with rings.producer("lossy") as producer:
        producer.publish(b"something")
    busy = rings.producer("busy")
    plan = {ring.name: ring.removed for ring in rings.prune(0, plan=True)}
    assert plan == {"quiet": True, "lossy": False, "busy": False}
    assert len(rings.rings()) == 3
    done = {ring.name: ring for ring in rings.prune(0)}
    assert done["quiet"].removed
    assert "not read" in done["lossy"].why
    assert "producer" in done["busy"].why
    assert [ring.name for ring in rings.rings()] == ["busy", "lossy"]
    busy.close()


def test_a_wait_lets_others_run_and_ends_with_a_close(rings: RingSet) -> None:
    merge = rings.merge(delay=0.01)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            merge.read(None)
        except perfring.Closed as error:
            ended.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    with rings.producer("one", size="4K"):
        # The merge looks around without the interpreter's lock, or this would not come to be.
        while merge.rings != ["one"]:
            assert waiter.is_alive()
    merge.close()
    waiter.join(WATCHDOG)
    assert not waiter.is_alive()
    assert len(ended) == 1
    assert merge.closed
    merge.close()
    for use in (merge.read, merge.drain, lambda: merge.rings, merge.__enter__):
        with pytest.raises(perfring.Closed):
            use()


def test_a_wait_answers_ctrl_c(rings: RingSet) -> None:
    script = """
        import signal, sys
        from perfring import Merge

        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
        merge = Merge(sys.argv[1])
        try:
            print("waits", flush=True)
            merge.read(None)
        except KeyboardInterrupt:
            print("answered", flush=True)
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(rings.dir)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waits\n"
        waiter.send_signal(signal.SIGINT)
        try:
            assert waiter.communicate(timeout=WATCHDOG)[0] == "answered\n"
        finally:
            waiter.kill()


def test_a_forked_child_is_refused(rings: RingSet) -> None:
    script = """
        import os, sys
        from perfring import Forked, RingSet

        rings = RingSet(sys.argv[1])
        producer = rings.producer("one")
        producer.publish(b"hello")
        with rings.merge(0.01) as merge:
            if (pid := os.fork()) == 0:
                try:
                    merge.read()
                except Forked as error:
                    os._exit(7)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            print(bytes(merge.read(None).item))
        sys.exit(code)
    """
    run = [sys.executable, "-c", textwrap.dedent(script), str(rings.dir)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=WATCHDOG)
    assert (done.returncode, done.stdout) == (7, "b'hello'\n"), done.stderr


def test_typed_records_have_their_types_after_their_ring_has_gone(rings: RingSet) -> None:
    import logging

    from perfring.logging import RingHandler

    producer = rings.producer("log", shared=True, policy="overwrite")
    producer.publish(b"plain")
    with rings.merge(delay=0.01) as merge:
        seen = until(merge, some(1))
        # Types that the ring did not have when it was attached to.
        handler = RingHandler(producer.path)
        log = logging.Logger("shop")
        log.addHandler(handler)
        log.warning("first")
        seen += until(merge, some(2))
    handler.close()
    os.unlink(producer.path)
    names = [one.item.type_name for one in seen if isinstance(one.item, Record)]
    assert names[1:] == ["perfring.Resource", "python.Log"]
    walls = [one.item.wall for one in seen if isinstance(one.item, Record)]
    assert all(wall is not None and abs(wall - time.time_ns()) < 600e9 for wall in walls)


def test_patterns_and_words(rings: RingSet) -> None:
    with rings.producer("one") as producer:
        producer.publish(b"hello")
    with rings.merge(delay=0.01) as merge:
        merged: Any = merge.read(WATCHDOG)
        match merged:
            case Merged("one", Record() as record):
                assert bytes(record) == b"hello"
            case _:
                pytest.fail(repr(merged))
        assert repr(merged).startswith('<perfring.Merged ring="one", <perfring.Record ')
        assert repr(merge) == f"<perfring.Merge consumes {rings.dir}: 1 rings>"
        assert merge.figures["late"] == 0
    assert repr(rings) == f"<perfring.RingSet {rings.dir}>"
    with pytest.raises(ValueError, match="delay"):
        rings.merge(-1)
    with pytest.raises(ValueError, match="start"):
        rings.merge(start="newest")  # type: ignore[arg-type]


@pytest.fixture
def _no_descriptors_left_open() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("_no_descriptors_left_open")
def test_nothing_stays_open(rings: RingSet) -> None:
    for n in range(50):
        with rings.producer(f"p{n % 3}") as producer:
            producer.publish(b"hello")
        with rings.merge(delay=0) as merge:
            until(merge, some(1))


def test_async_for_over_a_merge(tmp_path: Path) -> None:
    async def main() -> list[tuple[str, bytes]]:
        rings = perfring.RingSet(tmp_path / "rings")
        one, two = rings.producer("one"), rings.producer("two")
        seen: list[tuple[str, bytes]] = []
        with rings.merge(delay=0.02) as merge:
            for _ in range(3):  # cancelled waits lose nothing
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.005):
                        await anext(aiter(merge))
            for n in range(50):
                (one, two)[n % 2].publish(b"%d" % n)
            async for merged in merge:
                assert isinstance(merged.item, perfring.Record)
                seen.append((merged.ring, bytes(merged.item)))
                if len(seen) == 50:
                    break
        return seen

    expected = [(("one", "two")[n % 2], b"%d" % n) for n in range(50)]
    assert asyncio.run(main()) == expected


def test_a_merge_lets_others_run_while_there_is_always_more(tmp_path: Path) -> None:
    async def main() -> int:
        rings = perfring.RingSet(tmp_path / "rings")
        producer = rings.producer("one", size="4M")
        while producer.publish(b"more"):
            pass
        turns = 0
        done = False

        async def others() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        with rings.merge(delay=0) as merge:
            assert merge.wait(WATCHDOG)  # all of it is ready
            task = asyncio.create_task(others())
            seen = 0
            async for _ in merge:
                seen += 1
                if seen == 50_000:
                    break
        done = True
        await task
        return turns

    assert asyncio.run(main()) > 2


def test_what_a_wait_found_is_not_released_before_it_is_given(tmp_path: Path) -> None:
    rings = perfring.RingSet(tmp_path / "rings")
    producer = rings.producer("one")
    producer.publish(b"first")
    producer.publish(b"second")
    merge = rings.merge(delay=0.02)
    path = rings.dir / "one"

    def left() -> int:
        return int(perfring.stat(path)["present_records"])

    assert merge.wait()
    assert merge.wait(0)  # again, and nothing is taken by it
    assert left() == 2
    assert bytes(merge.read().item) == b"first"  # type: ignore[union-attr, arg-type]
    assert left() == 2
    assert merge.wait()
    assert left() == 2
    assert bytes(merge.read().item) == b"second"  # type: ignore[union-attr, arg-type]
    merge.close()
    assert left() == 0
