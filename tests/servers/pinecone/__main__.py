"""The emulator of Pinecone as a process of its own, until it is told to end: what the demo of that backend asks.

python tests/servers/pinecone [--listen HOST:PORT]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from vecsieve.config.addresses import Address, parse_address
from vecsieve.proxy.demo.backends import READY


def main() -> None:
    """Serve until SIGTERM or SIGINT, on a free port of this machine unless told otherwise; prints the address once it can be used."""
    parser = argparse.ArgumentParser(prog="python tests/servers/pinecone", description=__doc__)
    parser.add_argument("--listen", type=parse_address, default=Address("127.0.0.1", 0), metavar="HOST:PORT")
    asyncio.run(_serve(parser.parse_args().listen))


async def _serve(listen: Address) -> None:
    # Started by its path, Python finds this folder and not the tests, whose packages these modules are.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from servers.pinecone.server import serve

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serve(listen) as emulator:
        print(f"{READY} {emulator.url}", flush=True)
        await ended.wait()


if __name__ == "__main__":
    main()
