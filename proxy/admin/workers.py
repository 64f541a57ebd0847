"""With several workers: the admin process asks each of them over a socket of its own in their private directory.

A question is one line of JSON; the answer is JSON up to the end of the connection. Who may enter the directory is this user
alone, as with the files of the metrics beside it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import orjson

from vecsieve.proxy.admin.knowledge import Answer, Ask, Kind, Knowledge, Question
from vecsieve.proxy.admin.whatif import Change

TIMEOUT_SECONDS = 2.0  # a worker that is stuck is left out: the page has the others
LONG_SECONDS = 15.0  # for a thousand pools, on a busy machine
LINE_BYTES = 4096


def _socket(directory: Path, place: int) -> Path:
    return directory / f"inspect_w{place}.sock"


async def open_to_admin(directory: Path, place: int, knowledge: Knowledge) -> asyncio.Server:
    """Answer the admin process from now on. A socket that a killed predecessor left is replaced."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, TimeoutError, ValueError, KeyError):
                async with asyncio.timeout(LONG_SECONDS):
                    asked = orjson.loads(await reader.readline())
                    change = Change(**asked["change"])
                    question = Question(Kind(asked["kind"]), int(asked["number"]), int(asked["rank"]), change)
                    writer.write(orjson.dumps(await knowledge.answer(question)))
                    await writer.drain()
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, _socket(directory, place), limit=LINE_BYTES)


def asking(directory: Path, workers: int) -> Ask:
    """Asks all workers at once."""

    async def ask(question: Question) -> list[Answer]:
        asked = (_one(_socket(directory, place), question) for place in range(workers))
        return [answer for answer in await asyncio.gather(*asked) if answer is not None]

    return ask


async def _one(path: Path, question: Question) -> Answer | None:
    """The answer of one worker; None without one."""
    writer = None
    try:
        async with asyncio.timeout(LONG_SECONDS if question.kind is Kind.WHATIF else TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(orjson.dumps(asdict(question)) + b"\n")
            answer: Answer = orjson.loads(await reader.read())
            return answer
    except (OSError, TimeoutError, ValueError):
        return None
    finally:
        if writer is not None:
            writer.close()
