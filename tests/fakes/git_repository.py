"""A real git repository that a test changes from outside, by the git program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git program")


class GitRepository:
    """A repository with a working tree at `root`; every change is a commit on the branch `main`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, data: bytes | None = None, at_s: int | None = None) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        environment["GIT_CONFIG_GLOBAL"] = os.devnull  # whose signing and hooks are not the test's
        if at_s is not None:
            environment |= {"GIT_COMMITTER_DATE": f"@{at_s} +0000"}
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.root,
            input=data,
            env=environment,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()

    def put(self, id_: str, data: bytes, at_s: int | None = None) -> str:
        """Commit one file; the id of the commit."""
        path = self.root / id_
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self.commit(at_s)

    def remove(self, id_: str) -> str:
        (self.root / id_).unlink()
        return self.commit()

    def commit(self, at_s: int | None = None) -> str:
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message=a change", at_s=at_s)
        return self.git("rev-parse", "HEAD")
