"""The store of snapshots against the commands that an executor runs: out of reach, and nothing planted is obeyed."""

import pytest
from snapshots import GIT, picture

from clew_worker import sandbox

pytestmark = [
    pytest.mark.skipif(not GIT, reason="git is not installed"),
    pytest.mark.skipif(sandbox.landlock.abi() == 0, reason="this kernel has no Landlock"),
]


@pytest.fixture
def snapshots(snapshots):
    """An executor whose goal has a store with one snapshot."""
    one = snapshots()
    one.sh("echo 'the content' > file")
    one.tree()
    return one


ATTACKS = {
    "read": "cat {store}/HEAD",
    "list": "ls {store}",
    "read through a link": "ln -s {store} link && cat link/config",
    "read through the executor's root": "cat /proc/$PPID/root{store}/HEAD",
    "read through the executor's descriptors": "cat /proc/$PPID/fd/*",
    "write": "echo x > {store}/HEAD",
    "append": "echo x >> {store}/config",
    "create": "echo x > {store}/hooks",
    "fill": "head -c 1000000 /dev/zero > {store}/objects/pack/fill",
    "plant a hook": "mkdir -p {store}/hooks && echo x > {store}/hooks/post-update",
    "plant an object": "mkdir {store}/objects/00 && echo x > {store}/objects/00/00",
    "plant alternates": "echo $PWD > {store}/objects/info/alternates",
    "truncate": "truncate -s 0 {store}/index",
    "remove": "rm -f {store}/HEAD",
    "remove everything": "rm -r {store}",
    "rename": "mv {store} {store}.old",
    "rename a file of it": "mv {store}/HEAD moved",
    "replace": "mkdir new && mv -T new {store}",
    "link a file of it": "ln {store}/HEAD linked",
    "move a file into it": "echo x > x && mv x {store}/HEAD",
    "use it as a repository": "git -c safe.directory='*' --git-dir={store} log refs/snapshots/1",
    "point a .git file to it": "echo gitdir: {store} > .git && git -c safe.directory='*' log refs/snapshots/1",
    "borrow its objects": (
        "git init -q r && echo {store}/objects > r/.git/objects/info/alternates && "
        "git -C r -c safe.directory='*' cat-file blob {blob}"
    ),
    "make a reference to it": "git -c safe.directory='*' clone -q --shared {store} c && ls c/file",
}


def held(snapshots):
    """What is in the store, but for the note that the executor makes before each action."""
    note = b"foreign.json"
    return {k: v for k, v in picture(snapshots.store.folder).items() if k != note}


def test_no_command_reaches_the_store(snapshots):
    tree = snapshots.tree()
    blob = snapshots.store.run("rev-parse", f"{tree}:files/file").decode().strip()
    before = held(snapshots)
    for name, command in ATTACKS.items():
        done = snapshots.hands.sh(command.format(store=snapshots.store.folder, blob=blob))
        assert done.result == "failure", name
        assert "the content" not in done.output, name
        assert "refs/heads/none" not in done.output, name
        assert held(snapshots) == before, name
        snapshots.hands.sh("rm -rf .git link new x r c")
    assert snapshots.tree() == tree


def test_commands_reach_their_own_folders_as_without_a_store(snapshots, home):
    done = snapshots.hands.sh(
        'echo x > here && echo y > "$TMPDIR/there" && cat here && ls /usr/bin/env'
    )
    assert done.output == "x\n/usr/bin/env\n"
    assert snapshots.hands.sh("mkdir -p a b && echo 1 > a/f && mv a/f b/f").result == "success"
    assert snapshots.hands.sh(f"cat {home}/state/secret").result == "failure"


def test_a_starter_that_was_killed_is_restarted_in_the_same_domain(snapshots):
    assert snapshots.hands.sh("kill -KILL -1; echo alive").output == "alive\n"
    assert snapshots.hands.sh("echo again").output == "again\n"
    assert snapshots.hands.sh(f"cat {snapshots.store.folder}/HEAD").result == "failure"


def test_no_setting_of_the_workspace_is_obeyed(snapshots):
    evil = f"touch {snapshots.workspace}/obeyed; cat"
    snapshots.sh(
        f"git init -q .; git config filter.x.clean '{evil}'; git config filter.x.smudge '{evil}'; "
        f"git config filter.x.required true; git config core.fsmonitor '{evil}'; "
        f"git config core.hooksPath $PWD/hooks; git config core.attributesFile $PWD/.gitattributes; "
        f"git config diff.x.textconv '{evil}'; git config diff.x.command '{evil}'; git config core.pager '{evil}'; "
        "printf '* filter=x diff=x\\n*.txt text eol=crlf ident\\n' > .gitattributes; "
        "echo '*.u working-tree-encoding=UTF-16' >> .gitattributes; "
        "mkdir -p hooks; printf '#!/bin/sh\\ntouch ../obeyed\\n' > hooks/reference-transaction; "
        "cp hooks/reference-transaction hooks/post-index-change; chmod +x hooks/*; "
        "cp hooks/reference-transaction .git/hooks/; "
        "printf 'a\\r\\nb\\n$Id$\\n' > mixed.txt; printf 'abc' > text.u"
    )
    base = snapshots.tree()
    assert snapshots.content(base, "mixed.txt") == b"a\r\nb\n$Id$\n"
    assert snapshots.content(base, "text.u") == b"abc"
    before = picture(snapshots.workspace)
    snapshots.sh("echo other > mixed.txt; echo other > text.u; rm -r hooks")
    assert snapshots.back(base).left == ()
    assert picture(snapshots.workspace) == before
    assert not (snapshots.workspace / "obeyed").exists()


@pytest.mark.parametrize("place", ["{store}", ".", "/proc/self", "{store}/../secret"])
def test_a_git_file_that_points_elsewhere_changes_nothing(snapshots, place):
    before = held(snapshots)
    snapshots.sh(f"echo gitdir: {place.format(store=snapshots.store.folder)} > .git")
    assert snapshots.listed(snapshots.tree()) == ["file"]
    assert held(snapshots) == before
    snapshots.sh("echo x > HEAD; echo .. > commondir; mkdir info; echo file > info/exclude")
    listed = ["HEAD", "commondir", "file", "info/exclude"]
    assert snapshots.listed(snapshots.tree()) == listed


def test_the_users_environment_does_not_reach_git(snapshots, home):
    (home / "private" / ".gitconfig").write_text("[core]\n\tautocrlf = true\n[broken\n")
    snapshots.sh("printf 'a\\r\\n' > windows")
    assert snapshots.content(snapshots.tree(), "windows") == b"a\r\n"
