"""All that is used of Flower beyond its public interface, each part named where it is expected.

Flower sends an app's code to every node and runs it there. A coordinator and a site of ours put
their own functions in the place of those that would install and import that code. With a version of
Flower in which a part is somewhere else, nothing is run.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import importlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

LOST = {3: "MESSAGE_UNAVAILABLE", 4: "REPLY_MESSAGE_UNAVAILABLE", 5: "NODE_UNAVAILABLE"}
"""Flower's errors that say that a message or its reply was lost on the way, by their codes."""


@dataclass(frozen=True)
class Program:
    """A program of Flower's: its command, the function behind it, and what we replace of that."""

    command: str
    function: str
    replaced: tuple[str, ...]

    def missing(self) -> list[str]:
        """The parts that this version of Flower does not have where they are expected."""
        if not callable(found(self.command)):
            return [self.command]
        code = getattr(found(self.function), "__code__", None)
        if code is None:
            return [self.function]
        module = self.function.rpartition(".")[0]
        names = [f"{module}.{name}" for name in self.replaced]
        # A function that the program no longer calls would be replaced in vain.
        called = {f"{module}.{name}" for name in code.co_names}
        return [name for name in names if name not in called or not callable(found(name))]

    def run(self, *functions: Callable[..., Any]) -> None:
        """Become the program, with ours in the place of the functions that are replaced."""
        if lacking := self.missing():
            raise SystemExit(
                f"fedkf: Flower {version('flwr')} has no {lacking[0]} as it is known, "
                "so nothing is run"
            )
        module = importlib.import_module(self.function.rpartition(".")[0])
        for name, function in zip(self.replaced, functions, strict=True):
            setattr(module, name, function)
        found(self.command)()


SERVER = Program(
    "flwr.superlink.cli.flwr_serverapp.flwr_serverapp",
    "flwr.superlink.runtime.run_serverapp.run_serverapp",
    ("install_from_fab", "get_project_dir"),
)
CLIENT = Program(
    "flwr.supernode.cli.flwr_clientapp.flwr_clientapp",
    "flwr.supernode.runtime.run_clientapp.run_clientapp",
    ("install_from_fab", "get_load_client_app_fn"),
)
LINK = Program(
    "flwr.superlink.cli.flower_superlink.flower_superlink",
    "flwr.superlink.cli.flower_superlink._parse_superlink_lifespan_config",
    ("load_control_authn_plugin",),
)
NOBODY = "flwr.superlink.auth_plugin.NoOpControlAuthnPlugin"
"""Lets everybody in, under one name; that name stays with what was registered under it."""
STORED = {
    "flower.account-auth.%s.authn-type": "oidc",
    "flower.account-auth.%s.oidc-access-token": "",
    "flower.account-auth.%s.oidc-refresh-token": "",
}
"""Where Flower's command line looks for what it authenticates itself with at an address."""


def credentials(address: str, token: str) -> str:
    """The file with which Flower's command line sends a token to an address."""
    values = {key % address: value or token for key, value in STORED.items()}
    lines = [f"{key}: {base64.b64encode(v.encode()).decode()}\n" for key, v in values.items()]
    return "".join(lines) if token else "{}\n"


def registered(database: Path, key: bytes) -> tuple[int, str] | None:
    """The node that a SuperLink's database has for a public key, and what became of it.

    Flower's command line tells nobody's key, so that a registration whose answer was lost is found
    nowhere else. None if the key is not there or the database is of another form.
    """
    query = "SELECT node_id, status FROM node WHERE public_key = ?"
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
            row = db.execute(query, (key,)).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else (int(row[0]) % 2**64, str(row[1]))  # it has them signed


def found(path: str) -> Any:
    """An object by the path of its module and its name, or None."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def run_server(app: Path) -> None:
    """Run the ServerApp in the folder `app`, whatever app came with the request."""
    SERVER.run(install_nothing, lambda *args, **options: app)


def run_link(token: str) -> None:
    """Run a SuperLink whose control interface serves only whoever sends the token."""
    open_to_all: Any = found(NOBODY)
    if open_to_all is None:
        raise SystemExit(f"fedkf: Flower {version('flwr')} has no {NOBODY}, so nothing is run")

    class Holder(open_to_all):  # type: ignore[misc]
        """Whoever holds the token."""

        def validate_tokens_in_metadata(self, metadata: Any) -> Any:
            given = [str(value) for _, value in metadata]
            if any(hmac.compare_digest(value.encode(), token.encode()) for value in given):
                return super().validate_tokens_in_metadata(metadata)
            return False, None

        def refresh_tokens(self, metadata: Any) -> Any:
            return (), None

    LINK.run(Holder)


def run_client(app: Any) -> None:
    """Run this ClientApp for one message, whatever app came with it."""
    CLIENT.run(install_nothing, lambda *args, **options: lambda *names: app)


def install_nothing(*args: Any, **options: Any) -> None:
    """In the place of the function that installs an app that came over the network."""
