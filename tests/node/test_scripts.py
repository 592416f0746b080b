"""The scripts are the same: copied byte for byte, and composed to the same texts."""

from __future__ import annotations

import subprocess

from django_taskq.broker import scripts
from tests.node.build import CLIENT


def test_the_lua_files_of_the_client_are_those_of_the_package():
    copies = {path.name: path.read_bytes() for path in (CLIENT / "lua").iterdir()}
    assert copies == {path.name: path.read_bytes() for path in scripts.FOLDER.glob("*.lua")}


def test_the_check_of_the_client_sees_a_changed_and_a_missing_file(tmp_path):
    """It runs over a copy of both folders."""
    for name in ("clients/node/scripts", "clients/node/lua"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "django_taskq").mkdir()
    (tmp_path / "django_taskq/lua").symlink_to(scripts.FOLDER)
    script = tmp_path / "clients/node/scripts/copy-lua.js"
    script.write_bytes((CLIENT / "scripts/copy-lua.js").read_bytes())
    (tmp_path / "clients/node/package.json").write_bytes((CLIENT / "package.json").read_bytes())

    def check(*arguments):
        return subprocess.run(["node", script, *arguments], capture_output=True, text=True, check=False)

    assert check("--check").returncode == 1
    assert check().returncode == 0
    assert check("--check").returncode == 0
    copy = tmp_path / "clients/node/lua/claim.lua"
    copy.write_text(copy.read_text() + "\n")
    assert "claim.lua" in check("--check").stderr
    copy.unlink()
    assert "claim.lua" in check("--check").stderr


def test_every_script_is_composed_to_the_same_sha(hand):
    theirs = {name: hand.ask("script", name=name) for name in scripts.names()}
    assert theirs == {name: scripts.load(name).sha for name in scripts.names()}
