"""The dashboard: a read-only page on this machine that follows the runs in a folder."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fedkf import __version__
from fedkf.charts import plotly_backend
from fedkf.metrics import METRICS
from fedkf.report import figures
from fedkf.report.hiding import in_a_line
from fedkf.report.listing import Listing
from fedkf.report.page import build, policy, refusals, templates
from fedkf.report.privacy import so_far
from fedkf.report.runs import Run, labelled, read_run
from fedkf.report.samples import Samples, cached

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COMPARED = 8
SHOWN = ("curves", "clients", "losses")
TYPES = {".js": "text/javascript", ".css": "text/css"}
ASSETS = (
    "plotly-basic.min.js",
    "plotly.css",
    "common.css",
    "draw.js",
    "dashboard.js",
    "dashboard.css",
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
COOKIE = "fedkf-token"
Next = Callable[[Request], Awaitable[Response]]


class Guard(BaseHTTPMiddleware):
    """Who may look: on this machine, under its own name only; elsewhere, with the token."""

    def __init__(self, app: Any, token: str | None) -> None:
        super().__init__(app)
        self.token = token

    async def dispatch(self, request: Request, call_next: Next) -> Response:
        try:
            response = self.refuse(request) or await call_next(request)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"fedkf dashboard: {request.url.path}: {text}", file=sys.stderr)
            response = message(500, "Something went wrong here; the runs are not touched by it.")
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    def refuse(self, request: Request) -> Response | None:
        if self.token is None:
            # A page elsewhere may point a name of its own at 127.0.0.1; it gets nothing here.
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname
            return None if host in LOOPBACK else message(400, "This page has another address.")
        given = request.query_params.get("token")
        if given is not None and same(given, self.token):
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        if same(request.cookies.get(COOKIE, ""), self.token):
            return None
        return message(401, "Open the address that `fedkf dashboard` printed, with its token.")


def same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def message(code: int, text: str) -> HTMLResponse:
    """A page that says one sentence."""
    return HTMLResponse(templates().get_template("message.html").render(text=text), code)


def create(folder: Path, token: str | None = None) -> Starlette:
    """The application; nothing in it writes, and it opens only what it found in the folder."""
    listing = Listing(folder)

    async def home(request: Request) -> Response:
        page = templates().get_template("dashboard.html")
        return HTMLResponse(
            page.render(folder=str(folder), version=__version__, metrics=METRICS.values())
        )

    async def runs(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        number = int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0
        return JSONResponse(await run_in_threadpool(listing.changes, number))

    async def compare(request: Request) -> Response:
        names = request.query_params.getlist("run")[:COMPARED]
        answer = await run_in_threadpool(details, listing, names)
        if answer is None:
            return JSONResponse({"error": "no such run"}, 404)
        return JSONResponse(answer)

    async def report(request: Request) -> Response:
        names = request.query_params.getlist("run")[:COMPARED]
        page = await run_in_threadpool(full_report, listing, names)
        if page is None:
            return message(404, "There is no such run. It may have been deleted or renamed.")
        return HTMLResponse(page, headers={"Content-Security-Policy": policy()})

    return Starlette(
        routes=[
            Route("/", home),
            Route("/api/runs", runs),
            Route("/api/compare", compare),
            Route("/report", report),
            Route("/assets/{name}", serve_asset),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: explain},
    )


async def serve_asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404)
    content = (resources.files("fedkf.report") / "assets" / name).read_bytes()
    return Response(
        content, media_type=TYPES[Path(name).suffix], headers={"Cache-Control": "max-age=3600"}
    )


async def explain(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    texts = {404: "There is no such page.", 405: "This page can only be read."}
    return message(code, texts.get(code, "This cannot be answered."))


def details(listing: Listing, names: list[str]) -> dict[str, Any] | None:
    """Charts of the runs that are looked at, who is active, and whose uploads were refused."""
    runs = listing.runs(names)
    if runs is None:
        return None
    drawn = {kind: figures.charts(kind, runs) for kind in SHOWN}
    return {
        "charts": {k: [plotly_backend.figure(c) for c in v] for k, v in drawn.items() if v},
        "runs": [
            about(name, run, listing.entries[name].row["state"] == "running")
            for name, run in zip(names, runs, strict=True)
        ],
    }


def about(name: str, run: Run, running: bool) -> dict[str, Any]:
    """A run's card below the charts."""
    return {
        "name": name,
        "label": run.label,
        "active": [run.site(k) for k in run.status.active[:200]] if running else [],
        "refused": refusals(run),
        "notes": [*run.notes, *filter(None, [so_far(run), in_a_line(run)])],
    }


def full_report(listing: Listing, names: list[str]) -> str | None:
    """The report of the named runs, None if one is unknown."""
    paths = listing.paths(names) if names else None
    if not paths:
        return None
    runs = labelled([read_run(path) for path in paths])
    samples: dict[str, Samples | str] = {}
    for run in runs:
        kept = cached(run.path) if run.summary and not run.alone else None
        samples[run.label] = kept or "`fedkf report` makes them, this page only shows them"
    return build(runs, samples, back="/")
