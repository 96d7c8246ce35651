"""`python -m vcledger`: the command, for where its script is not on the PATH.

Owns the way there. Must not know the commands, which the library never imports: the package's own entry point leads to
them. Called by Python itself.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

COMMAND = "vcledger"

if __name__ == "__main__":
    (script,) = entry_points(group="console_scripts", name=COMMAND)
    sys.argv[0] = COMMAND
    script.load()()
