"""The real git on real repositories: what is refused, and who gets the token."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.git import GitConnector, GitSettings
from connectors.git_program import Mirror, Repository, check_branch_name, parse_protocol
from connectors.protocol import SourceUnavailable
from tests.contract.git_sources import listed, mirror
from tests.fakes.git_repository import GitRepository, needs_git

pytestmark = needs_git


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "url",
        [
            "ext::sh -c touch% /tmp/x",
            "ext::x",
            "::x",
            "--upload-pack=touch /tmp/x",
            "-x:y",
            "ssh://-oProxyCommand=x/y",
            "http://example.org/a.git",
            "ftp://example.org/a.git",
            "https://ada:secret@example.org/a.git",
            "https://",
            "file://host/a.git",
            "/a/path",
            "a\nb:c",
            "",
        ],
    )
    def test_a_dangerous_address_is_refused(self, url: str, tmp_path: Path) -> None:
        with pytest.raises(ValueError):
            Mirror(url, tmp_path)

    @pytest.mark.parametrize(
        ("url", "protocol"),
        [
            ("https://ada@example.org/a.git", "https"),
            ("ssh://git@[::1]:22/a.git", "ssh"),
            ("git@example.org:a/b.git", "ssh"),
            ("example.org:a", "ssh"),
            ("git://example.org/a", "git"),
            ("file:///a/b", "file"),
        ],
    )
    def test_a_usual_address_is_accepted(self, url: str, protocol: str) -> None:
        assert parse_protocol(url) == protocol

    @pytest.mark.parametrize("name", ["-x", "a..b", "a:b", "a b", "*", "a/", "x.lock", "@{1}", "~"])
    def test_an_invalid_branch_name_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError):
            check_branch_name(name)

    def test_git_refuses_addresses_that_our_check_accepts(
        self, repository: GitRepository, tmp_path: Path
    ) -> None:
        """A rewrite in the user's git configuration cannot bring the helper program back."""
        origin = mirror(repository)
        variables = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.ext::touch {tmp_path}/run .insteadOf",
            "GIT_CONFIG_VALUE_0": "file://",
        }
        origin.refresh("")
        spoilt = replace(origin.repository, protocols="file", variables=variables)
        with pytest.raises(SourceUnavailable, match="not allowed"):
            spoilt.run("fetch", "--", origin.url)
        assert not (tmp_path / "run").exists()

    def test_the_repositorys_hooks_do_not_run(
        self, repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
        (hooks / "reference-transaction").chmod(0o755)
        (tmp_path / "gitconfig").write_text(f"[core]\nhooksPath = {hooks}\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "gitconfig").rename(tmp_path / ".gitconfig")
        listed(GitConnector(mirror(repository), GitSettings()))
        assert not (tmp_path / "run").exists()


@pytest.fixture
def with_token(tmp_path: Path) -> Iterator[Mirror]:
    yield Mirror("https://example.org/a.git", tmp_path, token="s3cret$`\"'")


class TestCredentials:
    def ask(self, mirror: Mirror, host: str) -> str:
        """What git would send to a host, by its own `credential fill`."""
        repository = mirror.prepare_remote_access()
        with repository.process("credential", "fill", stdin=-1, accept=range(256)) as process:
            output, _ = process.communicate(f"protocol=https\nhost={host}\n\n".encode())
        return output.decode()

    def test_the_token_is_sent_only_to_its_host(self, with_token: Mirror) -> None:
        assert "password=s3cret$`\"'\n" in self.ask(with_token, "example.org")
        assert "username=x-access-token\n" in self.ask(with_token, "example.org")
        assert "s3cret" not in self.ask(with_token, "evil.example.org")

    def test_the_token_is_not_in_any_message(self, with_token: Mirror) -> None:
        assert "s3cret" not in repr(with_token)

    def test_a_token_is_never_sent_without_tls(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="https"):
            Mirror("git://example.org/a.git", tmp_path, token="x")

    def test_a_repository_that_needs_credentials_pauses_with_a_hint(
        self, repository: GitRepository
    ) -> None:
        origin = Repository(repository.root, "x")
        with (
            pytest.raises(SourceUnavailable, match="credentials") as caught,
            origin.process("credential", "fill", stdin=-1) as process,
        ):
            process.communicate(b"protocol=https\nhost=example.invalid\n\n")
        assert "token" in caught.value.hint
