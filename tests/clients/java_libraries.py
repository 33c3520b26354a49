"""The Java libraries of Avro and Protobuf, in a process that reads payloads and writes them again.

See java/Interchange.java for what is said to it.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from types import TracebackType

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor

from tests.clients.places import java_classes


class JavaLibraries:
    """The process; ended by `close` or at the end of a `with` statement."""

    def __init__(self) -> None:
        folder = java_classes()
        self._process = subprocess.Popen(
            ["java", "-Xmx1g", "-cp", f"{folder}:{folder}/lib/*", "Interchange"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> JavaLibraries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def avro(self, schema: str, payloads: Sequence[bytes]) -> list[bytes]:
        """Payloads without what is before them, as Java writes what it reads. Raises ValueError for
        one that it does not read."""
        self._ask(b"A", [schema.encode()], payloads)
        return [self._payload() for _ in payloads]

    def protobuf(self, message: Descriptor, payloads: Sequence[bytes]) -> list[bytes]:
        """The same for messages."""
        self._ask(b"P", _described(message), payloads)
        return [self._payload() for _ in payloads]

    def avro_cost(self, schema: str, payloads: Sequence[bytes]) -> tuple[float, float]:
        """Microseconds of CPU of reading and of writing a payload, once the code is compiled."""
        self._ask(b"a", [schema.encode()], payloads)
        return self._cost()

    def protobuf_cost(self, message: Descriptor, payloads: Sequence[bytes]) -> tuple[float, float]:
        """The same for messages."""
        self._ask(b"p", _described(message), payloads)
        return self._cost()

    def _ask(self, letter: bytes, schema: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        assert self._process.stdin is not None
        parts = [letter, *map(_framed, schema), struct.pack(">i", len(payloads))]
        self._process.stdin.write(b"".join([*parts, *map(_framed, payloads)]))
        self._process.stdin.flush()

    def _payload(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if size >= 0:
            return self._read(size)
        (size,) = struct.unpack(">i", self._read(4))
        raise ValueError(self._read(size).decode())

    def _cost(self) -> tuple[float, float]:
        reading, writing = struct.unpack(">dd", self._read(16))
        return reading, writing

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        found = self._process.stdout.read(size)
        assert len(found) == size, "the process of the Java libraries has ended"
        return found


def _framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _described(message: Descriptor) -> list[bytes]:
    """The files that describe a message, each behind those that it imports, and its name."""
    files: dict[str, FileDescriptor] = {}

    def add(file: FileDescriptor) -> None:
        for imported in file.dependencies:
            add(imported)
        files.setdefault(file.name, file)

    add(message.file)
    found = descriptor_pb2.FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(found.file.add())
    return [found.SerializeToString(), message.full_name.encode()]
