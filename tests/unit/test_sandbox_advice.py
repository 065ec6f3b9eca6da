"""What a kernel lacks is said in words, with the setting that would allow it."""

import pytest

from clew_worker.sandbox import advice


def test_the_newest_landlock_leaves_nothing_to_say():
    assert advice.of_landlock(7) == []


def test_an_older_landlock_names_what_it_does_not_cover_and_the_kernel_that_does():
    said = "\n".join(advice.of_landlock(3))
    assert "TCP" in said
    assert "6.12" in said
    assert "truncate" not in said


def test_no_landlock_says_how_to_go_on_without():
    assert "best_effort" in advice.of_landlock(0)[0]


@pytest.mark.parametrize(
    ("name", "value", "mend"),
    [
        ("kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "max_user_namespaces=15000"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor profile"),
        ("kernel/unprivileged_userns_clone", "1\n", "in a container"),
    ],
)
def test_the_setting_that_forbids_namespaces_is_named(tmp_path, name, value, mend):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(value)
    assert mend in advice.of_namespaces(tmp_path)
