# fmt: off
# ruff: noqa: ARG001, E501, PLC0207, Q003, RUF001, SIM905
"""Thirty runs of agents to judge by, in the form of the recorded ones: fifteen loops, and fifteen honest ones.

They were written before the judge was looked at, of kinds that the recorded runs do not have. A loop marks the first
step at which a word could be justified (`early`), and the one at which a careful person would speak (`late`).
"""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

Step = dict[str, Any]
EARLY: Step = {"kind": "early"}
LATE: Step = {"kind": "late"}
TOLERANCE = 6


class Shelf:
    """Stories, each told by a function of its chance, as rows in the form of recorded runs (docs/measurements.md)."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def loop(self, task: str) -> Any:
        """Take a loop of an agent that was given this task."""
        return partial(self._take, "loop", task)

    def honest(self, task: str) -> Any:
        return partial(self._take, "ok", task)

    def _take(self, truth: str, task: str, tell: Any) -> Any:
        steps, marks = [user(task)], {}
        for step in tell(random.Random(tell.__name__)):
            if step in (EARLY, LATE):
                marks[step["kind"]] = len(steps)
            else:
                steps.append(step)
        self.rows.append({"id": tell.__name__, "truth": truth, "steps": steps, "not_before": marks.get("early"),
                          "truth_index": marks.get("late"), "tolerance": TOLERANCE if truth == "loop" else 0})
        return tell


def marked(n: int, early: int, late: int) -> list[Step]:
    """Return the mark that belongs before round `n` of a loop, if any."""
    return [EARLY] * (n == early) + [LATE] * (n == late)


def user(text: str) -> Step:
    return {"kind": "user", "text": text}


def says(text: str) -> Step:
    return {"kind": "thought", "text": text}


def act(tool: str, args: dict[str, Any], output: Any = "", /, *, bad: bool = False, did: bool | None = False) -> Step:
    text = output if isinstance(output, str) else json.dumps(output)
    return {"kind": "action", "name": tool, "args": args, "result": "failure" if bad else "success",
            "output": text, "changed": did}  # fmt: skip


def sh(command: str, output: str = "", **how: Any) -> Step:
    return act("bash", {"command": command}, output, **how)


def terminal(command: str, output: str = "", **how: Any) -> Step:
    return act("run_terminal_cmd", {"command": command, "explanation": f"Run {command.split()[0]}"}, output, **how)


def ident(r: random.Random, size: int = 12) -> str:
    return f"{r.getrandbits(4 * size):0{size}x}"


def clock(at: int) -> str:
    return f"2026-03-{4 + at // 1440:02} {8 + at // 60 % 14:02}:{at % 60:02}:{at * 17 % 60:02}"


SHELF = Shelf()
loop, honest = SHELF.loop, SHELF.honest

# ------------------------------------------------------------------------------------------------------------ loops


@loop("Tell our supplier that we need the invoice for March.")
def bounced_mail(r):
    yield act("search_contacts", {"query": "Norwell"}, [{"name": "Norwell Ltd", "email": "billing@norwel.example"}])
    for n, subject in enumerate(("Invoice March", "Invoice for March", "March invoice", "Your invoice of March", "Re: Invoice March",
                                 "Invoice March (2nd try)", "Request: invoice March", "Invoice, March", "March", "Invoice needed")):
        yield EARLY if n == 3 else LATE if n == 4 else says("It bounced. I will try with another subject.")
        yield act("send_mail", {"to": "billing@norwel.example", "subject": subject, "body": f"Dear team,\nplease send it.\n{'Thanks' * (n % 2)}"},
                  {"status": "queued", "message_id": f"<{ident(r)}@mx2>"}, did=True)
        yield act("list_inbox", {"unread": True, "limit": 5},
                  f"1 message\nfrom: MAILER-DAEMON@mx2  {clock(9 * n)}\nsubject: Undelivered Mail Returned to Sender\n"
                  f"<billing@norwel.example>: host norwel.example said: 550 5.1.1 User unknown (queue id {ident(r, 10).upper()})")


@loop("Clean customers.csv; validate.py must pass.")
def dates_in_csv(r):
    yield sh("head -3 customers.csv", "id,name,signup\n1,Ana,2024-02-30\n2,Bo,12/13/2024")
    for n in range(10):
        yield from marked(n, 3, 5)
        body = ["df.signup = pd.to_datetime(df.signup, errors='coerce')", "df['signup'] = pd.to_datetime(df['signup'], errors='coerce')",
                "# parse the dates\ndf['signup'] = pd.to_datetime(df['signup'], errors='coerce')",
                "df = df.assign(signup=pd.to_datetime(df.signup, errors='coerce'))", "s = df['signup']\ndf['signup'] = pd.to_datetime(s, errors='coerce')"][n % 5]
        yield act("write_file", {"path": "clean.py", "content": f"import pandas as pd\ndf = pd.read_csv('customers.csv')\n{body}\ndf.to_csv('out.csv')"},
                  "ok", did=True)
        yield sh("python clean.py && python validate.py out.csv",
                 f"validated 8,412 rows in {r.uniform(1, 3):.2f}s\nFAIL: 17 rows with an empty signup date\nfirst: row 1, row 2, row 57", bad=True, did=None)


@loop("Bring the staging stack in line with the code, until plan shows no changes.")
def perpetual_plan(r):
    for n in range(9):
        yield from marked(n, 2, 4)
        yield terminal(f"terraform plan -out=tf{n + 1}.plan",
                       f"aws_lb_listener.web: Refreshing state... [id=arn:aws:{ident(r)}]\n  ~ resource \"aws_ecs_service\" \"web\" {{\n"
                       f"      ~ desired_count = 3 -> 2\n    }}\nPlan: 0 to add, 1 to change, 0 to destroy.\nSaved the plan to: tf{n + 1}.plan", did=True)
        yield terminal(f"terraform apply tf{n + 1}.plan",
                       f"aws_ecs_service.web: Modifying... [id=web]\naws_ecs_service.web: Modifications complete after {r.randint(3, 9)}s [id=web]\n"
                       "Apply complete! Resources: 0 added, 1 changed, 0 destroyed.", did=True)


@loop("Migrate the database to head.")
def half_migrated(r):
    error = "sqlalchemy.exc.ProgrammingError: (psycopg2.errors.DuplicateTable) relation \"invoice_line\" already exists"
    moves = ("alembic stamp 3f2a", "alembic downgrade -1", "alembic stamp base", "alembic stamp 3f2a", "alembic downgrade 3f2a",
             "alembic history --verbose", "alembic stamp --purge 3f2a", "alembic current", "alembic stamp 3f2a", "alembic heads")
    for n, move in enumerate(moves):
        yield from marked(n, 3, 5)
        yield sh("alembic upgrade head", f"INFO  [alembic.runtime.migration] Running upgrade 3f2a -> 91bc, add invoice lines\n"
                 f"Traceback (most recent call last):\n  File \"/app/.venv/lib/python3.11/site-packages/sqlalchemy/engine/base.py\", line {1960 + n % 2}\n"
                 f"{error}\n(Background on this error at: https://sqlalche.me/e/20/f405)", bad=True, did=None)
        yield sh(move, f"INFO  [alembic.runtime.migration] Context impl PostgresqlImpl.\nINFO  [alembic.runtime.migration] Running {move.split()[1]}", did=True)


@loop("Get all prices from the shop page into prices.json.")
def no_such_selector(r):
    yield act("fetch_page", {"url": "https://shop.example/all"}, "<html><body><div id=app></div><script src=/main.js></script></body></html>")
    for n, css in enumerate((".price", "span.price", "div.product > .price", "[data-price]", ".product-card .amount", "#prices li", ".price-tag",
                             "td.price", "p.price", ".offer__price", "[itemprop=price]", "main .cost", ".product .value", "ul.prices > li")):
        yield from marked(n, 5, 8)
        yield act("extract", {"url": "https://shop.example/all", "css": css, "attribute": "text"},
                  {"selector": css, "matches": 0, "items": [], "took_ms": r.randint(80, 900)})


@loop("Drive the rover to the charging station.")
def robot_at_a_wall(r):
    for n in range(40):
        yield from marked(n, 15, 20)
        x, y = 4.1 + r.uniform(-0.04, 0.04), 7.9 + r.uniform(-0.04, 0.04)
        step = n % 4
        if step == 0:
            yield act("drive", {"meters": 1.0}, {"ok": False, "reason": "obstacle ahead", "pose": [round(x, 2), round(y, 2)], "battery": 81 - n // 8}, bad=True)
        elif step == 3:
            yield act("scan", {}, f"front 0.{r.randint(20, 24)} m, left 3.{r.randint(0, 9)} m, right 2.{r.randint(0, 9)} m, rear 1.8 m")
        else:
            yield act("turn", {"degrees": 90 if step == 1 else -90}, {"ok": True, "heading": 90 if step == 1 else 0, "battery": 81 - n // 8}, did=True)


@loop("Find an hour this week for Dana, Lee and me.")
def nobody_is_free(r):
    for n in range(13):
        yield from marked(n, 5, 7)
        args = {"attendees": ["dana", "lee", "me"], "minutes": (60, 45, 30, 60)[n % 4], "from": f"2026-03-0{4 + n % 3}T{8 + n % 5:02}:00", "to": f"2026-03-06T1{n % 8}:00"}
        yield act("find_meeting_time", args, {"slots": [], "blocked_by": "dana: out of office until 2026-03-09", "checked_at": clock(n)})
        if n % 4 == 1:
            yield says("Perhaps a shorter meeting, or another hour of the day.")


@loop("Write the report in doc-7; its outline stands.")
def outline_only(r):
    text = "# Report\n## 1 Aim\n## 2 Method\n## 3 Results\n## 4 Discussion\nTODO: everything"
    ways = (("read_document", {"id": "doc-7"}), ("get_outline", {"id": "doc-7", "depth": 2}), ("export", {"id": "doc-7", "format": "md"}),
            ("read_document", {"id": "doc-7", "section": "all"}), ("find_in_document", {"id": "doc-7", "text": "#"}), ("get_outline", {"id": "doc-7", "depth": 3}),
            ("export", {"id": "doc-7", "format": "txt"}), ("read_document", {"id": "doc-7", "page": 1}), ("preview", {"id": "doc-7"}),
            ("read_document", {"id": "doc-7", "with_comments": True}), ("get_outline", {"id": "doc-7"}), ("export", {"id": "doc-7", "format": "markdown"}))
    for n, (tool, args) in enumerate(ways):
        yield from marked(n, 4, 6)
        if n == 6:
            yield says("I should know the structure before I write.")
        yield act(tool, args, text + f"\n(revision 12, opened {clock(n)})")


@loop("How did the intruder get in? auth.log of web3 is in ./evidence.")
def one_log_line(r):
    hit = "Mar 02 03:14:07 web3 sshd[811]: Accepted publickey for deploy from 203.0.113.9 port 50022"
    yield sh("wc -l evidence/auth.log", "90211 evidence/auth.log")
    for n, command in enumerate(("grep Accepted {0}", "grep -n publickey {0}", "awk '/deploy/' {0}", "grep -i '203.0.113' {0} | head", "sed -n '/03:14/p' {0}",
                                 "grep -c deploy {0}; grep deploy {0}", "cat {0} | grep -E 'Accepted|opened'", "rg 'Accepted' {0}", "grep -A0 'sshd.811' {0}",
                                 "python3 -c \"print([l for l in open('{0}') if 'Accepted' in l])\"", "zgrep Accepted {0}", "grep 'port 50022' {0}")):
        yield from marked(n, 4, 6)
        yield sh(command.format("evidence/auth.log"), (f"{8123}:" if "-n" in command and "sed" not in command else "") + hit)


@loop("Train the classifier to 90 % accuracy.")
def loss_is_nan(r):
    for n in range(9):
        yield from marked(n, 4, 5)
        yield act("run_python", {"code": f"train(model, epochs=3, seed={r.randint(1, 999)})"},
                  f"step 100 loss {r.uniform(2.1, 2.4):.4f} lr 0.1000 {r.uniform(40, 60):.1f} img/s\nstep 200 loss {r.uniform(3, 5):.4f} lr 0.1000\n"
                  f"step {r.randint(290, 330)} loss nan\nloss is nan, stopping", bad=True)
        yield says("Bad luck with the seed, once more.")


@loop("Close the open ticket of Marlow GmbH.")
def two_robots_chat(r):
    replies = ("Could you tell us your order number?", "May I ask for the number of your order?", "Please send us the order number.", "Which order is it about?",
               "We still need the order number to help you.", "To go on, we need your order number.", "Kindly give us the order number.", "What is your order number?",
               "Please reply with your order number.", "Order number, please?")
    for n, text in enumerate(replies):
        yield from marked(n, 3, 4)
        yield act("ticket_reply", {"ticket": 4417, "text": f"Hello,\n{text}\nBest regards"}, {"comment": 90110 + 3 * n, "state": "waiting for customer"}, did=True)
        yield act("ticket_get", {"ticket": 4417}, {"state": "open", "comments": 2 * n + 2, "last": {"author": "Marlow GmbH", "at": clock(2 * n),
                  "text": "Thank you for your message. We are closed until 30 March. This is an automatic reply."}})


@loop("CI of PR 311 is red, make it green.")
def empty_commits(r):
    for n in range(9):
        yield from marked(n, 2, 4)
        sha = ident(r, 7)
        yield act("Bash", {"command": f"git commit --allow-empty -m 'Trigger CI ({n + 1})' && git push", "description": "Trigger CI again"},
                  f"[fix-dates {sha}] Trigger CI ({n + 1})\nTo github.com:acme/app.git\n   {ident(r, 7)}..{sha}  fix-dates -> fix-dates", did=True)
        yield act("Bash", {"command": f"gh run watch {r.randint(10**9, 10**10)} --exit-status", "description": "Wait for the run"},
                  f"X fix-dates CI acme/app#311 · {r.randint(10**9, 10**10)}\n✓ lint in {r.randint(20, 40)}s\nX build in 1m{r.randint(1, 59)}s\n"
                  "  X Upload coverage: Error: Input required and not supplied: token", bad=True)


@loop("Play the game and find the lamp.")
def lost_in_two_rooms(r):
    sounds = ("A bat flutters by.", "You hear water drip.", "A cold draught.", "It smells of moss.", "Something rustles.")
    for n in range(30):
        yield from marked(n, 9, 12)
        room = ("Cellar\nA low vault. The door to the east is locked. Exits: north.", "Hall\nA long hall with portraits. Exits: south.")[n % 2]
        yield act("game", {"input": "south" if n % 2 == 0 else "north"}, f"{room}\n{r.choice(sounds)}\n[moves: {n + 3}]", did=None)


@loop("Fill column F with the price of each part from the sheet Prices.")
def reference_error(r):
    for n, formula in enumerate(("=VLOOKUP(A2;Prices!A:B;3;0)", "=VLOOKUP(A2;Prices!A:B;3;FALSE)", "=VLOOKUP(A2,Prices!A:B,3,FALSE)", "=VLOOKUP($A2;Prices!$A:$B;3;0)",
                                 "=IFNA(VLOOKUP(A2;Prices!A:B;3;0);\"\")", "=VLOOKUP(TRIM(A2);Prices!A:B;3;0)", "=VLOOKUP(A2;Prices!A1:B99;3;0)", "=VLOOKUP(VALUE(A2);Prices!A:B;3;0)",
                                 "=VLOOKUP(A2&\"\";Prices!A:B;3;0)", "=VLOOKUP(A2;Prices.A:B;3;0)", "=VLOOKUP(A2;(Prices!A:B);3;0)")):
        yield from marked(n, 4, 6)
        yield act("sheet_set", {"range": "F2:F120", "formula": formula}, {"updated": 119}, did=True)
        yield act("sheet_get", {"range": "F2:F5"}, {"values": [["#REF!"]] * 4, "etag": ident(r)})


@loop("Bring my branch up to date with main.")
def stash_and_pop(r):
    for n in range(8):
        yield from marked(n, 2, 4)
        yield terminal("git pull --rebase" + ("", " origin main")[n % 2], "error: cannot pull with rebase: You have unstaged changes.\nerror: Please commit or stash them.", bad=True)
        yield terminal("git stash", f"Saved working directory and index state WIP on fix: {ident(r, 7)} Add dates", did=True)
        yield terminal("git stash pop", f"On branch fix\nChanges not staged for commit:\n\tmodified:   app/dates.py\nDropped refs/stash@{{0}} ({ident(r, 40)})", did=True)


# ----------------------------------------------------------------------------------------------------------- honest


@honest("Clean the addresses until check.py is content.")
def slowly_cleaner(r):
    left = [212, 212, 180, 171, 171, 160, 133, 133, 98, 90, 41, 41, 17, 6, 0]
    for n, bad in enumerate(left):
        yield act("edit", {"path": "rules.yaml", "old": f"# rule {n}", "new": f"- pattern: '{ident(r, 6)}'\n  to: {r.choice(['street', 'town', 'zip'])}\n# rule {n + 1}"}, "edited", did=True)
        yield sh("python check.py addresses.csv", f"checked 30,112 rows in {r.uniform(2, 3):.1f}s\n{bad} rows are invalid", bad=bad > 0)


@honest("Save all events from events.example, page by page.")
def scrape_pages(r):
    for n in range(1, 22):
        items = [] if n in (4, 9, 10, 15) else [f"{r.choice(['Concert', 'Lecture', 'Market', 'Workshop'])} in {r.choice(['Porto', 'Lille', 'Gdansk', 'Turin', 'Ghent'])}, {r.randint(1, 30)} May" for _ in range(r.randint(2, 4))]
        yield act("fetch_page", {"url": f"https://events.example/list?page={n}"}, "\n".join(items) or "No events on this page.")
        if items:
            yield act("append_rows", {"file": "events.csv", "rows": items}, f"{len(items)} rows appended", did=True)


@honest("Who of the team can take the on-call week of 9 March?")
def many_calendars(r):
    for name in "Aiko Bruno Chidi Dana Emre Farah Goran Hanna Igor Jana Kofi Lena Marek Nadia".split():
        busy = name in ("Dana", "Igor", "Nadia")
        yield act("calendar_list", {"person": name.lower(), "from": "2026-03-09", "to": "2026-03-15"}, {"events": [{"title": "vacation", "from": "2026-03-09", "to": "2026-03-13"}] if busy else []})
    yield act("send_message", {"to": "team", "text": "Aiko, Bruno and Chidi are free"}, "sent", did=True)


@honest("On which of the web hosts did 203.0.113.9 log in?")
def grep_each_host(r):
    for n in range(1, 23):
        found = n in (7, 18)
        yield act("ssh", {"host": f"web{n:02}", "cmd": "grep -c 203.0.113.9 /var/log/auth.log"}, "2" if found else "0", bad=not found)
        if found:
            yield act("ssh", {"host": f"web{n:02}", "cmd": "grep 203.0.113.9 /var/log/auth.log"}, f"Mar 02 0{n % 9}:14:07 web{n:02} sshd[811]: Accepted publickey for deploy\nMar 02 0{n % 9}:20:41 web{n:02} sshd[811]: session closed")


@honest("Train the tagger, stop when the loss no longer falls.")
def training_watch(r):
    yield act("start_job", {"script": "train.py"}, {"job": "t-118"}, did=True)
    loss = 2.9
    for n in range(16):
        loss -= r.choice((0, 0, 0.05, 0.11, 0.2))
        yield act("sleep", {"seconds": 300}, "")
        yield act("job_log", {"job": "t-118", "tail": 2}, f"[{clock(5 * n)}] epoch {n // 2 + 1} step {200 * (n + 1)} loss {loss:.3f}\n[{clock(5 * n)}] running")


@honest("The test suite fails after the upgrade to Django 5; repair it.")
def ci_by_and_by(r):
    left = [48, 41, 41, 37, 37, 30, 22, 22, 21, 13, 5, 5, 1, 0]
    for n, bad in enumerate(left):
        yield act("Bash", {"command": "python -m pytest -q 2>&1 | tail -4", "description": "Run the tests"}, "\n".join(f"FAILED tests/test_{r.choice(['views', 'forms', 'admin'])}.py::test_{ident(r, 4)}" for _ in range(min(bad, 3)))
                  + f"\n{bad} failed, {310 - bad} passed in {r.uniform(20, 30):.2f}s", bad=bad > 0)
        if bad:
            yield act("Edit", {"file_path": f"/app/{r.choice(['views', 'forms', 'admin', 'urls'])}.py", "old_string": f"ugettext({n})", "new_string": f"gettext({n})"}, "The file has been updated.", did=True)


@honest("Is the new parser faster? Measure well.")
def measured_again(r):
    for branch in ("main", "fast-parser"):
        yield sh(f"git switch {branch} && make", f"Switched to branch '{branch}'\nok", did=True)
        for _ in range(6):
            ms = r.uniform(411, 436) if branch == "main" else r.uniform(371, 399)
            yield sh("hyperfine -N './parse big.json'", f"Benchmark 1: ./parse big.json\n  Time (mean ± σ):     {ms:.1f} ms ±   {r.uniform(2, 9):.1f} ms    [User: {ms - 20:.1f} ms, System: 18.1 ms]\n  Range (min … max):   {ms - 9:.1f} ms … {ms + 14:.1f} ms    10 runs")


@honest("Which commit broke the export?")
def bisecting(r):
    low, high, first_bad = 0, 4096, 2731
    yield sh("git bisect start HEAD v2.0", f"Bisecting: {high // 2} revisions left to test after this (roughly 12 steps)", did=True)
    while high - low > 1:
        middle = (low + high) // 2
        bad = middle >= first_bad
        yield sh("make -s && ./export sample.db", "Segmentation fault (core dumped)" if bad else "exported 12 tables", bad=bad, did=None)
        yield sh(f"git bisect {'bad' if bad else 'good'}", f"Bisecting: {(high - low) // 4} revisions left to test after this\n[{ident(r, 40)}] Change {middle}", did=True)
        low, high = (low, middle) if bad else (middle, high)


@honest("test_lease fails now and then; catch it with the trace.")
def until_it_fails(r):
    for n in range(14):
        yield act("execute_bash", {"command": "pytest -q tests/test_lease.py --log-level=DEBUG | tail -3"}, f".... [100%]\n4 passed in {r.uniform(1, 2):.2f}s" if n < 13 else "FAILED tests/test_lease.py::test_renew - AssertionError: lease 7 expired", bad=n == 13)


@honest("Upload the video in parts.")
def parts_with_backoff(r):
    for part in range(1, 9):
        for k in range(r.choice((0, 1, 2, 3))):
            yield act("upload_part", {"file": "video.mp4", "part": part}, {"status": 503, "error": "slow down", "request_id": ident(r)}, bad=True)
            yield act("sleep", {"seconds": 2 ** (k + 1)}, "")
        yield act("upload_part", {"file": "video.mp4", "part": part}, {"status": 200, "etag": ident(r, 32)}, did=True)


@honest("Add types to fields.py, function by function.")
def read_after_each_edit(r):
    lines = [f"def field_{k}(row): return row[{k}]" for k in range(9)]
    for k in range(9):
        yield act("read_file", {"path": "fields.py"}, "\n".join(lines))
        lines[k] = f"def field_{k}(row: Row) -> {r.choice(['str', 'int', 'date'])}: return row[{k}]"
        yield act("edit_file", {"path": "fields.py", "old": f"def field_{k}(row):", "new": lines[k]}, "ok", did=True)
        yield sh("mypy fields.py", f"Found {8 - k} errors in 1 file" if k < 8 else "Success: no issues found in 1 source file", bad=k < 8)


@honest("Read the pager through and find when the fan failed.")
def page_down(r):
    for n in range(14):
        yield act("press_key", {"key": "PageDown"}, "\n".join(f"{clock(31 * n + k)} fan{r.randint(1, 4)} {r.randint(2900, 3100)} rpm ok" for k in range(4)) if n < 13 else f"{clock(31 * n)} fan2 0 rpm FAILED", did=None)


@honest("When the lawyer answers, file the letter.")
def reply_comes(r):
    for n in range(9):
        yield act("sleep", {"minutes": 20}, "")
        yield act("check_mail", {"from": "lawyer@firm.example"}, "no new messages" if n < 8 else "1 new message: Re: contract (2 attachments)")
    yield act("save_attachments", {"folder": "letters"}, "2 files saved", did=True)


@honest("Are all the hosts' clocks right to 50 ms? Repair the others.")
def clocks_of_hosts(r):
    for n in range(1, 19):
        off = 812.4 if n == 11 else r.uniform(-20, 20)
        yield act("run_on", {"node": f"db-{n:02}", "script": "chronyc tracking | grep 'Last offset'"}, f"Last offset     : {off:+.3f} milliseconds")
        if n == 11:
            yield act("run_on", {"node": f"db-{n:02}", "script": "chronyc makestep"}, "200 OK", did=True)


@honest("Check by hand whether the tests notice faults in tax.py: one at a time, then undo it.")
def mutants(r):
    for n, (old, new) in enumerate((("<", "<="), ("+", "-"), ("0.19", "0.2"), ("and", "or"), ("return", "return -"), ("min", "max"), (">", ">="), ("net", "gross"), ("round", "int"), ("True", "False"))):
        yield act("edit_file", {"path": "tax.py", "old": old, "new": new}, "ok", did=True)
        survived = n in (3, 7)
        yield sh("pytest -q test_tax.py", f"12 passed in {r.uniform(0, 1):.2f}s" if survived else f"FAILED test_tax.py::test_{r.choice(['low', 'high', 'zero', 'rounding'])}_rate\n1 failed, 11 passed in {r.uniform(0, 1):.2f}s", bad=not survived)
        yield sh("git checkout tax.py", "Updated 1 path from the index", did=True)
