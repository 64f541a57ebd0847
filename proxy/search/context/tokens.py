"""How many tokens a text has, by a tokenizer of tiktoken's or by an estimate; and how many texts a budget of tokens pays for.

The estimate is a fourth of the bytes in UTF-8, rounded up. Tokenizers of language models take 4 to 5 bytes of English for a token, and 1.5
to 4 of other scripts, so that the estimate is rarely too low by more than a fifth for Latin scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from vecsieve.config.problems import Problem, SettingsError, shown

BYTES_A_TOKEN = 4
# Characters that are tokenized at once: a million blanks in a row end tiktoken 0.14 with a panic, a million letters take 3 s. A token that
# a border divides counts as two.
PIECE = 50_000

Count = Callable[[str], int]
"""The number of tokens of a text."""


def of_bytes(size: int) -> int:
    """The estimate for a text of so many bytes."""
    return -(-size // BYTES_A_TOKEN)


def estimated(text: str) -> int:
    """A fourth of the text's bytes, rounded up."""
    return of_bytes(len(text.encode("utf-8", "surrogatepass")))


@lru_cache(maxsize=16)
def tokenizer(name: str | None, *, setting: str) -> Count:
    """The function that counts; None for the estimate. ``setting``: where the name stands.

    It is made when settings are taken, never for a request: tiktoken may download the vocabulary. Raises SettingsError for a name that
    tiktoken does not know, or whose vocabulary it cannot load.
    """
    if name is None:
        return estimated
    import tiktoken  # an extra; the settings check that it is there

    try:
        encoding = tiktoken.get_encoding(name)
    except ValueError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise SettingsError([Problem(setting, shown(name), f"one of {known}")]) from None
    except OSError:
        wanted = "a vocabulary that can be loaded: tiktoken reads it from TIKTOKEN_CACHE_DIR or downloads it"
        raise SettingsError([Problem(setting, shown(name), wanted)]) from None
    return lambda text: sum(len(encoding.encode_ordinary(piece)) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that a tokenizer can take."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


@dataclass(frozen=True, slots=True)
class TextBudget:
    """``tokens``: of the results' texts together; None for any number. ``paths``: payload keys or dotted paths of the text, the
    first present counts.
    """

    tokens: int | None = None
    paths: tuple[str, ...] = ()
    count: Count = estimated

    @property
    def is_quick(self) -> bool:
        """Whether counting takes about as long as reading the text."""
        return self.count is estimated


UNLIMITED = TextBudget()


def affordable(costs: Iterable[int], tokens: int) -> int:
    """How many of the first texts fit into so many tokens, never fewer than one. Later costs are not asked for."""
    spent = taken = 0
    for cost in costs:
        spent += cost
        if taken and spent > tokens:
            break
        taken += 1
    return taken
