"""What each action changed, on record: `paths` in history.jsonl and `clew history`, and whose it was in the ledger."""

import contextlib

from clew_daemon.record.store import decode
from clew_shared.ledger import LedgerReader

RUNBOOK = """\
# Change files
## Do it
- [ ] it
  ```sh
  mkdir -p src && printf one > src/a && printf odd > "$(printf 'o\\nd\\377d')"
  cat src/a
  rm -r src && chmod 600 keep 2>/dev/null; true
  ```
"""


def finished(clew, goal):
    """The events of a goal's actions that ended, and of its snapshots, as the ledger has them."""
    with contextlib.closing(LedgerReader(clew.home / "state" / "ledger.db")) as reader:
        return [decode(row.body) for row in reader.read(goal)]
