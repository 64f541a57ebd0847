"""The control plane: indexes made, listed, described, configured and deleted."""

from __future__ import annotations

from servers.pinecone.calls import Answer, Call, plain
from servers.pinecone.index_models import shown
from servers.pinecone.index_requests import configured, for_model, from_schema, from_spec
from servers.pinecone.project import Project
from servers.pinecone.versions import ALPHA, speaks_schema


def list_indexes(project: Project, call: Call) -> Answer:
    """Every index; there are no pages."""
    return plain({"indexes": [shown(one, call.version) for one in project.indexes.values()]})


def create(project: Project, call: Call) -> Answer:
    """Make an index in either form."""
    body = call.json()
    if speaks_schema(call.version):
        described = from_schema(body, project.unused_name(), declares_metadata=call.version == ALPHA)
    else:
        described = from_spec(body)
    made = project.add(described)
    return plain(shown(made, call.version, is_ready=False), status=201)


def create_for_model(project: Project, call: Call) -> Answer:
    """Make an integrated index."""
    made = project.add(for_model(call.json()))
    return plain(shown(made, call.version, is_ready=False), status=201)


def describe(project: Project, call: Call) -> Answer:
    """One index."""
    return plain(shown(project.index(call.parameters["index"]), call.version))


def configure(project: Project, call: Call) -> Answer:
    """Change an index."""
    index = project.index(call.parameters["index"])
    index.description = configured(index.description, call.json())
    return plain(shown(index, call.version), status=202)


def delete(project: Project, call: Call) -> Answer:
    """Delete an index; it is gone at once."""
    project.remove(call.parameters["index"])
    return Answer(status=202)


def list_collections(_project: Project, _call: Call) -> Answer:
    """No collection was ever made here."""
    return plain({"collections": []})
