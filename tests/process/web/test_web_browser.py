"""`clew web` in a real Chromium: live, through crashes, each button against the ledger, hostile output."""

import http.server
import json
import subprocess
import sys
import threading

import pytest
from browsers import AXE, ROOT, Visitor, chromium, missing

pytestmark = pytest.mark.xdist_group("browser")  # which one start of Chromium is enough for

GATED = """
# Count {name}
- [ ] Count
{steps}
"""
STEP = "  ```sh\n  while [ ! -e {folder}/{number} ]; do sleep 0.02; done; echo {number}\n  ```\n"
HOSTILE = (
    r"\033[31mred <script>window.hit=1</script><img src=x onerror=window.hit=1> \342\200\256evil"
)
LOOPING = """
hello()
for number in range(6):
    answer = run("cat missing.txt")
    if answer["verdict"] == "blocked":
        break
say("blocked")
notice("never")
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def visitor(browser, web):
    found = Visitor(browser, web)
    yield found
    found.context.close()
    assert found.faults == []


def gated(clew, count):
    """Submit a goal whose steps each wait for a file in a folder; the goal and the function that opens a step."""
    folder = clew.home / "workspaces" / "gates"
    folder.mkdir(parents=True)
    steps = "".join(STEP.format(folder=folder, number=n) for n in range(count))
    goal = clew.submit(
        f"---\non_interrupt: retry\nworkspace: {folder}\n---\n{GATED.format(name=count, steps=steps)}"
    )
    return goal, lambda number: (folder / str(number)).touch()


def recorded(clew, goal):
    """The numbers of a goal's actions on record, the latest first."""
    actions = json.loads(clew.cli("history", goal, "--json"))["actions"]
    return [action["seq"] for action in actions][::-1]


def test_an_action_appears_when_it_is_durable_without_a_reload(clew, visitor):
    goal, open_step = gated(clew, 2)
    page = visitor.goal(goal)
    page.evaluate("window.sameDocument = true")
    open_step(0)
    page.wait_for_selector("[data-action]")
    assert page.evaluate("window.sameDocument")
    open_step(1)
    clew.wait("goal.completed", goal=goal)
    visitor.waits("document.querySelector('.chip').textContent.startsWith('completed')")
    assert visitor.actions() == recorded(clew, goal)


def test_a_page_goes_on_when_the_daemon_is_killed_and_started_again(clew, visitor):
    goal, open_step = gated(clew, 6)
    page = visitor.goal(goal)
    for number in range(3):
        open_step(number)
    visitor.waits("document.querySelectorAll('[data-action]').length >= 3")
    clew.kill()
    visitor.waits("document.querySelector('.banner') !== null")
    clew.start()
    for number in range(3, 6):
        open_step(number)
    clew.wait("goal.completed", goal=goal)
    visitor.waits("document.querySelector('.chip').textContent.startsWith('completed')")
    assert visitor.actions() == recorded(clew, goal)
    assert page.locator(".lane").count() == 2
    assert clew.verified()


def test_what_a_person_has_opened_and_typed_stays_when_a_page_refreshes(clew, visitor):
    goal, open_step = gated(clew, 2)
    page = visitor.goal(goal)
    open_step(0)
    page.wait_for_selector("[data-action] details")
    page.click("[data-action] summary")
    page.fill("#say", "half a sentence")
    open_step(1)
    visitor.waits("document.querySelectorAll('[data-action]').length === 2")
    assert page.locator("[data-action] details[open]").count() == 1
    assert page.input_value("#say") == "half a sentence"


def test_pause_continue_and_feedback_do_what_the_commands_do(clew, visitor):
    goal, _ = gated(clew, 1)
    clew.wait("action.allowed", goal=goal)
    page = visitor.goal(goal)
    visitor.press("Pause")
    clew.until(lambda: clew.goal(goal)["paused"], "the pause")
    visitor.waits("document.querySelector('.chip').textContent === 'paused'")
    visitor.press("Continue")
    clew.until(lambda: not clew.goal(goal)["paused"], "the end of the pause")
    page.fill("#say", "count faster")
    visitor.press("Send")
    clew.until(lambda: feedback_of(clew, goal) == ["count faster"], "the feedback")
    visitor.waits("document.querySelector('#say').value === ''")


def feedback_of(clew, goal):
    from clew_daemon.record.store import load_state
    from clew_shared.ledger.reader import Reader

    with Reader.open(clew.ledger) as reader:
        return load_state(reader, goal).guidance.feedback


def test_cancel_is_asked_about_and_continue_reopens_it(clew, visitor):
    goal, _ = gated(clew, 1)
    clew.wait("action.allowed", goal=goal)
    page = visitor.goal(goal)
    visitor.press("Cancel")
    page.keyboard.press("Enter")
    visitor.waits("!document.querySelector('dialog')")
    assert clew.goal(goal)["status"] == "in_progress"
    visitor.press("Cancel")
    visitor.press("Yes")
    clew.until(lambda: clew.goal(goal)["status"] == "cancelled", "the end")
    page.get_by_role("button", name="Continue", exact=True).wait_for()
    visitor.press("Continue")
    clew.until(lambda: clew.goal(goal)["status"] == "in_progress", "the retry")


def test_a_read_only_server_shows_no_buttons(clew, browser, served):
    clew.start()
    goal, _ = gated(clew, 1)
    clew.wait("action.allowed", goal=goal)
    visitor = Visitor(browser, served("--read-only"))
    page = visitor.goal(goal)
    assert page.locator("button, form").count() == 0
    visitor.context.close()


def test_pages_can_be_read_without_scripts(clew, browser, web):
    goal, open_step = gated(clew, 1)
    open_step(0)
    clew.wait("goal.completed", goal=goal)
    visitor = Visitor(browser, web, java_script_enabled=False)
    page = visitor.goto("/")
    page.click(f"a[href$='/goals/{goal}']")
    assert page.locator("[data-action]").count() == 1
    page.click("[data-action] a")
    assert "0" in page.locator("pre").last.inner_text()
    visitor.context.close()


def test_hostile_output_is_text_in_every_page(clew, visitor):
    goal = clew.completed(
        f"# <img src=x onerror=window.hit=1>\n- [ ] Say\n  ```sh\n  printf '{HOSTILE}\\n'\n  ```\n"
    )
    [seq] = recorded(clew, goal)
    for path in ("/", f"/goals/{goal}", f"/goals/{goal}/actions/{seq}", f"/log?goal={goal}"):
        page = visitor.goto(path)
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main script").count() == 0
    assert r"\x1b[31mred <script>" in visitor.goto(f"/goals/{goal}/actions/{seq}").inner_text(
        "main"
    )


ATTACKER = """
<form id=f method=post action="{base}/change/pause" enctype="text/plain">
<input name='{{"goal":"{goal}","x":"' value='"}}'></form>
<iframe name=frame src="{base}/"></iframe><img src="{base}/">
<script>
const body = JSON.stringify({{goal: "{goal}"}});
Promise.allSettled([
  fetch("{base}/change/pause", {{method: "POST", mode: "no-cors", credentials: "include", body}}),
  fetch("{base}/change/pause", {{
    method: "POST", credentials: "include", headers: {{"content-type": "application/json"}}, body,
  }}),
  fetch("{base}/", {{credentials: "include"}}).then(r => r.text()),
]).then(() => f.submit());
</script>
"""


def test_the_page_of_another_server_of_this_machine_can_read_and_change_nothing(clew, visitor):
    goal, _ = gated(clew, 1)
    clew.wait("action.allowed", goal=goal)
    seen = []

    class Attacker(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("cookie"))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACKER.format(base=visitor.base, goal=goal).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Attacker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visitor.page
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_url("**/change/pause")  # the form was sent, and this is the answer to it
        assert "another site" in page.inner_text("body")
        server.shutdown()
    assert set(seen) == {None}, "the session's cookie was sent to a server on another port"
    assert clew.goal(goal)["status"] == "in_progress"
    assert not clew.goal(goal)["paused"]
    visitor.faults.clear()  # the browser's notes on what was refused


GROW = """
import asyncio, sys
from pathlib import Path
from bench.grown import live_goal
asyncio.run(live_goal(Path(sys.argv[1]), 2_000, Path(sys.argv[2])))
"""


def test_a_goal_with_thousands_of_actions_has_a_small_page_with_all_of_them_in_pages(
    clew, browser, served
):
    folder = clew.home / "workspaces" / "grow"
    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", GROW, clew.home / "state", folder], cwd=ROOT, check=True, timeout=100
    )
    visitor = Visitor(browser, served())
    page = visitor.goal("grow-7f3a")
    assert len(page.content()) < 2 << 20
    assert page.locator("[data-action]").count() == 50
    first = visitor.actions()
    page.click("text=Earlier actions")
    second = visitor.actions()
    assert min(first) > max(second)
    visitor.context.close()


def test_no_page_has_a_serious_fault_of_accessibility(clew, browser, web):
    if not AXE.exists():
        missing("there is no axe-core")
    clew.agent("looping", LOOPING)
    clew.clew("reload")
    goal = clew.submit("---\nagent: looping\n---\n# Loop\n- [ ] Loop\n")
    clew.said(goal)
    visitor = Visitor(browser, web, bypass_csp=True)
    seq = recorded(clew, goal)[0]
    pages = ["/", f"/goals/{goal}", f"/goals/{goal}/actions/{seq}", f"/goals/{goal}/changes"]
    for path in [*pages, f"/goals/{goal}/prompt", "/log"]:
        page = visitor.goto(path)
        page.add_script_tag(path=AXE)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate("axe.run().then(done => done.violations)")
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            told = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in serious]
            assert told == [], (path, scheme)
    visitor.context.close()


def test_every_page_fits_a_phone(clew, browser, web):
    goal = clew.completed(
        f"# A goal with {'a-very-long-word' * 20}\n- [ ] Say\n  ```sh\n  echo {'x' * 400}\n  ```\n"
    )
    visitor = Visitor(browser, web, viewport={"width": 360, "height": 740})
    for path in ("/", f"/goals/{goal}", f"/goals/{goal}/changes", "/log"):
        page = visitor.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    visitor.context.close()


def test_pages_are_used_with_keys_alone(clew, visitor):
    goal, open_step = gated(clew, 1)
    open_step(0)
    clew.wait("goal.completed", goal=goal)
    page = visitor.goto("/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/goals/{goal}")
    page.keyboard.press("/")
    page.wait_for_url("**/log?goal=*")
    page.keyboard.press("/")
    page.keyboard.type("goal.completed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/log?q=goal.completed*")
    assert page.locator(".log tbody tr").count() == 1
    page.keyboard.press("g")
    page.wait_for_url(visitor.base + "/")
