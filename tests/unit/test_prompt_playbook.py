from clew_shared.prompt.view import playbook_text

BULLETS = [
    {"id": "fil-00001", "section": "File Operations", "content": "List first", "helpful": 5},
    {"id": "tes-00002", "section": "Testing", "content": "Run one test", "helpful": 0},
    {"id": "fil-00003", "section": "File Operations", "content": "Read then edit", "helpful": 1},
]


def test_the_bullets_of_hello_become_a_text_by_sections():
    assert playbook_text([{**bullet, "harmful": 0} for bullet in BULLETS]) == (
        "## Learned Strategies\n\n"
        "### File Operations\n"
        "- [fil-00001] List first (helpful=5, harmful=0)\n"
        "- [fil-00003] Read then edit (helpful=1, harmful=0)\n\n"
        "### Testing\n"
        "- [tes-00002] Run one test (helpful=0, harmful=0)"
    )


def test_an_empty_playbook_is_no_text():
    assert playbook_text([]) == ""
