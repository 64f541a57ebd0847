"""What the data plane tells whoever counts: five calls with labels from closed sets, never a path, header or message."""

from __future__ import annotations

from typing import Protocol


class Events(Protocol):
    """The sink. Calls must return at once and must not raise."""

    def connections_changed(self, count: int) -> None:
        """How many client connections are open now."""
        ...

    def connection_rejected(self, reason: str) -> None:
        """A client connection ended by us: `limit` (turned away), `crowded` (idle or new, its place was needed), `head_timeout`,
        `silent`, `flood`, `slow_reader`.
        """
        ...

    def answered_locally(self, trouble: str) -> None:
        """An answer of our own went out; a member of ``answers.Trouble``."""
        ...

    def upstream_failed(self, kind: str) -> None:
        """An exchange with the database failed; a member of ``failures.FailureKind``."""
        ...

    def client_failed(self, kind: str) -> None:
        """The client's side of an exchange failed; a member of ``failures.ClientFault``."""
        ...


class Unheard:
    """The sink of a data plane that nobody watches."""

    def connections_changed(self, count: int) -> None:
        """Nothing."""

    def connection_rejected(self, reason: str) -> None:
        """Nothing."""

    def answered_locally(self, trouble: str) -> None:
        """Nothing."""

    def upstream_failed(self, kind: str) -> None:
        """Nothing."""

    def client_failed(self, kind: str) -> None:
        """Nothing."""
