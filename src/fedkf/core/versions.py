"""Versions: per-client files of which each version is immutable, so that a crash loses nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedkf.core.payload import Payload, written_in


class Versions:
    """A payload per client, kept as one file per version.

    A version exists for the run only once it is accepted; the one before it is deleted only after
    a checkpoint that names the new one has been committed. Any process can read and write.
    """

    here = True
    """Whether the files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.latest: dict[int, str] = {}
        self._changed: dict[int, str] = {}
        self._old: list[tuple[int, str]] = []
        self._discarded: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, client: int, version: str) -> Path:
        return self.folder / f"{client}-{version}.safetensors"

    def load(self, client: int, version: str) -> Payload:
        return Payload.load(self.path(client, version))

    def save(self, client: int, version: str, payload: Payload) -> None:
        payload.save(self.path(client, version))

    def accept(self, client: int, version: str) -> None:
        if self.latest.get(client, version) != version:
            self._old.append((client, self.latest[client]))
        self.latest[client] = self._changed[client] = version

    def discard(self, client: int, version: str) -> None:
        self.path(client, version).unlink(missing_ok=True)
        self._discarded.add(self.path(client, version).name)

    def changes(self) -> dict[int, str]:
        """What was accepted since the last commit."""
        return dict(self._changed)

    def committed(self) -> None:
        """A checkpoint names the latest versions: the ones before them can go."""
        if self._discarded:  # whoever wrote them may have been killed half-way
            for half in self.folder.glob(".*.tmp"):
                if written_in(half) in self._discarded:
                    half.unlink(missing_ok=True)
        for client, version in self._old:
            self.discard(client, version)
        self._discarded.clear()
        self._old.clear()
        self._changed.clear()

    def restore(self, latest: Iterable[tuple[int, str]]) -> None:
        """Start from these accepted versions and delete every other file."""
        self.latest = dict(latest)
        kept = {self.path(client, version).name for client, version in self.latest.items()}
        for file in self.folder.iterdir():
            if file.name not in kept:
                file.unlink()

    def keep_only(self, client: int, versions: Iterable[str]) -> None:
        """Delete the client's other files, which nobody can ask for again."""
        names = {self.path(client, version).name for version in versions}
        for file in self.folder.glob(f"{client}-*.safetensors"):
            if file.name not in names:
                file.unlink(missing_ok=True)


class RemoteVersions(Versions):
    """Which version each client holds, where the files themselves lie on the clients' own disks."""

    here = False

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder or Path.cwd())

    def discard(self, client: int, version: str) -> None:
        """The next message to the client names what it must keep."""

    def keep(self, client: int) -> list[str]:
        """The versions that a resumed run may start from."""
        latest = [self.latest[client]] if client in self.latest else []
        return [*latest, *(version for k, version in self._old if k == client)]

    def restore(self, latest: Iterable[tuple[int, str]]) -> None:
        self.latest = dict(latest)
