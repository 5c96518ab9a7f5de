"""The code blocks of a Markdown page, and what a comment above one says about its test.

`<!-- not run: REASON -->` above a block: it is looked at, but not run.
`<!-- test: OLD becomes NEW -->` above a block: it is run with that change.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^ *(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"<!--\s*(not run|test):\s*((?:(?!-->).)*?)\s*-->\s*$", re.DOTALL)
PROGRAMS = ("fedkf", "make", "pip", "python", "git", "tensorboard", "export", "$EDITOR")


@dataclass(frozen=True)
class Block:
    """A block, where it is, and what stands above it."""

    page: str
    line: int
    language: str
    title: str | None
    text: str
    not_run: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path, name: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    page = path.read_text()
    for match in FENCE.finditer(page):
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        above, reason = page[: match.start()].rstrip(), None
        while note := COMMENT.search(above):
            if note[1] == "not run":
                reason = note[2]
            else:
                old, _, new = note[2].partition(" becomes ")
                assert old in text, f"{name}: no {old!r} in the block below the comment"
                text = text.replace(old, new)
            above = above[: note.start()].rstrip()
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        line = page.count("\n", 0, match.start()) + 1
        language = language or ("bash" if text.startswith(PROGRAMS) else "text")
        yield Block(name, line, language, title[1] if title else None, text, reason)


def commands_of(text: str) -> Iterator[list[str]]:
    """The commands of a shell block: lines put together, comments and the rest (…) left out."""
    for line in text.replace("\\\n", " ").splitlines():
        words = [word for word in shlex.split(line, comments=True) if word != "…"]
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words:
            yield [words[0].rpartition("/")[2], *words[1:]]
