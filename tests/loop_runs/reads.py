"""Kind a: a file read with ever larger limits although all of it was already seen."""

import json

from tests.loop_runs.moves import Run, act, code, edit, page, sh, thinks

LIMITS = (50, 100, 200, 400, 800, 1600, 3200)
WHOLE = page(code(1, 40))


def first(lines, count):
    return page(lines[:count])


def read(path, limit, output, **more):
    return act("read_file", output, path=path, max_lines=limit, **more)


LOOPS = [
    Run("a file of 40 lines by ever larger limits", [read("a.py", n, WHOLE) for n in LIMITS], 4),
    Run(
        "head with ever larger counts",
        [sh(f"head -n {n} a.py", first(code(1, 30), n)) for n in (10, 20, *LIMITS)],
        6,
    ),
    Run(
        "a header that names the limit",
        [
            act("view", f"[a.py: showing at most {n} of 40 lines]\n{WHOLE}", file="a.py", limit=n)
            for n in LIMITS
        ],
        4,
    ),
    Run("sed with ever larger ranges", [sh(f"sed -n '1,{n}p' src/a.py", WHOLE) for n in LIMITS], 4),
    Run(
        "a view range beyond the end, numbered",
        [
            act(
                "open",
                page([f"{k:6}\t{line}" for k, line in enumerate(code(1, 60), 1)]),
                path="b.py",
                view_range=[1, n],
            )
            for n in (80, 120, 200, 500, 1000, 2000)
        ],
        4,
    ),
    Run(
        "JSON with the limit in it",
        [
            act(
                "fs.read",
                json.dumps({"limit": n, "lines": code(1, 30), "total": 30}),
                file="c.py",
                limit=n,
            )
            for n in LIMITS
        ],
        4,
    ),
    Run(
        "more bytes each time, of a text of 30 lines",
        [
            act(
                "read_bytes",
                page([f"Paragraph {k} tells of subject {k * k}." for k in range(30)]),
                path="notes.txt",
                max_bytes=n,
            )
            for n in (2000, 4000, 8000, 16000, 32000)
        ],
        4,
    ),
    Run(
        "a thought before each larger read",
        [
            m
            for n in LIMITS
            for m in (
                *thinks(f"Perhaps the file was cut at {n // 2} lines, I read {n}"),
                read("a.py", n, WHOLE),
            )
        ],
        8,
    ),
    Run(
        "windows that move within what was seen",
        [
            act("read_file", page(code(a, b)), path="a.py", start_line=a, max_lines=b - a)
            for a, b in ((1, 60), (40, 100), (20, 80), (10, 70), (30, 90), (15, 75), (25, 85))
        ],
        7,
    ),
    Run(
        "an old log with ever larger tails",
        [
            act(
                "get_logs",
                page([f"worker {k} took order {k * 13}" for k in range(25)]),
                service="web",
                tail=n,
            )
            for n in LIMITS
        ],
        4,
    ),
]

WORK = [
    Run(
        "larger limits that show more each time",
        [read("big.py", n, first(code(1, 2000), n)) for n in LIMITS],
    ),
    Run(
        "page after page",
        [
            act("read_file", page(code(n, n + 99)), path="big.py", start_line=n, max_lines=100)
            for n in range(1, 1200, 100)
        ],
    ),
    Run(
        "page after page of a table of numbers",
        [
            sh(
                f"sed -n '{n},{n + 39}p' data.csv",
                page([f"{k * 0.37:.2f},{k * 1.91:.2f}" for k in range(n, n + 40)]),
            )
            for n in range(1, 400, 40)
        ],
    ),
    Run(
        "one license in many packages",
        [
            read(
                f"packages/p{n}/LICENSE",
                40,
                page([f"Clause {k} of the license" for k in range(40)]),
            )
            for n in range(3)
        ],
    ),
    Run(
        "a larger limit after each edit",
        [
            m
            for n in range(8)
            for m in (edit("a.py", f"v{n}", f"v{n + 1}"), read("a.py", 50 * (n + 1), WHOLE))
        ],
    ),
    Run(
        "a log that grows while the agent waits",
        [
            m
            for n in range(1, 9)
            for m in (
                act("wait", seconds=30),
                sh(
                    f"tail -n {n * 20} app.log", page([f"request {k} served" for k in range(n * 9)])
                ),
            )
        ],
    ),
    Run(
        "the whole file, then three places of it, then an edit",
        [
            act("read_file", page(code(1, 300)), path="a.py"),
            *[
                act("read_file", page(code(n, n + 20)), path="a.py", start_line=n, max_lines=21)
                for n in (40, 120, 200)
            ],
            edit("a.py", "x", "y"),
        ],
    ),
    Run(
        "orders by their numbers, all alike",
        [
            act(
                "get_order",
                json.dumps({"id": n, "status": "delivered", "paid": True, "items": ["lamp"]}),
                id=n,
            )
            for n in range(1701, 1709)
        ],
    ),
    Run(
        "seats by their numbers, all free",
        [act("seat", "row: 4\nfree: yes\nwindow: no\nprice: 90", number=n) for n in range(2, 7)],
    ),
    Run(
        "more matches each time",
        [
            act(
                "search",
                page([f"src/m{k}.py:{k}: import os" for k in range(n)]),
                pattern="import os",
                max=n,
            )
            for n in (5, 10, 20, 40, 80)
        ],
    ),
    Run(
        "more of the history each time, then an overlapping part",
        [
            *[
                sh(
                    f"git log --oneline -n {n}",
                    page([f"{k * 7919:07x} Change {k}" for k in range(n)]),
                )
                for n in (5, 10, 20, 40)
            ],
            sh("git log --oneline -n 60", page([f"{k * 7919:07x} Change {k}" for k in range(60)])),
        ],
    ),
]
