"""What a cell's mounts show of the way to a file, and not only of the file."""

from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.sandbox import grants, namespaces


def test_every_link_on_the_way_to_the_name_servers_is_made_again(tmp_path, monkeypatch):
    """Only its end was shown: a link by way of another one, as /var/run, led nowhere in a cell."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "resolv.conf").touch()
    (tmp_path / "var-run").symlink_to("run")
    (tmp_path / "resolv.conf").symlink_to(tmp_path / "var-run" / "resolv.conf")
    monkeypatch.setattr(grants, "_LINKED_FILES", (str(tmp_path / "resolv.conf"),))
    spec = CellSpec(
        kind="executor",
        cwd="/",
        env={},
        sandbox=SandboxSpec(mode="enforce", workspace="/w", own_tools=False),
    )
    links = namespaces._links(grants.visible(spec))
    assert links[str(tmp_path / "var-run")] == "run"
    assert str(tmp_path / "resolv.conf") in links


def test_without_a_folder_for_temporary_files_no_overlay_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert not namespaces.overlay_possible(userns=False)
