"""What the figures were measured on: a number without its machine means nothing."""

from __future__ import annotations

import os
import platform
import sysconfig
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "vecsieve",
    "aiohttp",
    "numpy",
    "msgspec",
    "orjson",
    "fastcluster",
    "grpcio",
    "uvloop",
    "pysimdjson",
    "qdrant-client",
)


def machine() -> dict[str, object]:
    """Cores, processor, interpreter, library versions, load and date."""
    return {
        "date": datetime.now(tz=UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "build": build(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in LIBRARIES},
    }


def build() -> str:
    """How the interpreter was built: the same code takes a quarter more time without optimisation by profiles."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    kinds = [name for name in ("--enable-optimizations", "--with-lto") if name in arguments]
    return " ".join(kinds) or "not optimised"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
