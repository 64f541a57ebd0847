"""SIGTERM and a closed terminal end a block as Ctrl-C does, and only while it lasts."""

from __future__ import annotations

import signal
import threading

import pytest

from vecsieve.proxy.runtime import ended_by_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_block_as_ctrl_c_does(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_afterwards_the_handlers_are_what_they_were(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with ended_by_signals():
        assert signal.getsignal(number) is not before
    assert signal.getsignal(number) is before


def test_beside_the_main_thread_nothing_is_installed() -> None:
    seen: list[object] = []

    def look() -> None:
        with ended_by_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
