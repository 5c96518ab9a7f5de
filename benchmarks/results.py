"""The tables, sentences and pictures of results/ and of pages in docs, anew from the records.

    python benchmarks/results.py [--check]

Starts no training. In the pages that `evidence/pages.py` lists, what stands between
`<!-- begin NAME -->` and `<!-- end NAME -->` is replaced; the rest is written by hand: read it
again when records change. `--check` changes nothing and fails where a page is not what the
records say.
"""

from __future__ import annotations

import argparse
import sys

from evidence import paper, pictures
from evidence.pages import filled, pages
from evidence.reading import ROOT, Evidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    given = parser.parse_args()
    evidence, stale = Evidence(), []
    for page in pages():
        text = page.read_text()
        fresh = filled(text, evidence)
        if fresh != text:
            stale.append(str(page.relative_to(ROOT)))
            if not given.check:
                page.write_text(fresh)
    if given.check:
        sys.exit(f"not what the records say: {', '.join(stale)}" if stale else 0)
    made = pictures.draw_all(evidence, evidence.results / "figures")
    made += paper.draw(evidence, evidence.results / "letters" / "figures")
    for path in made:
        print(f"figure: {path.relative_to(ROOT)}")
    print(f"pages that changed: {', '.join(stale) or 'none'}")


if __name__ == "__main__":
    main()
