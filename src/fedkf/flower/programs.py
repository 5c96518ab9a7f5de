"""Flower's programs, always started with every switch that keeps them to themselves."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.extras import install
from fedkf.flower.private import OWNER_ALONE, private, write_secret

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Keeps Flower and Ray from telling others about the run and from fetching anything."""

LINK = "lab"
"""The name of the coordinator's connection in Flower's own configuration."""

LARGEST_LOG = 1 << 24
"""Bytes of a program's log, which a stranger could fill a disk with; then a new one is begun."""
ANSWER = 300.0
"""Seconds in which Flower's command line must have answered."""


def program(name: str) -> str:
    """The path of one of Flower's programs, preferably beside this Python."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise UserError(f"{name} is not there; a deployment needs Flower: {install('flower')}")
    return found


def environment(home: Path, more: Mapping[str, str], first: Path | None = None) -> dict[str, str]:
    """Of a program of Flower's: private, with a home of its own, and our Python's programs first.

    The path begins with `first`, where a site puts the programs that stand in for Flower's.
    """
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    if first is not None:
        path.insert(0, str(first))
    joined = os.pathsep.join(path)
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": joined, **more}


@private()
def stand_in(folder: Path, name: str, module: str) -> None:
    """A program in `folder` that runs `main` of a module of ours under the name of Flower's."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    # Flower drops what its programs say, so it goes to a file.
    log = str(folder.parent / f"{name}.log")
    # A first line that names Python could hold neither a space nor a long path, so a shell starts
    # it. The second line is a command to the shell; to Python it and the third are a text.
    file.write_text(
        "#!/bin/sh\n"
        f"""'''exec' {shlex.quote(sys.executable)} "$0" "$@"\n"""
        "' '''\n"
        "import os\n\n"
        f"log = {log!r}\n"
        f"if os.path.exists(log) and os.path.getsize(log) > {LARGEST_LOG}:\n"
        "    os.replace(log, log + '.old')\n"
        "log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
        "os.dup2(log, 1)\nos.dup2(log, 2)\n\n"
        f"from {module} import main\n\nmain()\n"
    )
    file.chmod(0o700)


def end_with_parent() -> None:
    """End soon after the process that started this one: an orphan would try for minutes."""
    from fedkf.engines.worker import end_with

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


def become(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Turn this process into a program of Flower's: whoever ends it, ends that."""
    turn_into([program(name), *arguments], environment)


def become_module(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Turn this process into a module of ours, which runs a program of Flower's in its own way."""
    turn_into([sys.executable, "-m", name, *arguments], environment)


def turn_into(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.umask(OWNER_ALONE)  # its database, and whatever its own children write
    os.execve(command[0], list(command), dict(environment))


def new_secret(file: Path) -> tuple[str, ...]:
    """Options with which a program of Flower's hands tasks only to whoever knows a new secret.

    Without them, whoever reaches its port is given the next task, and may act in its place.
    """
    write_secret(file, secrets.token_bytes(32))
    return ("--isolation", "process", "--superexec-auth-secret-file", str(file))


def start_executor(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start the program that starts a process for every task of the one that this process becomes;
    it ends with that. The first of `arguments` is where to ask for tasks."""
    own = ["--runtime-api-address", *arguments, "--parent-pid", str(os.getpid())]
    subprocess.Popen(
        [program("flower-superexec"), *own],
        env=dict(environment),
        umask=OWNER_ALONE,
        start_new_session=True,  # Ctrl-C is for its parent
    )


class Declined(FedkfError):
    """Flower was asked for something and answered that it is not to be had."""


def flwr(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Run Flower's command line and return the object that it prints."""
    command = [program("flwr"), *arguments, "--format", "json"]
    asked = " ".join(arguments[:2])
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=dict(environment),
            timeout=ANSWER,
        )
    except subprocess.TimeoutExpired:
        raise FedkfError(f"Flower did not answer within {ANSWER:g} s ({asked})") from None
    try:
        text = done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1]
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        answer = {}
    if done.returncode or not answer.get("success"):
        said = str(answer.get("error-message") or done.stderr or done.stdout)
        if "SuperLink is unavailable" in said:
            raise FedkfError("the coordinator does not answer; fedkf coordinator start starts it")
        raise Declined(f"Flower could not do it ({asked}): {last_line(said)}")
    return answer


def last_line(text: str) -> str:
    lines = [line.strip(" │╭╮╰╯─") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")[:300]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
