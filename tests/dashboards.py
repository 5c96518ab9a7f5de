"""`fedkf dashboard` in a process of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Answer(NamedTuple):
    code: int
    text: str
    headers: Mapping[str, str]


class Dashboard(NamedTuple):
    """A server that is running."""

    url: str
    host: str
    port: int
    process: subprocess.Popen[str]

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask for a path exactly as given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return Answer(response.status, text, dict(response.getheaders()))

    def memory(self) -> int:
        """Bytes that it has held at most (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


@contextlib.contextmanager
def dashboard(folder: Path, *options: str) -> Iterator[Dashboard]:
    command = [sys.executable, "-m", "fedkf", "dashboard", str(folder), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"(http://(.+):(\d+)/\S*)", line)
        assert found is not None, line
        yield Dashboard(found[1], found[2], int(found[3]), process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
