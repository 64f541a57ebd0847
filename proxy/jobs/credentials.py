"""Where a job's key comes from: an environment variable that is named, never the command line, which anybody can list."""

from __future__ import annotations

from collections.abc import Mapping

from vecsieve.config.problems import Problem, SettingsError

DEFAULT_VARIABLE = "QDRANT_API_KEY"


def key_from(environment: Mapping[str, str], variable: str | None) -> str | None:
    """The key in ``variable``; without a name the usual variable's, if it is set. Raises SettingsError."""
    if variable is None:
        return environment.get(DEFAULT_VARIABLE) or None
    if not environment.get(variable):
        raise SettingsError(
            [Problem("--api-key-env", f"{variable!r}, which is not set", "a variable that holds a key")]
        )
    return environment[variable]
