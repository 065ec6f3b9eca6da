"""A real Chromium, driven by Playwright; what is missing is named, and fails where CLEW_BROWSER_REQUIRED is set."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AXE = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WITHIN_MS = 60_000


def missing(what):
    """Skip what a machine does not have, or fail where it was required."""
    if os.environ.get("CLEW_BROWSER_REQUIRED"):
        pytest.fail(f"{what}: make browser")
    pytest.skip(f"{what}: make browser")


@contextmanager
def chromium():
    """Start the browser; skip without one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        missing("there is no Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("there is no Playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A person's browser window with a session at a server; `faults` are errors of scripts and of the policy."""

    def __init__(self, browser, server, **options):
        self.server = server
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(WITHIN_MS)
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on(
            "console", lambda line: self.faults.append(line.text) if line.type == "error" else None
        )
        link = server.clew.cli("web", "--link").strip()
        self.page.goto(link)
        self.base = self.page.url.rstrip("/")

    def goto(self, path):
        self.page.goto(self.base + path)
        return self.page

    def goal(self, goal):
        return self.goto(f"/goals/{goal}")

    def waits(self, expression, *args):
        """Wait until an expression is true in the page; evaluated from here, since the policy forbids it there."""
        self.server.clew.until(lambda: self.page.evaluate(expression, *args), expression)

    def actions(self):
        """The numbers of the actions that the page shows, the latest first."""
        rows = "rows => rows.map(row => Number(row.dataset.action))"
        return self.page.eval_on_selector_all("[data-action]", rows)

    def press(self, label):
        self.page.get_by_role("button", name=label, exact=True).click()
