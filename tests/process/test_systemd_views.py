"""`clew web` and `clew herald` as services of a real systemd user manager: installed, asked, killed, removed."""

import shlex
import sys
from pathlib import Path

import pytest
from user_manager import in_user_manager

__all__ = ["in_user_manager"]

pytestmark = [pytest.mark.systemd, pytest.mark.long]

CONFIG = """\
[web]
listen = "127.0.0.1:0"
[herald]
listen = "127.0.0.1:0"
[sandbox]
mode = "best_effort"
"""

VISIT = """\
import sys
import urllib.error
import urllib.request

opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
try:
    with opener.open(sys.argv[1], timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""

WORDS = """\
set -eu
clew() { CLEW "$@"; }
visit() { PYTHON VISIT "$1"; }
failed() { echo "$1"; journalctl --user-unit $unit --no-pager -q -o cat | tail -40; exit 1; }
show() { systemctl --user show -p "$1" --value $unit; }
until_is() { for _ in $(seq 600); do case "$(show "$1")" in $2) return;; esac; sleep 0.1; done
  failed "$1 is $(show "$1"), not $2"; }
mkdir -p ~/.config/clew
cp CONFIG ~/.config/clew/config.toml
"""

WEB = """\
unit=clew-web.service
clew service install web --now | grep "enabled and started" || failed "not started"
until_is StatusText "serving http://127.0.0.1:*"
clew service status web | grep "state     active since .*, process $(show MainPID)"
clew service status web --json | grep '"up_to_date": true'
link=$(clew web --link)
case $(visit $link) in "200 "*"<title>"*) ;; *) failed "$link does not open a page";; esac
test "$(visit $link)" = 401 || failed "a used link opens a page"
if clew web 2> SAID; then failed "a second server was started"; fi
grep "runs already, as process $(show MainPID) at http://127.0.0.1:" SAID

clew service install --now
goal=$(printf -- '# Greet\n- [ ] One\n  ```sh\n  echo hello > greeting\n  ```\n' | clew submit -)
case $(visit "$(clew web --link)") in *"$goal"*) ;; *) failed "the page does not show $goal";; esac

kill -KILL "$(show MainPID)"
until_is NRestarts 1
until_is ActiveState active
case $(visit "$(clew web --link)") in *"$goal"*) ;; *) failed "no page after a kill";; esac
systemctl --user restart $unit
case $(visit "$(clew web --link)") in *"$goal"*) ;; *) failed "no page after a restart";; esac

if journalctl --user-unit $unit --no-pager -q -o cat | grep "/link/"; then failed "a link is in the journal"; fi
clew service uninstall web | grep "removed .*/clew-web.service"
test "$(show ActiveState)" = inactive
test ! -e ~/.config/systemd/user/$unit
if clew web --link 2> SAID; then failed "a link to no server"; fi
grep "no .clew web. is running" SAID
test "$(systemctl --user is-active clew.service)" = active || failed "the daemon was stopped, too"
clew service uninstall
echo "all of it"
"""

HERALD = """\
unit=clew-herald.service
clew service install herald --now | grep "enabled and started" || failed "not started"
metrics() { journalctl --user-unit $unit --no-pager -q -o cat |
  sed -n 's/.*"metrics": *"\\(http[^"]*\\)".*/\\1/p' | tail -1; }
answered() { for _ in $(seq 600); do url=$(metrics)
  if test -n "$url" -a "$url" != "$1"; then
    case $(visit "$url" 2> SAID) in "200 "*clew_build_info*) return;; esac
  fi; sleep 0.1; done; failed "no metrics"; }
answered none
kill -KILL "$(show MainPID)"
until_is NRestarts 1
answered "$url"
clew service uninstall herald | grep "removed .*/clew-herald.service"
test "$(show ActiveState)" = inactive
echo "all of it"
"""


@pytest.fixture
def say(in_user_manager, tmp_path):
    """A function that runs a conversation with a manager; gives the output."""
    words = {"CLEW": Path(sys.executable).with_name("clew"), "PYTHON": sys.executable}
    words |= {name: tmp_path / name.lower() for name in ("CONFIG", "SAID", "VISIT")}
    words["CONFIG"].write_text(CONFIG)
    words["VISIT"].write_text(VISIT)

    def spoken(script):
        for name, value in words.items():
            script = script.replace(name, shlex.quote(str(value)))
        return script

    return lambda script: in_user_manager(spoken(WORDS + script))


def test_the_pages_are_a_service_that_prints_no_link_and_gives_one_when_asked(say):
    assert say(WEB).rstrip().endswith("all of it")


def test_the_herald_is_a_service_that_is_started_again_after_a_kill(say):
    assert say(HERALD).rstrip().endswith("all of it")
