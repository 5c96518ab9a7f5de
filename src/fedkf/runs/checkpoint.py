"""Checkpoints: a small manifest, renamed atomically, over immutable files.

A commit writes only what the round changed: the algorithm's state and T1's sum, a line in the
journal that names the clients' new files, then the manifest. Until the manifest is renamed, the
checkpoint before it stands.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from fedkf.core.digests import digest, file_digest
from fedkf.core.errors import FedkfError
from fedkf.core.federation import Saved
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Payload, PayloadError, sync_folder, write_atomically
from fedkf.core.records import Round
from fedkf.core.shapes import Damage
from fedkf.core.versions import Versions
from fedkf.runs.manifest import Latest, Manifest, journal_line, replay

STATES = "clients"
Value = TypeVar("Value")


class CheckpointFolder:
    """RUN/checkpoint."""

    def __init__(self, folder: Path, states: type[Versions] = Versions) -> None:
        self.folder = folder
        self.stores: dict[str, Versions] = {}
        self._payloads: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._latest: Latest = {}
        self._journal_size = 0
        self._journal = hashlib.sha256()
        folder.mkdir(parents=True, exist_ok=True)
        self.states = self.stores[STATES] = states(folder / STATES)
        """The clients' private states; `states` says where they lie."""

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def versions(self, name: str) -> Versions:
        """A store of per-client files that takes part in every commit."""
        if name not in self.stores:
            self.stores[name] = Versions(self.folder / name)
        return self.stores[name]

    def read(self) -> Saved | None:
        """The last commit, if any, every file of it checked; nothing is changed."""
        try:
            if not os.path.lexists(self.manifest):
                return None
            manifest = checked(
                self.manifest, lambda: Manifest.from_bytes(self._content("manifest.json"))
            )
            latest = self._read_journal(manifest)
            payloads = {
                name: self._payload(file, manifest.sha256.get(file))
                for name, file in manifest.payloads.items()
            }
        except OSError as error:
            raise FedkfError(f"the checkpoint in {self.folder} cannot be read: {error}") from None
        self._payloads, self._digests = dict(manifest.payloads), dict(manifest.sha256)
        self._latest, self._journal_size = latest, manifest.journal
        return Saved(manifest.round, payloads, manifest.ledger, manifest.record)

    def look(self) -> None:
        """Let the stores show what the commit that was read names; nothing is changed on disk."""
        for name, latest in self._latest.items():
            self.versions(name).latest = dict(latest)

    def state_of(self, client: int) -> Payload | None:
        """A client's private state as of the commit that was read, if it has one here."""
        version = self._latest.get(STATES, {}).get(client)
        if version is None or not self.states.here:
            return None
        return self.states.load(client, version)

    def _content(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def _payload(self, name: str, wanted: str | None) -> Payload:
        content = self._content(name)
        self._compare(name, wanted, digest(content))
        return checked(self.folder / name, lambda: Payload.from_bytes(content))

    def _read_journal(self, manifest: Manifest) -> Latest:
        """The accepted versions, each of whose files is there and is what was written."""
        content = self._content(self.journal.name)[: manifest.journal]
        if len(content) < manifest.journal:
            raise FedkfError(f"{self.journal} is damaged: it is too short")
        self._journal = hashlib.sha256(content)
        wanted = manifest.sha256.get(self.journal.name)
        self._compare(self.journal.name, wanted, self._journal.hexdigest())
        latest, digests = checked(self.journal, lambda: replay(content))
        for store, versions in latest.items():
            if not self.versions(store).here:
                continue
            for client, version in versions.items():
                path = self.versions(store).path(client, version)
                if not path.is_file():
                    raise FedkfError(f"{path} is missing, which the checkpoint names")
                name = f"{store}/{path.name}"
                if name in digests:
                    self._compare(name, digests[name], file_digest(path))
        return latest

    def _compare(self, name: str, wanted: str | None, found: str) -> None:
        if wanted is not None and wanted != found:
            raise FedkfError(f"{self.folder / name} is damaged: it is not what the run had written")

    def tidy(self) -> None:
        """Remove whatever was written after the last commit."""
        if self.journal.exists():
            os.truncate(self.journal, self._journal_size)
        for entry in self.folder.iterdir():
            if entry.is_dir():
                self.versions(entry.name).restore(self._latest.get(entry.name, {}).items())
            elif entry.name not in {*self._payloads.values(), "manifest.json", "journal.jsonl"}:
                entry.unlink()

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Round]
    ) -> Round:
        files, digests = self._write_payloads(payloads)
        changes = {name: store.changes() for name, store in self.stores.items()}
        line = journal_line(changes, self._digests_of(changes))
        with open(self.journal, "ab") as file:
            file.truncate(self._journal_size)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        for folder in (self.folder, *(self.stores[name].folder for name in changes)):
            sync_folder(folder)
        self._journal.update(line)
        digests[self.journal.name] = self._journal.hexdigest()
        record = sign()
        size = self._journal_size + len(line)
        manifest = Manifest(record.round, files, size, ledger.counts, record, digests)
        write_atomically(self.manifest, manifest.to_bytes())
        old, self._payloads, self._journal_size = self._payloads, files, size
        self._digests = digests
        for name in old.values():
            if name not in files.values():
                (self.folder / name).unlink(missing_ok=True)
        for store in self.stores.values():
            store.committed()
        return record

    def _write_payloads(
        self, payloads: Mapping[str, Payload]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The file of each payload, and the digest of each file."""
        files: dict[str, str] = {}
        digests: dict[str, str] = {}
        number = self._next_number()
        for name, payload in payloads.items():
            if name == "start" and self._payloads.get(name) in self._digests:
                files[name] = self._payloads[name]  # w⁰ never changes
                digests[files[name]] = self._digests[files[name]]
                continue
            files[name], content = f"{name}.{number}.safetensors", payload.to_bytes()
            digests[files[name]] = digest(content)
            write_atomically(self.folder / files[name], content, sync=False)
        return files, digests

    def _digests_of(self, changes: Mapping[str, Mapping[int, str]]) -> dict[str, str]:
        """Of the clients' new files, where they lie here."""
        return {
            f"{name}/{path.name}": file_digest(path)
            for name, made in changes.items()
            if self.stores[name].here
            for path in (
                self.stores[name].path(client, version) for client, version in made.items()
            )
        }

    def _next_number(self) -> int:
        """A number that no file of the standing checkpoint carries."""
        numbers = [int(name.split(".")[-2]) for name in self._payloads.values()]
        return max(numbers, default=0) + 1


def checked(path: Path, read: Callable[[], Value]) -> Value:
    """What is read from a file, or a sentence that names it."""
    try:
        return read()
    except (Damage, PayloadError) as error:
        raise FedkfError(f"{path} is damaged: {error}") from None
