"""The command line with the patience of tests: no answer depends on a machine that stalls for seconds.

Usage: PYTHONPATH=tests python -m support.process.unhurried serve …
"""

from __future__ import annotations

import os
from functools import partial

from support.process.running import UNHURRIED, UNHURRIED_ATTEMPT_SECONDS, UNHURRIED_WRITE_SECONDS
from vecsieve.proxy import server
from vecsieve.proxy.__main__ import main
from vecsieve.proxy.process.assembly import Process


def be_patient() -> None:
    """For the rest of this process."""
    setattr(server, "Process", partial(Process, hedge_times=UNHURRIED))  # noqa: B010 - an assignment is what mypy refuses
    os.environ.setdefault("VECSIEVE_LIMITS_ATTEMPT_TIMEOUT_SECONDS", str(UNHURRIED_ATTEMPT_SECONDS))
    os.environ.setdefault("VECSIEVE_POLICY_WRITE_DEADLINE_SECONDS", str(UNHURRIED_WRITE_SECONDS))
    # Searches pass through while a turn of the loop takes longer.
    os.environ.setdefault("VECSIEVE_LIMITS_LAG_SECONDS", str(UNHURRIED_ATTEMPT_SECONDS))


if __name__ == "__main__":
    be_patient()
    main()
