"""Folders that URLs name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from millstream.model.errors import UnavailableError
from millstream.places.place import Place


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://ann:secret@bucket/shop", "s3://…@bucket/shop"),
        ("s3://bucket/shop?endpoint_override=localhost:1&secret=x", "s3://bucket/shop"),
        ("/backups/ann@home", "/backups/ann@home"),
    ],
)
def test_errors_do_not_tell_credentials(tmp_path: Path, url: str, shown: str) -> None:
    place = Place(url, fs.LocalFileSystem(), str(tmp_path))
    with pytest.raises(UnavailableError) as refused:
        place.read("nothing")
    assert refused.value.message == f"Could not read 'nothing' of the backups at '{shown}'."


def test_folders(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path))
    place.write("a/b/c.txt", lambda file: file.write(b"c"))
    place.write("a/d.txt", lambda file: file.write(b"d"))
    assert (place.folders("a"), place.names("a")) == (["a/b"], ["a/d.txt"])
    place.delete_folder("a/b")
    place.delete_folder("a/b")
    assert (place.folders("a"), place.folders("nowhere")) == ([], [])
