"""What every settings model shares."""

from __future__ import annotations

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Model(BaseModel):
    """What every settings model shares: frozen, unknown keys are errors, no coercion of one type into another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _none_word(value: object) -> object:
    """YAML's null is easy to overlook; the word says it."""
    return None if value == "none" else value


NoneWord = BeforeValidator(_none_word)
