"""Break rules on purpose and see whether the tests notice: `make mutants`.

Each mutant is a wrong rule: a file, a text in it, and what it becomes. It is put into a copy of the
tree, the tests that should notice run there until the first fails, and the mutant is killed or has
survived. What is known of a mutant is kept, under a key of its text and of everything it was
judged by, so that a run that was broken off goes on where it ended.

    python benchmarks/mutants [NAME …] [--jobs N] [--fresh] [--check] [--table FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from catalogue import Mutant, catalogue
from tests_of import run_tests

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".mutants.json"
PARTS = ("src", "tests", "pyproject.toml")
SKIP = ("__pycache__", "golden", "assets")


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description="Break rules on purpose.")
    parser.add_argument("names", nargs="*", help="modules, such as scaffold; none means all")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--fresh", action="store_true", help="forget what is known")
    parser.add_argument("--check", action="store_true", help="only whether each can be made")
    parser.add_argument("--table", type=Path, help="write what is known as Markdown")
    given = parser.parse_args()
    mutants = catalogue()
    unknown = sorted(set(given.names) - {m.module for m in mutants})
    if unknown:
        known = ", ".join(sorted({m.module for m in mutants}))
        print(f"no module {unknown[0]!r} in the catalogue; it has {known}", file=sys.stderr)
        return 2
    chosen = [m for m in mutants if not given.names or m.module in given.names]
    if misplaced := [m for m in chosen if problem(m)]:
        for mutant in misplaced:
            print(f"{mutant.module}: {mutant.says}: {problem(mutant)}", file=sys.stderr)
        return 2
    if given.check:
        print(f"{len(chosen)} mutants")
        return 0
    results = {} if given.fresh or not KEPT.exists() else json.loads(KEPT.read_text("utf-8"))
    judge_all(chosen, results, given.jobs)
    survivors = [m for m in chosen if results[key(m)] == "survived"]
    print(f"{len(chosen)} mutants, {len(chosen) - len(survivors)} killed")
    for mutant in survivors:
        print(f"survived: {mutant.module}: {mutant.says}")
    if given.table:
        given.table.write_text(table(mutants, results), encoding="utf-8")
    return 1 if survivors else 0


def problem(mutant: Mutant) -> str:
    """Why a mutant cannot be made, or nothing."""
    path = ROOT / mutant.file
    if not path.is_file():
        return f"no file {mutant.file}"
    if lacking := [t for t in mutant.tests if t.endswith(".py") and not (ROOT / t).is_file()]:
        return f"no tests {lacking[0]}"
    times = path.read_text("utf-8").count(mutant.old)
    return "" if times == 1 else f"its text is there {times} times in {mutant.file}"


def key(mutant: Mutant) -> str:
    """A mutant, the file it changes and the tests that judge it, as one short text."""
    digest = hashlib.sha256(repr(mutant).encode())
    files = [ROOT / name for name in (mutant.file, *mutant.tests) if name.endswith(".py")]
    for path in (*files, *sorted((ROOT / "tests" / "algorithms").glob("oracle*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def judge_all(mutants: Sequence[Mutant], results: dict[str, str], jobs: int) -> None:
    """Judge what is not known yet; every verdict is written at once."""
    left = [m for m in mutants if key(m) not in results]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: Queue[Path] = Queue()
        for number in range(jobs):
            trees.put(copy_tree(Path(folder) / str(number)))
        with ThreadPoolExecutor(jobs) as pool:
            for tests in dict.fromkeys(m.tests for m in left):
                alike = [m for m in left if m.tests == tests]
                if run_tests(Path(folder) / "0", tests) != 0:
                    raise SystemExit(f"without any mutant, pytest {' '.join(tests)} fails")
                verdicts = pool.map(lambda mutant: judge(mutant, trees), alike)
                for mutant, verdict in zip(alike, verdicts, strict=True):
                    print(f"{verdict:>8}  {mutant.module}: {mutant.says}", flush=True)
                    results[key(mutant)] = verdict
                    text = json.dumps(results, indent=1, sort_keys=True)
                    KEPT.write_text(text + "\n", "utf-8")


def judge(mutant: Mutant, trees: Queue[Path]) -> str:
    """Put the mutant into a tree that nobody else uses, and take it out again."""
    tree = trees.get()
    path = tree / mutant.file
    sound = path.read_text("utf-8")
    path.write_text(sound.replace(mutant.old, mutant.new), "utf-8")
    try:
        return "survived" if run_tests(tree, mutant.tests) == 0 else "killed"
    finally:
        path.write_text(sound, "utf-8")
        trees.put(tree)


def copy_tree(folder: Path) -> Path:
    """As much of the project as its tests need."""
    folder.mkdir()
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(*SKIP))
        else:
            shutil.copy(source, folder / name)
    return folder


def table(mutants: Sequence[Mutant], results: dict[str, str]) -> str:
    """What is known, one line a module, and the survivors by name."""
    lines = ["| module | wrong rules | killed |", "|---|---:|---:|"]
    made, killed = Counter[str](), Counter[str]()
    for mutant in mutants:
        if (verdict := results.get(key(mutant))) is not None:
            made[mutant.module] += 1
            killed[mutant.module] += verdict == "killed"
    lines += [f"| `{name}` | {made[name]} | {killed[name]} |" for name in sorted(made)]
    lines.append(f"| together | {made.total()} | {killed.total()} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
