"""A coordinator and sites within this process, with all that is signed, sealed and logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from flwr.app import Context, Message, RecordDict
from switchboard import Node, Switchboard

from fedkf.data.scaling import KIND
from fedkf.flower.client import client
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.grid import SignedGrid
from fedkf.flower.jobs import Job, Request
from fedkf.flower.orders import Numbers
from fedkf.flower.server import execute
from fedkf.flower.site import VARIABLE, SiteFolder
from fedkf.runs.config import resolve
from fedkf.runs.data_keys import Data
from fedkf.runs.store import RunFolder

SIZES = {"north": 40, "south": 24, "west": 31}
SHARED = {"share": [KIND, "losses", "test_statistics"]}
TRAINING = {
    "algorithm": {"name": "fedavg"},
    "federation": {"rounds": 2, "fraction": 1.0, "local_epochs": 1, "batch_size": 8, "lr": 0.1},
    "model": {"name": "mlp"},
    "engine": {"workers": 0},
}


class Clinics:
    """Sites by name, each with what its file says of data and of what it shares."""

    def __init__(
        self, folder: Path, sites: Mapping[str, dict[str, Any]], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder, self.patch = folder, patch
        self.coordinator = Coordinator(folder / "coordinator")
        self.coordinator.create(["127.0.0.1"], 8000)
        self.sites = {name: self.site(name, keys) for name, keys in sites.items()}
        nodes = {name: number for number, name in enumerate(self.sites, 1)}
        public = {name: (site / "node.pub").read_text() for name, site in self.sites.items()}
        (self.coordinator / "keys.json").write_text(json.dumps(public))
        (self.coordinator / "sites.json").write_text(json.dumps(nodes))
        self.nodes = nodes
        self.board = Switchboard({node: self.serving(name) for name, node in nodes.items()})

    def site(self, name: str, keys: dict[str, Any]) -> SiteFolder:
        made = SiteFolder(self.folder / name)
        made.create(name, "127.0.0.1:8000", self.coordinator / "ca.crt")
        self.rewrite(made, **keys)
        return made

    def rewrite(self, site: SiteFolder, **keys: Any) -> None:
        """Change the site's file."""
        content = yaml.safe_load((site / "site.yaml").read_text())
        (site / "site.yaml").write_text(yaml.safe_dump({**content, **keys}))

    def serving(self, name: str) -> Node:
        def serve(message: Message) -> Message:
            self.patch.setenv(VARIABLE, str(self.sites[name].path))
            return client(message, Context(1, self.nodes[name], {}, RecordDict(), {}))

        return serve

    def hearing(self, name: str, change: Callable[[Message], Message | None]) -> None:
        """Have `change` look at what goes to a site; what it returns is the site's answer."""
        node, serve = self.nodes[name], self.serving(name)
        self.board.nodes[node] = lambda message: change(message) or serve(message)

    def run(self, config: Mapping[str, Any], out: str = "run", resume: bool = False) -> Job:
        """What `fedkf coordinator run` has Flower do."""
        job = self.coordinator.job(f"job{len(list((self.coordinator / 'jobs').iterdir()))}")
        job.create(Request.here(resolve(dict(config)), self.folder / out, resume, 1))
        numbers = Numbers(self.coordinator / "orders")
        own = self.coordinator.own_keys()
        grid = SignedGrid(self.board, own, self.coordinator.site_keys, numbers)
        execute(grid, self.coordinator, job.request(), job.say)
        return job

    def asked(self) -> list[str]:
        """The steps that sites were asked for, each once, in their order."""
        heads = [message.content.config_records["call"] for message in self.board.sent]
        return list(dict.fromkeys(str(head.get("step", "greeting")) for head in heads))

    def sent(self, name: str) -> list[dict[str, Any]]:
        lines = (self.sites[name] / "sent.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def written(folder: Path) -> Data:
    """The data keys of a run's configuration."""
    config = RunFolder(folder).config()
    assert config is not None
    return config.data
