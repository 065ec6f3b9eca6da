"""Section 3a: the config."""

import json


def effective(clew):
    return json.dumps(json.loads(clew.clew("config", "--json")))


def test_an_absent_file_is_fine(clew):
    (clew.home / "config.toml").unlink()
    assert "repeat_limit" in effective(clew)


def test_what_is_not_toml_is_named_with_its_line(clew):
    (clew.home / "config.toml").write_text("[loops]\nrepeat_limit = \n")
    assert "config.toml:2" in clew.clew("config", "--check", str(clew.home / "config.toml"), code=1)


def test_any_key_can_be_set_by_environment_and_config_says_where_it_comes_from(clew):
    clew.env = {"CLEW_LOOPS__REPEAT_LIMIT": "7"}
    (line,) = [s for s in clew.clew("config").splitlines() if s.startswith("loops.repeat_limit")]
    assert "7" in line
    assert "CLEW_LOOPS__REPEAT_LIMIT" in line


def test_the_default_agent_is_named_by_the_config(clew):
    clew.agent("mine", "hello()\ncall('finish', success=True, summary='ok')\n")
    clew.configure({"agents.default": "mine"})
    goal = clew.start().submit("# Whatever\n")
    clew.until(lambda: clew.goal(goal)["agent"] == "mine")
