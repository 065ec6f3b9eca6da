"""Two daemons, each on a home of its own, with one inbox: every goal runs once, and a person is told why."""

STEPS = "# Note it\n## It\n- [ ] Note it\n  ```sh\n  echo once >> trace\n  ```\n"


def test_a_second_daemon_on_the_same_inbox_refuses_to_start_and_says_who_owns_it(make_clew):
    first = make_clew(name="first").start()
    second = make_clew({"paths.inbox": str(first.home / "inbox")}, name="second")
    second.start(ready=False)
    assert second.daemon.wait(60) == 1
    said = second.log.read_text()
    assert "belongs to another daemon" in said
    assert str(first.daemon.pid) in said
    assert "[paths] inbox" in said
    goal = first.submit(STEPS)
    first.wait("goal.completed", goal=goal)
    assert first.lines(goal, "trace") == ["once"]


def test_an_inbox_is_free_when_its_owner_was_killed_and_what_it_claimed_is_taken(make_clew):
    first = make_clew(name="first").start()
    first.kill()
    inbox = first.home / "inbox"
    first.drop(STEPS, "claimed.md")
    found = (inbox / "claimed.md").stat()
    mark = f"{found.st_ino:x}-{found.st_ctime_ns:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    (inbox / "claimed.md").rename(inbox / f".clew-claimed-{mark}.claimed.md")
    second = make_clew({"paths.inbox": str(inbox)}, name="second").start()
    goal = second.wait("goal.accepted", file="claimed.md")["goal"]
    second.wait("goal.completed", goal=goal)
    assert {path.name for path in inbox.iterdir() if path.is_file()} == {".clew.lock"}


# -- the inbox of a daemon that is killed again and again while it takes files
