"""The event `sweep-complete`: a log line with numbers only, and a webhook request, signed like those of the write gate, sent once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from secrets import token_hex

import msgspec

from vecsieve.config.addresses import hook_url
from vecsieve.config.problems import Problem, SettingsError, excerpt

from ...admin.access import token_in
from ...runtime.files import NoAnswerError, exchanged
from ...telemetry.log import Field, encode, timestamp
from ...writes.events import Event, EventName, batch, key_of, moment, signed
from .report import Report

SECONDS = 10.0
SECRET_FILE = "--webhook-secret"  # noqa: S105 - the name of an option


def counts_of(report: Report) -> dict[str, int]:
    """The numbers in the event."""
    return {
        "totalScanned": report.points,
        "duplicatePairs": report.pairs,
        "duplicateCount": report.redundant,
        "clustersFound": report.families,
        "evictedCount": 0 if report.applied is None else report.applied["deleted"],
    }


def line(report: Report, *, now: float) -> bytes:
    """The event in the form of the proxy's log lines, without the collection's name. ``now``: seconds since the epoch."""
    head: dict[str, Field] = {
        "ts": timestamp(now),
        "level": "info",
        "logger": "vecsieve.writes",
        "msg": EventName.SWEEP_COMPLETE.value,
    }
    return encode(head | counts_of(report))


class Receiver:
    """The receiver of the event. Raises SettingsError for an unusable URL or secret, before the sweep begins."""

    def __init__(self, url: str, secret_file: Path | None) -> None:
        try:
            hook_url(url)
        except ValueError:
            expected = "http or https, host, port and perhaps a path, without credentials or query"
            raise SettingsError([Problem("--webhook", excerpt(url), expected)]) from None
        secret = token_in(None if secret_file is None else str(secret_file), SECRET_FILE)
        if secret is None:
            raise SettingsError([Problem(SECRET_FILE, "none", "a file with the secret, because --webhook is given")])
        self._url = url
        self._key = key_of(secret)

    def send(self, report: Report) -> str | None:
        """Send the event; return why it was not delivered, or None. Redirects are not followed: the address is the operator's, whatever
        network it is in, and nobody else chooses one.
        """
        now = time.time()
        event = Event(
            event=EventName.SWEEP_COMPLETE,
            at=moment(now),
            collection=report.collection,
            counts=counts_of(report),
        )
        body = batch([msgspec.json.encode(event)], 0)
        fields = {"Content-Type": "application/json", **signed(self._key, body, id=token_hex(16), seconds=int(now))}
        try:
            posted = exchanged("POST", self._url, data=body, headers=fields, seconds=SECONDS, most_bytes=0)
            status, _ = asyncio.run(posted)
        except NoAnswerError as error:
            return str(error)
        return None if 200 <= status < 300 else f"status {status}"
