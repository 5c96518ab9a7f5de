"""The formats in which public image data sets are published: IDX, and CIFAR's two kinds of batches.

Nothing is unpickled: CIFAR's Python batches are pickles, but of arrays, lists and texts only, and
are read by a small machine that knows no other objects and calls nothing.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import pickletools
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.limits import in_words
from fedkf.data import arrays

Bytes = NDArray[np.uint8]
READING = (*arrays.READING, tarfile.TarError)
"""What goes wrong in a file that is cut off, damaged or of another kind."""
MOST_BYTES = 512 << 20
"""That one file may unpack to; the largest data set here has 184 MB."""
MOST_OPERATIONS = 5_000_000
"""Of a pickle; CIFAR's have fewer than a tenth of it."""


@dataclass(frozen=True)
class File:
    """A file by itself, gzipped, or in an archive; read when it is needed."""

    path: Path
    member: str | None = None
    most: int = MOST_BYTES

    def read(self) -> bytes:
        with self._open() as file:
            content = Bounded(file, self.most).read()
        if content[:2] != b"\x1f\x8b":
            return content
        with gzip.open(io.BytesIO(content)) as unpacked:
            return Bounded(unpacked, self.most).read()

    @contextlib.contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.member is None:
            with open(self.path, "rb") as file:
                yield file
        elif self.path.suffix == ".zip":
            with zipfile.ZipFile(self.path) as zipped, zipped.open(self.member) as file:
                yield file
        else:
            with open_tar(self.path, self.most) as archive:
                found = (archive.extractfile(m) for m in archive if m.name == self.member)
                opened = next(found, None)
                if opened is None:
                    raise LookupError(f"{self.member} is not a file in it")
                yield opened


class Bounded:
    """Reads from a file until it has given so many bytes; one more is an error."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, most: int) -> None:
        self.file, self.most, self.left = file, most, most

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {in_words(self.most)}")
        return content


@contextlib.contextmanager
def open_tar(path: Path, most: int = MOST_BYTES) -> Iterator[tarfile.TarFile]:
    """A gzipped tar, whose members are read as they come."""
    with (
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=Bounded(unpacked, most), mode="r|") as archive,  # type: ignore[call-overload]
    ):
        yield archive


def idx(content: bytes) -> Bytes:
    """An array of bytes in the IDX format of MNIST."""
    if content[:3] != b"\0\0\x08":
        raise ValueError("it does not begin as an IDX file of bytes does")
    dimensions = content[3]
    shape = [int(n) for n in np.frombuffer(content, ">u4", dimensions, 4)]
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"it holds {values.size} bytes where {'×'.join(map(str, shape))} belong")
    return values.reshape(shape)


def cifar_binary(content: bytes, label_bytes: int) -> tuple[Bytes, Bytes]:
    """Images N×3×32×32 and the last label of each, from records of labels and pixels."""
    record = label_bytes + 3072
    if not content or len(content) % record:
        raise ValueError(f"its {len(content)} bytes are no whole number of records of {record}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1]


def cifar_python(content: bytes, labels: str) -> tuple[Bytes, Bytes]:
    """Images N×3×32×32 and labels from a pickled dictionary of `data` and `labels`."""
    batch = plain(content)
    if not isinstance(batch, dict) or not isinstance(batch.get("data"), np.ndarray):
        raise ValueError("it holds no dictionary with an array `data`")
    images = batch["data"].reshape(-1, 3, 32, 32)
    given = batch[labels]
    if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 256 for n in given):
        raise ValueError(f"its {labels} are no list of whole numbers")
    numbers = np.array(given, np.uint8)
    if len(numbers) != len(images):
        raise ValueError(f"{len(images)} images but {len(numbers)} labels")
    return images, numbers


class _Array:
    """An array on its way: made empty first, filled when its state arrives."""

    values: Bytes | None = None

    def fill(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        if kind != _Kind("u1") or fortran:
            raise ValueError("an array is not of bytes in C order")
        data = raw.encode("latin-1") if isinstance(raw, str) else raw
        self.values = np.frombuffer(data, np.uint8).reshape(shape)


@dataclass(frozen=True)
class _Kind:
    name: str


@dataclass(frozen=True)
class _Name:
    name: str

    def apply(self, arguments: tuple[Any, ...]) -> Any:
        """What the few functions that a batch names would make of these arguments."""
        if self.name.endswith(".multiarray _reconstruct"):
            return _Array()
        if self.name == "numpy dtype" and isinstance(arguments[0], str):
            return _Kind(arguments[0])
        if self.name == "_codecs encode" and isinstance(arguments[0], str):
            return arguments[0].encode("latin-1")
        raise ValueError(f"it names {self.name!r}, which no CIFAR batch does")


_MARK = object()
_TEXTS = ("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "BINBYTES", "SHORT_BINBYTES")
_VALUES = (*_TEXTS, "BININT", "BININT1", "BININT2")


def plain(content: bytes, most: int = MOST_OPERATIONS) -> Any:
    """A pickle of dictionaries, lists, texts, numbers and arrays of bytes."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        place = next((k for k in reversed(range(len(stack))) if stack[k] is _MARK), None)
        if place is None:
            raise ValueError("it closes what it did not open")
        items = stack[place + 1 :]
        del stack[place:]
        return items

    def set_items(items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):
                raise ValueError("a key is no text")  # a tuple could take for ever to compare
            stack[-1][key.decode() if isinstance(key, bytes) else key] = value

    def build(state: Any) -> None:
        if isinstance(stack[-1], _Array):
            stack[-1].fill(state)

    actions: dict[str, Callable[[Any], None]] = {
        "MARK": lambda _: stack.append(_MARK),
        "EMPTY_DICT": lambda _: stack.append({}),
        "EMPTY_LIST": lambda _: stack.append([]),
        "EMPTY_TUPLE": lambda _: stack.append(()),
        "NONE": lambda _: stack.append(None),
        "NEWTRUE": lambda _: stack.append(True),
        "NEWFALSE": lambda _: stack.append(False),
        "GLOBAL": lambda name: stack.append(_Name(name)),
        "TUPLE": lambda _: stack.append(tuple(since_mark())),
        "TUPLE1": lambda _: stack.append((stack.pop(),)),
        "TUPLE2": lambda _: stack.append((stack.pop(-2), stack.pop())),
        "TUPLE3": lambda _: stack.append((stack.pop(-3), stack.pop(-2), stack.pop())),
        "APPEND": lambda _: stack[-2].append(stack.pop()),
        "APPENDS": lambda _: (lambda items: stack[-1].extend(items))(since_mark()),
        "SETITEM": lambda _: set_items([stack.pop(-2), stack.pop()]),
        "SETITEMS": lambda _: set_items(since_mark()),
        "REDUCE": lambda _: stack.append(stack.pop(-2).apply(stack.pop())),
        "BUILD": lambda _: build(stack.pop()),
    }
    for name in _VALUES:
        actions[name] = stack.append
    for name in ("BINPUT", "LONG_BINPUT"):
        actions[name] = lambda place: memo.__setitem__(place, stack[-1])
    for name in ("BINGET", "LONG_BINGET"):
        actions[name] = lambda place: stack.append(memo[place])
    for number, (opcode, argument, _) in enumerate(_operations(content)):
        if number > most:
            raise ValueError(f"it holds more than {most:,} operations")
        if opcode in ("PROTO", "FRAME"):
            continue
        if opcode == "STOP":
            return _finished(stack.pop())
        if opcode not in actions:
            raise ValueError(f"it holds {opcode}, which no CIFAR batch does")
        actions[opcode](argument)
    raise EOFError("it ends too early")


def _operations(content: bytes) -> Iterator[tuple[str, Any, int | None]]:
    for opcode, argument, place in pickletools.genops(content):
        yield opcode.name, argument, place


def _finished(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v.values if isinstance(v, _Array) else v for k, v in value.items()}
    return value
