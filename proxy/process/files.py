"""Every file that the settings name, read before a port is open and by `vecsieve check`: all unusable ones are reported at once.

Profiles are read by their own directory (search/collections/profiles.py), the journal is locked by the process that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings

from ..admin.access import token_in
from ..http.tls import context_of, upstream_context
from ..search.context.sessions import password_of
from ..telemetry.otel import headers_of


def read_files(settings: Settings) -> None:
    """Raises SettingsError with the problems of all files."""
    problems: list[Problem] = []
    for read in _reads(settings):
        try:
            read()
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError(problems)


def _reads(settings: Settings) -> Iterator[Callable[[], object]]:
    upstream = settings.upstream
    yield lambda: context_of(settings)
    if upstream.ca_file is not None or upstream.client_certificate is not None:  # the system's authorities take 30 ms
        yield lambda: upstream_context(upstream)
    yield lambda: headers_of(settings.tracing.headers_file)
    yield lambda: password_of(settings.sessions)
    yield lambda: token_in(settings.explain.token_file, "explain.token_file")
    yield lambda: token_in(settings.api.token_file, "api.token_file")
    yield lambda: token_in(settings.webhook.secret_file, "webhook.secret_file")
