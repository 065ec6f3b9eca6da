"""Requests whose id is no proper one are answered too: nobody waits for an answer for ever."""


def test_a_request_whose_id_is_none_is_answered_with_null(clew):
    clew.agent(
        "odd",
        """
        hello()
        raw(b'{"jsonrpc":"2.0","id":{},"method":"heartbeat","params":{}}\\n')
        refused = answers.get(timeout=ANSWER_TIMEOUT_S)
        raw(b'{"jsonrpc":"2.0","id":null,"method":"advance"}\\n')
        done_so = answers.get(timeout=ANSWER_TIMEOUT_S)
        say([refused["id"], refused["error"]["code"], done_so["id"], "result" in done_so])
        done()
        """,
    )
    clew.start()
    goal = clew.submit("---\nagent: odd\n---\n# Ask oddly\n")
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal) == [[None, -32600, None, True]]
