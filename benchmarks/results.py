"""The tables and figures of results/README.md, anew from the records beside it.

    python benchmarks/results.py

Starts no training. Everything in README.md below the line `<!-- tables -->` is replaced.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
MARK = "<!-- tables -->\n"
COMMAND = "fedkf reproduce {what} {options} --existing --out results/{folder}"
LETTERS = "--scale paper --data letters --set generator.preset=lite"
SHORT = "--scale small"
PARTS = {
    "performance": (LETTERS, "letters"),
    "findings": (LETTERS, "letters"),
    "ablation": (LETTERS, "letters"),
    "t1": (LETTERS, "letters"),
    "curves": (LETTERS, "letters"),
    "rounds-to-target": (LETTERS, "letters"),
    "time": (LETTERS, "letters"),
    "time-to-target": (LETTERS, "letters"),
    "bytes-to-target": (LETTERS, "letters"),
    "robustness": (LETTERS, "letters"),
    "drift": (LETTERS, "letters"),
    "heterogeneity": (LETTERS, "letters"),
    "rate-sweep": (SHORT, "letters-short"),
}


def part(what: str, options: str, folder: str) -> str:
    """What one command gives: its tables and its figures."""
    command = COMMAND.format(what=what, options=options, folder=folder)
    program = [sys.executable, "-m", *command.split()]
    done = subprocess.run(program, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{what}: {done.stderr.strip()}", file=sys.stderr)
        return ""
    tables = RESULTS / folder / "tables" / f"{what}.md"
    text = tables.read_text() if tables.exists() and what != "curves" else ""
    text = re.sub(r"^#+", "###", text, flags=re.MULTILINE)
    figures = re.findall(r"^figure: results/(.*\.png)$", done.stdout, re.MULTILINE)
    text += "".join(f"\n![{Path(figure).stem}]({figure})\n" for figure in figures)
    return f"## `{what}`\n\n`{command}`\n\n{text.strip()}\n\n"


def main() -> None:
    file = RESULTS / "README.md"
    above = file.read_text().split(MARK)[0]
    parts = [part(what, options, folder) for what, (options, folder) in PARTS.items()]
    file.write_text(above + MARK + "\n" + "".join(parts).rstrip() + "\n")


if __name__ == "__main__":
    main()
