"""Which strategies an agent is shown: by goal, by verdicts, by age, and a few on trial."""

from clew_daemon.learning.playbook import select
from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.playbook import render
from clew_shared.record.moment import iso

NOW = 1_790_000_000.0
DAY_S = 86_400.0


def bullet(number, section="shell", content="", *, age_days=1.0, **fields):
    made = iso(NOW - age_days * DAY_S)
    text = content or f"Strategy {number}"
    return Bullet(f"she-{number:05d}", section, text, **{"created_at": made, **fields})


def ids(chosen):
    return [int(one.id[-5:]) for one in chosen]


def test_what_fits_the_goal_comes_before_what_does_not():
    fits = bullet(2, "testing", "Run the tests of one module alone", helpful=1)
    other = bullet(1, "git_operations", "Look at the log before a rebase", helpful=1)
    assert ids(select([other, fits], "Write tests for the parser module", NOW, 1)) == [2]
    assert ids(select([other, fits], "Rebase the branch; see the log", NOW, 1)) == [1]


def test_five_of_five_outranks_one_of_one_and_that_a_harmful_one():
    harmful, once, often = bullet(1, harmful=2), bullet(2, helpful=1), bullet(3, helpful=5)
    assert ids(select([harmful, once, often], "", NOW, 1)) == [3]
    assert ids(select([harmful, once, often], "", NOW, 2)) == [2, 3]


def test_the_text_names_conflicts():
    bullets = [
        bullet(1, "file_operations", "List first (and then read)", helpful=2),
        bullet(2, "file_operations", "Do not list first (and then read)", harmful=1),
    ]
    assert "conflict: [she-00002] says the opposite" in render(bullets)
