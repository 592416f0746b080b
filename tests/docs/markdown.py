"""Read the documentation as a reader does who types everything in.

====================================  ===============================================================================
in a page                             what the reader does
====================================  ===============================================================================
a ``console`` block                   runs the lines behind ``$``; the lines below, if any, are what is shown then
a ``python`` or ``javascript`` block  writes the file, or adds to its end
after "Write `path`:" or
"Add to `path`:"
any other ``python`` block            runs it as a script of the project
any other ``javascript`` block        runs it as a module, in the project's folder
a ``pycon`` block                     types it into ``manage.py shell`` and compares the answers
``<!-- before: code -->``             (not shown) what the next block of code takes for granted
``<!-- shows: command -->``           (not shown) finds the next ``text`` block on the terminal where that command runs
``<!-- step: name -->``               (not shown) does what the text says, as the test of the page has it
====================================  ===============================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECE = re.compile(
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$|<!-- (?P<kind>before|shows|step):\s(?P<note>.*?)\s?-->", re.M | re.S
)
_FILE = re.compile(r"\b(Write|Add to) `([\w./-]+)`[^`]*:\s*$")

#: Blocks to look at only.
NOT_RUN = {"text"}
#: What a block of code is, unless it is for a file.
CODE = {"python": "script", "javascript": "module"}


@dataclass(frozen=True)
class Step:
    """One thing to do: `kind` is console, shows, write, add, script, module, shell or step."""

    kind: str
    text: str
    line: int
    path: str = ""


def steps(page: str) -> list[Step]:
    """Return all that a page tells its reader to do, in order."""
    found, end, before, shows = [], 0, "", ""
    for piece in _PIECE.finditer(page):
        line = page.count("\n", 0, piece.start()) + 1
        prose, end = page[end : piece.start()], piece.end()
        if piece["kind"] == "step":
            found.append(Step("step", piece["note"].strip(), line))
        elif piece["kind"] == "before":
            before = piece["note"] + "\n"
        elif piece["kind"] == "shows":
            shows = piece["note"].strip()
        elif piece["language"] == "text" and shows:
            found.append(Step("shows", piece["text"], line, shows))
            shows = ""
        elif piece["language"] not in NOT_RUN:
            found.append(_block(piece["language"], before + piece["text"], prose, line))
            before = ""
    return found


def _block(language: str, text: str, prose: str, line: int) -> Step:
    if language == "console":
        return Step("console", text, line)
    if language == "pycon":
        return Step("shell", text, line)
    if language not in CODE:
        raise ValueError(f"line {line}: a block of {language!r} can't be run; call it text when it is to be read only.")
    if file := _FILE.search(prose):
        return Step("write" if file[1] == "Write" else "add", text, line, file[2])
    return Step(CODE[language], text, line)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Split a console block into commands and what each is said to show."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif not found:
            raise ValueError(f"A console block begins with a command, not with {line!r}.")
        elif found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0][:-1] + line.lstrip("> "), [])
        elif line.strip():
            found[-1][1].append(line)
    return found


def missing_line(shown: list[str], output: str) -> str | None:
    """Return the first line of `shown` that `output` doesn't have behind the ones before it; … stands for anything."""
    lines = iter(output.splitlines())
    for expected in shown:
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in expected.strip().split("…")))
        if not any(pattern.fullmatch(line.strip()) for line in lines):
            return expected
    return None
