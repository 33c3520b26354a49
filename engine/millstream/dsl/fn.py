"""All functions of the dialect, by their names in lower case: `fn.ucase(col("name"))`.

The stub beside this file, made from the catalogue by `make docs`, has their parameters.
"""

from millstream.dsl.calls import call
from millstream.dsl.calls import function as __getattr__
from millstream.dsl.calls import names as __dir__

__all__ = ["__dir__", "__getattr__", "call"]
