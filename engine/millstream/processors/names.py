"""What users may name in processors and topologies."""

import re

NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
