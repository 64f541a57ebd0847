"""Settings of the API for applications and of the webhook for events, both off by default, and of the log."""

from __future__ import annotations

from typing import Literal

from .values import Count, HookUrl, HostPort, Model, Name, OrNone, setting


class ApiSettings(Model):
    """VecSieve's own endpoints for applications (`/v1/…`, docs/api.md), on a separate listener. Off unless `listen` is set. Data ports
    are not affected.
    """

    listen: OrNone[HostPort] = setting(
        None, "host:port of the listener, such as 127.0.0.1:9466; every worker serves it. none: off. Flag: --api"
    )
    token_file: OrNone[str] = setting(
        None,
        "file with a token that every request then needs, as `Authorization: Bearer …`; required where `api.listen` is not "
        "on loopback. Read once, when the process starts",
    )
    body_bytes: Count = setting(
        16 * 1024 * 1024,
        "a larger request is answered with 413. 500 chunks with 1,536 numbers each are 8 to 16 MB of JSON",
    )
    tokenizer: OrNone[Name] = setting(
        None,
        "an encoding of tiktoken that counts tokens, such as o200k_base; its vocabulary is loaded when the process starts. "
        "none: a fourth of the bytes, rounded up",
    )
    in_flight: Count = setting(
        8,
        "requests at once, per process, because their bodies are held: at most 128 MiB with the default `body_bytes`. Further "
        "requests wait for `limits.in_flight_queue_seconds`, then get 503",
    )


class WebhookSettings(Model):
    """Sends the write gate's events to your receiver as signed JSON (Standard Webhooks). docs/api.md."""

    url: OrNone[HookUrl] = setting(
        None,
        "receiver of the events, by POST; redirects are not followed. Events have ids, tiers, similarities and names of collections, so "
        "use https beyond this machine. none: off",
    )
    secret_file: OrNone[str] = setting(
        None,
        "file with the secret that signs each request with HMAC-SHA256, at least 16 characters; after `whsec_` it is decoded as base64. "
        "Required with `webhook.url`. Read once, when the process starts",
    )


class LogSettings(Model):
    """The log, on standard output."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "the least level that is written; successful requests are `info`, of which one in a hundred is written"
    )
    format: Literal["auto", "text", "json"] = setting(
        "auto", "text for people, or one JSON object a line; auto: text in a terminal, otherwise JSON"
    )
