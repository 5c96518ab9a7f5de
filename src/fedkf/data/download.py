"""Downloads that go on where they were broken off, and are kept only if their checksum is right."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from fedkf.core.errors import FedkfError, UserError
from fedkf.data.catalog import Dataset, Download, data_folder

Progress = Callable[[str, int, int | None], None]
"""Told a file's name, the bytes there are, and how many there will be if that is known."""

CHUNK = 1 << 16
TIMEOUT = 30


def get(
    dataset: Dataset,
    folder: Path | None = None,
    mirror: str | None = None,
    progress: Progress = lambda name, done, total: None,
) -> list[Path]:
    """Download what is not there yet; where the files are."""
    folder = folder or data_folder() / dataset.name
    if not dataset.downloads:
        raise UserError(f"{dataset.name} cannot be downloaded; {dataset.missing()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [fetch(wanted, folder, mirror, progress) for wanted in dataset.downloads]
    except urllib.error.HTTPError as error:
        raise FedkfError(
            f"{error.url} answers {error.code} {error.reason}; {by_hand(dataset)}"
        ) from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as e:
        reason = getattr(e, "reason", e)
        raise FedkfError(f"no connection ({reason}); {by_hand(dataset)}") from None
    except OSError as error:
        raise FedkfError(f"cannot write {folder}: {error.strerror or error}") from error


def by_hand(dataset: Dataset) -> str:
    """What to do without a network."""
    urls = " and ".join(wanted.url for wanted in dataset.downloads)
    return (
        f"what was fetched is kept, so try again, or fetch {urls} elsewhere and put it into "
        f"{data_folder() / dataset.name}"
    )


def fetch(wanted: Download, folder: Path, mirror: str | None, progress: Progress) -> Path:
    """One file, continued from the part of it that is there; one that is whole stays as it is."""
    target, part = folder / wanted.name, folder / f"{wanted.name}.part"
    if target.exists():
        if (found := checksum(target)) == wanted.md5:
            return target
        raise UserError(
            f"{target} is not the published file (MD5 {found}, not {wanted.md5}) and is left as it "
            "is; move it elsewhere to have it downloaded"
        )
    url = wanted.url if mirror is None else f"{mirror.rstrip('/')}/{wanted.name}"
    if not (part.exists() and checksum(part) == wanted.md5):
        _fetch(url, part, wanted.name, progress)
    found = checksum(part)
    if found != wanted.md5:
        part.unlink()
        raise UserError(
            f"{wanted.name} from {url} is not the published file (MD5 {found}, not {wanted.md5}) "
            "and was removed"
        )
    os.replace(part, target)
    return target


def _fetch(url: str, part: Path, name: str, progress: Progress) -> None:
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fedkf"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        opened = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        part.unlink()  # there is more than the server has: begin again
        return _fetch(url, part, name, progress)
    with contextlib.closing(opened) as answer:
        if done and answer.status != http.client.PARTIAL_CONTENT:
            done = 0  # a server that always sends the whole
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else None
        with open(part, "ab" if done else "wb") as file:
            for chunk in _chunks(answer):
                file.write(chunk)
                done += len(chunk)
                progress(name, done, total)
        if total is not None and done < total:
            raise ConnectionError(f"broken off after {done} of {total} bytes")
    return None


def _chunks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := answer.read(CHUNK):
        yield chunk


def checksum(path: Path) -> str:
    """The MD5 sum, as published for all of these; it guards against accidents only."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
