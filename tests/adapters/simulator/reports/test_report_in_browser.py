"""The page in a real browser: it draws, loads nothing, and has no errors, in light and in dark.

The tests talk to the browser over two pipes, in the protocol of its developer tools: JSON messages that end in NUL.
MAKEWAY_BROWSER names a browser that is not found by itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.simulator.reports.comparison import compare
from makeway.adapters.simulator.reports.measures import measure
from makeway.adapters.simulator.reports.page import page
from tests.adapters.simulator.reports.test_report import EVIL, many, two_runs

NAMED = os.environ.get("MAKEWAY_BROWSER")
BROWSERS = (NAMED,) if NAMED else ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((found for name in BROWSERS if (found := shutil.which(name))), "")
if not PROGRAM:
    pytest.skip("no browser on PATH; MAKEWAY_BROWSER can name one", allow_module_level=True)

MESSAGES_MAX = 10_000  # of one answer; more is not expected from a browser
SECONDS_MAX = 60  # a browser that is silent this long is stuck: the pipe is closed, and the test fails
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
pytestmark = pytest.mark.slow


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are far from 3 and 4, where the browser reads and writes."""
    ends = os.pipe()
    far = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return far[0], far[1]


class Browser:
    """One page of a headless browser, and all its reports."""

    def __init__(self, program: str, profile: Path) -> None:
        ours_in, theirs_out = _pipe()
        theirs_in, ours_out = _pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), program, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._left = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: object) -> Any:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for _ in range(MESSAGES_MAX):
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)
        raise AssertionError(f"no answer to {method}")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            signal.alarm(SECONDS_MAX)
            piece = os.read(self._in, 1 << 16)
            signal.alarm(0)
            assert piece, "the browser has gone"
            self._left += piece
        message, self._left = self._left.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def show(self, where: Path) -> None:
        self.events.clear()
        self.ask("Page.navigate", url=where.as_uri())
        for _ in range(MESSAGES_MAX):
            if any(each.get("method") == "Page.loadEventFired" for each in self.events):
                return
            self.events.append(self._read())
        raise AssertionError("the page never loads")

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")  # a statement has none

    def told(self, method: str) -> list[dict[str, Any]]:
        return [each["params"] for each in self.events if each.get("method") == method]

    def close(self) -> None:
        with suppress(OSError):
            os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # only the session that we started
            self._process.wait()
        os.close(self._in)
        os.close(self._out)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(PROGRAM, tmp_path_factory.mktemp("profile"))
    try:
        opened.attach()
        yield opened
    finally:
        opened.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Browser:
    """A comparison of two small runs, freshly loaded."""
    this, against = two_runs()
    where = tmp_path / "report.html"
    where.write_text(page(this, compare(this, against), title=EVIL), "utf-8")
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
    browser.show(where)
    return browser


def boxes(browser: Browser, selector: str) -> list[list[float]]:
    """Width and height on the screen of all elements that a selector matches."""
    found: list[list[float]] = browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.getBoundingClientRect())"
        ".map(r => [r.width, r.height])"
    )
    return found


def test_nothing_is_asked_for_and_nothing_is_complained_about(shown: Browser) -> None:
    requests = [each["request"]["url"] for each in shown.told("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [shown.evaluate("location.href")]
    assert shown.told("Log.entryAdded") == []
    assert shown.told("Runtime.consoleAPICalled") == []
    assert shown.told("Runtime.exceptionThrown") == []
    assert shown.evaluate("document.scripts.length") == 0
    assert "<script>" in shown.evaluate("document.title")


def test_the_charts_are_there_to_be_seen(shown: Browser) -> None:
    assert len(boxes(shown, "#usage svg")) == 2
    assert len(boxes(shown, "svg")) == len(boxes(shown, "figure")) == 4
    assert all(width > 200 and height > 50 for width, height in boxes(shown, "svg"))
    assert all(width > 0 and height > 0 for width, height in boxes(shown, "svg .bar"))
    one, two = (height for _, height in boxes(shown, "#waited .bar"))  # one waited 1s, two more than 10s
    assert two == pytest.approx(2 * one, rel=0.01)
    assert len(boxes(shown, "#evicted .bar")) == 1
    assert shown.evaluate("document.querySelectorAll('.matrix td[class]').length") == 1
    fills = shown.evaluate("[...document.querySelectorAll('#u0-0 use')].map(e => getComputedStyle(e).fill)")
    assert len(set(fills)) == 2
    assert "rgb(0, 0, 0)" not in fills  # an unknown colour would be black


def test_a_table_opens_under_each_chart(shown: Browser) -> None:
    visible = "[...document.querySelectorAll('figure table')].map(e => e.checkVisibility())"
    assert shown.evaluate(visible) == [False] * 4
    shown.evaluate("document.querySelectorAll('figure summary').forEach(e => e.click())")
    assert shown.evaluate(visible) == [True] * 4
    assert all(height > 30 for _, height in boxes(shown, "figure table"))


def test_dark_is_dark(shown: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.body).color"
    assert (shown.evaluate(ground), shown.evaluate(ink)) == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    shown.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert (shown.evaluate(ground), shown.evaluate(ink)) == ("rgb(15, 19, 24)", "rgb(230, 237, 243)")


@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_is_wider_than_its_window(shown: Browser, width: int) -> None:
    shown.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_a_large_run_is_drawn_too(browser: Browser, tmp_path: Path) -> None:
    where = tmp_path / "large.html"
    where.write_text(page(measure(many(queues=40, resources=2, lives=3000))), "utf-8")
    browser.show(where)
    assert len(boxes(browser, "#usage svg")) == 42
    assert browser.told("Log.entryAdded") == []
