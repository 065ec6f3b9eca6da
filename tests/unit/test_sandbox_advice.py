"""What a kernel lacks is said in words, with the setting that would allow it."""

from clew_worker.sandbox import advice


def test_an_older_landlock_names_what_it_does_not_cover_and_the_kernel_that_does():
    said = "\n".join(advice.of_landlock(3))
    assert "TCP" in said
    assert "6.12" in said
    assert "truncate" not in said


def test_no_landlock_says_how_to_go_on_without():
    assert "best_effort" in advice.of_landlock(0)[0]
