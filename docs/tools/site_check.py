"""Whether a built site is whole: links lead to files and headings that exist, nothing is loaded
from another machine, so that it works from disk."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Reader(HTMLParser):
    """Collects the anchors of a page, where it leads, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        name = LOADED.get(tag)
        if name in values and values.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(values[name])


def problems(site: Path) -> list[str]:
    """What is wrong, a line each."""
    pages: dict[Path, Reader] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Reader()
        pages[path].feed(path.read_text())
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        far = [a for a in page.loads if urlsplit(a).scheme not in ("", "data") or a[:2] == "//"]
        found += [f"{where} loads {address} from elsewhere" for address in far]
        if where.name == "404.html":  # its links are absolute, for servers
            continue
        for address in [*page.links, *page.loads]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                found.append(f"{where} leads to {address}, which is not there")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {""}:
                found.append(f"{where} leads to {address}, a heading that is not there")
    return found
