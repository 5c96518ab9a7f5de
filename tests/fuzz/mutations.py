"""Ways in which bytes and JSON go wrong, as strategies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Change = Callable[[bytes], bytes]


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few bytes flipped, cut, doubled, replaced or inserted."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        length = draw(st.sampled_from([1, 1, 2, 4, 8, 64]))
        kind = draw(st.sampled_from(["flip", "cut", "remove", "double", "replace", "insert"]))
        head, middle, tail = content[:place], content[place : place + length], content[place:]
        rest = content[place + length :]
        if kind == "flip":
            bit = 1 << draw(st.integers(0, 7))
            content = head + bytes(b ^ bit for b in content[place : place + 1]) + tail[1:]
        elif kind == "cut":
            content = head
        elif kind == "remove":
            content = head + rest
        elif kind == "double":
            content = head + middle + tail
        elif kind == "replace":
            content = head + draw(st.sampled_from(FRAGMENTS))[: len(middle)] + rest
        else:
            content = head + draw(st.sampled_from(FRAGMENTS) | st.binary(max_size=8)) + tail
    return content


FRAGMENTS = [
    b"\0" * 8,
    b"\xff" * 8,
    b"\xff\xff\xff\x7f",
    b"\xed\xa0\x80",  # a surrogate
    b"\x1b[2J",
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"{",
    b"}",
    b'"',
    b"&a [*a]",
    b"*a",
    b"!!python/name:os.system ",
    b"? [1]\n: 2\n",
    b"\n---\n",
    b"../../x",
    b"\r\n",
    b": ",
    b"- ",
]

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        2**31,
        2**63,
        2**64,
        10**40,
        0.5,
        -0.0,
        1e-300,
        1e300,
        float("nan"),
        float("inf"),
        "",
        "x",
        "0",
        "../x",
        "/",
        "\0",
        "\x1b[2J",
        "ü" * 50,
        "x" * 3000,
        [],
        {},
        [None],
        [[]],
        {"a": None},
        [0] * 500,
    ]
)
"""Values that are rarely what is wanted."""


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> Any:
    """The value with something in it of another type, missing, doubled or added."""
    if draw(st.integers(0, 9)) == 0 or not isinstance(value, dict | list) or not value:
        return draw(ODD)
    if isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value)))
        kind = draw(st.sampled_from(["deeper", "deeper", "odd", "remove", "add"]))
        if kind == "deeper":
            return {**value, key: draw(changed_json(value[key]))}
        if kind == "odd":
            return {**value, key: draw(ODD)}
        if kind == "add":
            return {**value, draw(st.sampled_from(["x", "", "0", "-1"])): draw(ODD)}
        return {k: v for k, v in value.items() if k != key}
    place = draw(st.integers(0, len(value) - 1))
    kind = draw(st.sampled_from(["deeper", "odd", "remove", "double"]))
    new = {"deeper": lambda: [draw(changed_json(value[place]))], "odd": lambda: [draw(ODD)]}
    new |= {"remove": lambda: [], "double": lambda: [value[place]] * 2}
    return [*value[:place], *new[kind](), *value[place + 1 :]]


@st.composite
def changed_lines(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON, or lines of it, with one value changed."""
    lines = content.decode().splitlines() if content.count(b"\n{") else [content.decode()]
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = json.dumps(draw(changed_json(json.loads(lines[place]))))
    return ("\n".join(lines) + "\n").encode()
