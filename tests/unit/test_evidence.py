"""What an output shows beside its outcome: facts, receipts, readings, and the place that a command works in."""

import pytest

from clew_shared.record.facts import (
    SKETCH_SIZE,
    covers,
    largest_number,
    read_sketch,
    resized,
    reworded,
    sketch_of,
    united,
)
from clew_shared.record.gauge import gauge_of
from clew_shared.record.places import place_of
from clew_shared.record.receipts import receipt_of


def sketch(first, last, args=None):
    return read_sketch(sketch_of("\n".join(f"line of {n}" for n in range(first, last)), args or {}))


# -- facts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 20, SKETCH_SIZE, 50, 400, 5000])
def test_a_text_covers_itself_and_no_larger_one(size):
    assert covers(sketch(0, size), sketch(0, size))
    assert not covers(sketch(0, size), sketch(0, size + 1))


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_another_page_of_the_same_size_is_new(size):
    assert not covers(sketch(0, size), sketch(size, 2 * size))


def test_what_several_pages_held_is_known_together():
    both = united(sketch(0, 100), sketch(80, 180))
    assert covers(both, sketch(40, 140))
    assert not covers(both, sketch(140, 240))


def test_a_united_sketch_stays_small():
    known = sketch(0, 200)
    for n in range(50):
        known = united(known, sketch(n * 100, n * 100 + 200))
    assert len(known.hashes) <= 64


def test_ranks_line_numbers_and_scores_do_not_make_a_fact_new():
    first = read_sketch(sketch_of('1. a page\n{"title": "b", "score": 0.91}', {}))
    again = read_sketch(sketch_of('{"score": 0.88, "title": "b"}\n2. a page', {}))
    assert covers(first, again)


def test_a_long_text_may_name_the_limit_that_was_asked_for_and_a_short_record_may_not():
    def named(limit, lines):
        text = "\n".join([f"up to {limit} lines", *(f"row x{n * n}" for n in range(lines))])
        return read_sketch(sketch_of(text, {"limit": limit}))

    assert covers(named(100, 30), named(200, 30))
    assert not covers(named(100, 3), named(200, 3))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"path": "a", "limit": 5}, {"path": "a", "limit": 50}),
        ({"path": "a"}, {"path": "a", "range": [1, 50]}),
        ({"cmd": "head -n 5 a.py"}, {"cmd": "head -n 50 a.py"}),
        ({"cmd": "head -5 a.py"}, {"cmd": "head -50 a.py"}),
        ({"cmd": "sed -n '1,50p' a.py"}, {"cmd": "sed -n '1,90p' a.py"}),
        ({"lines": "1-50"}, {"lines": "1-90"}),
    ],
)
def test_actions_that_differ_in_numbers_alone_have_one_form(one, other):
    assert resized("read", one) == resized("read", other)
    assert resized("read", one) != resized("read", {**other, "path": "b"})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"q": "rye bread recipe"}, {"q": "Recipe: bread rye"}, True),
        ({"q": "rye bread"}, {"q": "rye bread recipe"}, False),
        ({"q": "-rye bread"}, {"q": "rye -bread"}, False),
        ({"from": "a b", "to": "c d"}, {"from": "c d", "to": "a b"}, False),
        ({"words": ["a", "b"]}, {"words": ["b", "a"]}, True),
        ({"cmd": "diff new old"}, {"cmd": "diff old new"}, False),
        ({"cmd": "grep -E 'a|b' x"}, {"cmd": "grep -E 'b|a' x"}, True),
    ],
)
def test_the_order_of_words_matters_in_commands_and_not_in_queries(one, other, same):
    assert (reworded("find", one) == reworded("find", other) != "") is same


def test_one_word_has_no_other_order():
    assert reworded("search", {"pattern": "word", "path": "src/a.py"}) == ""


def test_digits_in_a_name_are_part_of_it():
    for one, other in (
        ("head f1.py", "head f2.py"),
        ("show W123", "show W124"),
        ("v-1.2", "v-1.3"),
    ):
        assert resized("run", {"cmd": one}) != resized("run", {"cmd": other})


def test_the_largest_number_is_that_of_a_limit():
    assert largest_number({"path": "a", "range": [1, 800]}) == 800
    assert largest_number({"path": "a"}) == 0


# -- receipts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Message sent (id 3f2a91c47b)", "Message sent (id 90be12f43a)"),
        ('{"ok": true, "file_id": "f-19"}', '{"ok": true, "file_id": "f-20"}'),
        ('{"messageId": "m1"}', '{"messageId": "m2"}'),
        ("Booked: 1000004711", "Booked: 1000004712"),
        ("Created TCK-48213", "Created TCK-48214"),
        ("Comment #1041 posted", "Comment #1042 posted"),
        ("see https://p.example/aB3dE6", "see https://p.example/x9Y8z7"),
    ],
)
def test_receipts_that_differ_by_ids_are_one(one, other):
    (first, ids), (again, _) = receipt_of(one, {}), receipt_of(other, {})
    assert first == again != ""
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42% done", "43% done"),
        ("downloaded 104857600 of 999999999", "downloaded 204857600 of 999999999"),
        ("step 4 is done", "step 5 is done"),
        ("task 3f2a91c4: resize", "task 90be12f4: crop"),
    ],
)
def test_numbers_that_measure_and_other_words_make_another_answer(one, other):
    first, again = receipt_of(one, {})[0], receipt_of(other, {})[0]
    assert not first or first != again


@pytest.mark.parametrize(
    "text", ["", "done", "3f2a91c47b90", "a1b2c3d4\ne5f6a7b8", "x" * 5000 + " id 3f2a91c47b"]
)
def test_an_answer_without_ids_of_nothing_but_ids_or_of_great_length_is_no_receipt(text):
    assert receipt_of(text, {}) == ("", ())


def test_an_id_that_was_asked_for_is_not_fresh():
    assert receipt_of("job 3f2a91c47b is queued", {"job": "3f2a91c47b"}) == ("", ())


def test_a_list_of_ids_is_an_answer():
    assert receipt_of("items: " + " ".join(f"item_{n}" for n in range(100, 110)), {}) == ("", ())


# -- readings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("3 failed, 17 passed in 0.41s", (3, 17)),
        ("FAILED (failures=3)", (3,)),
        ("E   assert 2.5 == 3\n\nFAILED", (2.5, 3)),
        ("Tests: 3 failed, 9 total\nTime: 2.1 s", (3, 9)),
        ("9 passing\n3 failing\n1) adds: expected 7 to equal 4", (3,)),
        ("no number", ()),
    ],
)
def test_the_last_line_with_numbers_is_read(text, readings):
    assert gauge_of(text, failed=True)[1] == readings


def test_what_succeeds_measures_only_failures():
    assert gauge_of("3 files changed", failed=False) == ("", ())
    assert gauge_of("3 failed, 9 passed", failed=False)[1] == (3, 9)


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cmd", "place"),
    [
        ("cd pkg && pytest", "pkg"),
        ("(cd ./pkg/ && pytest)", "pkg"),
        ("cd /srv/pkg; make", "pkg"),
        ("make -C web check", "web"),
        ("go test ./api/...", "api/..."),
        ("python -m py_compile core.py", "core.py"),
        ("pytest", ""),
        ("cd . && pytest", ""),
    ],
)
def test_the_folder_that_a_command_works_in(cmd, place):
    assert place_of({"cmd": cmd}, "5 passed", "/srv") == place


def test_a_path_along_which_nothing_was_found_is_no_place():
    assert place_of({"cmd": "grep -rn x src/a || true"}, "none", "") == ""
    assert place_of({"cmd": "find src/a -name x"}, "", "") == ""


def test_only_a_command_works_in_a_place():
    assert place_of({"path": "src/a.py"}, "text", "") == ""
