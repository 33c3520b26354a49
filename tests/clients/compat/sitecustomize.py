"""What Python had when `hyper` was written, the HTTP/2 library of the client `ksql`: names that
`collections` lost in 3.10, and a module gone in 3.13 that `ksql` imports, and does not need here.
The packages themselves stay as they are published."""

import collections
import collections.abc
import sys
import types

for name in collections.abc.__all__:
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))
if sys.version_info >= (3, 13):
    sys.modules.setdefault("telnetlib", types.ModuleType("telnetlib"))
