"""YAML that a user wrote or was given: read within limits, so that no file hangs or executes.

What is in it is measured event by event, before anything is built.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fedkf.core.errors import UserError, printable
from fedkf.core.limits import in_words, proper_text, shown

if TYPE_CHECKING:
    from yaml import SafeLoader as _Base
else:  # libyaml's parser is ten times as fast, where PyYAML came with it
    _Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MOST_BYTES = 1 << 20
MOST_VALUES = 50_000
"""Values in a file, those counted again that an alias repeats."""
DEEPEST = 20
LONGEST_TEXT = 5_000
LONGEST_KEY = 200
LONGEST_NUMBER = 100
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(_Base):
    """YAML in which 1e-3 is a number, keys are texts, and one given twice is a mistake."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise _mistake(f"{key_node.value!r} is given twice", key_node.start_mark)
            seen.add(key_node.value)
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep) for key, value in node.value}


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def _mistake(text: str, mark: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, text, mark)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, or a sentence that says why it is refused."""
    try:
        # Without waiting: a pipe in place of the file would never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UserError(f"{path} is not a file")
            content = file.read(MOST_BYTES + 1)
        text = content[:MOST_BYTES].decode("utf-8") if len(content) <= MOST_BYTES else ""
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if len(content) > MOST_BYTES:
        raise UserError(f"{path} is larger than the {in_words(MOST_BYTES)} that are read of a file")
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `where` names it in what is said of a mistake."""
    where = printable(where)
    if len(text) > MOST_BYTES:
        raise UserError(f"{where} is longer than {MOST_BYTES:,} characters")
    try:
        Measure().take(text)
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = printable(str(error).replace('in "<unicode string>", ', "in "))
        raise UserError(f"{where} is not valid YAML: {reason}") from None


@dataclass
class _Level:
    """A list or mapping that is being read: values in it so far, and the anchor it has."""

    anchor: str | None
    mapping: bool
    children: int = 0
    values: int = 1

    @property
    def at_key(self) -> bool:
        return self.mapping and self.children % 2 == 0


class Measure:
    """Follows a YAML text as it is parsed and refuses what no configuration needs."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []
        self.anchors: dict[str, int] = {}
        self.resolver = yaml.resolver.Resolver()

    def take(self, text: str) -> None:
        for event in yaml.parse(text, _Loader):
            if isinstance(event, yaml.NodeEvent):
                self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                level = self.levels.pop()
                if level.anchor is not None:
                    self.anchors[level.anchor] = level.values
                self._add(level.values, event.start_mark)

    def _node(self, event: Any) -> None:
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            if self.levels and self.levels[-1].at_key:
                raise _mistake("a key must be a text", mark)
            if event.anchor not in self.anchors:
                raise _mistake(f"the alias {shown(event.anchor)} stands for nothing before", mark)
            return self._add(self.anchors[event.anchor], mark)
        if event.tag is not None:
            raise _mistake(f"the tag {shown(event.tag)} is not taken; no tags are", mark)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = 1
            return self._add(1, mark)
        if self.levels and self.levels[-1].at_key:
            raise _mistake("a key must be a text", mark)
        if len(self.levels) == DEEPEST:
            raise _mistake(f"it is nested more than {DEEPEST} levels deep", mark)
        self.anchors.pop(event.anchor, None)  # until it ends, the name stands for nothing
        mapping = isinstance(event, yaml.MappingStartEvent)
        return self.levels.append(_Level(event.anchor, mapping))

    def _scalar(self, event: Any) -> None:
        text, mark = event.value, event.start_mark
        if not proper_text(text.replace("\n", " ").replace("\t", " ")):
            raise _mistake(f"{shown(text)} holds characters that cannot be shown", mark)
        key = bool(self.levels) and self.levels[-1].at_key
        if len(text) > (LONGEST_KEY if key else LONGEST_TEXT):
            raise _mistake(f"{shown(text)} is too long for a {'key' if key else 'value'}", mark)
        if len(text) > LONGEST_NUMBER and event.implicit[0]:
            kind = self.resolver.resolve(  # type: ignore[no-untyped-call]
                yaml.ScalarNode, text, event.implicit
            )
            if kind in _NUMBERS:
                raise _mistake(f"{shown(text)} is too long for a number", mark)

    def _add(self, values: int, mark: Any) -> None:
        if self.levels:
            level = self.levels[-1]
            level.children += 1
            level.values += values
            if level.values > MOST_VALUES:
                raise _mistake(f"it holds more than {MOST_VALUES:,} values", mark)
