"""Python functions of the modules in a folder: `ksql.extension.dir` of a server, `--functions`."""

from __future__ import annotations

import importlib.util
import stat
import sys
from pathlib import Path
from types import ModuleType

from millstream.functions.user import UserFunction
from millstream.model.errors import MillstreamError, StatementError

MODULES = "millstream_extensions"
"""The prefix of the modules' names, so that they shadow no others."""


def load_functions(folder: str, named: str) -> tuple[UserFunction, ...]:
    """The functions and processors that the modules of a folder define with `millstream.udf`,
    `udaf`, `udtf` and `processor`, each once; none without a folder. Raises StatementError
    (E-CONFIG) for an unusable folder or module, or one that others than its owner may change: its
    code runs in this process. `named`: the setting or option that names the folder."""
    if not folder:
        return ()
    path = Path(folder)
    if not path.is_dir():
        raise _refusal(f"{named} '{folder}' is no folder.")
    _check_owner(path)
    found: dict[int, UserFunction] = {}
    for file in sorted(path.glob("*.py")):
        _check_owner(file)
        for value in vars(_imported(file, named)).values():
            if isinstance(value, UserFunction):
                # A module may import a function of another module, or have one under two names.
                found[id(value)] = value
    return tuple(found.values())


def _check_owner(path: Path) -> None:
    if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refusal(
            f"'{path}' holds code, and others than its owner may change it.", f"chmod go-w {path}"
        )


def _imported(file: Path, named: str) -> ModuleType:
    name = f"{MODULES}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        why = error.message if isinstance(error, MillstreamError) else str(error)
        raise _refusal(
            f"Cannot load functions from '{file}': {type(error).__name__}: {why}",
            f"Correct the module, or move it out of {named}.",
        ) from error
    return module


def _refusal(message: str, hint: str = "") -> StatementError:
    return StatementError(message, hint=hint, code="E-CONFIG")
