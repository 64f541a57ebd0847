"""What a user may set: frozen models, every default once with its reason.

schema          the settings, section by section
policy          the settings of a policy: how results are chosen
presets         policies by name, and how a rule's policy is put together
backends        defaults and traits that depend on the backend
values          the kinds of value a setting takes
addresses       addresses, URLs and host patterns
load            file, environment and flags to Settings, judged as a whole
yaml_core       YAML 1.2's core schema, read and written
fields          every setting with its path, read off the models
problems        what is wrong with a user's settings, all of it at once
findings        the models' errors as problems: where, what is there, what is wanted
contradictions  settings that are right alone and wrong together
document        docs/settings.md, made from the models
"""
