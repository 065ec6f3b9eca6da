# fmt: off
# ruff: noqa: ARG001, B007, E501, E701, SIM905
"""More runs to judge by, written before the judge was changed after them: nineteen loops, and nineteen honest ones."""

from __future__ import annotations

from bench.stories import Shelf, act, clock, ident, marked, says, sh, terminal

SHELF = Shelf()
loop, honest = SHELF.loop, SHELF.honest


@loop("Import dump.sql into the reporting database.")
def disk_is_full(r):
    for n, clean in enumerate(("apt-get clean", "rm -rf /tmp/*.cache", "journalctl --vacuum-size=50M", "docker image prune -f", "rm -rf ~/.cache/pip", "find /var/tmp -delete",
                               "apt-get autoremove -y", "pip cache purge", "rm -f /var/crash/*", "npm cache clean --force", "apt-get clean")):
        yield from marked(n, 3, 5)
        yield sh("psql -f dump.sql reporting", f'SET\nCREATE TABLE\nCOPY {r.randint(80110, 80190)}\npsql:dump.sql:{r.randint(4100, 4190)}: ERROR:  could not extend file "base/16401/{r.randint(20000, 29999)}": No space left on device\nHINT:  Check free disk space.', bad=True, did=None)
        yield sh(clean, f"freed {r.randint(0, 9)}.{r.randint(0, 9)}MB" if n % 2 else "", did=True)


@loop("Turn on dark mode in the phone's settings.")
def dialog_in_the_way(r):
    for n in range(26):
        yield from marked(n, 5, 9)
        x, y = 540 + r.randint(-60, 60), 1610 + r.randint(-40, 40)
        if n % 2:
            yield act("tap", {"x": x, "y": y, "reason": ("Press Allow", "Tap the Allow button", "Confirm the dialog")[n % 3]}, {"ok": True, "ms": r.randint(30, 90)}, did=True)
        else:
            yield act("screen", {}, f"battery {90 - n // 9}%  {9 + n // 60}:{10 + n:02}\n[dialog] Settings would like to access your location\n[button] Don't allow\n[button] Allow (disabled until the text is read to its end)\n[scroll area] 1/3")


@loop("Point shop.acme.example to the new host 198.51.100.7.")
def stale_answers_of_resolvers(r):
    yield act("zone_edit", {"zone": "acme.example", "record": "shop.acme.example CNAME new.host.example"}, "saved, serial 2026030401", did=True)
    for n, at in enumerate("8.8.8.8 1.1.1.1 9.9.9.9 208.67.222.222 8.8.4.4 1.0.0.1 ns1.acme.example 8.8.8.8 76.76.2.0 9.9.9.10 ns2.acme.example 8.8.8.8 1.1.1.1 94.140.14.14".split()):
        yield from marked(n, 5, 8)
        yield terminal(f"dig +noall +answer +stats shop.acme.example @{at}", f"shop.acme.example.  {r.randint(200, 3600)}  IN  CNAME  new.host.example.acme.example.\n;; Query time: {r.randint(1, 40)} msec\n;; SERVER: {at}#53({at})\n;; WHEN: Wed Mar 04 08:{n:02}:11 UTC 2026\n;; MSG SIZE  rcvd: {r.randint(84, 99)}")


@loop("Send the board a short note that the audit is done.")
def draft_polished(r):
    words = ("kind", "friendly", "warm", "cordial")
    for n in range(12):
        yield from marked(n, 4, 6)
        yield act("draft_update", {"id": "d-18", "body": f"Dear board,\nthe audit is done; no findings.\nWith {words[n % 4]} regards"}, f"draft d-18 saved, version {n + 2}", did=True)
        yield act("draft_read", {"id": "d-18"}, f"version {n + 2}, saved {clock(n)}\nDear board,\nthe audit is done; no findings.\nWith {words[n % 4]} regards")
        yield says(f"'{words[n % 4].title()}' does not sound quite right yet.")


@loop("Win this endgame against the engine.")
def shuffle_the_knight(r):
    for n in range(14):
        yield from marked(n, 4, 6)
        here, there = ("f3", "g5") if n % 2 == 0 else ("g5", "f3")
        answer = "Kh7" if n % 2 == 0 else "Kg7"
        yield act("move", {"from": here, "to": there}, f"move {31 + n}: N{there} {answer}\neval +0.{r.randint(2, 6)} depth {r.randint(22, 26)} nodes {r.randint(10**6, 9 * 10**6)}\nclock {59 - n}:{r.randint(10, 59)}\nhalfmove clock {20 + 2 * n}", did=True)


@loop("The orders page is slow, its query must be under 50 ms.")
def index_made_and_dropped(r):
    query = "SELECT * FROM orders WHERE lower(email) = lower($1) ORDER BY created_at DESC"
    for n, what in enumerate(("(email)", "(created_at)", "(email, created_at)", "(created_at, email)", "(email) INCLUDE (total)", "(created_at DESC)", "USING hash (email)", "(email)", "(email, created_at)", "(created_at)")):
        yield from marked(n, 3, 5)
        yield act("sql", {"statement": f"CREATE INDEX CONCURRENTLY ix{n} ON orders {what}"}, f"CREATE INDEX\nTime: {r.uniform(8000, 9900):.3f} ms", did=True)
        yield act("sql", {"statement": f"EXPLAIN ANALYZE {query}"}, f"Sort  (cost=41873.{r.randint(10, 99)}..41885.02 rows=4801 width=212) (actual time={r.uniform(611, 650):.3f}..{r.uniform(651, 690):.3f} rows=3 loops=1)\n  Sort Key: created_at DESC\n  ->  Seq Scan on orders  (cost=0.00..41580.00 rows=4801 width=212)\n        Filter: (lower(email) = 'a@b.example'::text)\n        Rows Removed by Filter: 960{r.randint(100, 199)}\nExecution Time: {r.uniform(652, 699):.3f} ms")
        yield act("sql", {"statement": f"DROP INDEX ix{n}"}, f"DROP INDEX\nTime: {r.uniform(8, 12):.3f} ms", did=True)


@loop("sort_test must pass on this machine.")
def export_that_is_gone(r):
    for n, command in enumerate(("export LC_ALL=C", "export LC_ALL=C.UTF-8", "export LANG=C", "LC_ALL=C; export LC_ALL", "export LC_COLLATE=C", "unset LANG", "export LC_ALL=POSIX", "source ./env.sh", "export LC_ALL=C LANG=C", "export LC_ALL=C", "declare -x LC_ALL=C")):
        yield from marked(n, 3, 5)
        yield act("Bash", {"command": command, "description": "Set the locale for sort"}, "")
        yield act("Bash", {"command": "make sort_test", "description": ("Run the sort test", "Test again", "Check whether it passes now")[n % 3]}, f"cc -O2 -o sort_test sort_test.c\n./sort_test (pid {r.randint(2000, 9000)})\nsort_test.c:41: expected 'B' before 'a', got 'a' before 'B' (locale de_DE.UTF-8)\nmake: *** [Makefile:9: sort_test] Error 1", bad=True, did=None)


@loop("Print handout.pdf, 40 copies.")
def job_is_held(r):
    for n, options in enumerate(("", "-o media=A4", "-o sides=two-sided", "-o fit-to-page", "-q 80", "-o raw", "-o media=A4 -o fit-to-page", "-o ColorModel=Gray", "-H immediate", "-q 100")):
        yield from marked(n, 3, 5)
        yield sh(f"lp -d office2 -n 40 {options} handout.pdf".replace("  ", " "), f"request id is office2-{611 + n} (1 file(s))", did=True)
        yield sh("lpstat -o office2 | tail -1", f"office2-{611 + n}  ana  {r.randint(800000, 900000)}  Wed 04 Mar 2026 08:{10 + n}:02 AM CET\n\tStatus: The printer is held: account 'ana' has no quota left")


@loop("Find out from our wiki who owns the billing service.")
def asked_in_each_channel(r):
    for n, q in enumerate(("billing service owner", "who owns billing", "billing team contact", "owner of service billing", "billing maintainer", "billing on-call", "responsible for billing", "billing service team", "billing DRI", "contact person billing", "billing ownership", "owns: billing")):
        yield from marked(n, 4, 6)
        yield act("wiki_search", {"q": q, "limit": 5 + n % 3}, {"query": q, "total": 2, "took": r.randint(11, 99), "hits": [{"title": "Billing glossary", "id": 81, "score": round(r.uniform(2, 9), 3)}, {"title": "Old billing runbook (2019)", "id": 17, "score": round(r.uniform(1, 2), 3)}]})


@loop("The internal dashboard must be reachable by https without a warning.")
def certificate_made_anew(r):
    for n in range(9):
        yield from marked(n, 3, 4)
        days = (365, 397, 90, 365, 180, 825, 365, 90, 397)[n]
        yield sh(f"openssl req -x509 -newkey rsa:2048 -nodes -days {days} -subj /CN=dash.internal -keyout dash.key -out dash.crt", "....+.+" + "." * r.randint(3, 30) + "+++++\n-----", did=True)
        yield sh("systemctl reload nginx", "")
        yield sh("curl -sSv https://dash.internal/ 2>&1 | tail -3", f"* TLSv1.3 (IN), TLS handshake, Certificate (11), {r.randint(700, 900)} bytes\n* serial {ident(r, 32)}\ncurl: (60) SSL certificate problem: self-signed certificate", bad=True)


@honest("Count the stock of each shelf with the scanner, and enter it.")
def shelves_counted(r):
    for n in range(18):
        count = r.choice((0, 0, 12, 24, 24, 36))
        yield act("scan_shelf", {"shelf": f"R{n // 6 + 1}-{n % 6 + 1}"}, {"items": count, "unreadable": 0, "sku": f"A{1000 + 7 * n}", "ms": r.randint(200, 400)})
        yield act("enter_stock", {"sku": f"A{1000 + 7 * n}", "count": count}, {"status": "ok"}, did=True)


@honest("Build LLVM and tell me when it is done.")
def long_compile(r):
    yield sh("ninja -C build > build.log 2>&1 &", "[1] 4711", did=True)
    for n in range(16):
        done = 3900 - 3300 // (n + 1) + n
        yield sh("sleep 240; tail -1 build.log", f"[{done}/4012] Building CXX object lib/Target/X{r.randint(1, 99)}/CMakeFiles/LLVM{ident(r, 4)}.dir/Pass{r.randint(1, 200)}.cpp.o")
    yield sh("sleep 240; tail -1 build.log", "[4012/4012] Linking CXX executable bin/clang-22")


@honest("Calibrate the supply to 5.00 V within 2 mV.")
def calibrated(r):
    volt, offset = 4.62, 0
    for n in range(7):
        yield act("read_voltage", {"channel": 1, "samples": 64}, f"{volt:.4f} V  sd 0.0{r.randint(3, 9)} mV  {clock(n)}")
        offset += int((5.0 - volt) * 700)
        volt += (5.0 - volt) * 0.55 * r.uniform(0.8, 1.3)
        if abs(5.0 - volt) > 0.002:
            yield act("set_offset", {"channel": 1, "counts": offset}, "OK", did=True)


@honest("Fix the typos that the reviewer listed in strings.xml, a commit each.")
def strings_one_by_one(r):
    for n, word in enumerate("recieve adress occured seperate teh untill wich sucess lenght dependancy enviroment heigth acomodate".split()):
        yield act("Edit", {"file_path": "res/strings.xml", "old_string": word, "new_string": f"fixed-{n}"}, "The file res/strings.xml has been updated.", did=True)
        yield act("Bash", {"command": "xmllint --noout res/strings.xml", "description": "Validate the XML"}, "")
        yield act("Bash", {"command": f"git commit -qam 'strings: fix {word}' && git log --oneline -1", "description": "Commit it"}, f"{ident(r, 7)} strings: fix {word}", did=True)


@honest("Since when do we round before we add the tax, and why?")
def line_traced_back(r):
    rev = "HEAD"
    for n in range(11):
        parent = ident(r, 8)
        why = ("reformat with black", "rename module", "move to package", "python 3", "type hints", "split file", "isort", "reformat", "license header", "merge vat branch", "round first, since the ERP does")[n]
        yield sh(f"git blame -L {120 - 9 * n},+1 {rev} -- billing/tax.py", f"{parent} (dev{n % 3} 20{25 - n}-0{n % 9 + 1}-11 {120 - 9 * n}) total = round(net, 2) * (1 + rate)")
        yield sh(f"git show -s --format=%s {parent}", why)
        rev = f"{parent}^"


@honest("Find the load at which p99 exceeds 200 ms.")
def load_in_steps(r):
    for n in range(13):
        users = 20 * (n + 1)
        yield sh(f"k6 run -q --vus {users} --duration 60s load.js", f"http_reqs......: {users * 60 - r.randint(0, 9)}  {users - 0.1:.1f}/s\nhttp_req_duration: avg={31 + n * 4 + r.random():.2f}ms p(99)={88 + n * 11 + r.randint(-9, 9)}.{r.randint(10, 99)}ms\nfailed.........: 0.00%")


@honest("Roll out 2.8 step by step; go back if the error rate exceeds 1 %.")
def canary(r):
    for n, share in enumerate((1, 2, 5, 10, 20, 35, 50, 75, 100)):
        yield act("set_traffic", {"service": "checkout", "version": "2.8", "percent": share}, f"checkout: 2.8 has {share}% of the traffic", did=True)
        yield act("wait", {"seconds": 300}, "")
        yield act("query_metric", {"metric": "error_rate", "service": "checkout", "window": "5m"}, {"2.7": round(r.uniform(0.1, 0.3), 2), "2.8": round(r.uniform(0.1, 0.3), 2), "unit": "%"})


@honest("Solve the crossword.")
def crossword(r):
    board = ["....." for _ in range(10)]
    for n, word in enumerate("ALERT STONE RIVER OPERA LEMON EAGLE TANGO NURSE CABLE WHEAT".split()):
        board[n] = word
        yield act("fill", {"at": f"{n + 1} across", "word": word}, "accepted", did=True)
        yield act("show_board", {}, "\n".join(board))


@honest("Review the fourteen pull requests of the bot.")
def diffs_reviewed(r):
    for n in range(14):
        package, old = f"{r.choice(('lodash', 'vite', 'zod', 'react', 'jest', 'ky', 'ajv', 'chalk'))}{n}", r.randint(1, 9)
        yield act("pr_diff", {"number": 900 + n}, f'--- a/package.json\n+++ b/package.json\n-    "{package}": "^{old}.0.0"\n+    "{package}": "^{old}.1.0"')
        yield act("pr_checks", {"number": 900 + n}, "build  pass  1m2s\nlint  pass  21s\ntest  pass  3m9s")
        yield act("pr_approve", {"number": 900 + n, "body": "Minor update, checks pass."}, "approved", did=True)


@honest("Watch the dead letter queue until it is empty, then stop the drainer.")
def queue_drained(r):
    depth = 900
    for n in range(15):
        depth = max(0, depth - r.randint(40, 110)) + (r.randint(5, 20) if n % 4 == 3 else 0) if n < 14 else 0
        yield act("queue_stats", {"queue": "orders.dlq"}, {"queue": "orders.dlq", "depth": depth, "consumers": 2, "oldest_age_s": r.randint(100, 900), "at": clock(2 * n)})


# --------------------------------------------- of the kinds of the given ones, and judged before the judge saw them: 9 of 9, 0, 1


@loop("Add a column for the VAT id to suppliers.")
def b_schema(r):
    t="CREATE TABLE suppliers (\n  id bigint PRIMARY KEY,\n  name text NOT NULL,\n  city text\n);\n-- 3 columns"
    for n,c in enumerate(("psql -c '\\d suppliers'","pg_dump -s -t suppliers","psql -c 'select * from information_schema.columns where table_name=$$suppliers$$'","cat db/schema.sql","grep -n suppliers -A5 db/schema.sql","sqlfluff parse db/schema.sql","psql -tc '\\d+ suppliers'","head -40 db/schema.sql","pg_dump --schema-only --table=suppliers app","less db/schema.sql","psql -c '\\d public.suppliers'","cat ./db/schema.sql")):
        yield from marked(n,3,5)
        yield act("bash",{"command":c,"description":("Show table","Look at the schema","Inspect suppliers")[n%3]}, t if n%3 else f"Timing: {r.uniform(1,9):.2f} ms\n{t}")


@loop("Deploy api 3.2 to staging.")
def c_deploy(r):
    for n in range(7):
        for k,(c,o,bad) in enumerate((("docker build -t api:3.2 .",f"#12 exporting layers {r.uniform(1,4):.1f}s done\n#12 writing image sha256:{ident(r,64)} done",False),("docker push reg/api:3.2",f"The push refers to repository [reg/api]\n{ident(r)}: Pushed\n3.2: digest: sha256:{ident(r,64)} size: 1787",False),("kubectl rollout restart deploy/api","deployment.apps/api restarted",False),("kubectl rollout status deploy/api --timeout=60s",'Waiting for deployment "api" rollout to finish: 1 old replicas are pending termination...\nerror: timed out waiting for the condition',True),("kubectl logs deploy/api --tail=2",f"{clock(5*n)} FATAL config: env DB_URL is not set\n{clock(5*n)} exit 1",False))):
            yield from marked(5*n+k,7,12)
            yield sh(c,o,bad=bad,did=True if k<3 else None)


@loop("mypy must be clean.")
def e_types(r):
    for n in range(11):
        yield from marked(n,4,6)
        yield act("Edit",{"file_path":"app/load.py","old_string":f"def load(path{' '*n}):","new_string":(f"def load(path{' '*(n+1)}):",f"# load it\ndef load(path{' '*(n+1)}):",f"def load(path{' '*(n+1)}):  # type checked")[n%3]},"The file app/load.py has been updated.",did=True)
        yield act("Bash",{"command":"mypy app","description":"Type check"},f'app/load.py:{31+n%4}: error: Incompatible return value type (got "dict[str, object]", expected "Config")  [return-value]\nFound 1 error in 1 file (checked 14 source files)',bad=True,did=None)


@loop("Get both dev servers running.")
def f_ports(r):
    for n in range(9):
        yield from marked(2*n,6,10)
        a,b=("3000","3001") if n%2 else ("3001","3000")
        yield terminal(f"PORT={a} npm run web &",f"[{n+1}] {r.randint(1000,9999)}\nError: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle (node:net:{r.randint(1400,1900)}:16)",bad=True,did=True)
        yield terminal(f"kill $(lsof -ti :3000); PORT={b} npm run api &",f"[{n+2}] {r.randint(1000,9999)}\napi listens on 3000 in {r.randint(200,400)} ms",did=True)


@loop("Merge PR 88 when it is approved.")
def g_approval(r):
    for n in range(20):
        yield from marked(2*n,10,16)
        yield act("pr_view",{"number":88},{"number":88,"state":"OPEN","reviewDecision":"REVIEW_REQUIRED","reviewers":["lin (on leave until 2026-04-20)"],"updatedAt":clock(0),"fetched":clock(3*n),"checks":"14 passed"})
        yield sh("sleep 120","")


@loop("Rewrite the 40 messages by the style guide.")
def h_guidelines(r):
    g="1. Use sentence case.\n2. No exclamation marks.\n3. At most 60 characters.\n4. Verbs first."
    for n in range(16):
        yield from marked(n,6,9)
        yield act("fetch_doc",{"id":"style-guide","rev":"latest"} if n%2==0 else {"id":f"msg-{n%3}"},(g if n%2==0 else f"Message {n%3}: {('Saved your file!','Oh no! Something broke','It Is Done')[n%3]}")+f"\n(fetched {clock(n)}, etag {ident(r,8)})")


@loop("Fix the off-by-one in pager.py.")
def j_checks(r):
    yield act("edit_file",{"path":"pager.py","old":"range(n)","new":"range(n + 1)"},"1 replacement",did=True)
    for n,c in enumerate(("pytest -q","ruff check .","mypy .","pytest -q --maxfail=1","ruff format --check .","pytest","mypy pager.py","ruff check pager.py","pytest -x","python -m pytest -q","ruff check --no-cache .","mypy --strict pager.py","pytest -q -n2","flake8 pager.py")):
        yield from marked(n,5,8)
        yield sh(c,f"{'41 passed in '+format(r.uniform(1,2),'.2f')+'s' if 'pytest' in c else 'All checks passed!' if 'ruff' in c else 'Success: no issues found in 6 source files' if 'mypy' in c else ''}")


@loop("Collect all job offers.")
def p_pages(r):
    for n in range(16):
        yield from marked(n,6,9)
        k=n%4
        yield act("browser_click",{"element":"Next page","ref":f"e{r.randint(100,999)}"},f'- URL: https://jobs.example/?p={k+1}\n- heading "Jobs ({1204+n} people are looking)"\n'+"\n".join(f"- listitem: {('Welder','Nurse','Cook','Pilot')[k]} in {c}" for c in ("Bern","Graz","Linz"))+f"\n- ad: {r.choice(('CV check','Coaching','Loans'))}\n- link \"Next page\" [ref=e{r.randint(100,999)}]")


@loop("Create the webhook.")
def q_post(r):
    for n in range(11):
        yield from marked(n,4,6)
        b='{"url": "https://x.example/h", "events": ["push"]}'
        b=(b,b.replace(", ",","),b.replace('"events"','"active":true,"events"'),'{"events": ["push"], "url": "https://x.example/h"}')[n%4]
        yield sh(f"curl -s -X POST https://git.example/api/hooks -d '{b}'",f'{{"message":"Internal Server Error","request_id":"{ident(r,16).upper()}","documentation":"https://git.example/docs"}}',bad=True,did=None)


@honest("Profile the import job, five runs, and give mean and deviation.")
def a_flaky(r):
    yield sh("ls data","small.csv")
    for n in range(6): yield sh("/usr/bin/time -v python import.py small.csv 2>&1 | grep -E 'Elapsed|Maximum'",f"Elapsed (wall clock) time (h:mm:ss or m:ss): 0:{r.uniform(11,14):05.2f}\nMaximum resident set size (kbytes): {r.randint(80000,90000)}")
    yield act("write_file",{"path":"result.md","content":"mean 12.4 s"},"written",did=True)


@honest("Which of the 15 services still uses the old log level key?")
def b_configs(r):
    for n in range(15): yield sh(f"cat services/{('auth','bill','cart','desk','echo','feed','gate','home','item','jobs','keys','logs','mail','news','opts')[n]}/config.yaml",f"port: {8000+n}\nreplicas: {1+n%3}\n{'loglevel' if n%5==0 else 'log_level'}: info\nregion: eu")


@honest("Close the duplicates in the list of the triage.")
def c_tickets(r):
    for n in range(10):
        yield act("issue_get",{"id":400+7*n},{"id":400+7*n,"title":f"{r.choice(('Crash','Hang','Typo','Leak'))} in {r.choice(('export','login','editor','sync'))}","state":"open","duplicate_of":300+n})
        yield act("issue_comment",{"id":400+7*n,"body":f"Duplicate of #{300+n}."},"ok",did=True)
        yield act("issue_close",{"id":400+7*n},"closed",did=True)


@honest("Port the parser to Python 3.12.")
def e_driver(r):
    for n,m in enumerate(("imp","asynchat","distutils","smtpd","ssl.wrap_socket","unittest.makeSuite","configparser.readfp","pkgutil.ImpImporter","locale.resetlocale")):
        yield sh("pytest -q 2>&1 | tail -3",f"E   AttributeError or ImportError: {m} is gone\n{9-n} errors in {r.uniform(2,4):.2f}s",bad=True,did=None)
        yield sh(f"grep -rn {m} src",f"src/{m[:4]}_use.py:{r.randint(3,90)}: import {m}")
        yield act("edit_file",{"path":f"src/{m[:4]}_use.py","old":m,"new":"other"},"1 replacement",did=True)


@honest("Upgrade the nodes one by one.")
def f_upgrade(r):
    for n in range(8):
        yield sh(f"kubectl drain node-{n} --ignore-daemonsets",f"node/node-{n} cordoned\nnode/node-{n} drained",did=True)
        yield sh(f"ssh node-{n} sudo apt-get -qy upgrade | tail -1",f"{r.randint(10,60)} upgraded, 0 newly installed, 0 to remove and 0 not upgraded.",did=True)
        yield sh(f"kubectl uncordon node-{n}",f"node/node-{n} uncordoned",did=True)
        yield sh("kubectl get nodes | grep -c Ready","8")


@honest("Restore the backup and tell me when it is up.")
def g_restore(r):
    for n in range(14):
        yield act("restore_status",{"job":"r-51"},{"job":"r-51","state":"RUNNING","copied_gb":round(31.4*n+r.uniform(0,4),1),"total_gb":440,"at":clock(4*n)})
        yield act("wait",{"seconds":240},"")


@honest("Rename the eight handlers, one commit each.")
def h_edit(r):
    for n in range(8):
        yield act("read_file",{"path":"app/handlers.py"},"\n".join(f"def {'handle_' if k<n else 'on'}{('Get','Put','Del','Head','Post','Patch','Opts','Trace')[k]}(request): ..." for k in range(8)))
        yield act("edit_file",{"path":"app/handlers.py","old":f"on{n}","new":f"handle_{n}"},"1 replacement",did=True)
        yield sh("git commit -qam rename && git log --oneline -1",f"{ident(r,7)} rename",did=True)


@honest("Export all contacts.")
def p_more(r):
    for n in range(15): yield act("contacts_list",{"cursor":ident(r,12) if n else ""},{"contacts":[{"name":f"{r.choice(('Ana','Bo','Cy','Di','Eve'))} {r.choice(('Ash','Bell','Cole','Dean'))}{r.randint(1,99)}","mail":f"u{r.randint(1000,9999)}@x.example"} for _ in range(3)],"next":ident(r,12)})


@honest("Upload the 12 reports.")
def q_retry(r):
    for n in range(12):
        if n%3==1:
            yield act("upload",{"file":f"report-{n}.pdf"},"503 Service Unavailable, Retry-After: 20",bad=True,did=False)
            yield act("wait",{"seconds":20},"")
        yield act("upload",{"file":f"report-{n}.pdf"},{"ok":True,"id":ident(r,10),"bytes":r.randint(10**5,10**6)},did=True)
