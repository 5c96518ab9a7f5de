"""Make the golden files with the fedkf of the Python that runs this; README.md says when."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from golden_runs import BEGUN, FINISHED, GOLDEN, Begun, machine, options

FEDKF = str(Path(sys.executable).parent / "fedkf")
KEPT = ("rounds.jsonl", "summary.json", "ledger.json", "models")
ATTEMPTS = 50


def main() -> None:
    for name in ("finished", "begun", "resumed", "sweep"):
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
    (GOLDEN / "machine.json").write_text(json.dumps(machine(), indent=2) + "\n")
    for name, settings in FINISHED.items():
        folder = GOLDEN / "finished" / name
        fedkf("run", "digits", *options(settings), "--quiet", "--out", folder)
        shutil.rmtree(folder / "checkpoint")
        (folder / ".lock").unlink()
    for name, run in BEGUN.items():
        break_off(run, GOLDEN / "begun" / name)
        resume(GOLDEN / "begun" / name, GOLDEN / "resumed" / name)
    write_sums()
    make_report()
    make_tables()
    (GOLDEN / "algorithms.json").write_text(fedkf("algorithms", "--json"))


def fedkf(*arguments: object) -> str:
    """Run a command in this folder, where the small model is found; what it printed."""
    command = [FEDKF, *map(str, arguments)]
    print(shlex.join(["fedkf", *command[1:]]).replace(str(GOLDEN), "."), flush=True)
    return subprocess.run(command, cwd=GOLDEN, check=True, stdout=subprocess.PIPE, text=True).stdout


def break_off(run: Begun, folder: Path) -> None:
    """Begin a run and end its process in the middle of a round."""
    # A shell starts its background jobs with Ctrl-C ignored, and the run would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [FEDKF, "run", "digits", *options(run.settings), "--quiet", "--out", str(folder)]
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        process = subprocess.Popen(
            command, cwd=GOLDEN, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and not in_the_middle(run, folder):
            pass
        process.send_signal(signal.Signals[f"SIG{run.signal}"])
        process.wait()
        if in_the_middle(run, folder) and not (folder / "summary.json").exists():
            print(shlex.join(["fedkf", *command[1:]]).replace(str(GOLDEN), "."))
            print(f"  and kill -{run.signal} in round {run.round}", flush=True)
            (folder / ".lock").unlink()
            return
    raise SystemExit(f"{folder.name} always got further than round {run.round}")


def in_the_middle(run: Begun, folder: Path) -> bool:
    """The round has begun and is not committed; a client may have left its private state."""
    try:
        status = json.loads((folder / "status.json").read_bytes())
        manifest = json.loads((folder / "checkpoint" / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return False
    states = folder / "checkpoint" / "clients"
    private = any(states.iterdir())
    left = not private or any(states.glob(f"*-{run.round}.*"))
    return bool(status["round"] == run.round and manifest["round"] == run.committed and left)


def resume(begun: Path, kept: Path) -> None:
    """Finish a copy of the run; keep what it ends with."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / begun.name
        shutil.copytree(begun, folder)
        fedkf("run", folder / "config.yaml", "--resume", "--quiet", "--out", folder)
        kept.mkdir(parents=True)
        for name in KEPT:
            shutil.move(folder / name, kept / name)


def write_sums() -> None:
    """What the resumed models must be, in a form that is easily compared by hand."""
    models = sorted((GOLDEN / "resumed").glob("*/models/*.safetensors"))
    lines = (
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(GOLDEN)}\n" for p in models
    )
    (GOLDEN / "resumed" / "SHA256SUMS").write_text("".join(lines))


def make_report() -> None:
    """The report of the finished runs, without its megabyte of scripts and styles."""
    path = GOLDEN / "report.html"
    fedkf("report", GOLDEN / "finished", "--no-samples", "--out", path)
    page = re.sub(r"(<(script|style)\b[^>]*>).*?(</\2>)", r"\1\3", path.read_text(), flags=re.S)
    path.write_text(page)


def make_tables() -> None:
    """The tables that a sweep leaves beside its runs."""
    with tempfile.TemporaryDirectory() as temporary:
        fedkf("sweep", GOLDEN / "suite.yaml", "--quiet", "--out", temporary)
        (GOLDEN / "sweep").mkdir()
        for path in sorted(Path(temporary).glob("table.*")):
            shutil.copyfile(path, GOLDEN / "sweep" / path.name)


if __name__ == "__main__":
    main()
