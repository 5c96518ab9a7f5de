"""The tables and figures of results/README.md, anew from the records beside it.

    python benchmarks/results.py

Starts no training. Everything in README.md below the line `<!-- tables -->` is replaced.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

RESULTS = Path(__file__).parent.parent / "results"
MARK = "<!-- tables -->\n"
COMMAND = "fedkf reproduce {what} {options} --existing --out results/{folder}"
LETTERS = "--scale paper --data letters --set generator.preset=lite"
PARTS = [
    *("performance", "findings", "ablation", "t1", "curves", "rounds-to-target", "time"),
    *("time-to-target", "bytes-to-target", "robustness", "drift", "heterogeneity"),
]


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


def score(algorithm: str, alpha: float, seed: int) -> dict[str, dict[str, float]] | None:
    """A run's last round, by readout and metric."""
    name = f"letters,{algorithm},alpha={alpha},seed={seed}"
    file = RESULTS / "letters" / name / "summary.json"
    found: dict[str, dict[str, float]] | None = None
    if file.exists():
        found = json.loads(file.read_text())["readouts"]
    return found


def gains() -> str:
    """What T1 and T2 change, over the seeds that both sides of a comparison have."""
    lines = [
        "## In short",
        "",
        "| α | | AMP, points | FM, times | WLP, points | seeds |",
        "|---|---|---|---|---|---|",
    ]
    pairs = [
        (f"{title} over FedAvg, both {readout.upper()}", (name, readout), ("fedavg", readout))
        for title, name in (("FedKF", "fedkf"), ("FedKF-", "fedkf-"))
        for readout in ("aca", "oca")
    ]
    pairs.append(("FedAvg (OCA) over FedAvg (ACA)", ("fedavg", "oca"), ("fedavg", "aca")))
    for alpha in (1.0, 0.1, 0.01):
        for title, (name, readout), (other, baseline) in pairs:
            both = [(score(name, alpha, seed), score(other, alpha, seed)) for seed in range(3)]
            known = [(a[readout], b[baseline]) for a, b in both if a and b]
            if not known:
                continue
            cells = [f"{100 * mean(a[m] - b[m] for a, b in known):+.1f}" for m in ("amp", "wlp")]
            fm = mean(a["fm"] for a, _ in known) / mean(b["fm"] for _, b in known)
            lines.append(
                f"| {alpha:g} | {title} | {cells[0]} | {fm:.2f} | {cells[1]} | {len(known)} |"
            )
    return "\n".join(lines) + "\n\n"


def main() -> None:
    file = RESULTS / "README.md"
    above = file.read_text().split(MARK)[0]
    parts = [part(what, LETTERS, "letters") for what in PARTS]
    parts.append(part("rate-sweep", "--scale small", "letters-short"))
    file.write_text(above + MARK + "\n" + gains() + "".join(parts).rstrip() + "\n")


if __name__ == "__main__":
    main()
