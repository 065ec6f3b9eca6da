"""Every SQL statement of the ledger, by name; a new version is one more script at the end of MIGRATIONS."""

APPLICATION_ID = 0x636C6577  # "clew", in the SQLite header
TIME_OUT_MS = 5_000  # a statement waits for another process's lock

_VERSION_1 = """
CREATE TABLE events (
  seq    INTEGER PRIMARY KEY,
  goal   TEXT NOT NULL,
  n      INTEGER NOT NULL,
  kind   TEXT NOT NULL,
  body   BLOB NOT NULL,
  digest BLOB NOT NULL,  -- SHA-256 of the output, empty where there is none
  hash   BLOB NOT NULL
) STRICT;
CREATE INDEX events_of_goal ON events (goal);  -- ends in seq, as every index of a rowid table
CREATE TABLE outputs (seq INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE snapshots (
  goal TEXT PRIMARY KEY, seq INTEGER NOT NULL, version INTEGER NOT NULL, state BLOB NOT NULL
) STRICT;
-- The last event of each goal, so that a ledger with a cut-off end is known for one.
CREATE TABLE heads (
  goal TEXT PRIMARY KEY, seq INTEGER NOT NULL, n INTEGER NOT NULL, hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE purged (
  goal TEXT PRIMARY KEY, count INTEGER NOT NULL,
  seq INTEGER NOT NULL, n INTEGER NOT NULL, hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE purged_ranges (
  first INTEGER PRIMARY KEY, last INTEGER NOT NULL, goal TEXT NOT NULL
) STRICT;
-- An event, its output and its goal's head in one statement: with autocommit that is a whole
-- transaction in one call, and each call from Python may wait for the interpreter lock.
CREATE VIEW appending AS
  SELECT seq, goal, n, kind, body, digest, hash, NULL AS output FROM events;
CREATE TRIGGER append INSTEAD OF INSERT ON appending BEGIN
  INSERT INTO events VALUES (new.seq, new.goal, new.n, new.kind, new.body, new.digest, new.hash);
  INSERT INTO outputs SELECT new.seq, new.output WHERE new.output IS NOT NULL;
  INSERT INTO heads VALUES (new.goal, new.seq, new.n, new.hash)
    ON CONFLICT (goal) DO UPDATE SET seq = excluded.seq, n = excluded.n, hash = excluded.hash;
END;
"""

MIGRATIONS: tuple[str, ...] = (
    _VERSION_1,
    "",  # outputs may be compressed, which version 1 would take for damage
    "CREATE INDEX loops ON events (kind) WHERE kind = 'loop_detected';",
    "",
    # away with what versions 3 and 4 kept beside the events: all of it follows from them
    """
    DROP INDEX IF EXISTS places; DROP INDEX IF EXISTS loops_of_goal; DROP INDEX IF EXISTS homes;
    DROP TABLE IF EXISTS outlines;
    """,
)

APPEND = "INSERT INTO appending VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ROW = "(?, ?, ?, ?, ?, ?, ?, ?)"
KEEP_SNAPSHOT = "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)"

TIPS = "SELECT goal, seq, n, hash FROM purged UNION ALL SELECT goal, seq, n, hash FROM heads"
HEAD = "SELECT CAST(seq AS INTEGER) FROM heads WHERE goal = ?"
HEADS = "SELECT goal, seq, n, hash FROM heads ORDER BY goal"
# A head without its event, or an event after the last head.
LOST_HEAD = """
SELECT goal, seq FROM heads AS h
 WHERE NOT EXISTS (SELECT 1 FROM events AS e
                    WHERE e.seq = h.seq AND e.goal = h.goal AND e.n = h.n AND e.hash = h.hash)
UNION ALL
SELECT goal, seq FROM events WHERE seq = (SELECT max(seq) FROM events)
   AND seq > (SELECT ifnull(max(seq), 0) FROM heads)
LIMIT 1
"""
LAST_SEQ = (
    "SELECT ifnull(max(seq), 0) FROM (SELECT seq FROM heads UNION ALL SELECT seq FROM purged)"
)
EVENT_HASH = "SELECT hash FROM events WHERE seq = ?"
# An event is in one of these tables; the first has an index.
HASHES = """
SELECT hash FROM events WHERE seq = ?1 UNION ALL SELECT hash FROM purged WHERE seq = ?1 LIMIT 1
"""
# The last event of the goal that recorded last, also if it was purged since.
TIP = "SELECT seq, hash FROM heads UNION ALL SELECT seq, hash FROM purged ORDER BY seq DESC LIMIT 1"
LAST_PURGED = "SELECT last FROM purged_ranges WHERE first = (SELECT max(first) FROM purged_ranges)"
GOALS = "SELECT goal FROM heads WHERE goal <> '' ORDER BY goal"
# In the order of acceptance; a body that is no JSON is damage, which `verify` names.
NAMES = """
SELECT h.goal, iif(json_valid(CAST(a.body AS TEXT)), json_extract(CAST(a.body AS TEXT), '$.spec.name'), NULL)
  FROM heads AS h CROSS JOIN events AS a ON a.seq = (SELECT min(seq) FROM events WHERE goal = h.goal)
 WHERE h.goal <> '' ORDER BY a.seq
"""
EVENTS_OF_GOAL = """
SELECT seq, goal, n, kind, body, hash, digest FROM events WHERE goal = ? AND seq > ? ORDER BY seq LIMIT ?
"""
TIP_BEFORE = """
SELECT n, hash FROM (
  SELECT * FROM (SELECT seq, n, hash FROM events WHERE goal = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1)
  UNION ALL SELECT seq, n, hash FROM purged WHERE goal = ?1)
 ORDER BY seq DESC LIMIT 1
"""
EVENTS = "SELECT seq, goal, n, kind, body, hash FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
GOALS_WITH_LOOPS = "SELECT DISTINCT goal FROM events WHERE kind = 'loop_detected'"
OWN_EVENTS = "SELECT body FROM events WHERE goal = '' AND kind = ? ORDER BY seq DESC LIMIT ?"
SNAPSHOTS = "SELECT goal, seq, version, state FROM snapshots ORDER BY goal"
SNAPSHOT = "SELECT seq, state FROM snapshots WHERE goal = ? AND version = ?"
# Those of goals of which nothing was recorded since.
LAST_SNAPSHOTS = """
SELECT s.goal, s.seq, s.state FROM snapshots AS s JOIN heads AS h ON h.goal = s.goal AND h.seq = s.seq
 WHERE s.version = ?
"""
OUTPUT = "SELECT o.data, e.digest FROM events AS e LEFT JOIN outputs AS o ON o.seq = e.seq WHERE e.seq = ?"
EVENTS_WITH_OUTPUTS = """
SELECT e.seq, e.goal, e.n, e.kind, e.body, e.digest, e.hash, o.data
  FROM events AS e LEFT JOIN outputs AS o ON o.seq = e.seq ORDER BY e.seq
"""
PURGED = "SELECT goal, seq, n, hash FROM purged"
PURGED_RANGES = "SELECT first, last FROM purged_ranges ORDER BY first"
WAS_PURGED = "SELECT 1 FROM purged_ranges WHERE ? BETWEEN first AND last"
PURGED_COUNTS = """
SELECT p.goal, p.count, p.seq, ifnull(sum(r.last - r.first + 1), 0), ifnull(max(r.last), 0)
  FROM purged AS p LEFT JOIN purged_ranges AS r ON r.goal = p.goal GROUP BY p.goal
"""
STRAY_OUTPUT = "SELECT seq FROM outputs WHERE seq NOT IN (SELECT seq FROM events) LIMIT 1"

# What is left of a purged goal is enough to check all others, and to go on with its own chain.
PURGE = (
    """
    INSERT INTO purged_ranges
    SELECT min(seq), max(seq), goal
      FROM (SELECT goal, seq, seq - row_number() OVER (ORDER BY seq) AS island
              FROM events WHERE goal = ?)
     GROUP BY island
    """,
    """
    INSERT INTO purged
    SELECT h.goal, (SELECT count(*) FROM events AS e WHERE e.goal = h.goal), h.seq, h.n, h.hash
      FROM heads AS h WHERE h.goal = ?
        ON CONFLICT (goal) DO UPDATE SET count = count + excluded.count,
           seq = excluded.seq, n = excluded.n, hash = excluded.hash
    """,
    "DELETE FROM outputs WHERE seq IN (SELECT seq FROM events WHERE goal = ?)",
    "DELETE FROM snapshots WHERE goal = ?",
    "DELETE FROM heads WHERE goal = ?",
    "DELETE FROM events WHERE goal = ?",
)
