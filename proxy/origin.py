"""Where a request goes: scheme and authority, nothing of the path."""

from __future__ import annotations

from dataclasses import dataclass

from yarl import URL


@dataclass(frozen=True, slots=True)
class Origin:
    """``authority``: host and, unless it is the scheme's own, port, as the `Host` field has them."""

    scheme: str
    authority: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of a URL from the settings: scheme, host and port were checked there."""
        parsed = URL(url)
        return cls(parsed.scheme, parsed.host_port_subcomponent or "")

    @property
    def host(self) -> str:
        """The host alone, as a resolver is asked for it."""
        return URL.build(scheme=self.scheme, authority=self.authority).host or ""

    def url(self, raw_target: str) -> URL:
        """The URL of a target here, byte for byte."""
        # The whole target stands in the path: yarl would drop the `?` of an empty query, and normalises nothing here.
        return URL.build(scheme=self.scheme, authority=self.authority, path=raw_target, encoded=True)
