"""A folder is known by what it is, not by where it stands."""

import os

import pytest

from clew_shared.record.identity import Identity, of_path

DISK, OTHER_DISK = os.makedev(8, 1), os.makedev(8, 2)
BEFORE = Identity(dev=DISK, ino=7, birth_ns=5, boot="one")


def test_a_folder_that_was_renamed_is_the_same(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    before = of_path(folder)
    folder.rename(tmp_path / "b")
    assert of_path(tmp_path / "b").is_same(before)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"ino": 8}, False),
        ({"birth_ns": 6}, False),
        ({"birth_ns": None}, False),
        ({"dev": OTHER_DISK}, False),  # another file system, mounted there now
        ({"dev": OTHER_DISK, "boot": "two"}, True),  # devices were numbered in another order
        ({"boot": "two"}, True),
        (
            {"boot": "two", "birth_ns": None},
            True,
        ),  # a kernel that does not tell it, or one that now does
        ({"boot": "two", "birth_ns": 6}, False),
        ({"ino": 8, "dev": OTHER_DISK, "boot": "two"}, False),
    ],
)
def test_what_makes_two_sightings_one_folder(change, same):
    assert BEFORE.is_same(BEFORE.model_copy(update=change)) is same
