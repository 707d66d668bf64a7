"""Imports optional dependencies, which are not installed with perfring."""

from importlib import import_module
from typing import Any


def need(module: str, extra: str = "") -> Any:
    """Import a module, or say how to install it.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A missing dependency of the module itself is reported unchanged.
        if error.name != module:
            raise
        raise ModuleNotFoundError(
            f"this needs {module}, which is not installed: "
            f"pip install 'perfring[{extra or module}]'",
            name=module,
        ) from None
