"""A coordinator and three sites on this machine, as real processes that do not outlive a test."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

TOKEN = "FEDKF_TEST_LAB"
PATIENCE = 600.0
NAMES = ("north", "south", "west")


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.1)
    return value


def traced(log: Path) -> list[str]:
    """Record every connection that a command and its children ask for, where strace is there."""
    if shutil.which("strace") is None:
        return []
    return ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-e", "trace=connect", "-o", str(log)]


def destinations(log: Path) -> set[tuple[str, int]]:
    """Where connections went, but for sockets within the machine's file system."""
    text = log.read_text(errors="replace") if log.exists() else ""
    four = r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)'
    six = r'sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, "([^"]+)"'
    found = re.findall(four, text) + re.findall(six, text)
    return {(address.removeprefix("::ffff:"), int(port)) for port, address in found}


def own_addresses() -> set[str]:
    """Of this machine, loopback included."""
    table = Path("/proc/net/fib_trie").read_text()
    return {"127.0.0.1", "::1", *re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", table)}


def resolvers() -> set[tuple[str, int]]:
    """Where this machine asks for the address of a name."""
    found = re.findall(r"^nameserver (\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE)
    return {(address, 53) for address in found}


class Lab:
    """Starts programs that end with the test, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(8)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, TOKEN: self.token}

    def fedkf(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "fedkf", *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        """A program of ours in the background; its output and its connections go to files."""
        command = [*traced(self / f"{name}.strace"), sys.executable, "-m", "fedkf"]
        with open(self / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [*command, *map(str, arguments)],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self.processes[name] = process
        return process

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def executor(self) -> int:
        """The process that starts one for every task of the coordinator."""
        parent = f"--parent-pid\0{self.processes['coordinator-link'].pid}\0".encode()
        for pid in self.survivors():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"flower-superexec" in command and parent in command:
                    return pid
        raise AssertionError("the coordinator has no executor")

    @contextlib.contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """While a process stands still."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    # -- the federation ---------------------------------------------------------------------------

    def found(self, config: Mapping[str, Any]) -> None:
        """Make a coordinator and three sites, and register them."""
        (self / "study.yaml").write_text(json.dumps(config))
        self.fedkf("coordinator", "init", "coordinator", "--port", self.port)
        self.open()
        for name in NAMES:
            self.site(name)
            self.fedkf("coordinator", "add", "coordinator", name, f"{name}/node.pub")
            self.connect(name)

    def site(self, name: str, certificate: str = "coordinator/ca.crt") -> None:
        """A site with a hundred digits of its own."""
        from sklearn.datasets import load_digits

        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.target))
        index = (*NAMES, name).index(name)
        own = order[100 * index : 100 * (index + 1)]
        images = digits.images[own].astype(np.float32) / 16
        np.savez(self / f"{name}.npz", images=images, labels=digits.target[own])
        self.fedkf(
            *("site", "init", name, "--name", name),
            *("--coordinator", f"127.0.0.1:{self.port}", "--certificate", certificate),
        )
        file = self / name / "site.yaml"
        text = re.sub(r"source: folder .*", "source: npz", file.read_text())
        text = re.sub(r"path: null .*", f"path: {self / f'{name}.npz'}", text)
        file.write_text(text)

    def open(self) -> None:
        self.start("coordinator-link", "coordinator", "start", "coordinator", "--bind", "127.0.0.1")
        until(self.listening, "the coordinator's port")

    def listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def connect(self, name: str) -> None:
        self.start(f"{name}-node", "site", "start", name)

    def online(self) -> set[str]:
        done = self.fedkf("coordinator", "sites", "coordinator", "--json")
        return {name for name, status in json.loads(done.stdout).items() if status == "online"}

    def run(self, out: str, *arguments: object, code: int = 0) -> str:
        """Run the study across the sites; what was said meanwhile."""
        command = ("coordinator", "run", "coordinator", "study.yaml", "--out", out)
        return self.fedkf(*command, *arguments, code=code).stderr

    def in_background(self, out: str) -> subprocess.Popen[bytes]:
        command = ("coordinator", "run", "coordinator", "study.yaml", "--out", out)
        return self.start(f"run-{out}", *command)

    def wait_for_round(self, out: str, number: int) -> None:
        def reached() -> bool:
            with contextlib.suppress(OSError, ValueError):
                return bool(json.loads((self / out / "status.json").read_text())["round"] >= number)
            return False

        until(reached, f"round {number} of {out}")

    # -- the end ----------------------------------------------------------------------------------

    def survivors(self) -> list[int]:
        """Every process that the lab or a child of it started, wherever it went since."""
        mark = f"{TOKEN}={self.token}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def close(self) -> list[str]:
        """End everything; the processes that did not end when asked to and had to be killed."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        with contextlib.suppress(AssertionError):
            until(lambda: not self.survivors(), "all processes to end", 60)
        stubborn = []
        for pid in self.survivors():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                stubborn.append(command.decode(errors="replace"))
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        until(lambda: not self.survivors(), "all processes to be gone", 30)
        return stubborn


@contextlib.contextmanager
def at_work(lab: Lab, study: Mapping[str, Any]) -> Iterator[Lab]:
    """A lab with all of its sites online; afterwards none of its processes is left."""
    try:
        lab.found(study)
        until(lambda: lab.online() == set(NAMES), "all sites to be online")
        yield lab
    finally:
        stubborn = lab.close()
    assert stubborn == []


def die_with_parent() -> None:
    """Linux ends this process when the one that started it dies, even by SIGKILL."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
