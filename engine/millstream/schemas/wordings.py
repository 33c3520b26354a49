"""The wording of refusals of schema registries: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

INVALID, INCOMPATIBLE = "E-SCHEMA-INVALID", "E-SCHEMA-INCOMPATIBLE"
"""Codes of refusals of schemas."""

ID_TAKEN = Template("Another schema has the id {id}")
REFERENCE_MISSING = Template(
    "The schema refers to version {version} of {subject}, which does not exist"
)
SCHEMA_INVALID = Template("This is no schema that can be registered: {reason}")
SCHEMA_INCOMPATIBLE = Template(
    "The schema is not compatible with those of {subject}, for which {level} is demanded: {reasons}"
)
REGISTRY_REFUSED = Template(
    "The schema registry at {registry} does not let this server do what it needs ({what}): it"
    " answers with {status}"
)
SCHEMA_REFUSED = Template("The schema registry at {registry} refuses {what}: {reason}")
TEMPLATES = templates_in(globals())
"""All templates by name."""
