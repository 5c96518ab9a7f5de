"""The sentences with which fedkf refuses something, collected from its source, with their cures.

A sentence mostly carries its own cure behind a semicolon. Where it does not, cures.yaml may have
one, by a piece of the sentence; else the advice for its room of the house holds. A test fails when
a cure belongs to no sentence any more, or a room has no advice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

SOURCE = Path(__file__).parents[2] / "src/fedkf"
RAISED = {"UserError": 2, "FedkfError": 1}
_ADVICE = yaml.safe_load(Path(__file__).with_name("cures.yaml").read_text())
ROOMS: dict[str, str] = _ADVICE["rooms"]
CURES: dict[str, str] = _ADVICE["cures"]


@dataclass(frozen=True, order=True)
class Sentence:
    """What is said, where, and with which exit code."""

    room: str
    text: str
    code: int

    @property
    def told(self) -> str:
        """The sentence without the cure that it carries."""
        return self.text.partition("; ")[0]

    @property
    def cure(self) -> str:
        """Its own, a listed one, or none: the room's holds."""
        own = self.text.partition("; ")[2]
        return own or next((cure for piece, cure in CURES.items() if piece in self.text), "")


def collect(source: Path = SOURCE) -> list[Sentence]:
    """Every sentence of an error that the source raises, with … for what depends on the case."""
    found = set()
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        room = parts[0].removesuffix(".py")
        for name, text in raised(ast.parse(path.read_text())):
            if len(text.replace("…", "").strip(" :;,.")) > 8:
                found.add(Sentence(room, text, RAISED[name]))
    return sorted(found)


def raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The errors that a module makes: which one, and each sentence that it may say."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Name(id=error), args=[first, *_]) if error in RAISED:
                    for text in texts(first, named):
                        yield error, " ".join(text.split())


def texts(node: ast.expr, named: dict[str, ast.expr]) -> list[str]:
    """What an expression may say, with … for what is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(texts(part, named)[0] for part in parts)]
        case ast.FormattedValue(value=ast.Name(id=name)) if is_text(named.get(name)):
            return texts(named[name], {})
        case ast.Name(id=name) if is_text(named.get(name)):
            return texts(named[name], {})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in texts(left, named) for b in texts(right, named)]
        case ast.IfExp(body=body, orelse=orelse):
            return texts(body, named) + texts(orelse, named)
    return ["…"]


def is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Constant)


def as_markdown() -> str:
    """A table of sentences and cures for each room, with the room's own advice above it."""
    parts = []
    every = collect()
    for room, advice in ROOMS.items():
        here = [sentence for sentence in every if sentence.room == room]
        if here:
            rows = [f"| {plain(s.told)} | {plain(s.cure)} | {s.code} |" for s in here]
            head = "| sentence | what to do | exit code |\n|---|---|---|\n"
            parts.append(f"## From `{room}`\n\n{advice}\n\n{head}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def plain(text: str) -> str:
    """A sentence as a cell of a table: nothing in it is markup, but for what is code already."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped if "`" in text else escaped.replace("*", "\\*").replace("_", "\\_")
