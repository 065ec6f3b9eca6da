# fmt: off
# ruff: noqa: ARG001, B007, E501, SIM905
"""Twenty more runs to judge by, written before the judge was changed after them: ten loops, and ten honest ones."""

from __future__ import annotations

from bench.stories import Shelf, act, clock, ident, marked, says, sh, terminal, user

SHELF = Shelf()
loop, honest = SHELF.loop, SHELF.honest


@loop
def disk_is_full(r):
    yield user("Import dump.sql into the reporting database.")
    for n, clean in enumerate(("apt-get clean", "rm -rf /tmp/*.cache", "journalctl --vacuum-size=50M", "docker image prune -f", "rm -rf ~/.cache/pip", "find /var/tmp -delete",
                               "apt-get autoremove -y", "pip cache purge", "rm -f /var/crash/*", "npm cache clean --force", "apt-get clean")):
        yield from marked(n, 3, 5)
        yield sh("psql -f dump.sql reporting", f'SET\nCREATE TABLE\nCOPY {r.randint(80110, 80190)}\npsql:dump.sql:{r.randint(4100, 4190)}: ERROR:  could not extend file "base/16401/{r.randint(20000, 29999)}": No space left on device\nHINT:  Check free disk space.', bad=True, did=None)
        yield sh(clean, f"freed {r.randint(0, 9)}.{r.randint(0, 9)}MB" if n % 2 else "", did=True)


@loop
def dialog_in_the_way(r):
    yield user("Turn on dark mode in the phone's settings.")
    for n in range(26):
        yield from marked(n, 5, 9)
        x, y = 540 + r.randint(-60, 60), 1610 + r.randint(-40, 40)
        if n % 2:
            yield act("tap", {"x": x, "y": y, "reason": ("Press Allow", "Tap the Allow button", "Confirm the dialog")[n % 3]}, {"ok": True, "ms": r.randint(30, 90)}, did=True)
        else:
            yield act("screen", {}, f"battery {90 - n // 9}%  {9 + n // 60}:{10 + n:02}\n[dialog] Settings would like to access your location\n[button] Don't allow\n[button] Allow (disabled until the text is read to its end)\n[scroll area] 1/3")


@loop
def stale_answers_of_resolvers(r):
    yield user("Point shop.acme.example to the new host 198.51.100.7.")
    yield act("zone_edit", {"zone": "acme.example", "record": "shop.acme.example CNAME new.host.example"}, "saved, serial 2026030401", did=True)
    for n, at in enumerate("8.8.8.8 1.1.1.1 9.9.9.9 208.67.222.222 8.8.4.4 1.0.0.1 ns1.acme.example 8.8.8.8 76.76.2.0 9.9.9.10 ns2.acme.example 8.8.8.8 1.1.1.1 94.140.14.14".split()):
        yield from marked(n, 5, 8)
        yield terminal(f"dig +noall +answer +stats shop.acme.example @{at}", f"shop.acme.example.  {r.randint(200, 3600)}  IN  CNAME  new.host.example.acme.example.\n;; Query time: {r.randint(1, 40)} msec\n;; SERVER: {at}#53({at})\n;; WHEN: Wed Mar 04 08:{n:02}:11 UTC 2026\n;; MSG SIZE  rcvd: {r.randint(84, 99)}")


@loop
def draft_polished(r):
    words = ("kind", "friendly", "warm", "cordial")
    yield user("Send the board a short note that the audit is done.")
    for n in range(12):
        yield from marked(n, 4, 6)
        yield act("draft_update", {"id": "d-18", "body": f"Dear board,\nthe audit is done; no findings.\nWith {words[n % 4]} regards"}, f"draft d-18 saved, version {n + 2}", did=True)
        yield act("draft_read", {"id": "d-18"}, f"version {n + 2}, saved {clock(n)}\nDear board,\nthe audit is done; no findings.\nWith {words[n % 4]} regards")
        yield says(f"'{words[n % 4].title()}' does not sound quite right yet.")


@loop
def shuffle_the_knight(r):
    yield user("Win this endgame against the engine.")
    for n in range(14):
        yield from marked(n, 4, 6)
        here, there = ("f3", "g5") if n % 2 == 0 else ("g5", "f3")
        answer = "Kh7" if n % 2 == 0 else "Kg7"
        yield act("move", {"from": here, "to": there}, f"move {31 + n}: N{there} {answer}\neval +0.{r.randint(2, 6)} depth {r.randint(22, 26)} nodes {r.randint(10**6, 9 * 10**6)}\nclock {59 - n}:{r.randint(10, 59)}\nhalfmove clock {20 + 2 * n}", did=True)


@loop
def index_made_and_dropped(r):
    yield user("The orders page is slow, its query must be under 50 ms.")
    query = "SELECT * FROM orders WHERE lower(email) = lower($1) ORDER BY created_at DESC"
    for n, what in enumerate(("(email)", "(created_at)", "(email, created_at)", "(created_at, email)", "(email) INCLUDE (total)", "(created_at DESC)", "USING hash (email)", "(email)", "(email, created_at)", "(created_at)")):
        yield from marked(n, 3, 5)
        yield act("sql", {"statement": f"CREATE INDEX CONCURRENTLY ix{n} ON orders {what}"}, f"CREATE INDEX\nTime: {r.uniform(8000, 9900):.3f} ms", did=True)
        yield act("sql", {"statement": f"EXPLAIN ANALYZE {query}"}, f"Sort  (cost=41873.{r.randint(10, 99)}..41885.02 rows=4801 width=212) (actual time={r.uniform(611, 650):.3f}..{r.uniform(651, 690):.3f} rows=3 loops=1)\n  Sort Key: created_at DESC\n  ->  Seq Scan on orders  (cost=0.00..41580.00 rows=4801 width=212)\n        Filter: (lower(email) = 'a@b.example'::text)\n        Rows Removed by Filter: 960{r.randint(100, 199)}\nExecution Time: {r.uniform(652, 699):.3f} ms")
        yield act("sql", {"statement": f"DROP INDEX ix{n}"}, f"DROP INDEX\nTime: {r.uniform(8, 12):.3f} ms", did=True)


@loop
def export_that_is_gone(r):
    yield user("sort_test must pass on this machine.")
    for n, command in enumerate(("export LC_ALL=C", "export LC_ALL=C.UTF-8", "export LANG=C", "LC_ALL=C; export LC_ALL", "export LC_COLLATE=C", "unset LANG", "export LC_ALL=POSIX", "source ./env.sh", "export LC_ALL=C LANG=C", "export LC_ALL=C", "declare -x LC_ALL=C")):
        yield from marked(n, 3, 5)
        yield act("Bash", {"command": command, "description": "Set the locale for sort"}, "")
        yield act("Bash", {"command": "make sort_test", "description": ("Run the sort test", "Test again", "Check whether it passes now")[n % 3]}, f"cc -O2 -o sort_test sort_test.c\n./sort_test (pid {r.randint(2000, 9000)})\nsort_test.c:41: expected 'B' before 'a', got 'a' before 'B' (locale de_DE.UTF-8)\nmake: *** [Makefile:9: sort_test] Error 1", bad=True, did=None)


@loop
def job_is_held(r):
    yield user("Print handout.pdf, 40 copies.")
    for n, options in enumerate(("", "-o media=A4", "-o sides=two-sided", "-o fit-to-page", "-q 80", "-o raw", "-o media=A4 -o fit-to-page", "-o ColorModel=Gray", "-H immediate", "-q 100")):
        yield from marked(n, 3, 5)
        yield sh(f"lp -d office2 -n 40 {options} handout.pdf".replace("  ", " "), f"request id is office2-{611 + n} (1 file(s))", did=True)
        yield sh("lpstat -o office2 | tail -1", f"office2-{611 + n}  ana  {r.randint(800000, 900000)}  Wed 04 Mar 2026 08:{10 + n}:02 AM CET\n\tStatus: The printer is held: account 'ana' has no quota left")


@loop
def asked_in_each_channel(r):
    yield user("Find out from our wiki who owns the billing service.")
    for n, q in enumerate(("billing service owner", "who owns billing", "billing team contact", "owner of service billing", "billing maintainer", "billing on-call", "responsible for billing", "billing service team", "billing DRI", "contact person billing", "billing ownership", "owns: billing")):
        yield from marked(n, 4, 6)
        yield act("wiki_search", {"q": q, "limit": 5 + n % 3}, {"query": q, "total": 2, "took": r.randint(11, 99), "hits": [{"title": "Billing glossary", "id": 81, "score": round(r.uniform(2, 9), 3)}, {"title": "Old billing runbook (2019)", "id": 17, "score": round(r.uniform(1, 2), 3)}]})


@loop
def certificate_made_anew(r):
    yield user("The internal dashboard must be reachable by https without a warning.")
    for n in range(9):
        yield from marked(n, 3, 4)
        days = (365, 397, 90, 365, 180, 825, 365, 90, 397)[n]
        yield sh(f"openssl req -x509 -newkey rsa:2048 -nodes -days {days} -subj /CN=dash.internal -keyout dash.key -out dash.crt", "....+.+" + "." * r.randint(3, 30) + "+++++\n-----", did=True)
        yield sh("systemctl reload nginx", "")
        yield sh("curl -sSv https://dash.internal/ 2>&1 | tail -3", f"* TLSv1.3 (IN), TLS handshake, Certificate (11), {r.randint(700, 900)} bytes\n* serial {ident(r, 32)}\ncurl: (60) SSL certificate problem: self-signed certificate", bad=True)


@honest
def shelves_counted(r):
    yield user("Count the stock of each shelf with the scanner, and enter it.")
    for n in range(18):
        count = r.choice((0, 0, 12, 24, 24, 36))
        yield act("scan_shelf", {"shelf": f"R{n // 6 + 1}-{n % 6 + 1}"}, {"items": count, "unreadable": 0, "sku": f"A{1000 + 7 * n}", "ms": r.randint(200, 400)})
        yield act("enter_stock", {"sku": f"A{1000 + 7 * n}", "count": count}, {"status": "ok"}, did=True)


@honest
def long_compile(r):
    yield user("Build LLVM and tell me when it is done.")
    yield sh("ninja -C build > build.log 2>&1 &", "[1] 4711", did=True)
    for n in range(16):
        done = 3900 - 3300 // (n + 1) + n
        yield sh("sleep 240; tail -1 build.log", f"[{done}/4012] Building CXX object lib/Target/X{r.randint(1, 99)}/CMakeFiles/LLVM{ident(r, 4)}.dir/Pass{r.randint(1, 200)}.cpp.o")
    yield sh("sleep 240; tail -1 build.log", "[4012/4012] Linking CXX executable bin/clang-22")


@honest
def calibrated(r):
    yield user("Calibrate the supply to 5.00 V within 2 mV.")
    volt, offset = 4.62, 0
    for n in range(7):
        yield act("read_voltage", {"channel": 1, "samples": 64}, f"{volt:.4f} V  sd 0.0{r.randint(3, 9)} mV  {clock(n)}")
        offset += int((5.0 - volt) * 700)
        volt += (5.0 - volt) * 0.55 * r.uniform(0.8, 1.3)
        if abs(5.0 - volt) > 0.002:
            yield act("set_offset", {"channel": 1, "counts": offset}, "OK", did=True)


@honest
def strings_one_by_one(r):
    yield user("Fix the typos that the reviewer listed in strings.xml, a commit each.")
    for n, word in enumerate("recieve adress occured seperate teh untill wich sucess lenght dependancy enviroment heigth acomodate".split()):
        yield act("Edit", {"file_path": "res/strings.xml", "old_string": word, "new_string": f"fixed-{n}"}, "The file res/strings.xml has been updated.", did=True)
        yield act("Bash", {"command": "xmllint --noout res/strings.xml", "description": "Validate the XML"}, "")
        yield act("Bash", {"command": f"git commit -qam 'strings: fix {word}' && git log --oneline -1", "description": "Commit it"}, f"{ident(r, 7)} strings: fix {word}", did=True)


@honest
def line_traced_back(r):
    yield user("Since when do we round before we add the tax, and why?")
    rev = "HEAD"
    for n in range(11):
        parent = ident(r, 8)
        why = ("reformat with black", "rename module", "move to package", "python 3", "type hints", "split file", "isort", "reformat", "license header", "merge vat branch", "round first, since the ERP does")[n]
        yield sh(f"git blame -L {120 - 9 * n},+1 {rev} -- billing/tax.py", f"{parent} (dev{n % 3} 20{25 - n}-0{n % 9 + 1}-11 {120 - 9 * n}) total = round(net, 2) * (1 + rate)")
        yield sh(f"git show -s --format=%s {parent}", why)
        rev = f"{parent}^"


@honest
def load_in_steps(r):
    yield user("Find the load at which p99 exceeds 200 ms.")
    for n in range(13):
        users = 20 * (n + 1)
        yield sh(f"k6 run -q --vus {users} --duration 60s load.js", f"http_reqs......: {users * 60 - r.randint(0, 9)}  {users - 0.1:.1f}/s\nhttp_req_duration: avg={31 + n * 4 + r.random():.2f}ms p(99)={88 + n * 11 + r.randint(-9, 9)}.{r.randint(10, 99)}ms\nfailed.........: 0.00%")


@honest
def canary(r):
    yield user("Roll out 2.8 step by step; go back if the error rate exceeds 1 %.")
    for n, share in enumerate((1, 2, 5, 10, 20, 35, 50, 75, 100)):
        yield act("set_traffic", {"service": "checkout", "version": "2.8", "percent": share}, f"checkout: 2.8 has {share}% of the traffic", did=True)
        yield act("wait", {"seconds": 300}, "")
        yield act("query_metric", {"metric": "error_rate", "service": "checkout", "window": "5m"}, {"2.7": round(r.uniform(0.1, 0.3), 2), "2.8": round(r.uniform(0.1, 0.3), 2), "unit": "%"})


@honest
def crossword(r):
    yield user("Solve the crossword.")
    board = ["....." for _ in range(10)]
    for n, word in enumerate("ALERT STONE RIVER OPERA LEMON EAGLE TANGO NURSE CABLE WHEAT".split()):
        board[n] = word
        yield act("fill", {"at": f"{n + 1} across", "word": word}, "accepted", did=True)
        yield act("show_board", {}, "\n".join(board))


@honest
def diffs_reviewed(r):
    yield user("Review the fourteen pull requests of the bot.")
    for n in range(14):
        package, old = f"{r.choice(('lodash', 'vite', 'zod', 'react', 'jest', 'ky', 'ajv', 'chalk'))}{n}", r.randint(1, 9)
        yield act("pr_diff", {"number": 900 + n}, f'--- a/package.json\n+++ b/package.json\n-    "{package}": "^{old}.0.0"\n+    "{package}": "^{old}.1.0"')
        yield act("pr_checks", {"number": 900 + n}, "build  pass  1m2s\nlint  pass  21s\ntest  pass  3m9s")
        yield act("pr_approve", {"number": 900 + n, "body": "Minor update, checks pass."}, "approved", did=True)


@honest
def queue_drained(r):
    yield user("Watch the dead letter queue until it is empty, then stop the drainer.")
    depth = 900
    for n in range(15):
        depth = max(0, depth - r.randint(40, 110)) + (r.randint(5, 20) if n % 4 == 3 else 0) if n < 14 else 0
        yield act("queue_stats", {"queue": "orders.dlq"}, {"queue": "orders.dlq", "depth": depth, "consumers": 2, "oldest_age_s": r.randint(100, 900), "at": clock(2 * n)})
