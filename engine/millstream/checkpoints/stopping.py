"""Ends the writing or loading of a checkpoint between two of its files."""


class Stopped(Exception):  # noqa: N818 - it is no error
    """The caller wants no more to be done."""
