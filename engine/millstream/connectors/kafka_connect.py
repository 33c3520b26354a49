"""The client of Kafka Connect, a cluster of workers with a REST interface (KIP-26, KIP-449 and
KIP-558)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from millstream.connectors import wordings
from millstream.connectors.connector import Connector, ConnectorPlugin, ConnectorTask
from millstream.model.errors import ConflictError, StatementError, UnavailableError
from millstream.model.settings import ConnectSettings

_CONFLICT, _NOT_FOUND = 409, 404
_MOST_ERRORS = 3


class KafkaConnect:
    """Requests to Kafka Connect, from any thread. Each method raises UnavailableError
    (E-CONNECT-UNAVAILABLE) if there is no answer that can be used, and StatementError with the
    words of Kafka Connect where it refuses something."""

    def __init__(self, settings: ConnectSettings) -> None:
        """Raises StatementError for a URL that cannot be used. Nothing is connected yet."""
        self._url = settings.url.rstrip("/")
        user, _, password = settings.credentials.partition(":")
        if not _usable(self._url):
            raise StatementError(
                f"The URL of Kafka Connect cannot be used: {settings.url!r}",
                hint="Write it as http://localhost:8083",
            )
        self._client = httpx.Client(
            base_url=self._url,
            timeout=settings.timeout_ms / 1000,
            auth=(user, password) if user else None,
            trust_env=False,
        )

    def check(self, name: str, config: Mapping[str, str]) -> None:
        """See `Connectors`."""
        if not config.get("connector.class"):
            raise wordings.CONNECTOR_INVALID(
                name=name,
                setting="connector.class",
                problem="is missing",
                hint="SHOW CONNECTOR PLUGINS; lists the classes there are.",
            )

    def create(self, name: str, config: Mapping[str, str]) -> Connector | None:
        """Start a connector; None if there is one of this name. Raises StatementError if its
        configuration is not valid."""
        self.check(name, config)
        class_name = config["connector.class"]
        if self._request("GET", f"/connectors/{_path(name)}", missing=None) is not None:
            return None
        invalid = f"Kafka Connect does not accept the configuration of connector '{name}'."
        checked = self._request(
            "PUT",
            f"/connector-plugins/{_path(class_name.rpartition('.')[2])}/config/validate",
            {**config, "name": name},
            # Kafka Connect answers 500 for a class that no worker has.
            failed=invalid,
        )
        with self._reading_answer():
            wrong = [
                f"{value['name']}: {error}"
                for value in (item.get("value") or {} for item in checked.get("configs") or ())
                for error in value.get("errors") or ()
            ]
        if wrong:
            raise StatementError(
                invalid,
                detail="\n".join(wrong[:_MOST_ERRORS]),
                hint="Correct these settings; SHOW CONNECTOR PLUGINS; lists the classes.",
            )
        made = self._request("POST", "/connectors", {"name": name, "config": dict(config)})
        with self._reading_answer():
            return _read(name, {"info": made})

    def drop(self, name: str) -> bool:
        """End a connector and forget it; False if there is none."""
        return self._request("DELETE", f"/connectors/{_path(name)}", missing=False) is not False

    def connectors(self) -> tuple[Connector, ...]:
        """All connectors, in the order of their names, without their topics."""
        found = self._request("GET", "/connectors?expand=info&expand=status")
        with self._reading_answer():
            return tuple(_read(name, found[name]) for name in sorted(found))

    def connector(self, name: str) -> Connector | None:
        """One connector, with its topics; None if there is none of this name."""
        info = self._request("GET", f"/connectors/{_path(name)}", missing=None)
        if info is None:
            return None
        status = self._request("GET", f"/connectors/{_path(name)}/status", missing={})
        # Workers may be told not to follow topics; they answer 403 then, older ones 404.
        topics = self._request("GET", f"/connectors/{_path(name)}/topics", missing={}, refused={})
        with self._reading_answer():
            listed = (topics.get(name) or {}).get("topics") or ()
            return _read(name, {"info": info, "status": status}, sorted(listed))

    def plugins(self) -> tuple[ConnectorPlugin, ...]:
        """The classes that the workers have."""
        found = self._request("GET", "/connector-plugins")
        with self._reading_answer():
            return tuple(
                ConnectorPlugin(
                    str(item.get("class")), str(item.get("type")), str(item.get("version"))
                )
                for item in found
            )

    def start(self) -> None:
        """See `Connectors`: the workers of Kafka Connect run anyway."""

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._client.close()

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        missing: Any = ...,
        refused: Any = ...,
        failed: str = "",
    ) -> Any:
        """The answer as JSON. `missing`: what is returned for 404 instead of an error; `refused`:
        for 403; `failed`: the message of the StatementError that 500 is then."""
        try:
            answer = self._client.request(method, path, json=body)
            found = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise self._unusable(str(error) or type(error).__name__) from error
        if answer.is_success:
            if not isinstance(found, dict | list):
                raise self._unusable(f"neither an object nor a list: {answer.text[:80]}")
            return found
        if answer.status_code == _NOT_FOUND and missing is not ...:
            return missing
        if answer.status_code == httpx.codes.FORBIDDEN and refused is not ...:
            return refused
        words = found.get("message") if isinstance(found, dict) else None
        said = str(words or f"HTTP status {answer.status_code}")
        if failed and words and answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            raise StatementError(failed, detail=said)
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise UnavailableError(
                f"Kafka Connect at {self._url} failed",
                detail=said,
                code="E-CONNECT-UNAVAILABLE",
            )
        if answer.status_code == _CONFLICT:
            # Kafka Connect answers this during a rebalance of its workers, too.
            raise ConflictError("Kafka Connect cannot do that now", detail=said)
        raise StatementError("Kafka Connect refuses it", detail=said)

    @contextmanager
    def _reading_answer(self) -> Iterator[None]:
        """Raises UnavailableError if the answer has not the shape that is read in the block."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(f"it is of another shape: {error}") from error

    def _unusable(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"Kafka Connect at {self._url} gave no answer that can be used",
            detail=why,
            hint="See whether it runs, and whether ksql.connect.url is right.",
            code="E-CONNECT-UNAVAILABLE",
        )


def _usable(url: str) -> bool:
    try:
        found = urlsplit(url)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and bool(re.fullmatch(r"[^\s@]+", found.netloc))


def _path(name: str) -> str:
    return quote(name, safe="")


def _read(name: str, found: Mapping[str, Any], topics: Any = ()) -> Connector:
    info, status = found.get("info") or {}, found.get("status") or {}
    config = {str(key): str(value) for key, value in (info.get("config") or {}).items()}
    own = status.get("connector") or {}
    tasks = status.get("tasks")
    if tasks is None:
        tasks = [{"id": item.get("task")} for item in info.get("tasks") or ()]
    return Connector(
        name=name,
        kind=str(info.get("type") or status.get("type") or "unknown"),
        class_name=config.get("connector.class", ""),
        state=str(own.get("state") or "UNASSIGNED"),
        worker=str(own.get("worker_id") or ""),
        trace=str(own.get("trace") or ""),
        tasks=tuple(
            ConnectorTask(
                int(task.get("id") or 0),
                str(task.get("state") or "UNASSIGNED"),
                str(task.get("worker_id") or ""),
                str(task.get("trace") or ""),
            )
            for task in tasks
        ),
        topics=tuple(map(str, topics)),
        config=config,
    )
