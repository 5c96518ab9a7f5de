"""Samples from a folder of images: CLASS/image, or CLIENT/CLASS/image.

Above CLASS there may be folders `train` and `test`, which then are the division.
Images are decoded once, in parallel, into a memory-mapped array in the cache. The array is keyed by
what the files hold; a second index by names, sizes and times of change spares reading them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.limits import memory, proper_text, shown
from fedkf.core.payload import write_atomically
from fedkf.data.annotations import SIDES
from fedkf.data.files import cache_folder, digest, find, some, tidy
from fedkf.data.reading import composed
from fedkf.data.source import Say, Source, check
from fedkf.data.targets import Targets

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF", "PPM")
"""What a file may hold, whatever its name; none of these makes Pillow start a program."""
DEEPEST = 8
MOST_NAMED = 20
VERSION = 1


def folder(
    path: str,
    targets: Targets,
    image_size: int | None,
    say: Say,
    skip: bool | None = None,
) -> Source:
    """The images below a folder; client folders, where there are any, own what is in them.

    A file that is no readable image is an error, or left out where it may be skipped; `skip` is
    None where nobody is asked.
    """
    root = find(path, folder=True)
    files = image_files(root, say)
    where = f"data.path: {root}"
    tested, places = placed(root, files, where)
    images, kept = decoded(root, files, image_size, say, skip)
    if len(kept) < len(files):
        say(skipped(root, files, kept))
        files = [files[k] for k in kept]
        tested, places = placed(root, files, where)
    labels = np.array([composed(p.parent.name) for p in files])
    source = check(where, images.transpose(0, 3, 1, 2), labels, targets)
    source = replace(source, tested=tested)
    if not places[0]:
        return source
    names, owners = np.unique([composed(place[0]) for place in places], return_inverse=True)
    return replace(source, owners=owners.astype(np.int64), owner_names=[str(n) for n in names])


def placed(
    root: Path, files: Sequence[Path], where: str
) -> tuple[NDArray[np.bool_] | None, list[tuple[str, ...]]]:
    """Which images test, if folders say so, and in which client's folder each lies, if in any."""
    above = [p.relative_to(root).parts[:-2] for p in files]
    sides = [parts[-1].lower() if parts else "" for parts in above]
    tested = None
    if set(sides) <= SIDES.keys() and len({SIDES[side] for side in sides}) == 2:
        tested = np.array([SIDES[side] for side in sides])
        above = [parts[:-1] for parts in above]
    depth = [len(p.relative_to(root).parts) for p in files]
    if len({len(parts) for parts in above}) > 1 or min(depth) < 2 or len(above[0]) > 1:
        odd = min(files, key=lambda p: depth.count(len(p.relative_to(root).parts)))
        raise UserError(
            f"{where}: images must lie in CLASS/image or CLIENT/CLASS/image, all alike (and CLASS "
            f"in folders train and test, if you divide them); {odd.relative_to(root)} does not"
        )
    return tested, above


def skipped(root: Path, files: Sequence[Path], kept: Sequence[int]) -> str:
    """How many files were left out, client by client."""
    lost = sorted(set(range(len(files))) - set(kept))
    tops = Counter(files[k].relative_to(root).parts[0] for k in lost)
    each = ", ".join(f"{name} {count}" for name, count in sorted(tops.items()))
    gone = sorted(tops.keys() - {files[k].relative_to(root).parts[0] for k in kept})
    rest = f"; no image is left of {some(gone)}" if gone else ""
    return (
        f"{counted(len(lost), 'file')} below {root} cannot be read and are left out ({each}){rest}"
    )


def counted(count: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "file"), counted(2, "file")
    ('1 file', '2 files')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def image_files(root: Path, say: Say) -> list[Path]:
    """Every image below a folder, in one fixed order."""
    walked = list(walk(root))
    found = sorted(Path(folder) / name for folder, names in walked for name in names)
    files = [p for p in found if p.suffix.lower() in ENDINGS]
    if len(files) < len(found):
        kinds = sorted({p.suffix.lower() or p.name for p in found} - ENDINGS)[:4]
        others = counted(len(found) - len(files), "file")
        say(f"left out {others} below {root} ({', '.join(kinds)})")
    if not files:
        raise UserError(
            f"data.path: {root} holds no images ({', '.join(sorted(ENDINGS))}) in class folders"
        )
    tops = {part for folder, _ in walked for part in Path(folder).relative_to(root).parts[:1]}
    holding = {p.relative_to(root).parts[0] for p in files}
    if bare := sorted(tops - holding):
        say(f"left out {counted(len(bare), 'folder')} below {root} without an image ({some(bare)})")
    return files


def walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Every folder below this one, links followed, and the files in it; none that is hidden.

    A folder that a link leads back into, or that lies too deep, is refused: there is no end to it.
    So is one that cannot be read: whatever is in it, perhaps a whole site, would be missing.
    """

    def refuse(error: OSError) -> None:
        folder = shown(str(error.filename))
        raise UserError(f"data.path: {folder} cannot be read: {error.strerror}") from None

    above: dict[str, tuple[tuple[int, int], ...]] = {}
    for folder, subfolders, names in os.walk(root, onerror=refuse, followlinks=True):
        status = os.stat(folder)
        own = (status.st_dev, status.st_ino)
        parents = above.pop(folder, ())
        if own in parents:
            raise UserError(f"data.path: {folder} is a link to a folder that it lies in")
        if len(parents) > DEEPEST:
            raise UserError(f"data.path: {folder} lies more than {DEEPEST} folders below {root}")
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        above |= {os.path.join(folder, name): (*parents, own) for name in subfolders}
        for name in names:
            if not proper_text(os.path.join(folder, name)):
                where = shown(os.path.join(folder, name))
                raise UserError(f"data.path: {where} holds characters that cannot be shown")
        yield folder, [name for name in names if not name.startswith(".")]


Images = np.ndarray[Any, Any]


def decoded(
    root: Path, files: Sequence[Path], size: int | None, say: Say, skip: bool | None = None
) -> tuple[Images, list[int]]:
    """The images as an array N×H×W×C of uint8, from the cache if they are in it, and which."""
    stats = [(str(p.relative_to(root)), *size_and_time(p)) for p in files]
    more = ["skip"] if skip else []
    quick = digest([VERSION, size, str(root.resolve()), stats, *more])
    cache = cache_folder()
    index = cache / "index" / f"{quick}.json"
    if index.exists():
        with contextlib.suppress(OSError, ValueError, EOFError):  # gone or damaged: decoded again
            return stored(cache / f"{known(index)}.npy", len(files))
        index.unlink(missing_ok=True)
    contents = [hashlib.sha256(p.read_bytes()).hexdigest() for p in files]
    key = digest([VERSION, size, contents, *more])
    array = cache / f"{key}.npy"
    try:
        (cache / "index").mkdir(parents=True, exist_ok=True)
        if not array.exists():
            tidy(cache)
            images, kept = decode(root, files, size, say, skip)
            buffer = io.BytesIO()
            np.save(buffer, images)
            if len(kept) < len(files):
                write_atomically(array.with_suffix(".json"), json.dumps(kept).encode())
            write_atomically(array, buffer.getvalue())
        write_atomically(index, json.dumps(key).encode())
    except OSError as error:
        raise FedkfError(f"cannot write the cache {cache}: {error.strerror or error}") from error
    return stored(array, len(files))


def stored(array: Path, count: int) -> tuple[Images, list[int]]:
    """The images in the cache, and which of so many files they are."""
    images: Images = np.load(array, mmap_mode="r")
    if len(images) == count:
        return images, list(range(count))
    kept = [int(k) for k in json.loads(array.with_suffix(".json").read_bytes())]
    if len(kept) != len(images) or any(not 0 <= k < count for k in kept):
        raise ValueError("not what was written")
    return images, kept


def known(index: Path) -> str:
    """The name of the array that an index points to."""
    if not re.fullmatch("[0-9a-f]{32}", name := str(json.loads(index.read_bytes()))):
        raise ValueError("no name of an array")
    return name


def size_and_time(path: Path) -> tuple[int, int]:
    """Of a file, which must be one: a pipe in its place would never end."""
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"data.path: {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"data.path: {path} is not a file")
    return status.st_size, status.st_mtime_ns


def decode(
    root: Path, files: Sequence[Path], size: int | None, say: Say, skip: bool | None
) -> tuple[Images, list[int]]:
    """Decode in parallel (Pillow lets go of Python's lock), with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(
            track(
                pool.map(lambda p: open_image(p, size, memory() // len(files)), files),
                description="decoding images",
                total=len(files),
                console=Console(stderr=True),
                transient=True,
                disable=len(files) < 100 or not Console(stderr=True).is_terminal,
            )
        )
    kept = [k for k, image in enumerate(results) if not isinstance(image, str)]
    if len(kept) < len(files) and not (skip and kept):
        pairs = zip(files, results, strict=True)
        broken = [(p.relative_to(root), r) for p, r in pairs if isinstance(r, str)]
        raise unreadable(root, broken, asked=skip is not None)
    images = [image for image in results if not isinstance(image, str)]
    sizes = sorted({image.shape[:2] for image in images})
    if len(sizes) > 1:
        (a, b), (c, d) = sizes[0], sizes[-1]
        raise UserError(
            f"data.path: {root}: images differ in size, from {a}×{b} to {c}×{d}; "
            "set data.image_size to resize them all"
        )
    grey = sum(image.shape[2] == 1 for image in images)
    if grey < len(images):  # one in colour: all in colour
        if grey:
            say(
                f"{grey} of {len(images)} images of {root} are grey, the others in colour: all are "
                "taken as colour images"
            )
        images = [np.repeat(i, 3, axis=2) if i.shape[2] == 1 else i for i in images]
    say(f"decoded {counted(len(images), 'image')} of {root}")
    return np.stack(images), kept


def unreadable(root: Path, broken: Sequence[tuple[Path, str]], asked: bool) -> UserError:
    """Which files are no images, and what to do; `asked` where they might be skipped."""
    named: dict[str, list[str]] = {}
    for name, reason in broken[:MOST_NAMED]:
        named.setdefault(reason.split(f" '{root}")[0], []).append(str(name))
    told = [
        f"{', '.join(names)} {'is not a' if len(names) == 1 else 'are no'} readable "
        f"image{'s' if len(names) > 1 else ''}: {reason}"
        for reason, names in named.items()
    ]
    more = len(broken) - MOST_NAMED
    rest = f"; and {more} more" if more > 0 else ""
    advice = "data.unreadable=skip leaves such files out" if asked else "remove or mend such files"
    return UserError(f"data.path: {root}: {'; '.join(told)}{rest} ({advice})")


def open_image(path: Path, size: int | None, most: int | None = None) -> np.ndarray[Any, Any] | str:
    """H×W×1 for grey images, H×W×3 for all others; or why it cannot be read.

    An image whose header claims more than `most` bytes is not decoded.
    """
    from PIL import Image

    if not path.is_file():
        return "it is not a file"
    try:
        Image.init()
        with Image.open(path, formats=[f for f in FORMATS if f in Image.OPEN]) as file:
            image: Image.Image = file
            width, height = (size, size) if size is not None else image.size
            if most is not None and 3 * width * height > most:
                return f"as many images of {width}×{height} do not fit into this machine's memory"
            image.load()
            if image.mode.startswith("I") or image.mode == "F":  # 16 bits a pixel, scaled to 8
                values = np.asarray(image).astype(np.float64) / 257
                image = Image.fromarray(values.clip(0, 255).round().astype(np.uint8))
            image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
            if size is not None and image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
            return pixels[..., None] if pixels.ndim == 2 else pixels
    except Exception as error:
        return f"{type(error).__name__}: {error}"
