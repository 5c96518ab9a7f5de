"""Integrity: whether a run's files are what the run had written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Partition
from fedkf.core.records import Round, Status, Summary, Traffic
from fedkf.core.shapes import Damage, parse_json
from fedkf.core.versions import RemoteVersions, Versions
from fedkf.data.arrays import read_arrays
from fedkf.metrics import PAPER
from fedkf.metrics.sites import SITE_METRICS, summary_of
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.manifest import Manifest
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import read_card, read_weights

RECORDS: dict[str, Callable[[object], object]] = {
    "summary.json": Summary.read,
    "partition.json": Partition.read,
    "ledger.json": Traffic.read,
    "status.json": Status.read,
}
SIDES = ("train", "test")
PARTS = tuple(f"{side}{end}" for side in SIDES for end in ("", "_offsets"))


def check_run(path: Path) -> list[str]:
    """What is wrong with the files of a run, a sentence each; none if nothing is.

    Whatever has a digest is held against it; records are held against their shapes and against
    each other. Nothing is changed, and a run that goes on may be checked, too.
    """
    run = RunFolder(path)
    if not (run / "config.yaml").exists():
        raise UserError(f"{path} holds no run")
    checks = [run.config, lambda: check_rounds(run), *record_checks(run)]
    if run.manifest.exists():
        remote = "experiment" in run.provenance()  # its clients' states lie at the sites
        folder = CheckpointFolder(run / "checkpoint", RemoteVersions if remote else Versions)
        checks.append(folder.read)
    if (run / "split.npz").exists():
        checks.append(lambda: check_split(run))
    checks.append(lambda: check_end(run))
    if run.finished():
        checks.append(lambda: check_models(run / "models"))
    kept = sorted(path.parent for path in run.path.glob("kept/*/model.json"))
    checks += [partial(check_models, folder) for folder in kept]
    return [sentence for check in checks if (sentence := problem(check))]


def problem(check: Callable[[], object]) -> str:
    try:
        check()
    except (FedkfError, OSError) as error:
        return str(error)
    return ""


def record_checks(run: RunFolder) -> Iterator[Callable[[], object]]:
    for name, read in RECORDS.items():
        if (run / name).exists():
            yield partial(run.read_record, name, read)


def check_rounds(run: RunFolder) -> None:
    """Every line is a round whose metrics are those of its clients, and none is left out."""
    path, tests = run / "rounds.jsonl", tests_of(run)
    last: Round | None = None
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            last = Round.read(parse_json(line))
            check_numbers(last, tests)
        except Damage as error:
            raise FedkfError(f"{path} is damaged: line {number} {error}") from None
        if last.round != number:
            raise FedkfError(f"{path} is damaged: line {number} is round {last.round}")
    if len(lines) < (least := least_rounds(run)):
        raise FedkfError(f"{path} is damaged: round {len(lines) + 1} of {least} is not there")
    if last is not None and run.finished():
        check_headline(run, last)


def tests_of(run: RunFolder) -> dict[int, int]:
    """Every client's number of test samples, as far as partition.json can be read."""
    with suppress(FedkfError, UserError):
        clients = run.read_record("partition.json", Partition.read).clients
        return {k: client.test for k, client in enumerate(clients)}
    return {}


def check_numbers(record: Round, tests: Mapping[int, int]) -> None:
    """AMP, FM and WLP follow from what the same line says of each client."""
    for name, score in (record.readouts or {}).items():
        if score.metric not in SITE_METRICS:
            continue
        sizes = [tests.get(k) or 1 for k in score.clients]
        expected = summary_of(score.metric, score.performance, sizes)
        for metric in PAPER if tests else ("fm", "wlp"):
            if differ(score[metric], expected[metric]):
                raise Damage("is not that of the clients beside it", ("readouts", name, metric))


def check_headline(run: RunFolder, last: Round) -> None:
    """The summary's numbers are those of the last round."""
    summary = run.read_record("summary.json", Summary.read)
    for name, numbers in summary.readouts.items():
        score = (last.readouts or {}).get(name)
        if score is None or any(differ(numbers[metric], score[metric]) for metric in PAPER):
            raise FedkfError(
                f"{run / 'summary.json'} is damaged: its {name} is not that of the last line of "
                f"{run / 'rounds.jsonl'}"
            )


def differ(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is not other
    return not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def least_rounds(run: RunFolder) -> int:
    """How many rounds a run has told at least: all, or those before the checkpoint's.

    A crash may have come between the checkpoint and the line of its round, which a resume makes up
    for. Files that cannot be read are told elsewhere.
    """
    with suppress(FedkfError):
        if run.finished():
            return run.read_record("summary.json", Summary.read).rounds
    with suppress(Damage, OSError):
        return Manifest.from_bytes(run.manifest.read_bytes()).round - 1
    return 0


def check_end(run: RunFolder) -> None:
    """A finished run has its summary, the status that says so, and the other records."""
    status = run / "status.json"
    for name in RECORDS if run.finished() else ():
        if not (run / name).exists():
            raise FedkfError(f"{run / name} is not there, and the run is finished")
    if not run.finished() and status.exists() and ended(run):
        missing = run / "summary.json"
        raise FedkfError(f"{missing} is not there, and the run is finished; resume it")


def ended(run: RunFolder) -> bool:
    """Whether a run says that it is finished, and is not about to go on with more rounds.

    One that is has more rounds in its configuration before its status tells of any.
    """
    try:
        said, config = run.read_record("status.json", Status.read), run.config()
    except (FedkfError, UserError):  # told elsewhere
        return False
    return (
        said.state == "finished" and config is not None and config.federation.rounds <= said.rounds
    )


def check_split(run: RunFolder) -> None:
    """It opens, and every client has as many samples as partition.json says."""
    path = run / "split.npz"
    try:
        with path.open("rb") as file:
            parts = read_arrays(file, PARTS, needed=PARTS)
        sizes = {side: np.diff(parts[f"{side}_offsets"]).tolist() for side in SIDES}
        whole = all(sum(sizes[side]) == len(parts[side]) for side in SIDES)
    except Exception as error:  # of many kinds: the archive's, its packing's, the arrays' heads'
        raise FedkfError(f"{path} is damaged: it holds no division of samples") from error
    try:
        clients = run.read_record("partition.json", Partition.read).clients
    except (FedkfError, UserError):  # told elsewhere, or gone
        return
    if not whole or sizes != {side: [getattr(c, side) for c in clients] for side in SIDES}:
        raise FedkfError(f"{path} is damaged: its sizes are not those in {run / 'partition.json'}")


def check_models(folder: Path) -> None:
    card = read_card(folder)
    for path in sorted(folder.glob("*.safetensors")):
        read_weights(path, card)
