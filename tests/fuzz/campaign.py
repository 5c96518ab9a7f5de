"""What the campaigns share: how many cases, a command in this process, and what it means to hold.

`make test` tries a few cases of each kind, the same ones every time; `make fuzz` tries many more.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

TIMES = int(os.environ.get("FEDKF_FUZZ", "1"))
SEED = os.environ.get("FEDKF_FUZZ_SEED")
SECONDS = 20.0
"""Of computing that one case may take; honest ones take a fraction of one."""
MEGABYTES = 400
"""By which a case may raise the most memory that this process ever had."""
LONGEST = 2_000

tried: Counter[str] = Counter()
broke: dict[str, list[str]] = {}


@pytest.fixture(autouse=True)
def places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's is found or written."""
    place = tmp_path_factory.mktemp("place")
    monkeypatch.setenv("FEDKF_CACHE", str(place / "cache"))
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("FEDKF_DATA", raising=False)
    monkeypatch.chdir(place)


def fuzz(cases: int) -> Callable[[Any], Any]:
    """So many cases in `make test`, FEDKF_FUZZ times as many otherwise; a seed names others."""
    chosen = settings(
        max_examples=cases * TIMES,
        derandomize=SEED is None,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return (lambda test: chosen(test)) if SEED is None else (lambda t: seed(int(SEED))(chosen(t)))


class Hang(BaseException):
    """A case took too long; nothing in the program may take it for an error of its own."""


class Broken(AssertionError):
    """A case that did not hold."""


@contextlib.contextmanager
def case(kind: str, about: object) -> Iterator[None]:
    """Count a case and note whether it held, so that one that does not hides no other."""
    tried[kind] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with limited(SECONDS):
            yield
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        if grown > MEGABYTES * 1024:
            raise Broken(f"it took {grown // 1024} MB")
    except (Broken, Hang) as error:
        broke.setdefault(kind, []).append(f"{about}: {error}")
        print(f"{kind}: {about}: {error}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang(f"it did not end within {seconds:g} s of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def all_held(kind: str) -> None:
    """Say how many cases there were; fail with those that did not hold."""
    found = broke.get(kind, [])
    print(f"fuzz: {tried[kind]} {kind}, {f'{len(found)} broke' if found else 'all held'}")
    assert not found, f"{len(found)} of {tried[kind]} {kind} broke:\n" + "\n".join(found[:20])


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def command(*arguments: object) -> Outcome:
    """Run `fedkf` in this process, with streams as strict as a terminal's."""
    from fedkf.cli.app import main

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    before, sys.argv = sys.argv, ["fedkf", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Outcome(code, *texts)


def check_sentence(outcome: Outcome, codes: tuple[int, ...]) -> None:
    """An accepted exit code, and unless it is 0 one sentence on the last line."""
    if outcome.code not in codes:
        raise Broken(f"exit code {outcome.code}: {outcome.err[-300:]!r}")
    if "Traceback" in outcome.err or "fedkf: unexpected" in outcome.err:
        raise Broken(outcome.err[-300:])
    if outcome.code == 0:
        return
    last = outcome.err.rstrip("\n").rpartition("\n")[2]
    if not last.startswith(("fedkf: ", "╰")) or len(last) > LONGEST:
        raise Broken(f"not a sentence: {outcome.err[-300:]!r}")
