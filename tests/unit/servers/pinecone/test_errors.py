from __future__ import annotations

import orjson
from servers.pinecone.errors import ALREADY_EXISTS, RefusalError, invalid, too_long, unknown_field


def test_the_data_plane_refuses_in_the_shape_of_a_real_answer() -> None:
    message = "Vector dimension 768 does not match the dimension of the index 1536"
    refusal = invalid(message)
    assert refusal.code.status == 400
    assert refusal.as_status() == b'{"code":3,"message":"%s","details":[]}' % message.encode()


def test_the_control_plane_names_its_codes_and_repeats_the_status() -> None:
    refusal = RefusalError(ALREADY_EXISTS, "taken")
    assert refusal.as_error() == b'{"status":409,"error":{"code":"ALREADY_EXISTS","message":"taken"}}'


def test_a_message_over_the_limit_says_both_sizes() -> None:
    refusal = too_long(2_341_183, 2_097_152)
    assert orjson.loads(refusal.as_status()) == {
        "code": 11,
        "message": "Error, message length too large: found 2341183 bytes, the limit is: 2097152 bytes",
        "details": [],
    }


def test_an_unknown_field_is_named() -> None:
    assert unknown_field("vectors[0].value").message == "vectors[0].value: Cannot find field."
