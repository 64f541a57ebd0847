"""The course of the demo: load, ask one question both ways, measure, ask all questions, add up."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.rule import Rule
from rich.text import Text

from vecsieve.proxy.demo.comparison import Comparison, compare, summarise, timing
from vecsieve.proxy.demo.corpus import Choice, Corpus
from vecsieve.proxy.demo.database import Answer, Store
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.demo.rendering import answers_table, legend, summary_table, timing_lines
from vecsieve.proxy.search.policy import ResolvedPolicy

LIMIT = 8
_ROUNDS = 25  # the medians move by less than 0.1 ms beyond that, and the demo stays under a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where the story plays. ``pools``: how many candidates the proxy fetches for a page of LIMIT, and after growing.
    ``caution``: what to say of the measured time.
    """

    corpus: Corpus
    direct: Store
    proxied: Store
    policy: ResolvedPolicy
    pools: tuple[int, int]
    caution: str


def load(stage: Stage, console: Console) -> None:
    """Write the corpus straight into the engine, with a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Loading the Python documentation", total=len(stage.corpus.chunks))
        stage.direct.load(stage.corpus, progress=lambda written: progress.advance(task, written))


def tell(stage: Stage, choice: Choice, console: Console) -> None:
    """Ask and print: one question side by side, the cost, and the summary over all questions."""
    question = stage.corpus.questions[choice.index].text
    console.print()
    console.print(Rule(Text.assemble(f"Question {choice.index + 1}: ", (question, "bold")), align="left"))
    if choice.remark is not None:
        console.print(Text(choice.remark, style="yellow"))
    comparison = _compare(stage, choice.index)
    console.print(answers_table(stage.corpus, comparison))
    console.print(legend(comparison))
    console.print()
    console.print(timing_lines(timing([_ask_both(stage, choice.index) for _ in range(_ROUNDS)]), stage.caution))
    console.print()
    everything = [_compare(stage, index) for index in range(len(stage.corpus.questions))]
    console.print(summary_table(summarise(everything)))


def _compare(stage: Stage, index: int) -> Comparison:
    direct, proxied = _ask_both(stage, index)
    fetched = stage.direct.ask(stage.corpus.question_vectors[index], limit=stage.pools[1])
    pool = Pool(answer=fetched, first=stage.pools[0], policy=stage.policy, known=proxied.chosen_from)
    return compare(stage.corpus, pool, direct=direct, proxied=proxied)


def _ask_both(stage: Stage, index: int) -> tuple[Answer, Answer]:
    vector = stage.corpus.question_vectors[index]
    return stage.direct.ask(vector, limit=LIMIT), stage.proxied.ask(vector, limit=LIMIT)
