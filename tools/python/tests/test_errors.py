import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perfring
import pytest

ATTACH: list[Callable[[str], object]] = [
    perfring.Producer,
    perfring.Consumer,
    perfring.Observer,
    perfring.Snapshot,
    perfring.stat,
]


@pytest.mark.parametrize("attach", ATTACH)
def test_what_is_not_there_or_no_ring_is_a_natural_error(
    attach: Callable[[str], object], ring: str
) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist") as missing:
        attach(ring)
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, ring)
    Path(ring).write_bytes(b"no ring" * 2000)
    with pytest.raises(perfring.BadRing, match="ring"):
        attach(ring)
    with pytest.raises(ValueError, match="ring"):
        attach(ring)
    with pytest.raises(TypeError):
        attach(42)  # type: ignore[arg-type]
    sizes: list[Any] = [1.5, None, []]
    for size in sizes:
        with pytest.raises(TypeError, match="is no size"):
            perfring.Producer.create(ring + "2", size=size)


def test_paths_of_all_kinds(tmp_path: Path) -> None:
    plain, odd = os.fsencode(tmp_path / "ring"), os.fsencode(tmp_path) + b"/\xff"
    for path in (plain, odd, os.fsdecode(odd) + "2", tmp_path / "größe"):
        with perfring.Producer.create(path) as producer:
            assert producer.path == os.fsdecode(path)
            with perfring.Consumer(producer.path) as consumer:
                assert consumer.path == producer.path
            assert perfring.stat(path)["ring"] == perfring.Snapshot(path).path == producer.path
            with pytest.raises(perfring.Busy) as busy:
                perfring.Producer(path)
            assert busy.value.errno == errno.EAGAIN


def test_a_ring_is_not_made_over_something(ring: str) -> None:
    Path(ring).write_text("precious")
    with pytest.raises(FileExistsError, match="exists already"):
        perfring.Producer.create(ring)
    assert Path(ring).read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": -1}, "-1 is no size"),
        ({"size": 5000}, "power of two"),
        ({"size": "5 megabytes"}, "no size"),
        ({"size": "99999999999G"}, "no size"),
        ({"policy": "keep"}, '"drop" or "overwrite"'),
        ({"evict": "all"}, '"exact" or "half"'),
        ({"mode": 0o1777}, "0777"),
        ({"shared": True, "slots": 0}, "1 to 4096"),
        ({"types_size": "64M"}, "16 MiB"),
    ],
)
def test_options_that_cannot_be(ring: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        perfring.Producer.create(ring, **options)  # type: ignore[arg-type]
    assert not Path(ring).exists()


def test_a_full_disk_is_an_oserror(ring: str) -> None:
    with pytest.raises(OSError, match="no room") as full:
        perfring.Producer.create("/dev/shm/perfring-python-too-large", size=1 << 40)
    assert full.value.errno == errno.ENOSPC
    assert not Path("/dev/shm/perfring-python-too-large").exists()


def test_a_mode_that_forbids_is_a_permissionerror() -> None:
    place = Path(tempfile.mkdtemp(dir="/dev/shm"))
    place.chmod(0o755)
    ring = str(place / "ring")
    perfring.Producer.create(ring, mode=0o400).close()
    code = f"""
import os, sys
import perfring
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    perfring.Consumer({ring!r})
except PermissionError as error:
    sys.exit(0 if "no permission" in str(error) else str(error))
sys.exit("it was let in")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    shutil.rmtree(place)
    assert done.returncode == 0, done.stderr


def test_what_is_in_the_way_is_named_by_the_natural_error(ring: str, tmp_path: Path) -> None:
    link, file, socket_path = tmp_path / "link", tmp_path / "file", tmp_path / "socket"
    link.symlink_to(ring)
    file.write_text("no directory")
    with pytest.raises(FileNotFoundError, match=f"is a symbolic link to {ring}, which does not"):
        perfring.Observer(link)
    with pytest.raises(FileExistsError, match=f"is a symbolic link to {ring}, which does not"):
        perfring.Producer.create(link)
    with pytest.raises(FileNotFoundError, match="no/where: make it first"):
        perfring.Producer.create(tmp_path / "no" / "where" / "ring")
    with pytest.raises(IsADirectoryError, match="name a ring in it"):
        perfring.Observer(tmp_path)
    with pytest.raises(NotADirectoryError, match="file is not a directory"):
        perfring.Observer(file / "ring")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(socket_path))
        with pytest.raises(OSError, match="it is a socket"):
            perfring.Observer(socket_path)


def test_records_that_no_ring_of_this_size_holds(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    too_large = bytes(producer.max_len + 1)
    for publish in (
        lambda: producer.publish(too_large),
        lambda: producer.publish(too_large, timeout=1.0),
        lambda: producer.publish_array(memoryview(too_large).cast("B", (1, len(too_large)))),
        lambda: producer.reserve(len(too_large)),
        lambda: producer.reserve(len(too_large), timeout=None),
    ):
        with pytest.raises(perfring.TooLarge, match=f"at most {producer.max_len}"):
            publish()
    assert producer.totals["too_large_records"] == 5
    with pytest.raises(perfring.TooLarge), producer.batch() as batch:
        batch.publish(too_large)


@pytest.mark.parametrize("kind", [0, 2, 9.5, -1, 1 << 32, 0x5046_0001, "text", None, object()])
def test_types_that_cannot_be(ring: str, kind: object) -> None:
    producer = perfring.Producer.create(ring)
    with pytest.raises((TypeError, ValueError), match="record's type"):
        producer.publish(b"", kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_timeouts_that_cannot_be(ring: str, timeout: object) -> None:
    producer = perfring.Producer.create(ring)
    consumer = perfring.Consumer(ring)
    for wait in (
        lambda: consumer.read(timeout),  # type: ignore[arg-type]
        lambda: consumer.wait(timeout),  # type: ignore[arg-type]
        lambda: producer.publish(b"", timeout=timeout),  # type: ignore[arg-type]
    ):
        with pytest.raises((TypeError, ValueError)):
            wait()
    assert producer.publish(b"", timeout=1e300)  # for ever is not too long
    assert producer.publish(b"", timeout=float("inf"))


def test_what_has_no_contiguous_bytes_is_refused(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    with pytest.raises(BufferError, match="contiguous"):
        producer.publish(memoryview(b"12345678")[::2])
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            producer.publish(wrong)  # type: ignore[arg-type]
    assert producer.totals["written_records"] == 0


def test_all_that_perfring_raises_is_one_family() -> None:
    names = [name for name in perfring.__all__ if isinstance(getattr(perfring, name), type)]
    errors = [getattr(perfring, name) for name in names]
    errors = [error for error in errors if issubclass(error, BaseException)]
    assert len(errors) == 11
    assert all(issubclass(error, perfring.PerfringError) for error in errors)
    assert issubclass(perfring.Busy, OSError)
    assert os.strerror(errno.ENOENT)
