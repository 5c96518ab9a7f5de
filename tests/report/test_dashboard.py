"""The dashboard shows what is in its folder, to whom it should, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from dashboards import Dashboard, dashboard
from folders import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("dash")
    write_run(top / "outside", [[0.1, 0.2]])
    (top / "outside" / "secret.txt").write_text("a secret")
    inside = top / "runs"
    write_run(inside / "one", [[0.5, 1.0]])
    write_run(inside / "<script>alert(1)<", [[0.5, 1.0]], "fedkf")
    (inside / "link").symlink_to(top / "outside")
    (inside / "one" / "link").symlink_to(top / "outside")
    return inside


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Dashboard]:
    with dashboard(folder) as running:
        yield running


def test_it_listens_on_this_machine_and_lists_the_runs(server: Dashboard) -> None:
    assert server.host == "127.0.0.1"
    names = [row["name"] for row in json.loads(server.get("/api/runs").text)["rows"]]
    assert sorted(names) == ["<script>alert(1)<", "one"]


def test_every_answer_is_guarded(server: Dashboard) -> None:
    for path in ("/", "/api/runs", "/report?run=one", "/nowhere", "/assets/dashboard.js"):
        headers = server.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    [
        "/../outside/secret.txt",
        "/assets/../server.py",
        "/assets/..%2Fserver.py",
        "/assets/%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/report?run=../outside",
        "/report?run=" + quote("one/../../outside"),
        "/report?run=/etc",
        "/report?run=link",
        "/report?run=one/link",
        "/report?run=one%00",
        "/report?run=gone",
        "/report",
        "/api/compare?run=../outside",
        "/api/compare?run=one&run=/etc/passwd",
    ],
)
def test_nothing_but_known_runs_can_be_asked_for(server: Dashboard, path: str) -> None:
    answer = server.get(path)
    assert answer.code == 404
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_an_unknown_run_gets_a_friendly_page(server: Dashboard) -> None:
    answer = server.get("/report?run=gone")
    assert "There is no such run" in answer.text
    assert 'href="/"' in answer.text


def test_it_can_only_be_read(server: Dashboard) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert server.get("/", method).code == 405


def test_a_foreign_name_for_this_machine_gets_nothing(server: Dashboard) -> None:
    assert server.get("/api/runs", Host="evil.example").code == 400
    assert server.get("/api/runs", Host=f"localhost:{server.port}").code == 200


def test_a_run_with_a_hostile_name_has_its_report(server: Dashboard) -> None:
    answer = server.get("/report?run=" + quote("<script>alert(1)<"))
    assert answer.code == 200
    assert "<script>alert" not in answer.text
    assert answer.headers["content-security-policy"].count("sha256-") == 4


def test_odd_versions_are_taken_as_none(server: Dashboard) -> None:
    for since in ("x", "-1", "9" * 40, "٣"):
        answer = server.get("/api/runs?since=" + quote(since))
        assert len(json.loads(answer.text)["rows"]) == 2


def test_elsewhere_than_on_loopback_it_wants_its_token(folder: Path) -> None:
    with dashboard(folder, "--host", "0.0.0.0") as server:
        token = server.url.partition("token=")[2]
        assert len(token) >= 32
        assert server.get("/api/runs").code == 401
        assert server.get("/?token=wrong").code == 401
        answer = server.get(f"/?token={token}")
        assert answer.code == 303
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert server.get("/api/runs", Cookie=cookie.partition(";")[0]).code == 200
        assert token not in server.get("/", Cookie=cookie.partition(";")[0]).text


def test_it_closes_with_a_sentence(folder: Path) -> None:
    with dashboard(folder) as server:
        pass
    assert server.process.returncode == 130
