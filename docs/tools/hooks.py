"""What `make docs` adds to MkDocs: patterns in the navigation, files outside docs/, references.

Pages of docs/ link to files of the repository (`../examples/own_model.py`), so that they read well
there, too. On the site each such file is a page of its own, and the site needs no network.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import notebooks
import reference
import site_check

ROOT = Path(__file__).parents[2]
PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md")
"""Pages outside docs/ that have a place in the navigation."""
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
BARE = re.compile(r"^```\n(?=(fedkf|make|pip|python|git|\.venv/bin/\S+|FEDKF_\S+) )", re.MULTILINE)
IN_REPOSITORY = re.compile(r" \(In the repository this page is empty below;[^)]*\)")
GENERATED = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
TEXT = {".py", ".json", ".yaml", ".yml", ".toml", ".cff", ".txt", ".ipynb", ".service", ""}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Patterns of the navigation become the pages that they match and nobody else names."""
    named = set(pages_in(config.nav))
    config.nav = expanded(config.nav, named, Path(config.docs_dir))
    return config


def pages_in(nav: Any) -> list[str]:
    """Every page or pattern of a navigation."""
    if isinstance(nav, str):
        return [nav]
    return [
        page
        for part in (nav.values() if isinstance(nav, dict) else nav or [])
        for page in pages_in(part)
    ]


def expanded(nav: Any, named: set[str], folder: Path) -> Any:
    if isinstance(nav, dict):
        return {title: expanded(part, named, folder) for title, part in nav.items()}
    result = []
    for part in nav:
        if isinstance(part, str) and "*" in part:
            found = sorted(str(path.relative_to(folder)) for path in folder.glob(part))
            result += [page for page in found if page not in named]
        else:
            result.append(part if isinstance(part, str) else expanded(part, named, folder))
    return result


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page links to."""
    waiting = [*PROJECT]
    for page in files.documentation_pages():
        waiting += outside(page.content_string, f"docs/{page.src_uri}")
    seen: set[str] = set()
    while waiting:
        target = waiting.pop()
        if target in seen:
            continue
        seen.add(target)
        path, placed = ROOT / target, InclusionLevel.INCLUDED
        if target not in PROJECT:
            placed = InclusionLevel.NOT_IN_NAV
        if path.suffix == ".md":
            content = path.read_text()
            waiting += outside(content, target)
        elif path.is_dir() or path.suffix in TEXT:
            content = shown(path, target)
        else:
            files.append(File.generated(config, address(target), abs_src_path=str(path)))
            continue
        files.append(File.generated(config, address(target), content=content, inclusion=placed))
    return files


def outside(markdown: str, source: str) -> list[str]:
    """The files of the repository, but for those of docs/, that a page links to."""
    targets = [resolved(link, source) for _, link, _ in LINK.findall(markdown)]
    return [target for target in targets if target and not target.startswith("docs/")]


def resolved(link: str, source: str) -> str | None:
    """A link of a file of the repository, as a path from the repository's root."""
    if re.match(r"[a-z]+:|/|<", link):
        return None
    target = normpath(f"{Path(source).parent.as_posix()}/{link}")
    return target if not target.startswith("..") and (ROOT / target).exists() else None


def address(target: str) -> str:
    """Where a file of the repository is on the site."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    path = ROOT / target
    page = path.is_dir() or (path.suffix in TEXT and path.suffix != ".md")
    return f"project/{target.rstrip('/')}{'.md' if page else ''}"


def shown(path: Path, target: str) -> str:
    """A page that shows a text file, or what is in a folder."""
    if path.is_dir():
        names = sorted(p.name + "/" * p.is_dir() for p in path.iterdir() if p.name[0] not in "._")
        return f"# {target}\n\nIn the repository:\n\n" + "".join(f"- `{n}`\n" for n in names)
    text = path.read_text()
    if path.suffix == ".ipynb":
        return notebooks.as_markdown(json.loads(text))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"# {target}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Generated parts, languages of blocks that name none, links to files outside docs/."""
    here = page.file.src_uri
    source = here.removeprefix("project/") if here.startswith("project/") else f"docs/{here}"
    markdown = IN_REPOSITORY.sub("", markdown)
    markdown = GENERATED.sub(lambda match: reference.PARTS[match[1]](), markdown)

    def link(match: re.Match[str]) -> str:
        target = resolved(match[2], source)
        if target is None:
            return match[0]
        return match[1] + relpath(address(target), Path(here).parent.as_posix()) + match[3]

    return BARE.sub("```bash\n", LINK.sub(link, markdown))


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the order of pages for llms.txt."""
    config.extra["order"] = [page.file.src_uri for page in nav.pages]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt; then every link of every page must lead somewhere, and none load anything."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(reference.overview(ROOT, config.extra["order"]))
    problems = site_check.problems(site)
    if problems:
        raise SystemExit("\n".join(["the site has mistakes:", *problems]))
