"""What the long-lived parts of a daemon share: made once by the app, passed to those who need it."""

from dataclasses import dataclass, field

from clew_daemon.config.places import Places
from clew_daemon.host.keys import Keys
from clew_daemon.host.snapshot_space import SnapshotSpace
from clew_daemon.learning.playbook import KnownModels, PlaybookStore
from clew_daemon.processes.cgroups import Cgroups
from clew_daemon.processes.children import Children
from clew_daemon.processes.llm_slots import LlmSlots
from clew_daemon.processes.nursery import Nursery
from clew_daemon.publish.publisher import Publisher
from clew_daemon.record.goals import GoalStore
from clew_shared.config.settings import LATER_TABLES
from clew_shared.config.tables import Settings


@dataclass(slots=True)
class DaemonParts:
    """One daemon's parts; a reload replaces `settings`. `started` holds those that running goals started with."""

    places: Places
    settings: Settings
    keys: Keys
    goals: GoalStore
    playbook: PlaybookStore
    models: KnownModels
    children: Children
    cgroups: Cgroups
    nursery: Nursery
    slots: LlmSlots
    publisher: Publisher
    space: SnapshotSpace
    git: dict[str, str] = field(default_factory=dict)
    started: dict[str, Settings] = field(default_factory=dict)

    def settings_of(self, goal: str) -> Settings:
        """Return the settings for a goal: a running one keeps the `[agents]` and `[limits]` of its start."""
        then, now = self.started.get(goal), self.settings
        if then is None or (then.agents is now.agents and then.limits is now.limits):
            return now
        return now.model_copy(update={table: getattr(then, table) for table in LATER_TABLES})
