"""``%not [--code N] COMMAND...``: succeeds where COMMAND exits with a failure (with N, if given).

Death by a signal is never success: a tool that crashes has not refused its input.
"""

import subprocess
import sys

arguments = sys.argv[1:]
wanted = None
if arguments and arguments[0] == "--code":
    wanted, arguments = int(arguments[1]), arguments[2:]
status = subprocess.run(arguments, check=False).returncode
if status <= 0 or (wanted is not None and status != wanted):
    sys.exit(f"not: {arguments[0]} exited with {status}, wanted {wanted or 'a failure'}")
