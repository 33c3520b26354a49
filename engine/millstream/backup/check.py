"""Checks a database in a file, or a backup: reads every byte of it, and compares what belongs
together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.backup.comparing import differences
from millstream.backup.restore import chosen, verify
from millstream.log.examination import Damage, Examined, examine_log, reading
from millstream.model.errors import MillstreamError
from millstream.model.file_damage import is_changed
from millstream.model.settings import EngineSettings
from millstream.places.place import Place
from millstream.state.examination import ahead_of_changelogs, examine_state
from millstream.state.files import SUFFIX, put_aside


@dataclass(frozen=True, slots=True)
class Checked:
    """What was read, and what is damaged in the log and in the state. The state can be made again
    from the log."""

    records: int
    topics: int
    log: tuple[Damage, ...]
    state: tuple[Damage, ...]

    @property
    def well(self) -> bool:
        """Whether nothing is damaged."""
        return not (self.log or self.state)


def check_database(path: str, settings: EngineSettings | None = None) -> Checked:
    """Check the log at `path` and its state, which no process may have open. Neither is changed.
    Raises UnavailableError (E-LOG-LOCKED) if one has, CorruptionError if the log does not open."""
    examined = examine_log(path)
    state = f"{path}{SUFFIX}"
    prefix = (settings or EngineSettings()).internal_prefix
    damages: Sequence[Damage] = ()
    if Path(state).exists():
        damages = _state_damages(state, examined, prefix)
        if not damages and not examined.damages:
            damages = tuple(differences(state, path, prefix))
    return Checked(examined.records, examined.topics, examined.damages, tuple(damages))


def _state_damages(path: str, examined: Examined, prefix: str) -> list[Damage]:
    try:
        # The log was read before: this process does not have the database open.
        with reading(path, suspect=is_changed(path)) as connection:
            found = [Damage(f"state, {where}", what) for where, what in examine_state(connection)]
            if found:
                return found
            ahead = ahead_of_changelogs(
                connection, prefix, lambda topic, part: examined.ends.get((topic, part))
            )
            return [Damage(where, what) for where, what in ahead]
    except MillstreamError as error:
        if error.code == "E-LOG-LOCKED":
            raise
        return [Damage("state", error.detail.splitlines()[0] if error.detail else error.message)]
    except Exception as error:
        # A file of DuckDB that is no state of ours: what it raises is DuckDB's.
        return [Damage("state", str(error).splitlines()[0])]


def put_state_aside(path: str) -> None:
    """Rename the state of a database, which is then rebuilt when it is opened."""
    put_aside(f"{path}{SUFFIX}")


def check_backup(url: str, at: int | None = None) -> Checked:
    """Check the files of the newest backup at the place of a URL, or of one as `restore` chooses
    it. Raises what `restore` raises where there is none."""
    place = Place.of(url)
    manifest = chosen(place, at)
    damages = tuple(
        Damage(error.message.rstrip("."), error.detail.splitlines()[0] if error.detail else "")
        for error in verify(place, manifest)
    )
    records = sum(file.rows for file in manifest.files.values())
    return Checked(records, len(manifest.contents.topics), damages, ())
