"""Compiles what reads and writes Kafka, and what reads JSON, fastest, where there is a C compiler;
without one, nothing is missing but speed."""

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

_FOLDERS = {
    Path("engine/millstream/log/kafka"): "libmillstream_kafka.so",
    Path("engine/millstream/formats"): "libmillstream_formats.so",
}
"""Where there are sources, and the library that is made of them."""
_COMMAND = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared")
_LIBRARIES = ("-ldl", "-lpthread")


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts libraries beside their sources, where an editable installation finds them too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; the wheel is of this platform (but of every Python 3) if that succeeded."""
        root = Path(self.root)
        for folder, name in _FOLDERS.items():
            library = root / folder / name
            library.unlink(missing_ok=True)
            problem = _compile(sorted((root / folder).glob("*.c")), library)
            if problem:
                self.app.display_warning(f"Plain Python will do without {name}: {problem}")
            elif version != "editable":
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{platform}"
                inside = (folder / name).relative_to("engine").as_posix()
                build_data["force_include"][str(library)] = inside


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
