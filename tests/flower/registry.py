"""A program in the place of `flwr`, which registers sites in a database as a SuperLink does."""

from __future__ import annotations

import json
import secrets
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from fedkf.flower.keys import node_public_key, public_pem


def install(folder: Path, database: Path) -> None:
    """Make `folder` one in which fedkf finds this program beside Python."""
    program = folder / "flwr"
    program.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' '{__file__}' '{database}' \"$@\"\n", encoding="utf-8"
    )
    program.chmod(0o700)


def main(database: str, _: str, verb: str, what: str, *more: str) -> dict[str, object]:
    """What `flwr supernode VERB` would print."""
    with closing(sqlite3.connect(database, timeout=60)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS node (node_id UNIQUE, status, public_key UNIQUE)")
        if verb == "list":
            rows = db.execute("SELECT node_id, status FROM node").fetchall()
            nodes = [{"node-id": str(node % 2**64), "status": status} for node, status in rows]
            return {"success": True, "nodes": nodes}
        if verb == "unregister":
            node = int(what)
            change = "UPDATE node SET status = 'unregistered' WHERE node_id = ? AND status != ?"
            done = db.execute(change, (signed(node), "unregistered")).rowcount
            return {"success": True} if done else refusal("Node ID not found for account.")
        node = secrets.randbits(64)
        key = public_pem(node_public_key(Path(what).read_text(), what))
        try:
            db.execute("INSERT INTO node VALUES (?, 'registered', ?)", (signed(node), key))
        except sqlite3.IntegrityError:
            return refusal("Public key already in use.")
        return {"success": True, "node-id": node}


def signed(node: int) -> int:
    """Databases know no larger integers."""
    return node - 2**64 if node >= 2**63 else node


def refusal(why: str) -> dict[str, object]:
    return {"success": False, "error-message": why}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
