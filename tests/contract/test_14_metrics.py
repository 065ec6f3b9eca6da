"""Section 14: metrics."""


def test_metrics_once_have_the_names_of_the_contract(clew):
    goal = clew.start().completed(
        "---\nchecks: {made: test -f made}\n---\n# Do\n- [ ] it\n  ```sh\n  touch made\n  ```\n"
    )
    text = clew.clew("metrics")
    for name in (
        'clew_goals{status="completed"} 1', "clew_needs_person", "clew_actions_total{",
        "clew_refusals_total", "clew_worker_restarts_total", "clew_checks_total{",
        "clew_ledger_commit_seconds", "clew_llm_tokens_total", "clew_build_info{",
    ):  # fmt: skip
        assert name in text
    assert goal not in text
