"""A daemon started where something is missing or will go: another user's home, no /proc, a terminal that is closed."""

import os
import pwd
import subprocess

import pytest
from harness import DEADLINE_S

pytestmark = pytest.mark.cold

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@root_only
@pytest.mark.parametrize("folder", ["state", "run"])
def test_root_on_a_users_home_is_told_to_run_clew_as_that_user(clew, folder):
    """`sudo clew run` said "remove it" of the folder that holds the ledger."""
    user = next((one for one in pwd.getpwall() if one.pw_uid not in (0, os.getuid())), None)
    if user is None:
        pytest.skip("no other user here")
    (clew.home / folder).mkdir(mode=0o700)
    os.chown(clew.home / folder, user.pw_uid, user.pw_gid)
    said = clew.clew("run", code=78)
    assert f"{clew.home / folder} belongs to user {user.pw_name} ({user.pw_uid})" in said
    assert f"sudo -u {user.pw_name} clew run" in said
    assert "remove" not in said
    assert (clew.home / folder).stat().st_uid == user.pw_uid


def test_without_proc_the_daemon_says_what_is_missing(clew):
    script = 'umount -l /proc && exec "$@"'
    under = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
        pytest.skip("/proc cannot be unmounted here")
    clew.start(ready=False, under=under)
    assert clew.daemon.wait(DEADLINE_S) == 78
    assert "/proc is not mounted" in clew.log.read_text()
    command = [*under, *clew.command("doctor")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=clew.environment(), check=False
    )
    assert "/proc is not mounted" in done.stdout
    assert "Traceback" not in done.stderr


# -- the log under it
