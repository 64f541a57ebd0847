"""Each bad file is refused with exactly these lines; ``<file>`` stands for its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError

BAD = Path(__file__).parent / "bad"

HOST_PORT = "host:port such as 127.0.0.1:6343, an IPv6 host in brackets"
URL = "http or https, host and port such as http://127.0.0.1:6333, without credentials, path or query"
PREFIX = "a path such as /qdrant, without a closing slash, or nothing"
COUNT = "a whole number from 1 to 2147483647"
INDEX = "the host of an index such as docs-abc123.svc.aped-4627-b74a.pinecone.io, http(s)://host:port or none"
HOSTS = "a list of host names such as *.example.com, each once, perhaps with a port, * within one label"
PUBLIC = "http or https, host and perhaps port and path such as https://vecsieve.example.com or none"
GRPC = "host:port such as 127.0.0.1:6334, https://host:port for TLS, without credentials or path or none"
PORTS = "a mapping from ports, 1 to 65535, to hosts of indexes such as 8101: docs-abc123.svc.aped-4627-b74a.pinecone.io"
SECONDS = "a number above 0, at most 86400"
HIDDEN = "a rule that can be reached: rules[0] matches all that it matches"

MESSAGES = {
    "admin_is_listen": [
        'admin: wanted another port than listen (127.0.0.1:6343); saw "localhost:6343"',
    ],
    "admin_under_a_wildcard": [
        'admin: wanted another port than listen (0.0.0.0:6343); saw "127.0.0.1:6343"',
    ],
    "alias_bomb": [
        "<file>, line 6: wanted YAML; saw more than 20000 values once aliases are followed",
    ],
    "alias_inside_itself": [
        "<file>, line 1: wanted YAML; saw an alias inside what it stands for",
    ],
    "boolean_for_mode": [
        "mode: wanted on, shadow, off or none; saw true",
    ],
    "control_character": [
        "<file>, line 1: wanted YAML; saw a control character",
    ],
    "duplicate_key": [
        "limits.in_flight: wanted the key once; saw it again on line 4",
    ],
    "two_choosers": [
        'policy.diversify: wanted none, because mmr is given and one of the two chooses; saw "dpp"',
    ],
    "chain_without_ties": [
        "policy.chain: wanted at least one tie, because representative is chain; saw []",
    ],
    "chunks_that_swallow_each_other": [
        "policy.metadata.chunk_overlap: wanted below chunk_size (100); saw 100",
    ],
    "text_signals": [
        "policy.text.containment: wanted a number from 0 to 1 or none; saw 80",
        "policy.text.simhash: wanted a whole number from 0 to 64 or none; saw 65",
        'policy.text.require: wanted any or all; saw "both"',
        "policy.text.short_factor: wanted a number from 1 to 10; saw 0.5",
        'rules[0].policy.text: wanted {containment: …, …} or none; saw "yes"',
    ],
    "growing_threshold": [
        "policy.threshold.power: wanted a number from 0 to 4; saw -1",
        "policy.threshold.max: wanted growing, power, most, trusted, wary, least: max is of another kind of threshold; saw 0.3",
    ],
    "ties_guards_and_caps": [
        "profiles.reload_seconds: wanted a number above 0, at most 86400; saw 0",
        "explain.keep: wanted a whole number from 0 to 1000; saw -1",
        'policy.chain: wanted a list of citations, authority, recency, shorter, rank, each once; saw ["recency", "recency"]',
        "policy.caps.per_cluster: wanted a whole number from 1 to 100; saw 0",
        'policy.caps.per_document: wanted a whole number from 1 to 2147483647 or none; saw "many"',
        "policy.guards.numbers: wanted true or false; saw 1",
        "policy.guards.short_words: wanted a whole number from 1 to 2147483647; saw 0",
    ],
    "escape_out_of_range": [
        "<file>: wanted YAML; saw an escape or a directive out of range",
    ],
    "everything_at_once": [
        "mode: wanted the key once; saw it again on line 15",
        f'listen: wanted {HOST_PORT}; saw "nowhere"',
        'mode: wanted on, shadow, off or none; saw "maybe"',
        f'upstream.url: wanted {URL}; saw "ftp://qdrant"',
        "limits.conections: wanted a known key (did you mean connections?); saw 5",
        "policy.fetch.factor: wanted a number from 1 to 50; saw 0.5",
        'policy.mmr.lambda: wanted a number from 0 to 1; saw "0.5"',
        'rules[0].preset: wanted conservative, balanced, aggressive, heavy, classical, vectors, tickets or none; saw "gentle"',
        'rules[1].policy.distance: wanted auto or cosine; saw "euclid"',
        "policy.fetch.floor: wanted at most fetch.cap (200); saw 500",
        "policy.threshold.min: wanted at most max (0.1); saw 0.3",
        f'rules[1]: wanted {HIDDEN}; saw backend "*", collection "docs"',
        f'rules[2]: wanted {HIDDEN}; saw backend "*", collection "docs"',
        'rules[1].policy.order: wanted backend, because mmr and diversify are none; saw "mmr"',
    ],
    "floor_above_cap": [
        "policy.fetch.floor: wanted at most fetch.cap (200); saw 300",
    ],
    "fraction_for_count": [
        "workers: wanted a whole number from 1 to 256; saw 1.5",
    ],
    "half_a_surrogate_pair": [
        "policy.text_fields[0]: wanted text; saw half of a surrogate pair on line 1",
    ],
    "grpc": [
        f'grpc.upstream: wanted {GRPC}; saw "ftp://127.0.0.1:6334"',
        "grpc.connections: wanted a whole number from 1 to 64; saw 0",
        'admin: wanted another port than listen (127.0.0.1:6343); saw "127.0.0.1:6343"',
        'grpc.listen: wanted another port than listen (127.0.0.1:6343); saw "127.0.0.1:6343"',
        'grpc.listen: wanted another port than admin (127.0.0.1:6343); saw "127.0.0.1:6343"',
        "tls.key: wanted a file, because tls.certificate is given; saw none",
    ],
    "grpc_to_ourselves": [
        'grpc.upstream: wanted the database: listen (127.0.0.1:6343) is VecSieve itself; saw "http://localhost:6343"',
        "tls.certificate: wanted a file, because tls.key is given; saw none",
    ],
    "grpc_to_nowhere": [
        "grpc.upstream: wanted where gRPC calls go, because grpc.listen is 127.0.0.1:6344; saw none",
    ],
    "index_ports": [
        f'pinecone.index_ports.0: wanted {PORTS}; saw "0"',
        f'pinecone.index_ports.http: wanted {PORTS}; saw "http"',
        f'pinecone.index_ports.08101: wanted {PORTS}; saw "08101"',
        f'pinecone.index_ports.70000: wanted {PORTS}; saw "70000"',
        f'pinecone.index_ports.8101: wanted {PORTS}; saw "ftp://docs-abc123.svc.aped-4627-b74a.pinecone.io"',
        f"pinecone.index_ports.8102: wanted {PORTS}; saw 5",
        f'pinecone.index_ports.8103: wanted {PORTS}; saw "https://***@docs-abc123.svc.aped-4627-b74a.pinecone.io"',
        "pinecone.index_ports.8104: wanted another port than listen (127.0.0.1:8104); saw 8104",
        "pinecone.index_ports.9464: wanted another port than admin (127.0.0.1:9464); saw 9464",
        (
            "pinecone.index_host: wanted an index: pinecone.index_ports.8107 (127.0.0.1:8107) is VecSieve itself; "
            'saw "http://localhost:8107"'
        ),
        (
            "pinecone.index_ports.8106: wanted an index: pinecone.index_ports.8105 (127.0.0.1:8105) is VecSieve itself; "
            'saw "http://127.0.0.1:8105"'
        ),
        (
            "pinecone.index_ports.8105: wanted another index than pinecone.index_ports.8104 has; "
            'saw "https://A.svc.aped-4627-b74a.pinecone.io"'
        ),
    ],
    "index_ports_as_a_list": [
        f'pinecone.index_ports: wanted {PORTS}; saw ["8101=docs-abc123.svc.aped-4627-b74a.pinecone.io"]',
    ],
    "infinite_timeout": [
        f"limits.head_timeout_seconds: wanted {SECONDS}; saw Infinity",
    ],
    "key_of_two_lines": [
        "the file: wanted keys that are plain words; saw another key on line 1",
    ],
    "key_that_is_no_word": [
        "limits: wanted keys that are plain words; saw another key on line 1",
    ],
    "latin1": [
        "<file>: wanted UTF-8; saw something else at byte 25",
    ],
    "list_of_settings": [
        "<file>: wanted a mapping of settings; saw a list",
    ],
    "listen_bare_ipv6": [
        f'listen: wanted {HOST_PORT}; saw "::1:6343"',
    ],
    "listen_is_a_url": [
        f'listen: wanted {HOST_PORT}; saw "http://127.0.0.1:6343"',
    ],
    "listen_port_too_large": [
        f'listen: wanted {HOST_PORT}; saw "127.0.0.1:65536"',
    ],
    "listen_without_host": [
        f'listen: wanted {HOST_PORT}; saw ":6343"',
    ],
    "listen_without_port": [
        f'listen: wanted {HOST_PORT}; saw "0.0.0.0"',
    ],
    "longest_of_no_text": [
        "policy.text_fields: wanted at least one name, because representative is longest; saw []",
    ],
    "merge_key": [
        'rules[0].policy."<<": wanted a known key (YAML 1.2 has no merge keys: write the alias where it belongs); saw {"mmr": "none"}',
    ],
    "mmr_as_a_number": [
        "policy.mmr: wanted {lambda: …} or none; saw 0.5",
    ],
    "mmr_lambda_in_per_cent": [
        "policy.mmr.lambda: wanted a number from 0 to 1; saw 70",
    ],
    "null_section": [
        "limits: wanted a mapping; saw null",
    ],
    "number_for_text": [
        f"listen: wanted {HOST_PORT}; saw 6343",
    ],
    "number_for_a_key": [
        "limits.8: wanted a known key; saw 8",
    ],
    "number_too_long": [
        'workers: wanted a number of at most 40 characters; saw "10000000000000000000000000000000000000000000000000" on line 1',
    ],
    "order_of_no_mmr": [
        'policy.order: wanted backend, because mmr and diversify are none; saw "mmr"',
    ],
    "page_cap_below_cap": [
        "policy.fetch.page_cap: wanted at least fetch.cap (200); saw 100",
    ],
    "path_prefix_relative": [
        f'upstream.path_prefix: wanted {PREFIX}; saw "qdrant"',
    ],
    "path_prefix_with_closing_slash": [
        f'upstream.path_prefix: wanted {PREFIX}; saw "/qdrant/"',
    ],
    "pinecone_memory_of_many": [
        "pinecone.vector_memory_bytes: wanted none, because workers is 2 and a write passes through one of them; saw 67108864",
    ],
    "pinecone_that_leads_home": [
        'upstream.path_prefix: wanted nothing, because backend is pinecone; saw "/pc"',
        "workers: wanted 1, because a plain http control plane is for tests: its hosts are known to one process alone; saw 2",
    ],
    "pinecone_hosts": [
        f'pinecone.index_host: wanted {INDEX}; saw "ftp://idx.svc.x.pinecone.io"',
        f'pinecone.allowed_hosts: wanted {HOSTS}; saw ["*.example.com", "*.example.com"]',
        f'pinecone.public_url: wanted {PUBLIC}; saw "vecsieve.example.com"',
    ],
    "port_form_without_ports": [
        'pinecone.public_form: wanted path, because index_ports has none; saw "port_url"',
    ],
    "pool_idle_beyond_the_database": [
        "upstream.pool_idle_seconds: wanted a number below 5, because Qdrant closes idle connections then; saw 5.0",
    ],
    "python_tag": [
        "listen: wanted a plain mapping, list or value; saw the tag tag:yaml.org,2002:python/object/apply:os.system on line 1",
    ],
    "rule_against_the_policy": [
        "rules[0].policy.fetch.floor: wanted at most fetch.cap (40); saw 50",
        "rules[1].policy.fetch.floor: wanted at most fetch.cap (40); saw 50",
    ],
    "rule_as_text": [
        'rules[0]: wanted a mapping; saw "docs"',
    ],
    "rule_behind_a_wider_pattern": [
        f'rules[1]: wanted {HIDDEN}; saw backend "*", collection "docs-eu"',
    ],
    "rule_behind_everything": [
        f'rules[1]: wanted {HIDDEN}; saw backend "*", collection "docs"',
    ],
    "rule_for_no_backend": [
        'rules[0].backend: wanted a pattern that matches qdrant, pinecone, chroma, milvus or weaviate; saw "qrdant"',
    ],
    "rule_that_orders_by_no_mmr": [
        'rules[0].policy.order: wanted backend, because mmr and diversify are none; saw "mmr"',
    ],
    "rule_twice": [
        f'rules[2]: wanted {HIDDEN}; saw backend "*", collection "docs-*"',
    ],
    "rule_with_a_bad_value": [
        f"rules[1].policy.fetch.floor: wanted {COUNT}; saw 0",
    ],
    "rule_with_a_mode_of_its_own": [
        'rules[0].mode: wanted a known key (did you mean policy.mode?); saw "off"',
    ],
    "rule_with_an_unknown_member": [
        'rules[0].policy.tresholds: wanted a known key (did you mean threshold?); saw {"fixed": 0.1}',
    ],
    "rule_without_pattern": [
        'rules[0].collection: wanted a pattern such as docs-*; saw ""',
    ],
    "rules_as_a_mapping": [
        'rules: wanted a list; saw {"docs": {"mode": "off"}}',
    ],
    "secret_in_the_wrong_place": [
        'upstream.api_key: wanted a known key; saw "***"',
        'upstream.headers: wanted a known key; saw {"authorization": "***", "x": ["https://***@host"]}',
    ],
    "single_value": [
        "<file>: wanted a mapping of settings; saw a single value",
    ],
    "tab": [
        "<file>, line 2, column 1: wanted YAML; saw character '\\t' that cannot start any token",
    ],
    "setting_of_an_earlier_version": [
        'policy.metadata.section: wanted nothing: searches never read it, so the line can go; saw ["section_id"]',
    ],
    "tag_that_lies": [
        "workers: wanted a plain mapping, list or value; saw the tag tag:yaml.org,2002:int on line 1",
    ],
    "text_field_without_a_name": [
        'policy.text_fields[1]: wanted text that is not empty; saw ""',
    ],
    "text_fields_as_text": [
        'policy.text_fields: wanted a list of names, each once; saw "text"',
    ],
    "text_fields_twice": [
        'policy.text_fields: wanted a list of names, each once; saw ["text", "body", "text"]',
    ],
    "text_for_number": [
        f'limits.in_flight: wanted {COUNT}; saw "100"',
    ],
    "threshold_as_a_number": [
        "policy.threshold: wanted {fixed: …}, {relative: …, min: …, max: …} or {growing: …, power: …, most: …}; saw 0.15",
    ],
    "threshold_bounds_crossed": [
        "policy.threshold.min: wanted at most max (0.1); saw 0.3",
    ],
    "threshold_misspelt": [
        "policy.threshold.fixd: wanted a known key (did you mean fixed?); saw 0.15",
    ],
    "threshold_of_both_kinds": [
        "policy.threshold.relative: wanted fixed alone, or relative with min and max; saw 0.2",
    ],
    "threshold_too_far": [
        "policy.threshold.fixed: wanted a number from 0 to 2; saw 2.5",
    ],
    "timeout_in_milliseconds": [
        f"upstream.connect_timeout_seconds: wanted {SECONDS}; saw 2000000",
    ],
    "too_deep": [
        "<file>, line 1: wanted YAML; saw more than 32 levels",
    ],
    "two_documents": [
        "<file>, line 2, column 1: wanted YAML; saw another document",
    ],
    "undefined_alias": [
        "<file>, line 1, column 9: wanted YAML; saw undefined alias 'base'",
    ],
    "unknown_backend": [
        'backend: wanted qdrant, pinecone, chroma, milvus or weaviate; saw "opensearch"',
    ],
    "unknown_key": [
        "limits.conections: wanted a known key (did you mean connections?); saw 100",
    ],
    "unknown_key_like_nothing": [
        "zzz: wanted a known key; saw 1",
    ],
    "unknown_key_of_another_section": [
        "drain_seconds: wanted a known key (did you mean limits.drain_seconds?); saw 5",
    ],
    "unknown_linkage": [
        'policy.linkage: wanted single, complete, average or leader; saw "ward"',
    ],
    "unknown_preset": [
        'rules[0].preset: wanted conservative, balanced, aggressive, heavy, classical, vectors, tickets or none; saw "agressive"',
    ],
    "upstream_grpc": [
        f'upstream.url: wanted {URL}; saw "grpc://qdrant:6334"',
    ],
    "upstream_is_an_index_port": [
        (
            "upstream.url: wanted the database: pinecone.index_ports.8101 (127.0.0.1:8101) is VecSieve itself; "
            'saw "http://127.0.0.1:8101"'
        ),
    ],
    "upstream_is_listen": [
        'upstream.url: wanted the database: listen (0.0.0.0:6333) is VecSieve itself; saw "http://localhost:6333"',
    ],
    "upstream_with_credentials": [
        f'upstream.url: wanted {URL}; saw "https://***@qdrant:6333"',
    ],
    "upstream_with_path": [
        f'upstream.url: wanted {URL}; saw "http://gateway/qdrant"',
    ],
    "upstream_with_query": [
        f'upstream.url: wanted {URL}; saw "https://qdrant:6333?***"',
    ],
    "upstream_without_scheme": [
        f'upstream.url: wanted {URL}; saw "qdrant:6333"',
    ],
    "value_of_many_words": [
        'policy.linkage: wanted single, complete, average or leader; saw "the quick brown fox jumps over the lazy dog and over the lazy cat and over eve…',
    ],
    "word_for_boolean": [
        'report_header: wanted true or false; saw "yes"',
    ],
    "zero_timeout": [
        f"limits.body_timeout_seconds: wanted {SECONDS}; saw 0",
    ],
    "zero_workers": [
        "workers: wanted a whole number from 1 to 256; saw 0",
    ],
}


def test_every_bad_file_has_its_entry_and_every_entry_its_file() -> None:
    assert sorted(path.name for path in BAD.iterdir()) == sorted(f"bad.{what}.yaml" for what in MESSAGES)


@pytest.mark.parametrize("what", MESSAGES)
def test_a_bad_file_is_refused_with_its_message(what: str) -> None:
    file = BAD / f"bad.{what}.yaml"
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={}, flags={})
    assert str(caught.value).replace(str(file), "<file>").splitlines() == MESSAGES[what]


@pytest.mark.parametrize("what", MESSAGES)
def test_no_message_repeats_a_secret(what: str) -> None:
    assert "hunter2" not in "\n".join(MESSAGES[what])
