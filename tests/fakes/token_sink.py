"""A token sink that remembers."""


class Heard:
    """Implements llm.call.TokenSink: keeps what it gets, a withdrawal as its reason in brackets."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def write(self, text: str) -> None:
        self.all.append(text)

    def withdraw(self, why: str) -> None:
        self.all.append(f"[{why}]")
