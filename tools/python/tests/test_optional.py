"""Without what is not installed with perfring."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import perfring
import pytest
from perfring import _arrays

KIND = perfring.record_type("optional.T", [("a", "u8")])

USES: dict[str, tuple[str, str, Callable[[perfring.Batch], object]]] = {
    "numpy": ("numpy", "numpy", lambda batch: batch.numpy("optional.T")),
    "dtype": ("numpy", "numpy", lambda _: perfring.record_type("optional.U", [("a", "u8")])),
    "dtype_of": (
        "numpy",
        "numpy",
        # Of a type that was not asked before.
        lambda batch: perfring.dtype_of(next(iter(batch)).record_type),  # type: ignore[union-attr, arg-type]
    ),
    "to_arrow": ("pyarrow", "arrow", lambda batch: batch.to_arrow()),
    "interface": ("pyarrow", "arrow", lambda batch: batch.__arrow_c_array__()),
    "to_pandas": ("pandas", "pandas", lambda batch: batch.to_pandas()),
    "pandas without arrow": ("pyarrow", "arrow", lambda batch: batch.to_pandas()),
}


@pytest.mark.parametrize("use", USES)
def test_a_missing_dependency_is_an_error_that_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    module, extra, call = USES[use]
    with perfring.Producer.create(tmp_path / "ring") as producer:
        producer.publish(bytes(8), KIND)
    batch = perfring.Snapshot(tmp_path / "ring").drain()
    _arrays._np.cache_clear()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, module, None)
        with pytest.raises(
            ModuleNotFoundError, match=rf"needs {module}.*: pip install .perfring\[{extra}\]"
        ) as raised:
            call(batch)
    assert raised.value.name == module
    call(batch)


def test_nothing_is_imported_that_is_not_needed() -> None:
    script = """
import sys, perfring, perfring.logging
print([name for name in ("numpy", "pyarrow", "pandas", "asyncio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
