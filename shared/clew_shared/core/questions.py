"""What a person is asked when a goal needs them: one template, filled from facts (docs/messages.md). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clew_shared.proof.label import WITHOUT_WORK, WORDS
from clew_shared.record.model import Action, Result
from clew_shared.record.moment import local, roughly
from clew_shared.record.scope import EVERYWHERE
from clew_shared.record.signature import signature
from clew_shared.record.state import ProofState, State
from clew_shared.text import words
from clew_shared.text.shorten import beginning, in_one_line
from clew_shared.text.words import said_why

NAME_CHARS = 120
# how often a finish is refused with the same label in the same world before the attempt is over
REFUSED_MAX = 2
FAILURE_CHARS = 300
STEP_CHARS = 500
CHECKS_SHOWN = 3
FILES_SHOWN = 5
CUT_OFF = "It may have done all of its work, a part of it, or nothing, so clew does not run it again by itself"
LONG_S = 10.0

WHY = {  # why a goal needs a person
    "asks": "the agent asks: {question}",
    "checks": "the agent said {times} that it was done, but {checks}",
    "again": "the agent asked for `{action}` again {times} after clew had refused it",
    "died": "the worker died {times} while `{action}` ran",
    "step_cut_off": "the step `{action}` was cut off: {ending}",
    "step_failed": "the step `{action}` {came}",
    "step_refused": "the step `{action}` is not run once more: {why}",
    "failed": "this step failed: {failure}",
    "failed_again": "this step failed {times}; the last time: {failure}",
    "ended": "asked for another plan, the agent ended without one",
    "no_plan": "asked for another plan, the agent did something else {count} times",
    "replans": "other plans for it did not work either",
    "crashes": "the agent's program ended {times} within {window} s, before its work was done; the last time: {ending}",
    "set_up": "the agent cannot work as it is set up: {fault}",
    "cannot_start": "the agent cannot be started: {fault}",
    "damaged": "the goal's record is damaged: {fault}",
    "internal": "an unexpected error in clew: {fault}",
    "tools": "{checks} cannot run: {fault}",
    "undo": "an undo was interrupted: some of the files are restored, and some are not yet",
    "copied": "clew's record was copied or moved from {place} on {host}; the original may be at work there",
    "depends": "it depends on {goal}, which {ended}",
    "depends_removed": "it depends on {goal}, which {ended} and is no longer on record",
}
CHOICES = {  # what a person can do: in words, and the command
    "feedback": ("say what to do differently", 'clew feedback {goal} "…"'),
    "answer": ("answer", 'clew feedback {goal} "…"'),
    "proof": ("see what was changed, and what fails without it", "clew proof {goal}"),
    "accept_proof": ("accept it as it is, and end the goal", "clew proof {goal} --accept"),
    "fixed": ("when you have fixed the cause, continue", "clew continue {goal}"),
    "again": ("let it try again", "clew continue {goal}"),
    "step": ("when you have fixed the cause, run the step again", "clew continue {goal}"),
    "show": ("see all of its output", "clew show {goal} {seq}"),
    "end": ("see the end of its output", "clew show {goal} {seq}"),
    "diff": ("see what it changed", "clew diff {goal}"),
    "look": ("if it should run again, from its beginning", "clew continue {goal}"),
    "ticked": ("if it did its work, tick its item (`[x]`), then continue", "clew edit {goal}"),
    "grant": ("grant the same amount again", "clew continue {goal}"),
    "installed": ("when you have installed it, continue", "clew continue {goal}"),
    "anyway": ("begin all the same, and tell the agent how to get it", 'clew feedback {goal} "…"'),
    "put_back": ("when you have put it back, continue", "clew continue {goal}"),
    "empty": ("begin in a new, empty folder, if nothing is there", "clew continue {goal}"),
    "accept": ("accept the folder that is there now, and continue in it", "clew continue {goal}"),
    "here": ("when no daemon works on the original, continue here", "clew continue {goal}"),
    "edit": ("correct the goal's text, agent, checks or limits", "clew edit {goal}"),
    "limits": ("change the limit, then continue", "clew edit {goal}"),
    "reload": ("when you have changed the config, let clew read it", "clew reload"),
    "verify": ("see what is damaged", "clew verify"),
    "log": ("read the log", "clew logs {goal}"),
    "complete": ("complete the undo", "clew undo {goal}"),
    "after_undo": ("then continue", "clew continue {goal}"),
    "retry_other": ("try {other} again", "clew retry {other}"),
    "after_other": ("then continue this one", "clew continue {goal}"),
    "alone": ("take {other} out of its `depends_on`, then continue", "clew edit {goal}"),
    "cancel": ("end the goal", "clew cancel {goal}"),
}


_OFFERS = {
    "asks": ("answer",),
    "crashes": ("log", "fixed"),
    "set_up": ("reload", "edit", "fixed"),
    "cannot_start": ("reload", "edit", "fixed"),
    "damaged": ("verify", "fixed"),
    "internal": ("log", "again"),
    "undo": ("complete", "after_undo"),
}
_AFTER_LOGIN = ("fixed", "reload", "edit")  # a login needs no other config
_INTERNAL = "Nothing recorded is lost. If clew was upgraded or moved while it ran, restart it: `clew restart`"


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: `reason` is why, in one line, and `text` has that and all else."""

    reason: str
    text: str
    step: int = 0  # the run of a runbook's step that this is about, 0 for none


def question(
    state: State,
    why: str,
    *choices: str,
    at_work: bool = False,
    facts: tuple[str, ...] = (),
    reason: str = "",
    other: str = "",
    seq: int = 0,
) -> Question:
    """Return a question; `choices` are keys of CHOICES, `facts` are lines that help to answer.

    `at_work`: its place and what was tried last matter; `reason` is `why` in short, `other` a goal, `seq` an action.
    """
    lines = [*_place(state), *_tried_last(state)] if at_work else []
    lines += [f"Stopped: {why}", *filter(None, facts), "You can:"]
    named = {"goal": state.goal_id, "other": other, "seq": str(seq)}
    offered = (CHOICES[key] for key in (*choices, "cancel"))
    lines += [f"- {what}: `{command}`".format(**named) for what, command in offered]
    return Question(reason or beginning(words.one_line(why), FAILURE_CHARS), "\n".join(lines))


def stuck(state: State, left: str = "") -> Question:
    """Return what is asked about a blocked subtask; `left` says what the agent did where it was to plan again."""
    replans = WHY["replans"] if state.goal.failed_replans else ""
    why = "; ".join(filter(None, (_why_stuck(state), left, replans)))
    choices = ("feedback", "fixed", "edit") if _failing(state) else ("feedback", "fixed")
    return question(state, why, *choices, at_work=True, facts=_check_lines(state))


def step(
    state: State,
    ran: Action,
    *,
    refused: str = "",
    cause: str = "",
    said: str = "",
    changed: list[str] | None = None,
    hint: str = "",
) -> Question:
    """Return what is asked of a step that must not run again; it changed `changed`, None where that is not known.

    `said` is its output, of one that was cut off the end, "" if the daemon died with it; `hint` is a likely cause.
    """
    deaths = state.loops.scope.crashes.get(signature_of(state, ran), 0)
    is_cut_off = ran.result == Result.INTERRUPTED
    key = "step_cut_off" if is_cut_off else "step_refused" if refused else "step_failed"
    why = WHY["died" if deaths > 1 else key].format(
        action=words.action_text(ran.name, ran.args, STEP_CHARS),
        came=f"{words.RESULTS.get(ran.result, ran.result)}{words.exit_text(ran.exit_code)}",
        ending=cause or "it is not known why",
        times=words.times(deaths),
        why=words.refusal(refused),
    )
    took, told = ran.duration_s, words.key_line(said)
    last = beginning((said.strip().splitlines() or [""])[-1].strip(), words.ACTION_CHARS)
    lasted = f"it ran for {took:.2f} s" if took else "it is not known how long it ran"
    what = "What it changed in the workspace is not known"
    if changed is not None:
        label = "Changed in the workspace since" if is_cut_off else "It changed"
        what = f"{label}: {_names(changed) or 'no file of the workspace'}"
    unknown = "What it printed is not known" if is_cut_off else "It printed nothing"
    facts = (
        f"It began at {local(ran.timestamp)}, as action #{ran.seq}, and {lasted}",
        f"It printed, among others: {told}" if told != last else "",
        f"Last line of its output: {last}" if last else unknown,
        hint,
        what,
        CUT_OFF if is_cut_off else "",
    )
    choices = ("look", "ticked") if is_cut_off else ("step", "ticked", "edit")
    exist = {"end" if is_cut_off else "show": last, "diff": is_cut_off and changed != []}
    seen = [key for key, exists in exist.items() if exists]
    asked = question(state, why, *seen, *choices, facts=facts, seq=ran.seq)
    return replace(asked, text="\n".join([*_place(state), asked.text]), step=ran.seq)


def budget(state: State, spent: str) -> Question:
    facts, reason = _check_lines(state), f"budget: {spent}"
    return question(state, spent, "grant", "limits", at_work=True, facts=facts, reason=reason)


def ask(state: State, key: str, printed: str = "", **named: object) -> Question:
    """Return what is asked for a reason of WHY, filled with `named`; `printed` is what the agent's program printed."""
    why, choices = WHY[key].format(**named), _OFFERS[key]
    if "reload" in choices and words.LOG_IN in why:
        choices = _AFTER_LOGIN
    last = words.key_line(printed)
    facts = (f"It printed last: {last}" if last else "", _INTERNAL if key == "internal" else "")
    return question(state, why, *choices, at_work=key in ("asks", "crashes"), facts=facts)


def missing_tools(state: State, missing: Mapping[str, str]) -> Question:
    """Return what is asked where checks cannot run whatever is done; `missing` says what each lacks."""
    names, fault = list(missing), "; ".join(dict.fromkeys(missing.values()))
    why = WHY["tools"].format(checks=_named(names), fault=fault)
    facts = [f"Check `{name}`: `{_command(state, name)}`" for name in names[:CHECKS_SHOWN]]
    facts.append("No work in the workspace can change that, so no work has begun.")
    return question(state, why, "installed", "edit", "anyway", facts=tuple(facts))


def lost_dependency(state: State, other: str, status: str, *, known: bool) -> Question:
    ended = "was cancelled" if status == "cancelled" else "has failed"
    why = WHY["depends" if known else "depends_removed"].format(goal=other, ended=ended)
    choices = ("retry_other", "after_other") if known else ()
    return question(state, why, *choices, "alone", other=other)


def last_said(state: State, name: str, result: str = "") -> str:
    """Return the key line of what an action, by its signature, printed last; `result`: when that came of it."""
    last = state.loops.scope.last(name, result)
    return words.key_line(last.head) if last else ""


def _why_stuck(state: State) -> str:
    subtask = state.subtask
    last = subtask.actions[-1] if subtask and subtask.actions else None
    if failing := _failing(state) if state.loops.claims else []:
        checks = f"{_named(failing)} still {'fails' if len(failing) == 1 else 'fail'}"
        return WHY["checks"].format(times=words.times(state.loops.claims), checks=checks)
    if last and last.result == Result.BLOCKED:
        name, action = signature_of(state, last), words.action_text(last.name, last.args)
        if state.loops.scope.blocks.get(name, {}).get(EVERYWHERE) == "crash":
            died = words.times(state.loops.scope.crashes.get(name, 1))
            return WHY["died"].format(times=died, action=action)
        if state.loops.blocked_proposals:
            again = words.times(state.loops.blocked_proposals)
            return WHY["again"].format(times=again, action=action)
    count = subtask.attempts if subtask else 0
    failure = in_one_line(subtask.last_failure, FAILURE_CHARS) if subtask else ""
    if count > 1:
        return WHY["failed_again"].format(times=words.times(count), failure=failure)
    return WHY["failed"].format(failure=failure.rstrip(" .:") or "no reason was given")


def signature_of(state: State, action: Action) -> str:
    return signature(action.name, action.args, state.spec.workspace)


def _named(checks: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in checks)
    return f"the check {shown}" if len(checks) == 1 else f"the checks {shown}"


def _failing(state: State) -> list[str]:
    last = state.proofs.checks
    return [name for name in last if name in state.spec.checks and not last[name].passed]


def _check_lines(state: State) -> tuple[str, ...]:
    lines = []
    for name in _failing(state)[:CHECKS_SHOWN]:
        said = words.key_line(said_why(state.proofs.checks[name].output))
        lines.append(f"Check `{name}` fails: `{_command(state, name)}`{said and f': {said}'}")
    return tuple(lines)


def _command(state: State, check: str) -> str:
    return in_one_line(state.spec.checks[check], FAILURE_CHARS)


def _place(state: State) -> list[str]:
    if state.subtask is None:
        return []
    several = sum(len(task.subtasks) for task in state.goal.tasks) > 1
    place = f"{state.current_task_idx + 1}.{state.current_subtask_idx + 1} " if several else ""
    return [f'Working on: {place}"{in_one_line(state.subtask.description, NAME_CHARS)}"']


def _tried_last(state: State) -> list[str]:
    actions = reversed(state.subtask.actions if state.subtask else [])
    last = next((action for action in actions if action.result != Result.BLOCKED), None)
    if last is None:
        return []
    name = signature_of(state, last)
    cut_off = last.result == Result.INTERRUPTED
    said = state.loops.scope.died.get(name) if cut_off else last_said(state, name, last.result)
    after = f" after {roughly(last.duration_s)}" if last.duration_s >= LONG_S else ""
    came = f"{words.RESULTS.get(last.result, last.result)}{after}{words.exit_text(last.exit_code)}"
    tried = f"Tried last: `{words.action_text(last.name, last.args)}`, which {came}"
    return [f"{tried}: {said}" if said else tried]


# -- what follows from a label that refuses a finish

_REMEDIES = {
    "changed_tests": "Put them back as they were, and make the work itself pass",
    "changed_tools": "Put them back as they were, and make the work itself pass",
    "left_running": "Stop what you have left running, and make the checks pass without it",
    "fewer_tests": "Have all tests run that ran before",
    "failing_tests": "Make these tests pass",
    "watches_tests": "Write code that does not know whether it is tested",
    "unknown": "Find out why the checks do not pass in a fresh copy of the workspace",
}


def told(made: ProofState, diff: str, output: str, *, asked: bool) -> str:
    """Return what an agent is told of a finish that its label refuses; `output` ends what fails without its change."""
    about = f" ({_names(made.files)})" if made.files else ""
    lines = [f"Not accepted: the checks pass, but {WORDS[made.label]}{about}: {made.why}."]
    lines += [f"As they were at the start:\n{output}"] if output else []
    lines += [f"Your change of them:\n{diff}"] if diff else []
    if asked:
        return "\n".join([*lines, "A person is asked whether that is what the goal needs."])
    remedy = _REMEDIES.get(made.label, "Make the checks pass without that")
    call = 'call finish again with tests_changed: "why the goal needs it"; a person is then asked'
    return "\n".join([*lines, f"{remedy}. If the goal needs it, {call}."])


def asks_about(state: State, reason: str) -> Question:
    """Return what a person is asked about a finish that a label refuses; `reason` is the agent's."""
    made = state.proofs.made
    assert made is not None  # noqa: S101 - it was just recorded
    about = f"{WORDS[made.label]} (`{made.label}`)"
    why = f"the checks pass, but {about}: {in_one_line(made.why, FAILURE_CHARS)}"
    given = "The agent gave no reason"
    if reason:
        given = f"The agent's reason: {in_one_line(reason, FAILURE_CHARS)}"
    without = WITHOUT_WORK.get(made.without_work or "", "")
    facts = (f"It is about: {_names(made.files)}" if made.files else "", without, given)
    return question(state, why, "proof", "accept_proof", "feedback", facts=facts)


def _names(files: Sequence[str]) -> str:
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    return ", ".join(in_one_line(name, NAME_CHARS) for name in files[:FILES_SHOWN]) + more
