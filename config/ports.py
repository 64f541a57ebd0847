"""The ports that settings make VecSieve listen on, what collides among them, and what leads back to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from vecsieve.config.addresses import Address, parse_address, parse_upstream
from vecsieve.config.contradiction import Contradiction, contradiction
from vecsieve.config.problems import Path, dotted, shown
from vecsieve.config.schema import Settings


@dataclass(frozen=True, slots=True)
class OwnPort:
    """A port that VecSieve listens on. ``text``: its address; ``written``: what the settings have there."""

    place: Path
    address: Address
    text: str
    written: str

    def __str__(self) -> str:
        return f"{dotted(self.place)} ({self.text})"


def own_ports(settings: Settings) -> tuple[OwnPort, ...]:
    """Every port of these settings: listen, admin, gRPC's own, and those that lead to one index each."""
    texts: dict[Path, str] = {("listen",): settings.listen, ("admin",): settings.admin}
    if settings.grpc.listen is not None:
        texts["grpc", "listen"] = settings.grpc.listen
    own = tuple(OwnPort(place, parse_address(text), text, shown(text)) for place, text in texts.items())
    if settings.backend != "pinecone":
        return own
    interface, host = settings.listen.rpartition(":")[0], own[0].address.host
    ports = sorted(settings.pinecone.index_ports)
    return own + tuple(
        OwnPort(index_port(port), Address(host, port), f"{interface}:{port}", str(port)) for port in ports
    )


def index_port(port: int) -> Path:
    """Where the settings have an index's port."""
    return ("pinecone", "index_ports", str(port))


def of_ports(settings: Settings) -> Iterator[Contradiction]:
    """Ports that are one port, and addresses of databases that are our own."""
    ports = own_ports(settings)
    for earlier, later in combinations(ports, 2):
        if later.address.collides(earlier.address):
            yield contradiction(later.place, later.written, f"another port than {earlier}", earlier.place)
    for place, (url, what) in _destinations(settings).items():
        for port in ports:
            if parse_upstream(url).leads_to(port.address):
                yield contradiction(place, shown(url), f"{what}: {port} is VecSieve itself", port.place)


def _destinations(settings: Settings) -> dict[Path, tuple[str, str]]:
    """Where requests go: the place that says it, the URL, and what is there."""
    found: dict[Path, tuple[str, str]] = {("upstream", "url"): (settings.upstream.url, "the database")}
    if settings.grpc.upstream is not None:
        found["grpc", "upstream"] = (settings.grpc.upstream, "the database")
    if settings.backend != "pinecone":
        return found
    own = settings.pinecone
    if own.index_host is not None:
        found["pinecone", "index_host"] = (own.index_host, "an index")
    return {**found, **{index_port(port): (url, "an index") for port, url in sorted(own.index_ports.items())}}


def of_grpc(settings: Settings) -> Iterator[Contradiction]:
    """A gRPC port without anything behind it; half of what TLS takes."""
    listen, tls = settings.grpc.listen, settings.tls
    is_led = (
        settings.grpc.upstream is not None
        or settings.backend == "milvus"
        or (settings.backend == "pinecone" and settings.pinecone.index_host is not None)
    )
    if listen is not None and not is_led:
        wanted = f"where gRPC calls go, because grpc.listen is {listen}"
        yield contradiction(("grpc", "upstream"), "none", wanted, ("grpc", "listen"))
    if tls.certificate is not None and tls.key is None:
        yield contradiction(("tls", "key"), "none", "a file, because tls.certificate is given", ("tls", "certificate"))
    if tls.key is not None and tls.certificate is None:
        yield contradiction(("tls", "certificate"), "none", "a file, because tls.key is given", ("tls", "key"))


def of_indexes(settings: Settings) -> Iterator[Contradiction]:
    """Ports of indexes that do not tell them apart, or are told to nobody."""
    own = settings.pinecone
    first: dict[Address, Path] = {}
    for port, url in sorted(own.index_ports.items()):
        place = index_port(port)
        holder = first.setdefault(parse_upstream(url.lower()), place)
        if holder != place:
            yield contradiction(place, shown(url), f"another index than {dotted(holder)} has", holder)
    if own.public_form != "path" and not own.index_ports:
        at: Path = ("pinecone", "public_form")
        yield contradiction(
            at, shown(own.public_form), "path, because index_ports has none", ("pinecone", "index_ports")
        )
