"""The certificate recipe of docs/team.md, and what members of a team are told."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from starlette.requests import Request

from hopsyncd.api.source_status import restrict_watch_status
from hopsyncd.api.tls import load_certificate
from hopsyncd.ingest.watch import WatchStatus
from hopsyncd.web.team_page import choose_login_hint
from tests.samples import samples_of


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_certificate_recipe_makes_a_certificate_that_clients_accept(tmp_path: Path) -> None:
    (recipe,) = [sample.text for sample in samples_of("team.md") if "openssl" in sample.text]
    ran = subprocess.run(
        ["sh", "-ec", recipe], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    served, certificate = load_certificate(tmp_path / "fullchain.pem", tmp_path / "key.pem")
    assert set(certificate.names) == {"notes.example.org"}
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="notes.example.org")
    server = served.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.getpeercert()


def test_a_member_learns_that_a_source_is_watched_but_not_which_folder_is_not() -> None:
    watch = WatchStatus(True, "closed/deep is not watched", "Raise the limit")
    assert restrict_watch_status(watch, True) == watch
    assert restrict_watch_status(watch, False) == WatchStatus(True)
    assert restrict_watch_status(None, False) is None


@pytest.mark.parametrize(
    ("headers", "hint"),
    [([(b"sec-fetch-mode", b"cors")], "Reload the page"), ([], "neither `Sec-Fetch-Mode`")],
)
def test_a_request_that_is_not_for_a_page_gets_an_explanation(
    headers: list[tuple[bytes, bytes]], hint: str
) -> None:
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": headers})
    assert hint in choose_login_hint(request)
