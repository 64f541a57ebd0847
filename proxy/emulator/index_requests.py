"""Reading what an index should be: the forms of create, create-for-model and configure, old and new."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vecsieve.proxy.emulator.errors import invalid
from vecsieve.proxy.emulator.fields import MAX_DIMENSION, mapping, text, whole
from vecsieve.proxy.emulator.schema import DENSE, METRICS, SPARSE, Description, known_model

Json = Any
Body = Mapping[str, Any]

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?")
_SEARCHED = ("dense_vector", "sparse_vector", "string")


def from_spec(body: Body) -> Description:
    """An index by `dimension`, `metric`, `vector_type` and `spec`: every version before 2026-07."""
    spec = mapping(body.get("spec"), "spec")
    vector_type = text(body.get("vector_type"), "vector_type", default="dense")
    if vector_type == "sparse":
        if body.get("dimension") is not None:
            raise invalid("dimension: a sparse index has none")
        if text(body.get("metric"), "metric", default="dotproduct") != "dotproduct":
            raise invalid("metric: a sparse index has the metric dotproduct")
        fields: dict[str, Json] = {SPARSE: {"type": "sparse_vector"}}
    else:
        fields = {DENSE: _dense({**body, "type": "dense_vector"})}
    serverless = spec.get("serverless") or {}
    return Description(
        name=_name(body.get("name")),
        fields=fields,
        deployment=_deployment_of(spec),
        read_capacity=serverless.get("read_capacity"),
        metadata_schema=serverless.get("schema"),
        **_labels(body),
    )


def from_schema(body: Body, default_name: str) -> Description:
    """An index by `schema` and `deployment`: 2026-07. A name is made up for an index that brings none."""
    given = mapping(mapping(body.get("schema"), "schema").get("fields"), "schema.fields")
    if not given:
        raise invalid("schema.fields: at least one field is wanted")
    fields = {name: _field(name, mapping(field, f"schema.fields.{name}")) for name, field in given.items()}
    managed = {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
    return Description(
        name=_name(body.get("name") or default_name),
        fields=fields,
        deployment=dict(mapping(body.get("deployment") or managed, "deployment")),
        read_capacity=body.get("read_capacity"),
        **_labels(body),
    )


def for_model(body: Body) -> Description:
    """An integrated index: the text of one field is embedded by a model."""
    embed = mapping(body.get("embed"), "embed")
    model = known_model(embed.get("model"))
    field = mapping(embed.get("field_map"), "embed.field_map").get("text")
    if not isinstance(field, str) or not field:
        raise invalid("embed.field_map: the field for 'text' is wanted")
    metric = text(embed.get("metric"), "embed.metric", default=model.metric)
    settings: dict[str, Json] = {"model": embed["model"], "metric": metric}
    if model.dimension is not None:
        settings["dimension"] = _dimension(embed.get("dimension") or model.dimension)
    settings |= {
        "vector_type": "sparse" if model.dimension is None else "dense",
        "field_map": dict(embed["field_map"]),
        "read_parameters": embed.get("read_parameters") or {"input_type": "query", "truncate": "END"},
        "write_parameters": embed.get("write_parameters") or {"input_type": "passage", "truncate": "END"},
    }
    place = {name: text(body.get(name), name) for name in ("cloud", "region")}
    return Description(
        name=_name(body.get("name")),
        fields={field: {"type": "semantic_text", "model": embed["model"], "metric": metric}},
        deployment={"deployment_type": "managed", **place},
        embed=settings,
        read_capacity=body.get("read_capacity"),
        metadata_schema=body.get("schema"),
        **_labels(body),
    )


def configured(old: Description, body: Body) -> Description:
    """An index after configure: tags merged (an empty value takes one away), protection, pods, embedding parameters."""
    labels = _labels(body)
    tags = {**(old.tags or {}), **(labels["tags"] or {})}
    pods = (body.get("spec") or {}).get("pod") or body.get("deployment") or {}
    embed = body.get("embed")
    return replace(
        old,
        tags={name: value for name, value in tags.items() if value} or None,
        deletion_protection=labels["deletion_protection"] if "deletion_protection" in body else old.deletion_protection,
        deployment={**old.deployment, **mapping(pods, "deployment")},
        embed=old.embed if embed is None or old.embed is None else {**old.embed, **mapping(embed, "embed")},
    )


def _name(value: Json) -> str:
    name = text(value, "name")
    if not _NAME.fullmatch(name):
        raise invalid(
            "Name must have 1 to 45 characters: lower case letters, digits and hyphens, and begin and end with no hyphen"
        )
    return name


def _labels(body: Body) -> dict[str, Any]:
    protection = text(body.get("deletion_protection"), "deletion_protection", default="disabled")
    if protection not in {"enabled", "disabled"}:
        raise invalid("deletion_protection: 'enabled' or 'disabled' is wanted")
    tags = body.get("tags")
    if tags is not None and not all(isinstance(value, str) for value in mapping(tags, "tags").values()):
        raise invalid("tags: values are strings")
    return {"deletion_protection": protection, "tags": tags or None}


def _deployment_of(spec: Body) -> dict[str, Json]:
    if spec.get("pod") is not None:
        pod = mapping(spec["pod"], "spec.pod")
        defaults = {"pod_type": "p1.x1", "replicas": 1, "shards": 1}
        kept = {name: pod[name] for name in ("environment", *defaults) if pod.get(name) is not None}
        return {"deployment_type": "pod", **defaults, **kept}
    if spec.get("byoc") is not None:
        return {"deployment_type": "byoc", "environment": mapping(spec["byoc"], "spec.byoc").get("environment")}
    serverless = mapping(spec.get("serverless"), "spec.serverless")
    place = {name: text(serverless.get(name), f"spec.serverless.{name}") for name in ("cloud", "region")}
    return {"deployment_type": "managed", **place}


def _field(name: str, field: Body) -> dict[str, Json]:
    if field.get("type") not in _SEARCHED:
        raise invalid(f"schema.fields.{name}.type: one of {', '.join(_SEARCHED)} is wanted")
    if field["type"] == "dense_vector":
        return _dense(field)
    found = dict(field)
    if field.get("embed") is not None:
        embed = mapping(field["embed"], f"schema.fields.{name}.embed")
        model = known_model(embed.get("model"))
        dimension = _dimension(embed.get("dimension") or model.dimension)
        found["embed"] = {**embed, "dimension": dimension, "metric": embed.get("metric") or model.metric}
    return found


def _dense(field: Body) -> dict[str, Json]:
    metric = text(field.get("metric"), "metric", default="cosine")
    if metric not in METRICS:
        raise invalid(f"metric: one of {', '.join(METRICS)} is wanted")
    return {"type": "dense_vector", "dimension": _dimension(field.get("dimension")), "metric": metric}


def _dimension(value: Json) -> int:
    return whole(value, "dimension", least=1, most=MAX_DIMENSION)
