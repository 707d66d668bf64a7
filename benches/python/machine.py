"""Describes the machine of a run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = ("perfring", "numpy", "pyzmq", "iceoryx2")


def version(package: str) -> str:
    """Returns the version of a package, or that it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Returns the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str:
    """Returns the commit of this checkout, and whether it was changed since."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=7"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def machine() -> dict[str, str]:
    """Returns the machine, the versions and the date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.2f}",
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        **{package: version(package) for package in PACKAGES},
    }
