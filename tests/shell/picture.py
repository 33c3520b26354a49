"""Record the demo in a terminal as a moving picture: python -m tests.shell.picture.

The picture is an SVG whose frames are shown one after the other, by style alone: it needs no script
and no video. It is docs/pictures/demo.svg, which the README shows.
"""

from __future__ import annotations

import select
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from tests.shell.screen import CTRL_C, Screen, millstream

FILE = Path(__file__).parents[2] / "docs" / "pictures" / "demo.svg"
ROWS, COLUMNS = 26, 92
LINE, LETTER = 17, 8.4
FRAME_SECONDS = 0.4
QUIET_SECONDS = 0.02
STATEMENTS = (
    ("SELECT * FROM highest_bids ORDER BY bids DESC LIMIT 3;", 5),
    ("SELECT * FROM views_by_region EMIT CHANGES;", 30),
)
"""What is typed, and for how many frames it is looked at."""
COLOURS = {
    "default": "#d7dce4", "red": "#ff7a7a", "green": "#7ad18b", "brown": "#e6c07b",
    "yellow": "#e6c07b", "blue": "#7db2ff", "magenta": "#d3a5f5", "cyan": "#6fd3dc",
    "white": "#ffffff", "black": "#5b6675",
}  # fmt: skip
Frame = tuple[str, ...]
"""The lines of a screen, as elements of SVG."""


def main() -> int:
    """Record, and write the file."""
    with tempfile.TemporaryDirectory() as folder:
        screen = Screen(millstream("demo"), Path(folder), rows=ROWS, columns=COLUMNS)
        try:
            frames = [frame for frame, _ in groupby(_recorded(screen))]
        finally:
            screen.close()
    FILE.write_text(_svg(frames), encoding="utf-8")
    return 0


def _recorded(screen: Screen) -> Iterator[Frame]:
    screen.until(lambda s: s.at_prompt)
    for _ in range(6):
        yield _frame(screen)
    for statement, looks in STATEMENTS:
        for letter in statement:
            screen.type(letter)
            if letter == " ":
                yield _look(screen, 0.1)
        screen.type("\r")
        for _ in range(looks):
            yield _look(screen, FRAME_SECONDS)
    screen.type(CTRL_C)
    yield _look(screen, 1)


def _look(screen: Screen, seconds: float) -> Frame:
    """What is seen after some time, in which the screen is read."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        screen._read(left)
    while select.select([screen.fd], [], [], QUIET_SECONDS)[0]:
        screen._read(0)  # What is being drawn is drawn to its end.
    return _frame(screen)


def _frame(screen: Screen) -> Frame:
    lines = []
    for row in range(ROWS):
        cells = [screen.screen.buffer[row][column] for column in range(COLUMNS)]
        spans = []
        column = 0
        for (colour, is_bold), group in groupby(cells, lambda cell: (cell.fg, cell.bold)):
            text = "".join(cell.data for cell in group)
            if text.strip():
                weight = ' font-weight="bold"' if is_bold else ""
                fill = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else "#d7dce4")
                spans.append(
                    f'<tspan x="{10 + column * LETTER:.1f}" fill="{fill}"{weight}>'
                    f"{escape(text.rstrip())}</tspan>"
                )
            column += len(text)
        if spans:
            lines.append(f'<text y="{24 + row * LINE}">{"".join(spans)}</text>')
    return tuple(lines)


def _svg(frames: Sequence[Frame]) -> str:
    whole = len(frames) * FRAME_SECONDS
    shown = 100 / len(frames)
    width, height = 20 + COLUMNS * LETTER, 20 + ROWS * LINE
    pictures = "\n".join(
        f'<g class="f" style="animation-delay:{number * FRAME_SECONDS:.1f}s">{"".join(frame)}</g>'
        for number, frame in enumerate(frames)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        ' role="img" aria-label="The demo in a terminal">\n'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}"
        f".f{{visibility:hidden;animation:f {whole:.1f}s step-end infinite}}"
        f"@keyframes f{{0%{{visibility:visible}}{shown:.3f}%{{visibility:hidden}}}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#14181f"/>\n{pictures}\n</svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main())
