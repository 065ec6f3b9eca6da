"""Kind c: one call many times, whose answer differs only by a fresh id."""

import hashlib
import json

from tests.loop_runs.moves import Run, act, edit, sends, sh, thinks


def hexes(n, size=32):
    return hashlib.sha256(f"id {n}".encode()).hexdigest()[:size]


def uuid(n):
    h = hexes(n)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:32]}"


def mixed(n):
    """Return a token in which letters of both cases and digits are mixed, as base62 ids are."""
    signs = "0a1B2c3D4e5F6g7H8i9JkLmN"
    return "".join(signs[int(h, 16) + n % 8] for h in hexes(n, 12))


MESSAGE = {"to": "team", "text": "The build is done"}

LOOPS = [
    Run(
        "a message with a uuid",
        [act("send_message", f"Message sent (id {uuid(n)})", **MESSAGE) for n in range(20)],
        4,
    ),
    Run(
        "a message with a ts in JSON",
        [
            act(
                "slack_post",
                json.dumps(
                    {
                        "ok": True,
                        "ts": f"17324{n * 7919 + 10000}.{n * 97 + 100000}",
                        "channel": "C01",
                    }
                ),
                channel="C01",
                text="done",
            )
            for n in range(12)
        ],
        4,
    ),
    Run(
        "an upload with a hash",
        [
            act("upload", f"uploaded report.pdf as {hexes(n, 12)}", path="report.pdf")
            for n in range(8)
        ],
        4,
    ),
    Run(
        "an upload that says that it changed something",
        [
            sends("upload_file", f'{{"ok": true, "file_id": "file-{mixed(n)}"}}', path="a.zip")
            for n in range(8)
        ],
        4,
    ),
    Run(
        "numbered messages",
        [
            act("notify", f'{{"message_id": "msg_{1041 + n}", "status": "sent"}}', text="hi")
            for n in range(8)
        ],
        4,
    ),
    Run(
        "a ticket, a thought between",
        [
            m
            for n in range(8)
            for m in (
                *thinks(f"Ticket number {n} may not have arrived"),
                act("create_ticket", f"Created TCK-{48213 + n}", title="Disk full"),
            )
        ],
        8,
    ),
    Run(
        "a deployment by curl",
        [
            sh("curl -X POST ci/deploy", f'{{"queued": true, "ref": "{hexes(n, 40)}"}}')
            for n in range(8)
        ],
        6,
    ),
    Run(
        "a mail and a look at the same list",
        [
            m
            for n in range(8)
            for m in (
                act("send_mail", f"250 OK queued as {mixed(n).upper()}", to="a@b.c", body="hello"),
                act("read_file", "hello", path="mail.txt"),
            )
        ],
        8,
    ),
    Run(
        "an appointment under a long number",
        [act("book", f"Booked. Confirmation {10**9 + n * 7919}.", day="Monday") for n in range(8)],
        4,
    ),
    Run(
        "a page published with a link",
        [
            sends("publish", f"Published at https://p.example/s/{mixed(n)}", page="index")
            for n in range(8)
        ],
        4,
    ),
]

WORK = [
    Run(
        "ids that are used",
        [
            m
            for n in range(8)
            for m in (
                act("create_session", f"session {uuid(n)} created"),
                act("call", f"answer {n}", session=uuid(n), q=f"question {n}"),
            )
        ],
    ),
    Run(
        "pages by cursors",
        [
            act(
                "list_items",
                json.dumps({"items": [f"item {n} {k}" for k in range(5)], "next": mixed(n)}),
                **({"cursor": mixed(n - 1)} if n else {}),
            )
            for n in range(10)
        ],
    ),
    Run(
        "the next page by the same call",
        [act("next_page", f"row {n}a, row {n}b ({mixed(n)})") for n in range(10)],
    ),
    Run(
        "progress under request ids",
        [
            act("status", json.dumps({"request": mixed(n), "done": f"{n * 9}%"}), job=7)
            for n in range(10)
        ],
    ),
    Run(
        "fresh ids are what is asked for",
        [
            *[sh("uuidgen", uuid(n)) for n in range(6)],
            sh("cat ids > fixture.json", "", **{"fixture.json": "ids"}),
        ],
    ),
    Run(
        "different messages",
        [
            act("send_message", f"sent {uuid(n)}", to=f"user{n}", text=f"Your order {n}")
            for n in range(12)
        ],
    ),
    Run(
        "a notice after each change",
        [
            m
            for n in range(8)
            for m in (
                edit("a.py", f"v{n}", f"v{n + 1}"),
                act("notify", f"sent {mixed(n)}", text="changed"),
            )
        ],
    ),
    Run(
        "two boxes, then both are used",
        [
            *[act("create_sandbox", f"sandbox {mixed(n)} is ready") for n in range(2)],
            *[act("run_in", f"ok {n}", box=mixed(n), cmd="make") for n in range(2)],
            *[act("create_sandbox", f"sandbox {mixed(n)} is ready") for n in range(2, 4)],
            *[act("run_in", f"ok {n}", box=mixed(n), cmd="make") for n in range(2, 4)],
        ],
    ),
    Run(
        "work from a queue",
        [
            act("take_task", f"task {mixed(n)}: resize picture_{n} to {n + 2} columns")
            for n in range(10)
        ],
    ),
    Run(
        "a commit for each part",
        [
            m
            for n in range(8)
            for m in (
                sh(f"git add m{n}.py", index=f"{n}"),
                sh("git commit -qm wip", f"[main {hexes(n, 7)}] wip", head=f"{n}"),
            )
        ],
    ),
]
