"""A config that is there and cannot be read is never taken for an absent one."""

import os

import pytest

from clew_daemon.config.configfile import BYTES_MAX, ConfigFileError, read


def test_a_file_and_a_link_to_one_are_read(tmp_path):
    (tmp_path / "real.toml").write_text("[daemon]\n")
    (tmp_path / "config.toml").symlink_to("real.toml")
    assert read(tmp_path / "config.toml") == "[daemon]\n"


def test_a_link_that_leads_nowhere_is_an_error_that_names_it(tmp_path):
    (tmp_path / "config.toml").symlink_to("/nowhere/real.toml")
    with pytest.raises(ConfigFileError, match=r"config\.toml is a link to /nowhere/real\.toml, wh"):
        read(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.mkdir(), "directory"),
        (os.mkfifo, "not a file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.write_bytes(b"\xff"), "not UTF-8"),
        (lambda path: path.symlink_to("/dev/zero"), "over 1,048,576 bytes"),
        (lambda path: path.write_bytes(b"#" * (BYTES_MAX + 1)), "over 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path, make, told):
    make(tmp_path / "config.toml")
    with pytest.raises(ConfigFileError, match=told):
        read(tmp_path / "config.toml")
