# One command per chore. `make demo` and `make test` set up what they need in .venv first.
PYTHON ?= python3
BIN := .venv/bin
PINS = --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make requirements'

.PHONY: demo test check bench public-benchmark redundant-corpus prove memory-soak analyze sweep killed-sweep killed-gate model-gate runners fuzz quality cases gates harness other-words clients frameworks calls grpc-clients go-client congruence java-nodes search-nodes real-servers deep pictures inspector format clean

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

.venv/.demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[demo]'
	touch $@

demo: .venv/.demo
	$(BIN)/vecsieve demo

test: .venv/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py tests/test_imports.py

# Every section; a few of them: python -m tests.bench search-384 small [--quick].
bench: .venv/.installed
	$(BIN)/python -m tests.bench

# Faults, kills, restarts, overload and a soak, more than an hour; writes build/proof.md. Then the write gate against its model, as long. QUICK=--quick: shorter.
prove: .venv/.installed
	$(BIN)/python -m tests.prove $(QUICK)
	$(MAKE) model-gate STEPS=$(if $(QUICK),2000,100000)

# The feature memory under writes, recreations and alias switches beside a process without one: ten minutes, or SECONDS=60.
memory-soak: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m prove.memory_soak $(or $(SECONDS),600)

# `vecsieve sweep` over planted copies: what it finds, and what it takes; POINTS=1000000 for more, KILLS=4 for kills on the way.
# RUNNERS="local ray", after `make runners`: the join of both, which must find the same.
sweep: .venv/.installed
	KILLS=$(or $(KILLS),0) PYTHONPATH=tests:.:.clients/daft $(BIN)/python -m prove.planted_sweep $(or $(POINTS),200000) $(or $(KEEP),newest) $(RUNNERS)

# `vecsieve analyze` over the same planted copies; POINTS=1000000 for more.
analyze: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m prove.planted_analyze $(or $(POINTS),100000)

# `vecsieve sweep --apply` on the embedded engine, killed four times, and `vecsieve undo`; POINTS=100000 for more.
killed-sweep: .venv/.installed
	PYTHONHASHSEED=0 PYTHONPATH=tests:. $(BIN)/python -m prove.killed_sweep $(or $(POINTS),20000)

# The write gate against a model: two clients, kills, undo and sweep in any order, a minute for 100,000 steps of a database and mode. ONLY="qdrant milvus:skip";
# SEED=… plays one sequence again.
model-gate: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m prove.model_gate $(or $(STEPS),100000) $(ONLY)

# Upserts with 30 % copies through the write gate (skip, merge, reject) under kill -9, restarts of the database and broken connections: every
# database, an hour or more. ONLY="chroma milvus:skip"; TOGETHER=3: up to so many points in a write; WEAVIATE_SERVER=path, or an emulator.
killed-gate: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m prove.killed_gate $(or $(UPSERTS),10000) $(or $(TOGETHER),1) $(ONLY)

# The join of `vecsieve sweep --runner ray`, by Daft alone and on a Ray of its own: the pairs that DuckDB finds. 600 MB beside the environment.
runners: .venv/.installed
	$(BIN)/pip install --quiet --target .clients/daft 'daft[ray]>=0.7'
	PYTHONPATH=.clients/daft $(BIN)/python -m pytest -q --timeout 600 tests/unit/proxy/jobs/pairs/test_joining.py
	SWEEP_ON_RAY=1 PYTHONPATH=.clients/daft $(BIN)/python -m pytest -q --timeout 600 tests/unit/proxy/jobs/pairs/test_joining.py

# Coverage-guided, a minute for each reader of strangers' bytes; SECONDS_EACH=600 before a release. Inputs that fail are kept in
# .fuzz-findings. Atheris, which has no wheel for some systems, lies beside the environment and not in it.
fuzz: .venv/.installed
	$(BIN)/pip install --quiet --target .clients/atheris atheris==3.0.0
	PYTHONPATH=.clients/atheris $(BIN)/python -m tests.fuzz --seconds $${SECONDS_EACH:-60} $(TARGETS)

# The labelled sets' tables; needs VECSIEVE_EVAL_DATA, or the sets beside the checkout.
quality: .venv/.installed
	$(BIN)/vecsieve evaluate "$${VECSIEVE_EVAL_DATA:-../shared/data}"

# A file of cases, or its folder, through the running proxy, in every layout of payloads: DATA=…/cases; ARGS="--layout text --show --most-lost 3".
cases: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m quality.proxied_cases $(or $(DATA),$${VECSIEVE_EVAL_DATA:-../shared/data}/cases) $(ARGS)

# Acceptance gates, pass or fail: DATA=a folder of labelled sets, without it a set with seeded copies; ARGS="--policy own=exact --top-k 8".
gates: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m quality.gates $(DATA) $(ARGS)

# chunking_evaluation through a real Qdrant engine and a real Chroma server: DATA=its folder; ARGS="--embed MODULE:FUNCTION --size 200 --overlap 50".
public-benchmark: .venv/.installed
	PYTHONPATH=tests:.:$${PYTHONPATH:-.} $(BIN)/python -m quality.public_benchmark $${DATA:?names the folder of the benchmark} $(ARGS)

# A redundant corpus in the manner of RARE from a labelled set: SET=../shared/data/hotpot, FOLDER=build/redundant; then vecsieve evaluate build/redundant --top-k 10.
redundant-corpus: .venv/.installed
	PYTHONPATH=tests:.:$${PYTHONPATH:-.} $(BIN)/python -m quality.redundant_corpus $${SET:?names the folder of a labelled set} $${FOLDER:?names a folder to write} $(ARGS)

# The labelled sets under one preset, quickly, by embedding: ARGS="--preset exact --embedding minilm --show 3".
harness: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m quality.harness $(ARGS)

# Pairs of sentences that differ at one place: how many lose one. EMBED=module:function embeds a list of texts; EMBEDDINGS: the same of the labelled sets.
other-words: .venv/.installed
	PYTHONPATH=tests:.:$${PYTHONPATH:-.} $(BIN)/python -m quality.other_words $${EMBED:?names module:function} $(EMBEDDINGS)

# Every major of Pinecone's Python and TypeScript clients, each in an environment of its own; needs npm. An older Chroma. Stores and
# clients of OpenSearch and Elasticsearch; those for Java need Maven and a JDK of 17 or newer.
clients: .venv/.installed
	$(BIN)/python -m tests.pinecone_majors
	$(BIN)/python -m tests.chroma_older
	$(BIN)/python -m tests.milvus_standalone
	$(BIN)/python -m tests.search_clients
	$(PYTHON) -m venv .clients/weaviate-4.23.1
	.clients/weaviate-4.23.1/bin/pip install --quiet weaviate-client==4.23.1
	$(BIN)/python -m pytest -q tests/clients/test_weaviate_through_the_proxy.py

# What retrieval frameworks store, written by the real libraries, each in an environment of its own, into tests/golden/layouts. Needs npm, a
# JDK of 17 or newer and Maven for those of JavaScript and Java. ONLY="mem0 langchain4j".
frameworks: .venv/.installed
	$(BIN)/python -m tests.frameworks $(ONLY)

# docs/calls.md: what VecSieve does with each call of the official Python clients, all of which must be there (`make clients`: Weaviate's).
calls: .venv/.installed
	$(BIN)/python -m tests.calls

# Qdrant's clients for Go, JavaScript and Java over gRPC, those that can be had here. Go: GOFLAGS=-modfile=… where the modules
# lie elsewhere. Java: JAVA_CLIENT_CLASSPATH names the jars of io.qdrant:client, a gRPC transport and gson.
grpc-clients: .venv/.installed
	$(BIN)/python -m tests.foreign_clients

go-client: .venv/.installed
	$(BIN)/python -m tests.foreign_clients go

# The tests by which qdrant-client compares its in-memory mode with a server: directly, and through the proxy in every mode, over
# REST and gRPC. Needs a checkout of qdrant-client. ARGS: "--rest URL --grpc URL" for a server of your own, "--mode on".
congruence: .venv/.installed
	QDRANT_CLIENT_CHECKOUT=$${QDRANT_CLIENT_CHECKOUT:?names a checkout of qdrant-client} $(BIN)/python -m tests.congruence $(ARGS)

# OpenSearch with k-NN and Elasticsearch from their libraries, into .clients; needs Maven and a JDK of 21 or newer (JAVA_HOME). For the
# next: OPENSEARCH_SERVER=.clients/opensearch/bin/opensearch ELASTICSEARCH_SERVER=.clients/elasticsearch/bin/elasticsearch.
java-nodes: .venv/.installed
	$(BIN)/python tests/servers/java_nodes $(ONLY)

# Generated requests of OpenSearch and Elasticsearch, directly and in every mode, on the real nodes where the two variables name them:
# COUNT=20000; ARGS="--only opensearch --seed 7".
search-nodes: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m prove.search_nodes $(or $(COUNT),2000) $(ARGS)

# The vendors' own servers, directly and in every mode: WEAVIATE_SERVER=path, QDRANT_SERVER=path, OPENSEARCH_SERVER, ELASTICSEARCH_SERVER. Nothing is downloaded or built (tests/real_servers).
real-servers: .venv/.installed
	$(BIN)/python -m tests.real_servers

# The dashboards under mixed load, drawn from a real Prometheus into docs/dashboards: two minutes.
pictures: .venv/.installed
	PYTHONPATH=tests:. $(BIN)/python -m live.pictures
	PYTHONPATH=tests:. $(BIN)/python -m support.jobs.demo_picture

# The inspector in a real Chromium, Debian's; pictures of every view in build/inspector.
inspector: .venv/.installed
	command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium
	PICTURES=build/inspector $(BIN)/python -m pytest -q -m '' tests/clients/test_inspector_in_a_browser.py

# Property tests at length, every test that is too long for each change, and 10,000 writes against an upstream that drops connections at random.
deep: .venv/.installed
	HYPOTHESIS_PROFILE=deep PUTS=10000 $(BIN)/python -m pytest --timeout 3000 -o addopts= --import-mode=importlib -m '' tests/unit tests/laws tests/faults tests/transparency tests/fuzz tests/prove tests/quality tests/clients/test_any_search.py tests/clients/test_memory_life.py
	$(BIN)/python -m pytest --timeout 3000 -m deep tests/clients

# What the image holds, as CycloneDX: its libraries, by its own pins, in an environment of their own.
sbom:
	$(PYTHON) -m venv --clear build/tools
	$(PYTHON) -m venv --clear --without-pip build/image
	build/tools/bin/pip install --quiet 'cyclonedx-bom>=7.5,<8'
	build/tools/bin/pip --python build/image/bin/python install --quiet --require-hashes --only-binary :all: --no-deps --requirement deploy/requirements.txt
	build/tools/bin/pip --python build/image/bin/python install --quiet --no-deps .
	mkdir -p dist
	build/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file dist/vecsieve.cdx.json build/image/bin/python

# The image's pins, as they are where they still fit; `make requirements UPGRADE=--upgrade` takes the newest of everything.
requirements:
	$(PYTHON) -m venv --clear build/tools
	build/tools/bin/pip install --quiet uv
	build/tools/bin/uv pip compile $(PINS) --extra otel --output-file deploy/requirements.txt pyproject.toml
	echo 'setuptools>=77' | build/tools/bin/uv pip compile $(PINS) --output-file deploy/build-requirements.txt -

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .clients build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz-findings .bench
