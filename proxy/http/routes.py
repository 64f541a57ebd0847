"""Where requests go: one upstream, or one of many behind the same ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vecsieve.proxy.http.editing import Editing
from vecsieve.proxy.http.headers import RawHeaders
from vecsieve.proxy.http.target import Target, matching_path
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.trouble import Trouble


class Routes(Protocol):
    """What the data plane asks about a target. Nothing here waits."""

    @property
    def may_be_private(self) -> Callable[[str], bool] | None:
        """Whether a host name may lead to a private address; None when requests never name hosts."""
        ...

    def find(self, target: Target, index: Origin | None) -> Target | Trouble:
        """The target as it goes upstream, with its origin; or why it goes nowhere. ``index``: of the port it came to."""
        ...

    def matching(self, target: Target) -> str | None:
        """The path that decides what a found target is; None when it is none of ours."""
        ...

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """How the answer to a found target is changed; None when it is not."""
        ...


class OneUpstream:
    """Everything goes to the configured database. ``path_prefix``: what stands before its own paths."""

    may_be_private = None

    def __init__(self, path_prefix: str) -> None:
        self._path_prefix = path_prefix

    def find(self, target: Target, index: Origin | None) -> Target | Trouble:
        """The target itself."""
        return target

    def matching(self, target: Target) -> str | None:
        """The path as the database's router reads it, without the prefix."""
        return matching_path(target.path, self._path_prefix)

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """Nothing is changed."""
        return None
