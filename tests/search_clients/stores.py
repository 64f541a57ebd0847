"""What a store sees: run by its own interpreter as ``stores.py KIND URL INDEX PLAN``; prints one JSON object: searches -> texts.

It knows nothing of the project. The plan has passages with their vectors, a query vector and a number of results.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def langchain_opensearch(url: str, index: str, plan: Json) -> Json:
    """Exact scripts and approximate k-NN, with and without a filter."""
    kind = import_module("langchain_community.vectorstores").OpenSearchVectorSearch
    texts, vectors = (
        [passage["text"] for passage in plan["passages"]],
        [passage["vector"] for passage in plan["passages"]],
    )
    ids, data = (
        [passage["id"] for passage in plan["passages"]],
        [{"page": passage["page"]} for passage in plan["passages"]],
    )
    options = {"opensearch_url": url, "index_name": index, "engine": "lucene", "space_type": "cosinesimil", "ids": ids}
    store = kind.from_embeddings(vectors, texts, embeddings(plan), metadatas=data, **options)
    store.client.indices.refresh(index=index)
    query, count = plan["query"], plan["count"]
    script = {"search_type": "script_scoring", "space_type": "cosinesimil"}
    painless = {"search_type": "painless_scripting", "space_type": "cosineSimilarity"}
    return {
        "approximate": contents(store.similarity_search_by_vector(query, count)),
        "filtered": contents(store.similarity_search_by_vector(query, count, efficient_filter={"range": {"metadata.page": {"gte": 2}}})),
        "script": contents(store.similarity_search_by_vector(query, count, **script)),
        "painless": contents(store.similarity_search_by_vector(query, count, **painless)),
    }  # fmt: skip


def langchain_elasticsearch(url: str, index: str, plan: Json) -> Json:
    """Its dense strategy, with and without a filter."""
    kind = import_module("langchain_elasticsearch").ElasticsearchStore
    store = kind(index, embedding=embeddings(plan), es_url=url)
    pairs = [(passage["text"], passage["vector"]) for passage in plan["passages"]]
    ids, data = (
        [passage["id"] for passage in plan["passages"]],
        [{"page": passage["page"]} for passage in plan["passages"]],
    )
    store.add_embeddings(pairs, metadatas=data, ids=ids)
    search = store.similarity_search_by_vector_with_relevance_scores
    pages = [{"range": {"metadata.page": {"gte": 2}}}]
    return {
        "dense": contents(document for document, _ in search(plan["query"], plan["count"])),
        "filtered": contents(document for document, _ in search(plan["query"], plan["count"], filter=pages)),
    }


def llamaindex_opensearch(url: str, index: str, plan: Json) -> Json:
    """Its store over the client of its own."""
    module = import_module("llama_index.vector_stores.opensearch")
    dimension = len(plan["query"])
    client = module.OpensearchVectorClient(url, index, dimension, engine="lucene", space_type="cosinesimil")
    return _of_llamaindex(module.OpensearchVectorStore(client), plan)


def llamaindex_elasticsearch(url: str, index: str, plan: Json) -> Json:
    """Its store, which asks for the top level's k-NN."""
    module = import_module("llama_index.vector_stores.elasticsearch")
    return _of_llamaindex(module.ElasticsearchStore(index_name=index, es_url=url), plan)


def _of_llamaindex(store: Any, plan: Json) -> Json:
    kind = import_module("llama_index.core.schema").TextNode
    query = import_module("llama_index.core.vector_stores").VectorStoreQuery
    nodes = [kind(id_=passage["id"], text=passage["text"], embedding=passage["vector"]) for passage in plan["passages"]]
    store.add(nodes)
    answer = store.query(query(query_embedding=plan["query"], similarity_top_k=plan["count"]))
    return {"query": [node.get_content() for node in answer.nodes]}


def contents(documents: Any) -> list[str]:
    return [document.page_content for document in documents]


def embeddings(plan: Json) -> Any:
    """Of the library's own interface, for the length of vectors alone: the plan has them."""
    return import_module("langchain_core.embeddings").FakeEmbeddings(size=len(plan["query"]))


STORES = {
    "langchain-opensearch": langchain_opensearch,
    "langchain-elasticsearch": langchain_elasticsearch,
    "llamaindex-opensearch": llamaindex_opensearch,
    "llamaindex-elasticsearch": llamaindex_elasticsearch,
}

if __name__ == "__main__":
    name, address, place, plan_file = sys.argv[1:]
    seen = STORES[name](address, place, json.loads(Path(plan_file).read_text(encoding="utf-8")))
    sys.stdout.write(json.dumps(seen))
