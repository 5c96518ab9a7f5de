"""Following a job tells how its server process fares, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Settings

from fedkf.core.errors import FedkfError
from fedkf.core.records import Round
from fedkf.core.scores import Score
from fedkf.flower.jobs import Job, Request
from fedkf.runs.config import resolve
from fedkf.runs.store import RunFolder

SERVER = """
import sys
from pathlib import Path

from fedkf.flower.jobs import Job

with Job(Path(sys.argv[1])).begun():
    print("begun", flush=True)
    sys.stdin.read()
"""
"""A server process that carries out a job until it is told to end."""

Begin = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def job(tmp_path: Path, settings: Settings) -> Job:
    made = Job(tmp_path / "jobs" / "0123abcd")
    made.create(Request.here(resolve(settings), tmp_path / "run", False, 1))
    return made


@pytest.fixture
def begin(job: Job) -> Iterator[Begin]:
    """Have a process carry out the job."""
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", SERVER, str(job.folder)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _nothing_is_followed_for_ever() -> Iterator[None]:
    def wake(number: int, frame: object) -> None:
        raise AssertionError("still at it")

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, 120)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_killed_server_process_ends_a_run_though_its_parent_does_not_ask_for_it(
    job: Job, begin: Begin
) -> None:
    process = begin()
    assert job.at_work()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.kill(process.pid, 0)  # dead, and still there
    with pytest.raises(FedkfError, match="server process died; add --resume to go on") as error:
        job.follow(print, print)
    assert error.value.exit_code == 1


def test_what_a_server_process_wrote_before_it_ended_counts(job: Job, begin: Begin) -> None:
    process = begin()
    job.write(message="", exit=0)
    process.communicate()
    assert not job.at_work()
    job.follow(print, print)
    job.write(message="the disk is full", exit=1)
    with pytest.raises(FedkfError, match="the disk is full"):
        job.follow(print, print)


def test_a_process_that_has_the_number_of_one_that_ended_is_left_alone(
    job: Job, begin: Begin
) -> None:
    begin().communicate()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        job.write(pid=other.pid)
        job.withdraw()
        other.communicate()
    assert other.returncode == 0


def test_a_run_that_is_withdrawn_is_ended(job: Job, begin: Begin) -> None:
    process = begin()
    job.withdraw()
    assert process.wait() == -signal.SIGTERM


def test_every_round_is_told_once_and_read_once(job: Job, begin: Begin, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()

    def finish(*numbers: int) -> None:
        for number in numbers:
            score = Score({}, [0, 1], [0.5, 1.0], of=3)
            run.append_round(Round(number, readouts={"aca": score}))

    def happening() -> Iterator[None]:
        finish(2, 3)  # at once, as for one who was asleep
        yield
        run.amend_last(Round(3, seconds={"total": 1.0}))  # a file in the place of the other
        yield
        with open(run / "rounds.jsonl", "r+b") as file:
            file.write(b"nonsense")
        finish(4)
        yield
        job.write(message="", exit=0)

    steps = happening()

    def go_on(sentence: str) -> None:
        next(steps, None)
        job.say(sentence)

    told: list[Round] = []
    finish(1)
    begin()
    job.say("go on")
    job.follow(go_on, told.append)
    assert [record.round for record in told] == [2, 3, 4]
    assert [len((record.readouts or {})["aca"].clients) for record in told] == [2, 2, 2]
