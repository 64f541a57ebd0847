"""The settings: frozen models, every default once with its reason.

schema          the settings, section by section
applications    the sections of our own endpoints and of events
policy          the settings of a policy: how results are chosen
presets         policies by name, and how a rule's policy is put together
backends        defaults and traits that depend on the backend
values          the types of settings
addresses       addresses, URLs and host patterns
load            file, environment and flags to Settings, validated as a whole
yaml_core       YAML 1.2's core schema, read and written
fields          every setting with its path, from the models; the models' errors as findings; the JSON Schema
problems        errors in a user's settings, reported all at once
contradictions  settings that are valid alone and invalid together
"""
