"""The emulator of Pinecone as a process of its own, until it is told to end: what the demo of that backend asks.

python -m vecsieve.proxy.demo.emulating
"""

from __future__ import annotations

import asyncio
import signal

from vecsieve.config.addresses import Address
from vecsieve.proxy.emulator.server import serve

READY = "vecsieve emulator listening on"


def main() -> None:
    """Serve on a free port of this machine until SIGTERM or SIGINT; the address is printed once it can be used."""
    asyncio.run(_serve())


async def _serve() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serve(Address("127.0.0.1", 0)) as emulator:
        print(f"{READY} {emulator.url}", flush=True)
        await ended.wait()


if __name__ == "__main__":
    main()
