"""Hypothesis profiles: `fast` on every change, `deep` for the long runs behind `make deep`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.network.accepted import watch_accepted

# As `vecsieve serve` does, and before anything loads numpy: on a busy machine OpenBLAS's threads wait for each other by
# spinning, and small products take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Without files of bytecode each worker would rewrite the assertions of 800 files anew, half of the collection's time, and each process that
# the tests start would compile what it loads.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A client of HTTP reads all that the machine trusts when it is made, also where it then speaks no TLS: 20 ms, a tenth of the tests' processor
# time. No test calls anything outside, but one that installs packages.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support/network/nobody.pem")

# A shell that starts the tests in the background lets them ignore SIGINT, nohup SIGHUP, and so would every process that they start and end by it.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# `fast` draws the same few examples every time: a change is judged by what it changed. `deep` draws new ones, and very many.
settings.register_profile(
    "fast", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


watch_accepted()

# What is collected stays: the collector would only walk over it, again and again, and takes a quarter of the collection's time.
gc.disable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One more than cores: for a third of the tests' time a worker waits, for deadlines, disks and processes. None: as xdist would."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or not hasattr(os, "sched_getaffinity"):
        return None
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_finish() -> None:
    """The collector need not walk over 15,000 collected tests, which stay, each time a test leaves garbage: a walk takes half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()
