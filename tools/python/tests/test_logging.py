"""The logging handler: what it writes, and that it outlives its process."""

import json
import logging
import logging.config
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any

import perfring
import pytest
from conftest import WATCHDOG
from perfring.logging import RingHandler

Row = dict[str, Any]
Dump = Callable[[Path], list[Row]]
Shop = tuple[logging.Logger, RingHandler]


@pytest.fixture
def dump(command: str) -> Dump:
    def dump(ring: Path) -> list[Row]:
        args = [command, "dump", "--format", "json", str(ring)]
        out = subprocess.run(args, check=True, capture_output=True, text=True)
        return [json.loads(line) for line in out.stdout.splitlines()]

    return dump


def logs(rows: list[Row]) -> list[Row]:
    """The fields of log records, without the resources."""
    return [row["fields"] for row in rows if row.get("type_name") == "python.Log"]


def resources(rows: list[Row]) -> list[Row]:
    return [row["fields"] for row in rows if row.get("type_name") == "perfring.Resource"]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    return tmp_path / "ring"


@pytest.fixture
def shop(ring: Path) -> Iterator[Shop]:
    """A logger that nobody else has, and its handler."""
    handler = RingHandler(ring, resource={"service.name": "shop"})
    log = logging.Logger("shop.orders")
    log.addHandler(handler)
    yield log, handler
    handler.close()


def python(script: str, *args: object, **more: Any) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.run(run, capture_output=True, text=True, timeout=WATCHDOG, **more)


SERVICE = """
    import logging, sys, time
    from perfring.logging import RingHandler

    handler = RingHandler(sys.argv[1], resource={"service.name": "shop"})
    logging.basicConfig(level="DEBUG", handlers=[handler])
    log = logging.getLogger("shop.orders")
    log.info("order %d taken", 17, extra={"customer": "c-4", "items": 3})
    try:
        {}["stock"]
    except KeyError:
        log.exception("out of stock")
    print("said", flush=True)
    time.sleep(600)
"""


def test_last_words_survive_a_kill(ring: Path, dump: Dump) -> None:
    run = [sys.executable, "-c", textwrap.dedent(SERVICE), str(ring)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "said\n"
        service.kill()
    assert service.returncode == -signal.SIGKILL

    rows = dump(ring)
    (resource,) = resources(rows)
    assert resource["service.name"] == "shop"
    assert resource["telemetry.sdk.language"] == "python"
    first, last = logs(rows)
    assert first["body"] == "order 17 taken"
    assert (first["severity_number"], first["severity_text"]) == (9, "INFO")
    assert first["otel.scope.name"] == "shop.orders"
    assert (first["customer"], first["items"]) == ("c-4", 3)
    assert first["process.pid"] == resource["process.pid"] == service.pid
    assert last["body"] == "out of stock"
    assert (last["exception.type"], last["exception.message"]) == ("KeyError", "'stock'")
    assert last["exception.stacktrace"].endswith("KeyError: 'stock'")
    print(f"{len(rows)} records read after SIGKILL")


def test_a_restart_goes_on_in_the_same_ring(ring: Path, dump: Dump) -> None:
    script = """
        import logging, sys
        from perfring.logging import RingHandler
        logging.basicConfig(handlers=[RingHandler(sys.argv[1])])
        logging.warning("run %s", sys.argv[2])
    """
    for run in (1, 2):
        done = python(script, ring, run)
        assert (done.returncode, done.stderr) == (0, "")
    rows = logs(dump(ring))
    assert [row["body"] for row in rows] == ["run 1", "run 2"]
    assert len({row["process.pid"] for row in rows}) == 2


def test_every_part_of_a_record_has_its_place(shop: Shop, ring: Path, dump: Dump) -> None:
    log, handler = shop
    more = {
        "text": "é",
        "small": -3,
        "large": 2**100,
        "larger": 2**200,
        "half": 0.5,
        "yes": True,
        "none": None,
        "bytes": b"\x01\xff",
        "list": [1, "a"],
        "body": "an attribute",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "no id",
    }
    log.warning("part %s", 1, extra=more, stack_info=True)
    (row,) = logs(dump(ring))
    values = (row["text"], row["small"], row["half"], row["yes"], row["none"])
    assert values == ("é", -3, 0.5, True, None)
    assert (int(row["large"]), row["larger"]) == (2**100, str(2**200))
    assert row["list"] == "[1, 'a']"
    assert row["attributes.body"] == "an attribute"
    assert row["trace_id"] == more["trace_id"]
    assert row["attributes.span_id"] == "no id"
    assert row["code.file.path"] == __file__
    assert row["code.function.name"] == "test_every_part_of_a_record_has_its_place"
    assert row["code.line.number"] > 100
    assert row["thread.name"] == threading.current_thread().name
    assert row["thread.id"] == threading.get_ident()
    assert row["code.stacktrace"].startswith("Stack (most recent call last):")
    assert handler.dropped == 0


@pytest.mark.parametrize(
    ("level", "number"),
    [(5, 1), (10, 5), (20, 9), (25, 12), (30, 13), (31, 14), (40, 17), (50, 21), (99, 24)],
)
def test_levels_are_opentelemetrys(
    shop: Shop,
    ring: Path,
    dump: Dump,
    level: int,
    number: int,
) -> None:
    shop[0].log(level, "at %d", level)
    (row,) = logs(dump(ring))
    assert row["severity_number"] == number
    assert row["severity_text"] == logging.getLevelName(level)


def test_a_span_of_opentelemetrys_instrumentation_is_the_records(
    shop: Shop, ring: Path, dump: Dump
) -> None:
    log, _ = shop
    ids = {"otelTraceID": "0af7651916cd43dd8448eb211c80319c", "otelSpanID": "b7ad6b7169203331"}
    log.info("inside", extra=ids)
    log.info("outside", extra={"otelTraceID": "0", "otelSpanID": "0"})
    inside, outside = logs(dump(ring))
    assert (inside["trace_id"], inside["span_id"]) == tuple(ids.values())
    assert not {"trace_id", "span_id", "otelTraceID", "otelSpanID"} & outside.keys()


def test_what_is_too_long_is_cut_and_the_innermost_frames_stay(
    shop: Shop, ring: Path, dump: Dump
) -> None:
    log, handler = shop
    log.info("x" * 100_000)

    def deep(left: int) -> None:
        # Two functions in turn: frames that are alike would be folded.
        exec("fn(left - 1) if left else 1 // 0", {"fn": deep, "left": left})

    try:
        deep(300)
    except ZeroDivisionError:
        log.exception("deep", extra={"user": "u-1"})
    long, last = logs(dump(ring))
    assert long["body"].endswith("x…")
    assert last["user"] == "u-1"
    first, _, end = last["exception.stacktrace"].partition("…")
    assert first.startswith("Traceback")
    assert end.endswith("ZeroDivisionError: integer division or modulo by zero")
    assert handler.dropped == 0


def test_a_formatter_makes_the_body(shop: Shop, ring: Path, dump: Dump) -> None:
    log, handler = shop
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
    log.info("shaped")
    assert [row["body"] for row in logs(dump(ring))] == ["[INFO] shaped"]


def test_text_that_is_no_unicode_is_kept_as_far_as_it_goes(
    shop: Shop, ring: Path, dump: Dump
) -> None:
    log, handler = shop
    log.info("a\udc80b", extra={"file": "\udcff"})
    (row,) = logs(dump(ring))
    assert row["body"].startswith("a")
    assert row["body"].endswith("b")
    assert handler.dropped == 0


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words for it")


def test_a_bad_record_is_reported_and_never_raised(
    shop: Shop,
    ring: Path,
    dump: Dump,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, handler = shop
    log.info("%d of %d", "no number")
    log.info("odd", extra={"what": Unspeakable()})
    errors = capsys.readouterr().err
    assert errors.count("--- Logging error ---") == 2
    assert "no words for it" in errors
    assert handler.dropped == 2
    log.info("goes on")
    assert [row["body"] for row in logs(dump(ring))] == ["goes on"]


def test_an_exception_without_words_has_its_type(shop: Shop, ring: Path, dump: Dump) -> None:
    class MuteError(Exception):
        __str__ = Unspeakable.__str__

    log, handler = shop
    try:
        raise MuteError
    except MuteError:
        log.exception("it said nothing")
    (row,) = logs(dump(ring))
    assert row["exception.type"].endswith("MuteError")
    assert row["exception.message"] == "<its str() failed>"
    assert handler.dropped == 0


def test_what_a_full_ring_refuses_is_counted(ring: Path, dump: Dump) -> None:
    handler = RingHandler(ring, size="4K", policy="drop")
    log = logging.Logger("full")
    log.addHandler(handler)
    for n in range(100):
        log.info("record %d", n)
    kept = [row["body"] for row in logs(dump(ring))]
    assert kept == [f"record {n}" for n in range(len(kept))]
    assert 0 < len(kept) < 100
    assert handler.dropped == 100 - len(kept)
    print(f"{len(kept)} kept, {handler.dropped} dropped")


def test_a_closed_handler_counts_what_comes_too_late(shop: Shop, ring: Path, dump: Dump) -> None:
    log, handler = shop
    log.info("in time")
    handler.close()
    log.info("too late")
    handler.close()
    assert handler.dropped == 1
    assert [row["body"] for row in logs(dump(ring))] == ["in time"]


def test_it_is_set_up_by_dict_config(ring: Path, dump: Dump) -> None:
    ringed = {
        "class": "perfring.logging.RingHandler",
        "path": str(ring),
        "size": "64K",
        "level": "WARNING",
        "resource": {"service.name": "configured"},
    }
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"ring": ringed},
        "loggers": {"perfring.test": {"handlers": ["ring"], "level": "DEBUG"}},
    }
    logging.config.dictConfig(config)
    log = logging.getLogger("perfring.test")
    try:
        log.info("below")
        log.error("above")
        rows = dump(ring)
        assert [row["body"] for row in logs(rows)] == ["above"]
        assert resources(rows)[0]["service.name"] == "configured"
    finally:
        for handler in log.handlers[:]:
            log.removeHandler(handler)
            handler.close()


def test_the_resource_has_defaults(ring: Path, tmp_path: Path, dump: Dump) -> None:
    script = tmp_path / "orders.py"
    script.write_text(f"from perfring.logging import RingHandler\nRingHandler({str(ring)!r})\n")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    for more in ({}, {"OTEL_SERVICE_NAME": "by-env"}):
        subprocess.run([sys.executable, script], check=True, env=bare | more)
    names = [resource["service.name"] for resource in resources(dump(ring))]
    assert names == ["orders.py", "by-env"]


def test_a_ring_of_another_shape_stays_with_a_warning(ring: Path) -> None:
    first = RingHandler(ring, size="64K")
    with pytest.warns(RuntimeWarning, match=r"65536 bytes and policy 'overwrite', and keeps them"):
        second = RingHandler(ring, size="1M")
    for handler in (first, second):
        handler.close()


def test_what_is_no_ring_is_refused(ring: Path) -> None:
    ring.write_text("a log file of before")
    with pytest.raises(perfring.BadRing):
        RingHandler(ring)
    assert ring.read_text() == "a log file of before"
    with pytest.raises(FileNotFoundError):
        RingHandler(ring.parent / "missing" / "ring")
    for size in ("1XB", "", "-1", 1000):
        with pytest.raises(ValueError, match=r"size|power of two"):
            RingHandler(ring.parent / "sized", size=size)
    with pytest.raises(ValueError, match="overwrite"):
        RingHandler(ring.parent / "kept", policy="keep")  # type: ignore[arg-type]


def test_more_threads_than_slots_lose_nothing(shop: Shop, ring: Path, dump: Dump) -> None:
    log, handler = shop
    together = threading.Barrier(100)

    def say(n: int) -> None:
        together.wait()
        log.info("thread %d", n)
        together.wait()

    threads = [threading.Thread(target=say, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handler.dropped == 0
    bodies = {row["body"] for row in logs(dump(ring))}
    assert bodies == {f"thread {n}" for n in range(100)}


FORKS = """
    import logging, os, sys, threading
    from perfring.logging import RingHandler

    handler = RingHandler(sys.argv[1], size="16M")
    log = logging.Logger("forks")
    log.addHandler(handler)

    # A record is dropped, and counted, if another process is off its core with the ring's lock.
    def say(text):
        before = None
        while handler.dropped != before:
            before = handler.dropped
            log.info(text)

    say("before")
    stop = threading.Event()
    said = [0, 0]

    def chatter(me):
        # The ring has room for so many: none pushes out another.
        while said[me] < 15_000 and not stop.is_set():
            log.debug("chatter")
            said[me] += 1

    threads = [threading.Thread(target=chatter, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for n in range(20):
        pid = os.fork()
        if pid == 0:
            say(f"child {n}")
            grand = os.fork()
            if grand == 0:
                say(f"grandchild {n}")
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grand, 0)[1]))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for thread in threads:
        thread.join()
    chatter = sum(said) - handler.dropped
    say("after")
    print(chatter)
"""


def test_forked_children_go_on_as_themselves(ring: Path, dump: Dump) -> None:
    done = python(FORKS, ring)
    assert done.returncode == 0, done.stderr
    rows = dump(ring)
    said = {row["body"]: row["process.pid"] for row in logs(rows)}
    chatter = [row["process.pid"] for row in logs(rows) if row["body"] == "chatter"]
    assert len(chatter) == int(done.stdout) > 0
    assert set(chatter) == {said.pop("chatter")} == {said["before"]}
    family = {f"{who} {n}" for who in ("child", "grandchild") for n in range(20)}
    assert said.keys() == family | {"before", "after"}
    assert said["before"] == said["after"]
    children = {said[who] for who in family}
    assert said["before"] not in children
    assert children <= {row["process.pid"] for row in resources(rows)}
    print(f"{len(children)} forked children beside {len(chatter)} records of their parent")


def test_a_child_that_finds_no_slot_counts_and_tells_once(ring: Path) -> None:
    script = """
        import logging, os, sys
        from perfring import Busy
        from perfring.logging import RingHandler

        handlers = [RingHandler(sys.argv[1]) for _ in range(64)]
        try:
            RingHandler(sys.argv[1])
        except Busy as error:
            print(error)
        log = logging.Logger("crowd")
        log.addHandler(handlers[0])
        log.info("parent")
        if (pid := os.fork()) == 0:
            for n in range(3):
                log.info("child %d", n)
            os._exit(handlers[0].dropped)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        handlers.pop().close()
        if (pid := os.fork()) == 0:
            log.info("room")
            os._exit(handlers[0].dropped)
        sys.exit(code + 10 * os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    done = python(script, ring)
    assert done.returncode == 3, done.stderr
    assert "64" in done.stdout
    assert done.stderr.count("--- Logging error ---") == 1


def test_a_pid_in_the_path_gives_each_process_a_ring(tmp_path: Path, dump: Dump) -> None:
    script = """
        import logging, os, sys
        from perfring.logging import RingHandler

        logging.basicConfig(level="INFO", handlers=[RingHandler(sys.argv[1] + "/web.{pid}")])
        logging.info("parent")
        if (pid := os.fork()) == 0:
            logging.info("child")
            os._exit(0)
        os.waitpid(pid, 0)
        print(os.getpid(), pid)
    """
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr
    pids = done.stdout.split()
    said = [[row["body"] for row in logs(dump(tmp_path / f"web.{pid}"))] for pid in pids]
    assert said == [["parent"], ["child"]]
    assert len(os.listdir(tmp_path)) == 2


def test_a_record_from_a_queue_says_when_it_was_made(shop: Shop, ring: Path, dump: Dump) -> None:
    _, handler = shop
    records: queue.Queue[Any] = queue.Queue()
    log = logging.Logger("queued")
    log.addHandler(QueueHandler(records))
    log.error("queued")
    # No pause makes this one late.
    record = logging.makeLogRecord({"msg": "now", "levelno": 40, "created": time.time() + 3600})
    records.put(record)
    record = logging.makeLogRecord({"msg": "long ago", "levelno": 20, "created": 1_000_000.25})
    records.put(record)
    listener = QueueListener(records, handler)
    listener.start()
    listener.stop()
    queued, now, ago = logs(dump(ring))
    assert queued["body"] == "queued"
    assert "log.created_unix_nano" not in now
    assert (ago["body"], ago["log.created_unix_nano"]) == ("long ago", 1_000_000_250_000_000)


def test_a_ring_for_one_producer_is_refused(ring: Path) -> None:
    perfring.Producer.create(ring).close()
    with pytest.raises(perfring.BadRing, match="one producer"):
        RingHandler(ring)


def test_a_snapshot_has_the_last_words(shop: Shop, ring: Path) -> None:
    log, _ = shop
    log.critical("the end", extra={"left": 0})
    *_, last = perfring.Snapshot(ring)
    assert isinstance(last, perfring.Record)
    assert last.type_name == "python.Log"
    assert b"the end" in bytes(last)


def test_what_a_subclass_or_a_test_overrides_is_called(ring: Path) -> None:
    called: list[str] = []

    class Own(RingHandler):
        def filter(self, record: logging.LogRecord) -> Any:
            called.append("filter")
            return super().filter(record)

        def emit(self, record: logging.LogRecord) -> None:
            called.append("emit")
            super().emit(record)

        def format(self, record: logging.LogRecord) -> str:
            return f"<{record.getMessage()}>"

    class Shout(logging.LogRecord):
        def getMessage(self) -> str:  # noqa: N802
            return super().getMessage().upper()

    own, plain = Own(ring), RingHandler(ring)
    assert "handle" not in vars(own)
    assert "handle" in vars(plain)  # native code
    log = logging.Logger("shop")
    log.handlers = [own]
    log.info("own %d", 1)
    assert called == ["filter", "emit"]
    log.handlers = [plain]
    log.info("plain")
    plain.addFilter(lambda record: "secret" not in record.getMessage())
    log.info("secret")
    log.info("let through")
    plain.setFormatter(logging.Formatter("formatted %(message)s"))
    log.info("body")
    plain.setFormatter(None)
    plain.filters = []
    log.handle(Shout("shop", 20, "path", 1, "loud %s", ("one",), None))
    plain.handle = lambda record: False  # type: ignore[method-assign]
    log.info("never")
    del plain.handle
    plain.emit = lambda record: called.append("patched")  # type: ignore[method-assign]
    log.info("never")
    assert called == ["filter", "emit", "patched"]
    bodies = [
        item.value["body"]
        for item in perfring.Snapshot(ring)
        if isinstance(item, perfring.Record) and item.type_name == "python.Log"
    ]
    assert bodies == ["<own 1>", "plain", "let through", "formatted body", "LOUD ONE"]


def test_a_handler_that_is_forgotten_frees_its_slot(ring: Path) -> None:
    """The native `handle` holds the handler only weakly."""
    for _ in range(100):  # of 64 slots
        log = logging.Logger("shop")
        log.addHandler(RingHandler(ring))
        log.info("one")


def test_attributes_that_formatters_add_are_no_fields(shop: Shop, ring: Path) -> None:
    log, _ = shop
    text = logging.StreamHandler(open(os.devnull, "w"))  # noqa: SIM115
    text.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.handlers.insert(0, text)
    log.info("one", extra={"left": 1})
    *_, last = perfring.Snapshot(ring)
    assert isinstance(last, perfring.Record)
    assert last.value["left"] == 1
    assert not {"message", "asctime", "msecs", "process", "module"} & last.value.keys()
    text.stream.close()
