"""The full server as a process of its own, until it is told to end.

python tests/servers/qdrant [--listen HOST:PORT] [--grpc-listen HOST:PORT] [--path DIRECTORY] [--encoding oneof|data]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from vecsieve.config.addresses import Address, parse_address


def main() -> None:
    """Serve until SIGTERM or SIGINT, on a free port of this machine unless told otherwise; prints addresses once they can be used."""
    parser = argparse.ArgumentParser(prog="python tests/servers/qdrant", description=__doc__)
    parser.add_argument("--listen", type=parse_address, default=Address("127.0.0.1", 0), metavar="HOST:PORT")
    parser.add_argument("--grpc-listen", type=parse_address, metavar="HOST:PORT")
    parser.add_argument("--path", type=Path, metavar="DIRECTORY")
    parser.add_argument("--encoding", choices=("oneof", "data"), default="oneof")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(given: argparse.Namespace) -> None:
    # Started by its path, Python finds this folder and not the tests, whose packages these modules are.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from servers.qdrant.grpc_messages import Encoding
    from servers.qdrant.server import start

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await start(
        host=given.listen.host,
        port=given.listen.port,
        path=given.path,
        grpc_address=given.grpc_listen,
        encoding=Encoding(given.encoding),
    )
    print(f"vecsieve qdrant listening on {server.url}", flush=True)
    if server.grpc_url is not None:
        print(f"vecsieve qdrant gRPC on {server.grpc_url}", flush=True)
    await ended.wait()
    await server.close()


if __name__ == "__main__":
    main()
