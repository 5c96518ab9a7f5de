"""The examples run as they stand, each in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "FEDKF_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short() -> None:
    for path in EXAMPLES.iterdir():
        if path.is_file() and path.suffix != ".ipynb":
            assert len(path.read_text().splitlines()) <= 60, path.name


def test_a_script_without_a_main_guard_runs_with_workers(tmp_path: Path) -> None:
    text = (EXAMPLES / "own_model.py").read_text()
    assert "__main__" not in text
    assert "workers=2" in text
    out = run(str(EXAMPLES / "own_model.py"), folder=tmp_path)
    assert out.count("average") == 1  # not once more for every worker
    assert float(out.split()[-1]) > 0.5


def test_a_notebook_with_a_lambda_runs_with_workers(tmp_path: Path) -> None:
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    code = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "code")
    assert "lambda" in code
    assert "workers=2" in code
    # As a notebook does it: no file, cells executed in one namespace.
    program = f"exec(compile({code + chr(10) + 'print(result.summary)'!r}, '<cell>', 'exec'), {{}})"
    assert "'algorithm': 'fedkf'" in run("-c", program, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tabular.py", ["fedavg", "fedkf"]),
        ("hospitals.py", ["coast", "disc"]),
        ("tracker.py", ["oca/wlp"]),
    ],
)
def test_the_other_examples_run(tmp_path: Path, name: str, words: list[str]) -> None:
    out = run(str(EXAMPLES / name), folder=tmp_path)
    assert all(word in out for word in words)
