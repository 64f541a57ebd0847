"""The run: each client in its environment, directly and through a proxy in each mode, against one server of its product."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from prove.search_nodes import started
from prove.search_requests import BASES, COPIES, bases, documents
from servers.java_nodes.__main__ import fetch
from servers.opensearch.store import Product

from support.process.stack import serve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 900.0
COUNT = 8
MODES = ("off", "shadow", "on")
Seen = dict[str, list[str]]
PYTHON = {
    "langchain": ("langchain-community==0.4.2", "langchain-elasticsearch==1.0.0", "opensearch-py==3.2.0"),
    "llamaindex": ("llama-index-vector-stores-opensearch==1.3.0", "llama-index-vector-stores-elasticsearch==0.7.0"),
}
JAVA = {
    Product.OPENSEARCH: ("OpenSearch.java", "org.opensearch.client:opensearch-java:3.9.0"),
    Product.ELASTICSEARCH: ("Elasticsearch.java", "co.elastic.clients:elasticsearch-java:9.5.6"),
}
NEEDS = {"js": "npm", "java": "Maven and a JDK"}
JAVASCRIPT = ("@opensearch-project/opensearch@3.9.0", "@elastic/elasticsearch@9.5.1")


def plan() -> dict[str, Any]:
    """Passages with copies, a query near several of them, and a number of results."""
    passages = [
        {"id": name, "text": source["text"], "vector": source["v"], "page": int(name[1:].partition("-")[0]) % 5}
        for name, source in documents(COPIES)
    ]
    query = [round(0.9**place, 4) for place in range(BASES)] @ bases()
    return {"passages": passages, "query": [round(float(value), 5) for value in query], "count": COUNT}


def installed(home: Path, packages: Sequence[str], *commands: Sequence[str]) -> None:
    """An environment, made once by these commands and kept for its versions."""
    done = home / ".installed"
    if not done.exists() or done.read_text() != "\n".join(packages):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for command in commands:
            subprocess.run(command, cwd=home, check=True, timeout=SECONDS)
        done.write_text("\n".join(packages))


def python(name: str, folder: Path) -> list[str]:
    home = folder / f"search-{name}"
    program = str(home / "bin" / "python")
    pip = [program, "-m", "pip", "install", "--quiet", *PYTHON[name]]
    installed(home, PYTHON[name], [sys.executable, "-m", "venv", "."], pip)
    return [program, str(HERE / "stores.py")]


def javascript(folder: Path) -> list[str]:
    """Of both products. Empty without npm."""
    if shutil.which("npm") is None:
        return []
    home = folder / "search-js"
    npm = ["npm", "install", "--prefix", ".", "--silent", "--no-audit", "--no-fund", *JAVASCRIPT]
    installed(home, JAVASCRIPT, npm)
    shutil.copy(HERE / "clients.mjs", home)  # imports are found from the file's own folder
    return ["node", str(home / "clients.mjs")]


def java(product: Product, folder: Path) -> list[str]:
    """Empty without Maven and a JDK, which compiles the source file itself."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        return []
    home, (source, artifact) = folder / f"search-java-{product.value}", JAVA[product]
    installed(home, [artifact])
    if not list(home.glob("*.jar")):
        fetch([artifact], home)
    return ["java", "-cp", f"{home}/*", str(HERE / source)]


def faults(seen: Mapping[str, Seen]) -> list[str]:
    """What a client saw and must not see. ``seen``: by mode, and directly."""
    direct, on = seen["direct"], seen["on"]
    differences = [
        f"{mode}: {name}" for mode in ("off", "shadow") for name in direct if seen[mode][name] != direct[name]
    ]
    for name, texts in direct.items():
        if len(set(texts)) == len(texts):
            differences += [f"on: {name} differs"] if on[name] != texts else []
        elif len(set(on[name])) != len(on[name]) or len(on[name]) != len(texts):
            differences.append(
                f"on: {name} has {len(set(on[name]))} distinct results of {len(on[name])}, directly {len(texts)}"
            )
    return differences


def client_outcomes(command: Sequence[str], kind: str, url: str, index: str, plan_file: Path) -> Seen:
    done = subprocess.run(
        [*command, kind, url, index, str(plan_file)], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if done.returncode:
        raise RuntimeError(f"{kind} at {index}: {done.stderr[-3000:]}")
    seen: Seen = json.loads(done.stdout)
    return seen


def main() -> int:
    """Run; 1 when anything was seen that must not be."""
    folder, status = (ROOT / ".clients").resolve(), 0
    shared = {name: python(name, folder) for name in PYTHON} | {"js": javascript(folder)}
    for product in Product:
        commands = {**shared, "java": java(product, folder)}
        with tempfile.TemporaryDirectory() as place, ExitStack() as opened:
            plan_file = Path(place, "plan.json")
            plan_file.write_text(json.dumps(plan()), encoding="utf-8")
            url = opened.enter_context(started(product))
            urls = {"direct": url} | {
                mode: opened.enter_context(serve(url, "--backend", product.value, "--mode", mode))[0] for mode in MODES
            }
            for name, command in commands.items():
                kind = f"{name}-{product.value}"
                if not command:
                    sys.stdout.write(f"{kind}: SKIPPED, what it is installed with is not here ({NEEDS[name]})\n")
                    continue
                seen = {
                    mode: client_outcomes(command, kind, address, f"{kind}-{mode}", plan_file)
                    for mode, address in urls.items()
                }
                differences = faults(seen)
                copies = sum(len(set(texts)) < len(texts) for texts in seen["direct"].values())
                sys.stdout.write(
                    f"{kind}: {len(seen['direct'])} calls, {copies} with copies directly: {'; '.join(differences) or 'as directly; distinct and full'}\n"
                )
                status |= int(bool(differences) or not copies)
    return status
