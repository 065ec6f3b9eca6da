"""The walls are in nobody's way: what people do all day works in an executor."""

import shlex
import shutil
import sys

import pytest

PYTHON = shlex.quote(sys.executable)
C_PROGRAM = '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n'
POOL = """
import concurrent.futures, multiprocessing, threading, subprocess, socket, asyncio
def main():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-3])) == [3]
    assert asyncio.run(said()) == b"said"
async def said():
    process = await asyncio.create_subprocess_exec("echo", "-n", "said", stdout=subprocess.PIPE)
    return (await process.communicate())[0]
if __name__ == "__main__":
    main()
"""
LOCAL_SERVER = """
import http.server, threading, urllib.request
with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answer = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=60)
    assert answer.status == 200
    server.shutdown()
"""


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


def works(executor, home, command, **files):
    for name, text in files.items():
        (home / "workspace" / name.replace("__", ".")).write_text(text)
    done = executor().sh(command)
    assert done.result == "success", done.output
    return done.output


@needs("git")
def test_git_commits_branches_and_clones(executor, home):
    settings = "-c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    works(
        executor,
        home,
        f"git {settings} init -q one && cd one && echo x > f && git add f && git {settings} commit -qm x"
        " && git checkout -qb other && git worktree add -q ../tree main && git clone -q . ../two"
        " && git -C ../two log --oneline && git gc -q",
    )


@needs("gcc")
def test_a_program_is_compiled_and_run(executor, home):
    said = works(executor, home, "gcc -O1 -o program p.c && ./program", p__c=C_PROGRAM)
    assert "compiled" in said


def test_tests_run(executor, home, variant):
    if variant[1] is not None:
        pytest.skip("this Python lies where that user cannot read")
    test = "import os, tempfile\ndef test_it(tmp_path):\n    (tmp_path / 'f').write_text('x')\n"
    said = works(executor, home, f"{PYTHON} -m pytest -q -p no:cacheprovider", test_it__py=test)
    assert "1 passed" in said


def test_processes_in_pools_and_servers_on_the_loopback_work(executor, home, variant):
    if variant[1] is not None:
        pytest.skip("this Python lies where that user cannot read")
    if variant[0] == "guard":
        pytest.skip("no shared memory without namespaces")
    works(executor, home, f"{PYTHON} pool.py", pool__py=POOL)
    works(executor, home, f"{PYTHON} serve.py", serve__py=LOCAL_SERVER)


def test_a_virtual_environment_is_made_and_used(executor, home, variant):
    if variant[1] is not None:
        pytest.skip("this Python lies where that user cannot read")
    works(executor, home, f"{PYTHON} -m venv --without-pip env && env/bin/python -c 'import ssl'")
