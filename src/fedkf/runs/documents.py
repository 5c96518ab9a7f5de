"""YAML that a user wrote or was given: read within limits, so that no file hangs or executes.

What is in it is measured event by event, before anything is built. Words and numbers under keys
that take texts stay as they are written: a site may be called NO, 01 or 2020-01-01.
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
from fedkf.runs.schema import TEXTS

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
_NULL, _TEXT, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "str", "merge"))
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


def parse_yaml(text: str, where: str, key: str = "") -> Any:
    """The value of a YAML text; `where` names it in what is said of a mistake.

    `key` is the one that the value is for, if it is not the whole of a document.
    """
    where = printable(where)
    if len(text) > MOST_BYTES:
        raise UserError(f"{where} is longer than {MOST_BYTES:,} characters")
    try:
        Measure().take(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(_with_texts(node, key))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = printable(str(error).replace('in "<unicode string>", ', "in "))
        raise UserError(f"{where} is not valid YAML: {reason}") from None


def _with_texts(node: Any, key: str) -> Any:
    """A node in which what is under keys that take texts is as it is written.

    Nodes are made anew, since an alias may have one under several keys.
    """
    asked = any(key == known or key.endswith(f".{known}") for known in TEXTS)
    if isinstance(node, yaml.ScalarNode):
        tag = _TEXT if asked and node.tag != _NULL else node.tag
        return yaml.ScalarNode(tag, node.value, node.start_mark, node.end_mark)
    if isinstance(node, yaml.SequenceNode):
        items = [_with_texts(item, key) for item in node.value]
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark)
    inner = {k: key if asked or k.tag == _MERGE else f"{key}.{k.value}" for k, _ in node.value}
    pairs = [(k, _with_texts(value, inner[k])) for k, value in node.value]
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)


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
