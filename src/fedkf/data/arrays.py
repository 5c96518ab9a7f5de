"""Arrays of .npz files: what a file claims is checked before anything is allocated for it.

An .npz file is a zip archive of .npy files. Its directory says how large each member is, and the
member's header what array it holds; both may lie.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedkf.core.errors import UserError, printable
from fedkf.core.limits import in_words, memory, proper_text, shown
from fedkf.data.reading import composed

READING = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,  # an encrypted member, and a compression that is not known here
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
"""What goes wrong in an archive that is cut off, damaged or of another kind."""
SUSPICIOUS = 256 << 20
"""Bytes from which on a member is refused that unpacks to more than RATIO times its size."""
RATIO = 200
DECODED = 5
"""Bytes of memory that a byte of a text takes, as it is and decoded."""
MOST_NAMES = 10


def read_npz(file: Path, *needed: str, also: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file that are of use here, of which some must be there."""
    try:
        with open(file, "rb") as opened:
            return read_arrays(opened, (*needed, *also), needed)
    except Missing as error:
        raise UserError(f"data.path: {file} {error}{others(needed)}") from None
    except Unusable as error:
        raise UserError(f"data.path: {file}: {error}") from None
    except READING as error:
        reason = f" ({printable(error)})" if str(error) else ""
        raise UserError(
            f"data.path: {file} is not a readable .npz file{reason}; numpy.savez writes them"
        ) from None


def names_in(file: Path) -> list[str]:
    """The arrays of an .npz file that could be read, as they can be shown."""
    with zipfile.ZipFile(file) as archive:
        return sorted(printable(name.removesuffix(".npy"), 40) for name in archive.namelist())


def others(needed: Sequence[str]) -> str:
    """How labels are found that are called otherwise."""
    return " (data.target names other labels)" if "labels" in needed else ""


class Unusable(ValueError):
    """An array is not of a kind that is read."""


class Missing(Exception):
    """An array that is needed is not in the file."""


def read_arrays(
    opened: BinaryIO, wanted: Sequence[str], needed: Sequence[str] = (), most: int | None = None
) -> dict[str, NDArray[Any]]:
    """Arrays by their names, of at most so many bytes, or as many as this machine can hold.

    ValueError and the rest of READING say what is wrong with a file.
    """
    most = memory() if most is None else most
    with zipfile.ZipFile(opened) as archive:
        members = {m.filename.removesuffix(".npy"): m for m in archive.infolist()}
        for name in needed:
            if name not in members:
                names = [printable(n, 40) for n in sorted(members)]
                more = ", …" if len(names) > MOST_NAMES else ""
                raise Missing(
                    f"has no array {name!r} (it has {', '.join(names[:MOST_NAMES]) or 'none'}"
                    f"{more}); it needs {' and '.join(needed)}"
                )
        used = {name: members[name] for name in sorted(set(wanted) & members.keys())}
        total = 0
        for name, member in used.items():
            total += check_member(archive, name, member)
            if total > most:
                raise ValueError(
                    f"with {name!r} it takes {in_words(total)}, more than the "
                    f"{in_words(most)} that are read into this machine's memory"
                )
        return {name: read_member(archive, name, member) for name, member in used.items()}


def check_member(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> int:
    """Refuse a member that is no plain array of the size that it claims; the bytes it takes."""
    if member.flag_bits & 1:
        raise ValueError(f"{name!r} is encrypted")
    with archive.open(member) as file:
        shape, kind = read_header(file, name)
        start = file.tell()
    if kind.hasobject or kind.kind not in "biufcSU":
        raise Unusable(
            f"{name!r} holds {shown(kind)}; numbers and texts are read, no objects: save texts as "
            f"{name}.astype(str), and signals of different lengths as windows of one length"
        )
    if kind.itemsize == 0 or any(n < 0 or n >= 2**40 for n in shape) or len(shape) > 8:
        raise ValueError(f"{name!r} claims the shape {shown(shape)} of {kind}")
    claimed, there = math.prod(shape) * kind.itemsize, member.file_size - start
    if claimed != there:
        raise ValueError(
            f"{name!r} claims {in_words(claimed)} of {kind}, but there are "
            f"{in_words(max(0, there))}"
        )
    if member.file_size > max(SUSPICIOUS, RATIO * member.compress_size):
        raise ValueError(
            f"{name!r} unpacks to {in_words(member.file_size)}, more than {RATIO} times the "
            f"{in_words(member.compress_size)} that it takes in the file; such a file is taken for "
            "an attack"
        )
    return claimed * (DECODED if kind.kind == "S" else 1)


def read_header(file: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the kind of numbers that a .npy member claims."""
    try:
        version = npy.read_magic(file)
    except ValueError:
        raise ValueError(f"{name!r} is not an array") from None
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"{name!r} is an array of version {version}, which is not read here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a header that Python 2 wrote
        try:
            shape, _, kind = readers[version](file)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"the header of {name!r} cannot be read: {error}") from None
    return shape, kind


def read_member(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> NDArray[Any]:
    """An array whose claims were found to hold, in this machine's order of bytes; texts as such."""
    with archive.open(member) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        if file.read(1):
            raise ValueError(f"{name!r} goes on after its array")
    array = decoded(array, name)
    if array.dtype.kind == "U" and not proper_texts(array):
        raise ValueError(f"{name!r} holds texts with characters that cannot be shown")
    if array.dtype.kind == "U" and array.size:
        texts, places = np.unique(array, return_inverse=True)
        array = np.array(composed(texts.tolist()))[places].reshape(array.shape)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def decoded(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Texts that are kept as bytes as texts, anything else as it is."""
    if array.dtype.kind != "S":
        return array
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError:
        raise Unusable(
            f"{name!r} holds bytes that are no text in UTF-8; save them as texts: "
            f"numpy.char.decode({name}, 'latin-1'), or whatever they are in"
        ) from None


def proper_texts(array: NDArray[Any]) -> bool:
    """Whether all texts of an array are texts: its memory may hold anything."""
    flat = np.ascontiguousarray(array).reshape(-1)
    codes = flat.view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if codes.size and (codes.max() > 0x10FFFF or ((codes >= 0xD800) & (codes < 0xE000)).any()):
        return False
    return all(proper_text(str(text)) for text in np.unique(flat))


def read_bytes(content: bytes, *names: str) -> list[NDArray[Any]]:
    """Arrays of an .npz file that is in memory, in the order of the names."""
    try:
        arrays = read_arrays(io.BytesIO(content), names, names)
    except Missing as error:
        raise ValueError(f"it {error}") from None
    return [arrays[name] for name in names]
