"""`hopsyncd support-bundle`: of use to a helper, and nothing of the user's is in it."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source

# Wherever a user's words can come from: each must be in no file of the bundle.
CANARIES = [
    *("xanthippe", "zyzzyva", "quokkafolder", "vellichor", "gloaming", "petrichor"),
    *("canary-of-a-key", "canary-of-a-token", "susurrus", "limerence", "sonder"),
]
NOTE = (
    "---\ntags: [gloaming]\npetrichor: sonder\n---\n# Xanthippe\n\n"
    "The cipher zyzzyva opens the vault. https://xanthippe.example/zyzzyva\n"
)
CONFIG = """
[[source]]
name = "limerence"
kind = "git"
url = "https://127.0.0.1:9/susurrus.git"
token = "${{GIT_TOKEN}}"
[llm]
base_url = "http://susurrus.invalid/v1"
model = "vellichor"
api_key_env = "SUSURRUS_KEY"
"""


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.variables.update(GIT_TOKEN="canary-of-a-token", SUSURRUS_KEY="canary-of-a-key")
        made.write("quokkafolder/xanthippe.md", NOTE)
        made.write("quokkafolder/zyzzyva.pdf", "not a PDF, but about Xanthippe")
        made.write("a.petrichor", "a type that nobody includes")
        made.configure(
            f'[daemon]\nlog_level = "debug"\nlog_file = "{made.base}/hop.log"\n'
            f'[backup]\ndir = "{made.base}/vellichor"\n'
            + GC_LATER
            + CONFIG.replace("{{", "{").replace("}}", "}")
            + source("vellichor", made.notes)
        )
        made.start()
        made.sync("vellichor")
        made.printed("tag", "limerence")
        made.run("watch", "Who opens the vault of Xanthippe?")
        made.query("Where is the zyzzyva of Xanthippe?")
        made.run("query", "--source", "sonder", "gloaming")
        yield made


def files_in(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as opened:
        return {
            member.name.removeprefix("hopsyncd-support/"): file.read().decode()
            for member in opened.getmembers()
            if (file := opened.extractfile(member))
        }


def test_a_bundle_helps_and_has_nothing_of_the_user(place: Place) -> None:
    bundle = place.base / "bundle.tar.gz"
    ran = place.run("support-bundle", str(bundle))
    assert ran.returncode == 0, ran.stderr
    assert bundle.stat().st_mode & 0o077 == 0
    files = files_in(bundle)
    for name, text in files.items():
        found = [canary for canary in CANARIES if canary in text.lower() or canary in name]
        assert not found, f"{name} has {found}"
        assert str(place.base) not in text, name
        assert "could not be collected" not in text, name
    status, config = json.loads(files["status.json"]), json.loads(files["config.json"])
    assert status["documents"] == 1 and status["sources"][0]["kind"] in ("folder", "git")
    assert config["index"]["passage_tokens"] == 400 and len(config["sources"]) == 2
    assert json.loads(files["database.json"])["rows"]["document"] == 1
    assert "hopsyncd_passages 1.0" in files["metrics.txt"]
    assert '"event": "serving"' in files["log.txt"]
    assert "structlog" in json.loads(files["versions.json"])["packages"]
    assert any(load["level"] != "ok" for load in json.loads(files["doctor.json"]))
    again = place.run("support-bundle", str(bundle))
    assert again.returncode == 1 and "file exists" in again.stderr


def test_a_bundle_without_a_daemon_or_valid_configuration_has_the_other_files(place: Place) -> None:
    place.kill()
    bundle = place.base / "bundle.tar.gz"
    assert place.run("support-bundle", str(bundle)).returncode == 0
    files = files_in(bundle)
    assert files["status.json"] == "This part could not be collected: DaemonUnavailable\n"
    assert json.loads(files["database.json"])["rows"]["document"] == 1
    bundle.unlink()
    place.configure('[xanthippe]\nzyzzyva = "vellichor"\n')
    assert place.run("support-bundle", str(bundle)).returncode == 0
    text = "".join(files_in(bundle).values()).lower()
    assert not [canary for canary in CANARIES if canary in text]


def test_the_bundle_is_a_plain_archive(place: Place) -> None:
    bundle = place.base / "bundle.tar.gz"
    place.run("support-bundle", str(bundle))
    with tarfile.open(fileobj=io.BytesIO(bundle.read_bytes())) as opened:
        assert {member.mode for member in opened.getmembers()} == {0o600}
