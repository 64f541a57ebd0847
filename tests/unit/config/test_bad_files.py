"""Each bad file is refused with exactly these lines; ``<file>`` stands for its path. Line numbers of values are left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError

BAD = Path(__file__).parent / "bad"

HOST_PORT = "host:port such as 127.0.0.1:6343, an IPv6 host in brackets"
URL = "http or https, host, port and perhaps a path such as http://127.0.0.1:6333, without credentials or query"
HOOK = "http or https, host, port and perhaps a path such as https://example.com/hook, without credentials or query or none"
PREFIX = "a path such as /qdrant, without a closing slash, or nothing"
COUNT = "a whole number from 1 to 2147483647"
INDEX = "the host of an index such as docs-abc123.svc.aped-4627-b74a.pinecone.io, http(s)://host:port or none"
HOSTS = "a list of host names such as *.example.com, each once, perhaps with a port, * within one label"
PUBLIC = "http or https, host and perhaps port and path such as https://vecsieve.example.com or none"
GRPC = "host:port such as 127.0.0.1:6334, https://host:port for TLS, without credentials or path or none"
PORTS = "a mapping from ports, 1 to 65535, to hosts of indexes such as 8101: docs-abc123.svc.aped-4627-b74a.pinecone.io"
SECONDS = "a number above 0, at most 86400"
BESIDE = "none, because threshold decides where there are no texts: leave one of the two out"
HIDDEN = "a rule that can be reached: rules[0] matches all that it matches"
PRESETS = "default, exact, meaning, vectors or classical"
CERTAINTY = "none, a number from 0 to 1, or {first: …, last: …}"
CUSTOM = "module:function, importable here, because merge is custom"

MESSAGES = {
    "admin_is_listen": [
        'admin: wanted another port than listen (127.0.0.1:6343); saw "localhost:6343"',
    ],
    "webhook_to_ourselves": [
        'webhook.url: wanted a receiver of events: listen (127.0.0.1:6343) is VecSieve itself; saw "http://localhost:6343"',
        "webhook.secret_file: wanted a file, because webhook.url is given; saw none",
    ],
    "webhook_with_a_query": [
        f'webhook.url: wanted {HOOK}; saw "https://***@example.com/hook?***"',
    ],
    "write_tiers_crossed": [
        "policy.write.related: wanted below semantic (0.9); saw 0.95",
    ],
    "write_mode_unknown": [
        'policy.write.mode: wanted off, observe, annotate, skip, merge or reject; saw "replace"',
        'policy.write.merge: wanted keep-newest, keep-oldest, keep-longest, keep-highest-confidence, merge or custom; saw "newest". Did you mean "keep-newest"?',
    ],
    "write_skip_without_a_journal": [
        'policy.write.mode: wanted off, observe or annotate: skip changes what is stored, and journal.path is none; saw "skip"',
    ],
    "write_custom_policy": [
        f"policy.write.custom: wanted {CUSTOM} (ValueError); saw none",
        f'rules[0].policy.write.custom: wanted {CUSTOM} (ModuleNotFoundError); saw "nowhere_to_be_found:choose"',
        f'rules[1].policy.write.custom: wanted {CUSTOM} (AttributeError); saw "json:nothing"',
    ],
    "admin_under_a_wildcard": [
        'admin: wanted another port than listen (0.0.0.0:6343); saw "127.0.0.1:6343"',
    ],
    "alias_bomb": [
        "<file>:6: wanted YAML; saw more than 100000 values once aliases are followed",
    ],
    "alias_inside_itself": [
        "<file>:1: wanted YAML; saw an alias inside its own anchor",
    ],
    "canary": [
        "canary.share: wanted a number from 0 to 1; saw 10",
        'canary.keys[0]: wanted the SHA-256 digest of a key, 64 hexadecimal digits; saw "***"',
        'canary.clients[1]: wanted an address or a network such as 10.1.0.0/16; saw "example.com"',
    ],
    "canary_in_mode_on": [
        'canary: wanted none, because mode is on for all searches: mode: shadow is what it starts from; saw {"share": 0.1}',
    ],
    "boolean_for_mode": [
        "mode: wanted on, shadow, off or none; saw true",
    ],
    "control_character": [
        "<file>:1: wanted YAML; saw a control character",
    ],
    "duplicate_key": [
        "limits.in_flight: wanted the key once; saw it again",
    ],
    "two_choosers": [
        "policy.dpp: wanted none, because mmr is given and one of the two chooses; saw 0.4",
    ],
    "chain_without_ties": [
        "policy.chain: wanted at least one tie, because representative is chain; saw []",
    ],
    "chunks_that_swallow_each_other": [
        "policy.metadata.chunk_overlap: wanted below chunk_size (100); saw 100",
    ],
    "texts_and_rewordings": [
        'policy.texts: wanted exact, said, edited or none; saw "all"',
        'policy.rewordings: wanted a number from 0 to 1 or none; saw "often"',
        'unknown setting "rules[1].policy.text". Did you mean "texts"?',
        'unknown setting "rules[1].policy.guards"',
        'unknown setting "rules[1].policy.stitch"',
        "rules[0].policy.rewordings: wanted none, because texts is none and rewordings are read in texts; saw 0.36",
    ],
    "certainty_out_of_range": [
        f"policy.certainty: wanted {CERTAINTY}; saw 90",
        f"rules[0].policy.certainty: wanted {CERTAINTY}; saw -0.1",
        "rules[1].policy.certainty.first: wanted a number from 0 to 1; saw 1.5",
    ],
    "certainty_under_a_threshold": [
        f"rules[0].policy.certainty: wanted {BESIDE}; saw 0.9",
    ],
    "certainty_beside_a_threshold": [
        f"policy.certainty: wanted {BESIDE}; saw 0.9",
        f'rules[0].policy.certainty: wanted {BESIDE}; saw {{"first": 0.9, "last": 0.5}}',
    ],
    "names_of_rules": [
        'rules[1].name: wanted 1 to 32 lower-case letters, digits, - and _ such as tickets or none; saw "Help Desk"',
        'rules[2].name: wanted a name of its own: rules[0] has this one; saw "tickets"',
        'rules[3].name: wanted another name: default, unnamed or other have a meaning; saw "default"',
    ],
    "certainty_that_is_no_number": [
        f'policy.certainty: wanted {CERTAINTY}; saw "high"',
        f"rules[0].policy.certainty: wanted {CERTAINTY}; saw true",
        f"rules[2].policy.certainty: wanted {CERTAINTY}; saw [0.9, 0.4]",
        'rules[3].policy.certainty.first: wanted a number from 0 to 1; saw "0.9"',
        'unknown setting "rules[3].policy.certainty.lats". Did you mean "last"?',
    ],
    "ties_and_caps": [
        "profiles.online: wanted true or false; saw 0",
        "explain.keep: wanted a whole number from 0 to 1000 or none; saw -1",
        'policy.chain: wanted a list of citations, authority, recency, shorter, rank, each once; saw ["recency", "recency"]',
        "policy.caps.per_cluster: wanted a whole number from 1 to 100; saw 0",
        'policy.caps.per_document: wanted a whole number from 1 to 2147483647 or none; saw "many"',
    ],
    "escape_out_of_range": [
        "<file>: wanted YAML; saw an escape or a directive out of range",
    ],
    "everything_at_once": [
        "mode: wanted the key once; saw it again",
        f'listen: wanted {HOST_PORT}; saw "nowhere"',
        'mode: wanted on, shadow, off or none; saw "maybe"',
        f'upstream.url: wanted {URL}; saw "ftp://qdrant"',
        'unknown setting "limits.conections". Did you mean "connections"?',
        "policy.fetch.factor: wanted a number from 1 to 50; saw 0.5",
        'policy.mmr.lambda: wanted a number from 0 to 1; saw "0.5"',
        'rules[0].preset: wanted default, exact, meaning, vectors, classical or none; saw "gentle"',
        'rules[1].policy.distance: wanted auto or cosine; saw "euclid"',
        "policy.fetch.floor: wanted at most fetch.cap (256); saw 500",
        "policy.threshold.min: wanted at most max (0.1); saw 0.3",
        f'rules[1]: wanted {HIDDEN}; saw backend "*", collection "docs"',
        f'rules[2]: wanted {HIDDEN}; saw backend "*", collection "docs"',
        'rules[1].policy.order: wanted backend, because mmr and dpp are none; saw "mmr"',
    ],
    "floor_above_cap": [
        "policy.fetch.floor: wanted at most fetch.cap (256); saw 300",
    ],
    "fraction_for_count": [
        "workers: wanted a whole number from 1 to 256; saw 1.5",
    ],
    "half_a_surrogate_pair": [
        "policy.text_fields[0]: wanted text; saw half of a surrogate pair",
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
        "the file: wanted keys that are plain words; saw another key",
    ],
    "key_that_is_no_word": [
        "limits: wanted keys that are plain words; saw another key",
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
        'unknown setting "limits.8"',
    ],
    "number_too_long": [
        'workers: wanted a number of at most 40 characters; saw "10000000000000000000000000000000000000000000000000"',
    ],
    "order_of_no_mmr": [
        'policy.order: wanted backend, because mmr and dpp are none; saw "mmr"',
    ],
    "page_cap_below_cap": [
        "policy.fetch.page_cap: wanted at least fetch.cap (256); saw 100",
    ],
    "path_prefix_relative": [
        f'upstream.path_prefix: wanted {PREFIX}; saw "qdrant"',
    ],
    "path_prefix_with_closing_slash": [
        f'upstream.path_prefix: wanted {PREFIX}; saw "/qdrant/"',
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
        "listen: wanted a plain mapping, list or value; saw the tag tag:yaml.org,2002:python/object/apply:os.system",
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
        'rules[0].backend: wanted a pattern that matches qdrant, pinecone, chroma, milvus, weaviate, opensearch or elasticsearch; saw "qrdant"',
    ],
    "rule_that_orders_by_no_mmr": [
        'rules[0].policy.order: wanted backend, because mmr and dpp are none; saw "mmr"',
    ],
    "rule_twice": [
        f'rules[2]: wanted {HIDDEN}; saw backend "*", collection "docs-*"',
    ],
    "rule_with_a_bad_value": [
        f"rules[1].policy.fetch.floor: wanted {COUNT}; saw 0",
    ],
    "rule_with_a_mode_of_its_own": [
        'unknown setting "rules[0].mode". Did you mean "policy.mode"?',
    ],
    "rule_with_an_unknown_member": [
        'unknown setting "rules[0].policy.tresholds". Did you mean "threshold"?',
    ],
    "rule_without_pattern": [
        'rules[0].collection: wanted a pattern such as docs-*; saw ""',
    ],
    "rules_as_a_mapping": [
        'rules: wanted a list; saw {"docs": {"mode": "off"}}',
    ],
    "secret_in_the_wrong_place": [
        'unknown setting "upstream.api_key"',
        'unknown setting "upstream.headers"',
    ],
    "single_value": [
        "<file>: wanted a mapping of settings; saw a single value",
    ],
    "tab": [
        "<file>:2:1: wanted YAML; saw character '\\t' that cannot start any token",
    ],
    "tag_that_lies": [
        "workers: wanted a plain mapping, list or value; saw the tag tag:yaml.org,2002:int",
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
        "policy.threshold: wanted {fixed: …} or {relative: …, min: …, max: …} or none; saw 0.15",
    ],
    "threshold_bounds_crossed": [
        "policy.threshold.min: wanted at most max (0.1); saw 0.3",
    ],
    "threshold_misspelt": [
        'unknown setting "policy.threshold.fixd". Did you mean "fixed"?',
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
        "<file>:1: wanted YAML; saw more than 32 levels",
    ],
    "two_documents": [
        "<file>:2:1: wanted YAML; saw another document",
    ],
    "undefined_alias": [
        "<file>:1:9: wanted YAML; saw undefined alias 'base'",
    ],
    "unknown_backend": [
        'backend: wanted qdrant, pinecone, chroma, milvus, weaviate, opensearch or elasticsearch; saw "vespa"',
    ],
    "unknown_key": [
        'unknown setting "limits.conections". Did you mean "connections"?',
    ],
    "unknown_key_like_nothing": [
        'unknown setting "zzz"',
    ],
    "unknown_key_of_another_section": [
        'unknown setting "drain_seconds". Did you mean "limits.drain_seconds"?',
    ],
    "unknown_linkage": [
        'policy.linkage: wanted single, complete, average or leader; saw "ward"',
    ],
    "unknown_preset": [
        'rules[0].preset: wanted default, exact, meaning, vectors, classical or none; saw "meanings". Did you mean "meaning"?',
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
    "upstream_with_odd_path": [
        f'upstream.url: wanted {URL}; saw "http://gateway//qdrant"',
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
    "word_of_a_list": [
        (
            "forbidden_overrides[0]: wanted mode, certainty, distance_threshold, relative_threshold, linkage, mmr_lambda, representative, order, "
            'fetch_k, collapsed, per_retriever, session, across or token_budget; saw "mod". Did you mean "mode"?'
        ),
        'policy.chain[1]: wanted citations, authority, recency, shorter or rank; saw "shortest". Did you mean "shorter"?',
    ],
}


def test_every_bad_file_has_its_entry_and_every_entry_its_file() -> None:
    assert sorted(path.name for path in BAD.iterdir()) == sorted(f"bad.{what}.yaml" for what in MESSAGES)


# Files that cannot be read, and settings that contradict a default alone: there is no line to name.
WITHOUT_A_LINE = {"escape_out_of_range", "latin1", "list_of_settings", "single_value"}


@pytest.mark.parametrize("what", MESSAGES)
def test_a_bad_file_is_refused_with_its_messages_each_of_which_names_the_file_and_the_line(what: str) -> None:
    file = BAD / f"bad.{what}.yaml"
    lines = file.read_bytes().count(b"\n") + 1
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={}, flags={})
    without = str(caught.value).replace(str(file), "<file>")
    assert re.sub(r"(?m)^<file>:\d+: (?!wanted YAML)", "", without).splitlines() == MESSAGES[what]
    for said in () if what in WITHOUT_A_LINE else str(caught.value).splitlines():
        named = re.match(rf"{re.escape(str(file))}:(\d+)(:\d+)?: ", said)
        assert named is not None, said
        assert 1 <= int(named[1]) <= lines


def test_no_message_repeats_a_secret() -> None:
    assert [what for what, said in MESSAGES.items() if "hunter2" in "\n".join(said)] == []
