"""The programs of docs/frameworks.md, as they stand there, in the frameworks' own environments (`make frameworks`), against a real engine or
server behind a real proxy with the settings of the page.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.network.http_scripts import Script, in_a_thread
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process
from vecsieve.proxy.demo.backends import chroma_server

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# What a program imports first, and the environment that has it.
ENVIRONMENTS = {
    "langchain_qdrant": "langchain",
    "langchain_chroma": "langchain",
    "llama_index.vector_stores.qdrant": "llamaindex",
    "haystack_integrations": "haystack_store",
    "mem0": "mem0_store",
}
# Nothing leaves this machine: no reports of use, and embeddings from the test.
QUIET = {"HAYSTACK_TELEMETRY_ENABLED": "False", "ANONYMIZED_TELEMETRY": "False", "MEM0_TELEMETRY": "False"}
SENTENCES = {"Close the valve before you start the pump.", "Grease both bearings every 2,000 hours."}


def module(program: str) -> str:
    return next(
        name for name in ENVIRONMENTS if re.search(rf"^(from|import) {re.escape(name)}\b", program, re.MULTILINE)
    )


def settings() -> dict[str, str]:
    """Those of the page's first command."""
    exports = dict(re.findall(r"^export (VECSIEVE_\w+)=(\S+)$", PAGE, re.MULTILINE))
    assert exports
    return exports


class Embeddings(Script):
    """Answers as OpenAI does. A text about pumps has one vector, any other another one."""

    def do_POST(self) -> None:
        content = json.loads(self.content())
        texts = [content["input"]] if isinstance(content["input"], str) else content["input"]
        size = content.get("dimensions", 1536)
        rows = [
            {"object": "embedding", "index": place, "embedding": [1.0, float("pump" in text)] + [0.0] * (size - 2)}
            for place, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        self.answer(json.dumps({"object": "list", "data": rows, "model": content["model"], "usage": usage}).encode())


@contextmanager
def embeddings() -> Iterator[str]:
    with in_a_thread(Embeddings) as url:
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def qdrant() -> Iterator[str]:
    with (
        start_embedded_grpc_process() as (url, rpc),
        stack.serve(url, "--grpc-upstream", rpc, environment=settings()) as (proxy, _),
    ):
        yield proxy


@pytest.fixture(scope="module")
def chroma() -> Iterator[str]:
    with chroma_server() as url, stack.serve(url, "--backend", "chroma", environment=settings()) as (proxy, _):
        yield proxy


def printed(program: str, proxy: str, home: Path) -> list[tuple[str, dict[str, object]]]:
    """The text and the metadata of each line that the program prints."""
    home_of = ROOT / ".clients" / f"framework-{ENVIRONMENTS[module(program)]}"
    python = home_of / "bin" / "python"
    if not (home_of / ".installed").exists():
        pytest.skip(f"{module(program)} is not installed: `make frameworks`")
    address = proxy.removeprefix("http://")
    host, port = address.split(":")
    script = program.replace("127.0.0.1:6343", address).replace("port=6343", f"port={port}")
    assert script != program
    assert host == "127.0.0.1"
    with embeddings() as url:
        environment = {**os.environ, **QUIET, "HOME": str(home), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        ran = subprocess.run(
            [str(python), "-c", script], env=environment, capture_output=True, text=True, timeout=110, check=False
        )
    assert ran.returncode == 0, ran.stderr
    lines = [line.partition(" {") for line in ran.stdout.splitlines() if line.endswith("}")]
    return [(text, ast.literal_eval("{" + metadata)) for text, _, metadata in lines]


@pytest.mark.parametrize("program", PROGRAMS, ids=[module(program) for program in PROGRAMS])
def test_a_program_of_the_page_gets_two_sentences_and_the_sources_of_the_copy(
    program: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    proxy: str = request.getfixturevalue("chroma" if "chroma" in program else "qdrant")
    lines = printed(program, proxy, tmp_path)
    assert lines[0][0] == "Close the valve before you start the pump."
    assert {text for text, _ in lines} == SENTENCES
    assert len(lines) == len(SENTENCES)
    note = lines[0][1]["_vecsieve"]
    read: Mapping[str, object] = json.loads(note) if isinstance(note, str) else note  # type: ignore[assignment]  # - checked below
    source = next(value for value in lines[0][1].values() if value in {"a.pdf", "b.pdf"})
    assert read["collapsed_sources"] == [({"a.pdf", "b.pdf"} - {source}).pop()]
    assert "_vecsieve" not in lines[1][1]


# What stands around the page's lines, and a model in whose eyes pumps are near a question about pumps.
JAVA = """
import io.qdrant.client.QdrantClient;
import io.qdrant.client.QdrantGrpcClient;
import java.util.List;
import java.util.Map;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.*;
import org.springframework.ai.vectorstore.SearchRequest;
import org.springframework.ai.vectorstore.qdrant.QdrantVectorStore;

final class Page {
  private static final class Model implements EmbeddingModel {
    @Override public EmbeddingResponse call(EmbeddingRequest request) {
      return new EmbeddingResponse(
          request.getInstructions().stream().map(text -> new Embedding(vector(text), 0)).toList());
    }

    @Override public float[] embed(Document document) { return vector(document.getText()); }

    @Override public int dimensions() { return 2; }

    private static float[] vector(String text) { return new float[] {1, text.contains("pump") ? 1 : 0}; }
  }

  public static void main(String[] arguments) throws Exception {
    EmbeddingModel embeddingModel = new Model();
    %s
    client.close();
  }
}
"""


def test_the_lines_for_spring_ai_get_two_sentences_and_the_sources_of_the_copy(qdrant: str, tmp_path: Path) -> None:
    jars = ROOT / ".clients" / "framework-spring_ai" / "classpath"
    if not jars.exists():
        pytest.skip("Spring AI is not installed: `make frameworks`")
    (lines,) = re.findall(r"^```java\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    source = tmp_path / "Page.java"
    source.write_text(JAVA % lines.replace("6343", qdrant.rpartition(":")[2]), encoding="utf-8")
    command = ["java", "-cp", jars.read_text(encoding="utf-8").strip(), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert ran.returncode == 0, ran.stderr
    first, second = [line for line in ran.stdout.splitlines() if line.endswith("}")]
    assert first.startswith("Close the valve before you start the pump. ")
    assert second.startswith("Grease both bearings every 2,000 hours. ")
    kept_file, other = ("a.pdf", "b.pdf") if "source=a.pdf" in first else ("b.pdf", "a.pdf")
    assert f"source={kept_file}" in first
    assert re.search(rf"_vecsieve={{[^}}]*collapsed_sources=\[{other}\]", first)
    assert "_vecsieve" not in second


def test_the_page_says_of_each_framework_whether_it_is_tested_and_stays_short() -> None:
    assert {module(program) for program in PROGRAMS} == set(ENVIRONMENTS)
    tested, _, not_run = PAGE.partition("## Not run here")
    assert not_run
    for name in ("Open WebUI", "Dify", "n8n"):
        assert f"| {name} |" in not_run
    assert len(PAGE.split()) <= 900
    assert all(f"## {name}" in tested for name in ("LangChain", "LlamaIndex", "Haystack", "mem0", "Spring AI"))
