"""The Spark session of a process: created on first use, stopped after a long idle time.

PySpark and Java are optional. The error for a missing one says what to install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.history.failures import telling
from millstream.history.folders import OwnFolder
from millstream.history.master import check_master, in_process, on_this_machine, retrying
from millstream.model.errors import UnavailableError
from millstream.model.extras import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
_END_SECONDS = 30.0
_LOOPBACK = "127.0.0.1"
_OWNER = "spark.millstream.folder"
"""The option that identifies the session's owner."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""Java 8 and older ones begin with 1."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where jobs run. `master`: Spark's master URL; `local[N]` runs in this process's own JVM.
    `options`: more Spark options, which override ours. The session and its JVM are stopped after
    `idle_seconds` without use."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    idle_seconds: float = 600.0
    options: Mapping[str, str] = field(default_factory=dict)


class Spark:
    """One lazy session, used through `using`. Thread-safe.

    A process has one session at a time: one that other code has created is used as it is and
    stopped by that code.
    """

    def __init__(self, settings: SparkSettings | None = None) -> None:
        self.settings = settings or SparkSettings()
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._users = 0
        self._idle: threading.Timer | None = None
        self._folder: OwnFolder | None = None
        """The folder of our own session."""

    @contextmanager
    def using(self) -> Iterator[SparkSession]:
        """The session, started if necessary, and kept while it is in use.

        Raises UnavailableError when PySpark or a recent enough Java is missing, or the cluster is
        unreachable.
        """
        with self._lock:
            self._cancel_idle()
            if self._session is not None and _ended():
                self._session = None
            if self._session is None or self._folder is None:
                # A session of other code may have been stopped meanwhile.
                self._session = self._start()
            self._users += 1
            session = self._session
        try:
            yield session
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._session is not None:
                    self._idle = threading.Timer(self.settings.idle_seconds, self._stop_idle)
                    self._idle.daemon = True
                    self._idle.start()

    @property
    def started(self) -> bool:
        """Whether a session is running."""
        return self._session is not None

    def close(self) -> None:
        """Stop the session; idempotent."""
        with self._lock:
            self._cancel_idle()
            self._stop()

    def _stop_idle(self) -> None:
        with self._lock:
            if self._users == 0:
                self._stop()

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _stop(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._folder is not None:
            with suppress(Exception):
                session.stop()
            _end_jvm()
        self._remove_folder()

    def _remove_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def _start(self) -> SparkSession:
        """Create the session in a thread of its own: in the main thread, Spark would handle
        Ctrl-C."""
        check_java()
        check_master(self.settings.master)
        self._remove_folder()
        if _ended():
            _forget()
        folder = OwnFolder("spark")
        made: list[SparkSession] = []
        failed: list[BaseException] = []

        def make() -> None:
            try:
                made.append(_session(self.settings, folder.path))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=make, name="millstream-spark", daemon=True)
        thread.start()
        thread.join()
        if made and made[0].sparkContext.getConf().get(_OWNER) == str(folder.path):
            self._folder = folder
            return made[0]
        folder.remove()
        if made:
            return made[0]
        raise _not_started(self.settings.master, failed[0]) from failed[0]


def options_of(settings: SparkSettings, folder: Path) -> dict[str, str]:
    """All options of a session; `folder` is for Spark's temporary files.

    Spark's driver listens on an external address only for a cluster on other machines, as Spark's
    own configuration says. Within one process a generated secret keeps other users of the machine
    from its ports; for a cluster, all processes must be configured with one.

    The driver's JVM works for seconds, and runs most code once: compiling it twice, which is Java's
    default, costs more than it gains. Users' own JVM options are kept.
    """
    ours = {
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        # A row is one of our batches: few of them are large.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    }
    if on_this_machine(settings.master):
        ours |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if in_process(settings.master):
        ours["spark.authenticate"] = "true"
    return ours | dict(settings.options) | {_OWNER: str(folder)}


def _session(settings: SparkSettings, folder: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if on_this_machine(settings.master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(retrying(settings.master)).appName("millstream")
    for name, value in options_of(settings, folder).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _ended() -> bool:
    """Whether the JVM that this process started for Spark has died: killed, or out of memory."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget() -> None:
    """Make PySpark start another JVM: it would continue to call the dead one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end_jvm() -> None:
    """End the JVM that this process started for Spark, which would keep its memory."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.stdin is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    # It ends when its standard input is closed.
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _forget()


def check_java() -> None:
    """Raise UnavailableError unless PySpark and a suitable Java are installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise UnavailableError(
            "PySpark is not installed, which history on Spark needs",
            hint=f"{install('spark')}, or SET 'millstream.history.backend' = 'duckdb'.",
            code="E-SPARK-MISSING",
        ) from error
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    version = java_version(java)
    if version is None or version < JAVA_MIN:
        found = f"'{java}' is Java {version}"
        if version is None:
            found = f"JAVA_HOME has no '{java}'" if home else "none was found"
        raise UnavailableError(
            f"History on Spark needs Java {JAVA_MIN} or newer; {found}",
            hint=f"Install OpenJDK {JAVA_MIN} (apt-get install openjdk-{JAVA_MIN}-jre-headless) and"
            " put it on the PATH or into JAVA_HOME.",
            code="E-SPARK-JAVA",
        )


def available() -> bool:
    """Whether PySpark and a suitable Java are installed."""
    try:
        check_java()
    except UnavailableError:
        return False
    return True


def java_version(java: str) -> int | None:
    """The major version of a Java command; None where there is none."""
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = _VERSION.search(asked.stderr)
    return int(found[1]) if found else None


def _not_started(master: str, error: BaseException) -> UnavailableError:
    return UnavailableError(
        f"Spark could not be started on {master}",
        detail=telling(error),
        hint="Is the cluster up, and are its Spark and Python versions those of this process?",
        code="E-SPARK",
    )
