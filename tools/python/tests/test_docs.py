"""The documentation: help(), the README's programs, the demo."""

import doctest
import inspect
import re
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perfring
import perfring.logging
import perfring.telemetry
import pytest
from conftest import WATCHDOG
from perfring import _native

README = Path(__file__).resolve().parents[1] / "README.md"
MODULES = (perfring.logging, perfring.telemetry)
OBJECTS = {name: getattr(perfring, name) for name in perfring.__all__} | {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
}
CLASSES = {name: one for name, one in OBJECTS.items() if inspect.isclass(one)}
FUNCTIONS = {name: one for name, one in OBJECTS.items() if inspect.isroutine(one)}


def members(of: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class that are perfring's."""
    for base in of.__mro__:
        if base.__module__.startswith("perfring"):
            for name, one in vars(base).items():
                if not name.startswith("_"):
                    yield name, one


def test_all_is_sorted_and_nothing_public_is_missing() -> None:
    def order(name: str) -> tuple[Any, ...]:  # as ruff has it: constants, classes, the rest
        kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
        return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]

    for module in (perfring, *MODULES):
        assert module.__all__ == sorted(module.__all__, key=order)
        assert len(set(module.__all__)) == len(module.__all__)
    public = {
        name
        for name, one in vars(perfring).items()
        if not name.startswith("_")
        and not (isinstance(one, types.ModuleType) and one.__name__ == f"perfring.{name}")
    }
    assert public == set(perfring.__all__) - {"__version__"}
    for module in MODULES:
        own = {
            name
            for name, one in vars(module).items()
            if getattr(one, "__module__", None) == module.__name__ and not name.startswith("_")
        }
        assert own == set(module.__all__)


def test_help_begins_with_all_names() -> None:
    names = re.findall(r"(?<!`)`(?:perfring\.)?(\w+)`", perfring.__doc__ or "")
    assert set(perfring.__all__) - {"__version__"} <= set(names)
    assert all(hasattr(perfring, name) for name in names)


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_everything_public_has_a_docstring(name: str) -> None:
    one = OBJECTS[name]
    assert one.__module__ in ("perfring", *(module.__name__ for module in MODULES))
    assert inspect.getdoc(one)
    assert "native half" not in (one.__doc__ or "")
    if not inspect.isclass(one):
        return
    of_base = {id(method) for base in one.__mro__[1:] for method in vars(base).values()}
    for member, method in members(one):
        if id(method) in of_base and not one.__module__.startswith("perfring"):
            continue
        doc = inspect.getdoc(method) or ""
        if doc.startswith("Alias for field number"):  # what NamedTuple writes
            doc = re.search(rf"^ +{member}: .", one.__doc__ or "", re.M)  # type: ignore[assignment]
        assert doc, f"{name}.{member}"


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_signatures_show_defaults(name: str) -> None:
    one = OBJECTS[name]
    callables = [one, *(method for _, method in members(one))] if inspect.isclass(one) else [one]
    for what in callables:
        what = getattr(what, "__func__", what)  # of a class or static method
        if not callable(what) or (inspect.isclass(what) and issubclass(what, Exception | dict)):
            continue
        try:
            signature = inspect.signature(what)
        except ValueError:  # a class that only perfring makes
            assert inspect.isclass(what)
            with pytest.raises(TypeError, match=r"[Nn]o constructor|cannot create"):
                what()
            continue
        for parameter in signature.parameters.values():
            assert parameter.default is not Ellipsis, f"{what}{signature}"


def native() -> Iterator[tuple[str, object]]:
    """All native objects that can have an example."""
    for name, one in vars(_native).items():
        yield name, one
        if inspect.isclass(one):
            for member, method in vars(one).items():
                yield f"{name}.{member}", getattr(method, "__func__", method)


EXAMPLES = {
    name: example
    for name, one in native()
    for example in doctest.DocTestParser().get_examples(getattr(one, "__doc__", None) or "")[:1]
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_native_docstrings(name: str, tmp_path: Path) -> None:
    one = dict(native())[name]
    test = doctest.DocTestParser().get_doctest(
        inspect.cleandoc(getattr(one, "__doc__", "")),
        {"perfring": perfring, "tmp": tmp_path},
        name,
        None,
        None,
    )
    output: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    assert results.attempted > 0
    assert not results.failed, "".join(output)


def test_there_are_native_examples() -> None:
    assert {"Producer.reserve", "Producer.batch", "Consumer.pin", "Snapshot"} <= set(EXAMPLES)


def programs() -> dict[str, str]:
    """The programs in the README, by the name in their first line."""
    blocks = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == README.read_text().count("```python\n")
    return dict(blocks)


def test_the_readmes_flight_recorder_survives_sigkill(tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / name).write_text(text)
    ring = str(tmp_path / "sales")
    service = subprocess.Popen([sys.executable, "service.py", ring], cwd=tmp_path)
    try:
        end = time.monotonic() + WATCHDOG
        while not Path(ring).exists() or perfring.stat(ring)["written_records"] < 10:
            assert service.poll() is None, "the service ended by itself"
            assert time.monotonic() < end, "the service publishes nothing"
    finally:
        service.kill()
        service.wait()
    last = perfring.stat(ring)["written_records"] - 1
    done = subprocess.run(
        [sys.executable, "last_words.py", ring],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WATCHDOG,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for number, line in zip(range(last - 2, last + 1), lines, strict=True):
        assert line.endswith(f"shop.Sale {{'number': {number}, 'price': 9.5}}")


def test_the_demo_reads_what_a_killed_process_left() -> None:
    demo = [sys.executable, "-m", "perfring", "demo"]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=WATCHDOG)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "ended by SIGKILL" in done.stdout
    published, present, gaps = (
        int(re.search(pattern, done.stdout)[1].replace(",", ""))  # type: ignore[index]
        for pattern in (r"([\d,]+) hashes were", r"([\d,]+) are in the file", r"(\d+) gaps")
    )
    assert published > present > 30_000
    assert gaps == 0
    last = re.search(r"\( *(\d+), +\d+\)\],", done.stdout)  # numpy aligns columns
    assert last is not None
    assert int(last[1]) == published - 1
    ring = re.search(r"recorder (\S+)\.\n", done.stdout)
    assert ring is not None
    assert not Path(ring[1]).parent.exists()  # it leaves nothing behind


def test_the_module_says_how_it_is_run() -> None:
    program = [sys.executable, "-m", "perfring"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=WATCHDOG)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "usage: python -m perfring demo\n"


@pytest.mark.parametrize("page", ["coming_from.md", "python.md"])
def test_the_programs_of_the_guide_run(page: str, tmp_path: Path) -> None:
    text = (README.parents[2] / "crates" / "perfring" / "src" / "guide" / page).read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert programs
    perfring.Producer.create(tmp_path / "orders").publish(b"lamp")  # that the first one watches
    for number, program in enumerate(programs):
        file = tmp_path / f"program{number}.py"
        file.write_text(program.replace("/dev/shm", str(tmp_path)))
        command = [sys.executable, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
        assert (done.returncode, done.stderr) == (0, "")
    if page == "coming_from.md":
        assert done.stdout == f"{sum(range(1000))}\n"
