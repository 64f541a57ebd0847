from __future__ import annotations

import numpy as np

from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.candidates import from_pool

SEARCH = Search(top_k=2, offset=0, pages=False, query=np.ones(3, dtype=np.float32))


def pool(*fields: tuple[bytes | None, ...]) -> Pool:
    n = len(fields)
    return Pool(
        scores=np.arange(n, dtype=np.float64),
        vectors=np.zeros((n, 3), dtype=np.float32),
        magnitude=True,
        fields=fields,
    )


def test_equal_tenant_values_get_equal_numbers_and_different_ones_differ() -> None:
    tenants = from_pool(pool((b'"a"',), (b'"b"',), (b'"a"',)), SEARCH, tenant_keys=1).tenants
    assert tenants is not None
    assert tenants[0] == tenants[2] != tenants[1]


def test_a_candidate_without_its_tenant_key_shares_a_tenant_with_nobody() -> None:
    tenants = from_pool(pool((None,), (b'"a"',), (None,)), SEARCH, tenant_keys=1).tenants
    assert tenants is not None
    assert len(set(tenants.tolist())) == 3


def test_every_tenant_key_must_be_equal() -> None:
    rows = ((b'"a"', b"1"), (b'"a"', b"2"), (b'"a"', b"1"))
    tenants = from_pool(pool(*rows), SEARCH, tenant_keys=2).tenants
    assert tenants is not None
    assert tenants[0] == tenants[2] != tenants[1]


def test_two_spellings_of_one_value_are_kept_apart() -> None:
    tenants = from_pool(pool((b"1",), (b"1.0",)), SEARCH, tenant_keys=1).tenants
    assert tenants is not None
    assert tenants[0] != tenants[1]


def test_without_tenant_keys_there_are_no_tenants() -> None:
    assert from_pool(pool((b'"a"',)), SEARCH, tenant_keys=0).tenants is None


def test_the_first_text_field_that_is_a_string_gives_the_length_in_characters() -> None:
    rows = ((None, b'"\\u00e9t\\u00e9"'), (b'"abcd"', b'"x"'), (b"12", b'"ab"'), (None, None))
    lengths = from_pool(pool(*rows), SEARCH, tenant_keys=0).text_lengths
    assert lengths is not None
    assert lengths.tolist() == [3, 4, 2, -1]


def test_a_lone_surrogate_is_passed_over_for_the_next_field() -> None:
    lengths = from_pool(pool((b'"\\ud800"', b'"ab"')), SEARCH, tenant_keys=0).text_lengths
    assert lengths is not None
    assert lengths.tolist() == [2]


def test_no_text_fetched_means_no_lengths() -> None:
    assert from_pool(pool(), SEARCH, tenant_keys=0).text_lengths is None
    assert from_pool(pool((b'"tenant"',)), SEARCH, tenant_keys=1).text_lengths is None


def test_scores_vectors_query_and_magnitude_pass_as_they_are() -> None:
    source = pool((), ())
    candidates = from_pool(source, SEARCH, tenant_keys=0)
    assert candidates.scores is source.scores
    assert candidates.vectors is source.vectors
    assert candidates.query is SEARCH.query
    assert candidates.magnitude
