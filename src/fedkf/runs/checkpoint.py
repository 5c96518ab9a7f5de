"""Checkpoints: a small manifest, renamed atomically, over immutable files.

A commit writes only what the round changed: the algorithm's state and T1's sum, a line in the
journal that names the clients' new files, then the manifest. Until the manifest is renamed, the
checkpoint before it stands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError
from fedkf.core.federation import Saved
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Payload, write_atomically
from fedkf.core.records import Round
from fedkf.core.versions import Versions

STATES = "clients"


class CheckpointFolder:
    """RUN/checkpoint."""

    def __init__(self, folder: Path, states: type[Versions] = Versions) -> None:
        self.folder = folder
        self.stores: dict[str, Versions] = {}
        self._payloads: dict[str, str] = {}
        self._journal_size = 0
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

    def open(self) -> Saved | None:
        """The last commit, if any; whatever was written after it is removed."""
        if not self.manifest.exists():
            self.journal.unlink(missing_ok=True)
            self._clean({})
            return None
        try:
            manifest = json.loads(self.manifest.read_bytes())
            self._payloads = manifest["payloads"]
            self._journal_size = manifest["journal"]
            with open(self.journal, "r+b") as file:
                file.truncate(self._journal_size)
                latest = replay(file.read().decode().splitlines())
            payloads = {k: Payload.load(self.folder / v) for k, v in self._payloads.items()}
            record = Round.read(manifest["record"])
        except (OSError, ValueError, KeyError) as error:
            raise FedkfError(f"the checkpoint in {self.folder} cannot be read: {error}") from None
        self._clean(latest)
        return Saved(manifest["round"], payloads, manifest["ledger"], record)

    def _clean(self, latest: Mapping[str, dict[int, str]]) -> None:
        for folder in self.folder.iterdir():
            if folder.is_dir():
                self.versions(folder.name).restore(latest.get(folder.name, {}).items())
            elif folder.name not in {*self._payloads.values(), "manifest.json", "journal.jsonl"}:
                folder.unlink()

    def commit(
        self, payloads: Mapping[str, Payload], ledger: Ledger, sign: Callable[[], Round]
    ) -> Round:
        changes = {name: store.changes() for name, store in self.stores.items()}
        line = json.dumps({k: v for k, v in changes.items() if v}).encode() + b"\n"
        files = {}
        number = self._next_number()
        for name, payload in payloads.items():
            if name == "start" and name in self._payloads:
                files[name] = self._payloads[name]  # w⁰ never changes
                continue
            files[name] = f"{name}.{number}.safetensors"
            payload.save(self.folder / files[name])
        with open(self.journal, "ab") as file:
            file.truncate(self._journal_size)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        for folder in (self.folder, *(self.stores[name].folder for name in changes)):
            sync_folder(folder)
        record = sign()
        size = self._journal_size + len(line)
        manifest: dict[str, Any] = {
            "round": record.round,
            "payloads": files,
            "journal": size,
            "ledger": ledger.counts,
            "record": record.as_json(),
        }
        write_atomically(self.manifest, json.dumps(manifest).encode())
        sync_folder(self.folder)
        old, self._payloads, self._journal_size = self._payloads, files, size
        for name in old.values():
            if name not in files.values():
                (self.folder / name).unlink(missing_ok=True)
        for store in self.stores.values():
            store.committed()
        return record

    def _next_number(self) -> int:
        """A number that no file of the standing checkpoint carries."""
        numbers = [int(name.split(".")[-2]) for name in self._payloads.values()]
        return max(numbers, default=0) + 1


def replay(lines: list[str]) -> dict[str, dict[int, str]]:
    """The accepted version of every client, per store, from the journal."""
    latest: dict[str, dict[int, str]] = {}
    for line in lines:
        for store, changes in json.loads(line).items():
            latest.setdefault(store, {}).update({int(k): v for k, v in changes.items()})
    return latest


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
