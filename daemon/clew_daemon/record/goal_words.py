"""What there is to say of a goal, the same in its report and for all who look on; pure, from its view."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clew_daemon.record import goal_view
from clew_daemon.record.goal_view import GoalDetail, Part
from clew_shared.proof import label
from clew_shared.record.moment import local
from clew_shared.text import words
from clew_shared.text.plain import percent
from clew_shared.text.shorten import is_told

UNCHECKED = "no checks: you have the agent's word alone; `checks:` in its file, or `clew submit --check`, adds some"
PASSED_BEFORE = {
    None: "",
    True: ", as before any work: it proves nothing",
    False: "; it passed before the work",
}

# clew's own word, as in `found: `, and what others have said; one of them may be "".
Said = tuple[str, str]


class Step(NamedTuple):
    """A task or a subtask: its `mark` in brackets, `number` as in `1.2`, in `done` how much, and what came of it."""

    status: str
    mark: str
    text: str
    number: str
    done: str
    notes: Sequence[Said] = ()
    steps: Sequence["Step"] = ()


class Check(NamedTuple):
    """A check: `passed` is None before it has run, `how` says it in words; `output` is of one that has failed."""

    name: str
    command: str
    passed: bool | None
    how: str
    output: str


def facts(detail: GoalDetail) -> dict[str, str]:
    """Return the goal's names and places, its times and costs, and how it was proven, by their names."""
    cost, made, age_s = detail["cost"], detail["proof"], detail["age_s"]
    sent, spent = cost["tokens_in"], f"{words.thousands(cost['tokens_out'])} out"
    cached = f" ({round(100 * cost['tokens_cached'] / sent)} % cached)" if sent else ""
    llm = f"{words.counted(cost['calls'], 'call')}, {words.thousands(sent)} tokens in{cached}, {spent}"
    undo = detail["snapshots"]["undo"]
    ago = f", {words.duration(age_s, whole=True)} ago" if age_s else ""
    proof = f"{label.words(made['label'], made['why'], made['accepted'])}; " if made else ""
    proof = "" if proof.removesuffix("; ") in goal_view.standing(detail) else proof
    found = {
        "name": detail["name"],
        "workspace": detail["workspace"],
        "agent": detail["agent"],
        "accepted": local(detail["accepted_at"]) + ago,
        "ended": local(detail["ended_at"]) if detail["ended_at"] else "",
        "working time": words.duration(cost["active_s"]) if cost["active_s"] else "",
        "LLM": f"{llm}, {cost['llm_s']:.1f} s" if cost["calls"] else "",
        "undo": f"{undo}, for some subtasks" if detail.get("undone_in_part") else undo,
        "proof": f"{proof}`clew proof {detail['id']}` says more" if made else "",
    }
    return {name: str(text) for name, text in found.items() if text}


def fresh_start(begun: Part) -> list[Said]:
    """Return why the attempt before this one ended, and how this one differs, where it does."""
    number, place = begun["attempt"], f"{begun['task_idx'] + 1}.{begun['subtask_idx'] + 1}"
    ground = goal_view.ground_facts(begun["restored"], begun["kept"], begun["left"])
    differs = "; ".join(filter(None, [begun["rung"], *ground])) or "as before"
    ended = (f"attempt {number - 1} at {place} ended: ", words.ending(begun["reason"]))
    return [ended, (f"attempt {number}: ", differs)]


def tree(detail: GoalDetail) -> list[Step]:
    """Return the tasks of a goal, each with its subtasks."""
    more = {(one["task_idx"], one["subtask_idx"]): one for one in detail["subtask_details"]}
    here = (detail["current_task_idx"], detail["current_subtask_idx"])
    flying = detail["in_flight"] if detail["status"] == "in_progress" else []
    tasks = []
    for t, task in enumerate(detail["goal"]["tasks"]):
        steps = []
        for s, one in enumerate(task["subtasks"]):
            notes = [*_findings(more.get((t, s), {}), detail), *_failures(one, detail)]
            if (t, s) == here:
                notes += [("running: ", f"#{it['seq']} {it['text']}") for it in flying]
            count = words.counted(one["actions_total"], "proposed action")
            done = count if one["actions_total"] else ""
            steps.append(_step(one, detail, f"{t + 1}.{s + 1}", done, notes))
        ended = sum(one.status in ("completed", "skipped") for one in steps)
        share = percent(ended / len(steps)) if steps else ""
        tasks.append(_step(task, detail, str(t + 1), share, (), steps))
    return tasks


def _step(step: Part, detail: GoalDetail, *more: Any) -> Step:
    status = step["status"]
    if status == "in_progress":
        status = goal_view.AT_REST.get(detail["status"], status)
    return Step(status, f"[{goal_view.MARKS.get(status, '?')}]", step["description"], *more)


def _findings(more: Part, detail: GoalDetail) -> Iterator[Said]:
    summary = more.get("summary") or ""
    if summary and detail["agent"] != "runbook" and not is_told(summary, detail["summary"]):
        yield "", summary
    yield from (("found: ", text) for text in more.get("insights", ()))


def _failures(step: Part, detail: GoalDetail) -> Iterator[Said]:
    if not (times := step["attempts"]):
        return
    continued = detail.get("continued", False)  # not by a daemon of an earlier version
    since = " since you last continued it" if continued else ""  # then it is counted from 0 again
    failed, why = f"failed {words.times(times)}{since}", step["last_failure"] or ""
    if step["status"] == "completed":
        yield f"{failed}, then completed", ""
    else:
        told = is_told(why, detail["question"], detail["reason"], detail["summary"])
        yield (f"{failed}: ", why) if why and not told else (failed, "")


def checks(detail: GoalDetail) -> list[Check]:
    """Return the checks of a goal with what came of them."""
    made, before, commands = detail["checks"], detail["passed_before"], detail["check_commands"]
    found = []
    for name in {**commands, **made}:
        passed = made[name]["passed"] if name in made else None
        how = {None: "not run", True: "passed", False: "failed"}[passed]
        how += PASSED_BEFORE[passed] if name in before else ""
        output = made[name]["output"] or "" if passed is False else ""
        found.append(Check(name, commands.get(name, ""), passed, how, output))
    return found


def unchecked(detail: GoalDetail) -> list[Said]:
    """Return what there is to know of a completed goal that had no checks, each with a command or ""; [] of others."""
    if detail["status"] != "completed" or detail["checks"] or detail["check_commands"]:
        return []
    return [(UNCHECKED, ""), *(("suggested: ", one["cmd"]) for one in detail["suggested_checks"])]
