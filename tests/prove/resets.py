"""A relay before a database: it carries connections, and resets them when it is told to."""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import suppress

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class Relay:
    """To a port of this machine, from ``port``."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue  # the client was gone before it was accepted
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            database = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        pair = (client, database)
        self._open.add(pair)
        other = threading.Thread(target=self._pump, args=(client, database), daemon=True)
        other.start()
        self._pump(database, client)
        other.join()
        self._open.discard(pair)
        for end in pair:
            end.close()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                sink.sendall(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)

    def drop(self, chance: random.Random) -> None:
        """Reset one connection, or all."""
        pairs = list(self._open)
        for pair in pairs if chance.random() < 0.2 else chance.sample(pairs, min(1, len(pairs))):
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    end.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        self._listener.close()
