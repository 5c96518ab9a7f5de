"""Pages with generated blocks: what stands between two marks follows from the records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from evidence import answer, budget, leaving, paper, parts, sentences, tables, worlds
from evidence.reading import ROOT, Evidence

PAGES = (
    "README.md",
    "results/README.md",
    "results/attempts.md",
    "results/letters/README.md",
    "results/flamby/README.md",
    "docs/which-algorithm.md",
    "docs/algorithms/fedkf+.md",
    "docs/fidelity.md",
)
"""Pages that may hold blocks."""
SCORES = "scores-"
BLOCK = re.compile(r"(<!-- begin (\S+) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)

BLOCKS: Mapping[str, Callable[[Evidence], str]] = {
    "answer": answer.answer,
    "glance": sentences.glance,
    "headline": sentences.headline,
    "complete": tables.complete,
    "repeated": tables.repeated,
    "findings": paper.found,
    "as-published": parts.as_published,
    "alignment": parts.alignment,
    "t1-by-rate": paper.by_rate,
    "t1-elsewhere": tables.read_both_ways,
    "letters-beyond": tables.beyond,
    "letters-partitions": partial(tables.attempts, name="letters-partitions", base="FedAvg"),
    "letters-width": tables.width,
    **{
        name: partial(tables.photographs, name=name) for name in (tables.PHOTOGRAPHS, tables.RESNET)
    },
    "rivals": tables.rivals,
    "ranks": tables.ranks,
    "sites": tables.sites,
    "alone": worlds.federated_or_alone,
    "t1": worlds.worth_of_t1,
    "t2": worlds.worth_of_t2,
    "which-teacher": worlds.which_teacher,
    "adversarial": worlds.adversarial,
    "when-not": leaving.when_not,
    "advice": leaving.advice,
    "choices": sentences.choices,
    "budget": budget.budget,
    "next-step": sentences.next_step,
    "drive": tables.drive,
    "ablation-letters": partial(tables.attempts, name="ablation-letters"),
    "ablation-photographs": partial(tables.attempts, name="ablation-photographs"),
    "text-letters": partial(tables.attempts, name="text-letters", base="released"),
    "text-digits": partial(tables.attempts, name="text-digits", base="released"),
    "text-causes-letters": partial(tables.causes, name="text-letters", base="released"),
    "text-causes-digits": partial(tables.causes, name="text-digits", base="released"),
    "text-why": partial(tables.watched, name="text-why"),
    "fedkf-plus": worlds.fedkf_plus,
    "attempts": tables.all_attempts,
    **{
        f"paper-{what}": partial(paper.written, what=what)
        for what in (
            *("performance", "ablation", "t1", "rounds-to-target", "time-to-target"),
            *("bytes-to-target", "robustness", "drift"),
        )
    },
    "heart-flamby": partial(paper.flamby_table, config="heart-flamby"),
    "tcga-flamby": partial(paper.flamby_table, config="tcga-flamby"),
    **{f"paper-{what}": partial(paper.sweep, what=what) for what in paper.SWEEPS},
}
"""What may stand between marks, by name."""


def block(name: str, evidence: Evidence) -> str:
    """What a block holds; `scores-FOLDER` is the plain table of any folder of records."""
    if name in BLOCKS:
        return BLOCKS[name](evidence).strip()
    folder = name.removeprefix(SCORES)
    if folder != name and folder in evidence.folders():
        return tables.scores(evidence.settings(folder))
    raise SystemExit(f"there is no block {name!r}; evidence/pages.py lists them")


def filled(text: str, evidence: Evidence) -> str:
    """A page with every block anew."""

    def fresh(found: re.Match[str]) -> str:
        begin, name, _, end = found.groups()
        return f"{begin}\n{block(name, evidence)}\n\n{end}"

    return BLOCK.sub(fresh, text)


def pages() -> list[Path]:
    """Those that there are."""
    return [ROOT / page for page in PAGES if (ROOT / page).exists()]
