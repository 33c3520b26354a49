"""Compiles what reads and writes Kafka fastest, where there is a C compiler; without one, nothing
is missing but speed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = Path("engine/millstream/log/kafka")
_LIBRARY = _FOLDER / "libmillstream_kafka.so"
_COMMAND = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared")
_LIBRARIES = ("-ldl", "-lpthread")


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the library beside its source, where an editable installation finds it too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; the wheel is of this platform (but of every Python 3) if that succeeded."""
        root = Path(self.root)
        library = root / _LIBRARY
        library.unlink(missing_ok=True)
        problem = _compile(sorted((root / _FOLDER).glob("*.c")), library)
        if problem:
            self.app.display_warning(f"Kafka will be used by plain Python: {problem}")
            return
        if version == "editable":
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(library)] = _LIBRARY.relative_to("engine").as_posix()


def _compile(sources: Sequence[Path], library: Path) -> str:
    """Why it could not be compiled; nothing if it was."""
    if sys.platform != "linux":
        return f"not tried on {sys.platform}"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    more = shlex.split(os.environ.get("CFLAGS", ""))
    command = [*compiler, *_COMMAND, *more, *map(str, sources), "-o", str(library), *_LIBRARIES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no C compiler ({error})"
    if done.returncode:
        library.unlink(missing_ok=True)
        return f"'{shlex.join(command)}' failed: {done.stderr.strip()}"
    return ""
