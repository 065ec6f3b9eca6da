"""Every SQL statement of the herald's book, by name."""

from __future__ import annotations

VERSION = 1
CREATE = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE goals (
  goal TEXT PRIMARY KEY, status TEXT NOT NULL, note TEXT NOT NULL, trace TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE counters (
  name TEXT NOT NULL, labels TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (name, labels)
) WITHOUT ROWID;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, channel TEXT NOT NULL, body TEXT NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, maybe_sent INTEGER NOT NULL DEFAULT 0,
  UNIQUE (key, channel)
);
CREATE TABLE spans (id INTEGER PRIMARY KEY, span TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE channels (
  channel TEXT PRIMARY KEY, label TEXT NOT NULL, failing_since REAL, error TEXT NOT NULL DEFAULT '',
  dropped INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""

FACT = "SELECT value FROM facts WHERE name = ?"
SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

GOAL = "SELECT note, trace FROM goals WHERE goal = ?"
SET_GOAL = "INSERT OR REPLACE INTO goals VALUES (?, ?, ?, ?)"
FORGET_GOAL = "DELETE FROM goals WHERE goal = ?"
FORGET_GOALS = "DELETE FROM goals"
STATUSES = "SELECT status, count(*) FROM goals GROUP BY status"
UNSETTLED = """
SELECT goal, note, trace FROM goals WHERE status NOT IN ('completed', 'failed', 'cancelled')
"""

COUNTERS = "SELECT name, labels, value FROM counters"
SET_COUNTER = "INSERT OR REPLACE INTO counters VALUES (?, ?, ?)"

ADD_MESSAGE = "INSERT OR IGNORE INTO messages (key, channel, body) VALUES (?, ?, ?)"
DUE = """
SELECT id, channel, body, tries, maybe_sent FROM messages AS m
 WHERE due <= ? AND id = (SELECT min(id) FROM messages WHERE channel = m.channel) ORDER BY id
"""
NEXT_DUE = "SELECT due FROM messages WHERE channel = ? ORDER BY id LIMIT 1"
SENDING = "UPDATE messages SET tries = tries + 1, maybe_sent = 1 WHERE id = ?"
RETRY = "UPDATE messages SET due = ?, maybe_sent = ? WHERE id = ?"
HOLD = "UPDATE messages SET due = ? WHERE id = ?"
SENT = "DELETE FROM messages WHERE id = ?"
WAITING = "SELECT channel, count(*) FROM messages GROUP BY channel"
OLDEST = """
DELETE FROM messages WHERE channel = ? AND id NOT IN (
  SELECT id FROM messages WHERE channel = ? ORDER BY id DESC LIMIT ?)
"""
FORGET_MESSAGES = "DELETE FROM messages WHERE channel = ?"
MESSAGE_CHANNELS = "SELECT DISTINCT channel FROM messages"

ADD_SPAN = "INSERT OR IGNORE INTO spans (span, body) VALUES (?, ?)"
SPANS = "SELECT id, body FROM spans ORDER BY id LIMIT ?"
SPANS_SENT = "DELETE FROM spans WHERE id <= ?"
SPAN_COUNT = "SELECT count(*) FROM spans"
OLDEST_SPANS = """
DELETE FROM spans WHERE id <= (SELECT id FROM spans ORDER BY id DESC LIMIT 1 OFFSET ?)
"""

CHANNELS = "SELECT channel, label, failing_since, error, dropped FROM channels"
ADD_CHANNEL = """
INSERT INTO channels (channel, label) VALUES (?, ?)
    ON CONFLICT (channel) DO UPDATE SET label = excluded.label
"""
WORKS = "UPDATE channels SET failing_since = NULL, error = '' WHERE channel = ?"
FAILS = """
UPDATE channels SET failing_since = ifnull(failing_since, ?), error = ? WHERE channel = ?
"""
DROPPED = "UPDATE channels SET dropped = dropped + ? WHERE channel = ?"
FORGET_CHANNEL = "DELETE FROM channels WHERE channel = ?"
