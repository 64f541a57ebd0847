"""Policies as the demo's proxy resolves them, with one part changed."""

from __future__ import annotations

import dataclasses

from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.search.policy import ResolvedPolicy, resolved
from vecsieve.proxy.selection.policy import Fixed, Policy, Threshold

SHIPPED = resolved(PolicySettings(), mode=None)


def choosing(selection: Policy) -> ResolvedPolicy:
    """The shipped policy, choosing otherwise."""
    return dataclasses.replace(SHIPPED, selection=selection)


def cutting(threshold: Threshold) -> ResolvedPolicy:
    """The shipped policy without texts and under another threshold, for pools of a few dimensions, where little is no chance."""
    return choosing(dataclasses.replace(SHIPPED.selection, texts=None, threshold=threshold, chance=None))


FIXED = cutting(Fixed(value=0.1))
