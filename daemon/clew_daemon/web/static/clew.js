// Three things, each of which the pages can do without: refresh a page when its goal has changed, send changes as JSON
// to this server, and move by keys. Nothing that comes from a goal is ever made into markup here.
"use strict";
(() => {
  const base = document.documentElement.dataset.base;
  const live = document.getElementById("live");
  const say = (text, state) => { if (live) { live.textContent = text; live.dataset.state = state || ""; } };

  // ---- live: the page fetches itself and takes over what differs

  const KEEP = { DETAILS: ["open"], TEXTAREA: [], INPUT: ["value"], OPTION: ["selected"], BUTTON: ["disabled"] };
  const keyOf = (node) => (node && node.dataset ? node.dataset.key || node.id : "") || "";

  function morph(old, now) {
    if (old.isEqualNode(now) || (old.classList && old.classList.contains("told"))) return;
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) { old.replaceWith(now); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.nodeValue = now.nodeValue; return; }
    const keep = KEEP[old.nodeName] || [];
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && !keep.includes(name)) old.removeAttribute(name);
    for (const { name, value } of [...now.attributes]) if (old.getAttribute(name) !== value && !keep.includes(name)) old.setAttribute(name, value);
    if (old.nodeName !== "TEXTAREA") morphChildren(old, now);
  }

  const kindOf = (node) => `${node.nodeName} ${node.getAttribute ? node.getAttribute("class") : ""}`;

  // The next node without a key of the same kind: one with a key may have come or gone before it.
  function alike(at, wanted) {
    while (at && (keyOf(at) || kindOf(at) !== kindOf(wanted))) at = at.nextSibling;
    return at;
  }

  function morphChildren(old, now) {
    const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
    let at = old.firstChild;
    for (const wanted of [...now.childNodes]) {
      const key = keyOf(wanted);
      const found = key ? keyed.get(key) : alike(at, wanted);
      if (found && found === at) at = at.nextSibling;
      if (!found) { old.insertBefore(wanted, at); continue; }
      if (found.nextSibling !== at) old.insertBefore(found, at);
      keyed.delete(key);
      morph(found, wanted);
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  }

  // After a refresh the page rests twice as long as that took: a server that is slow is asked less often.
  const REST_MS_MAX = 2000;
  let busy = false, again = false;
  async function refresh() {
    if (busy || document.hidden) { again = true; return; }
    busy = true;
    again = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.status === 401) { say("session over: clew web --link", "gone"); source.close(); return; }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.getElementById("main");
      if (main) { morph(document.getElementById("main"), main); document.title = page.title; }
    } catch { /* the server is gone: the event source says so, and comes back */ } finally {
      setTimeout(rested, Math.min(REST_MS_MAX, 2 * (performance.now() - began)));
    }
  }
  function rested() { busy = false; if (again) refresh(); }
  document.addEventListener("visibilitychange", () => { if (again) refresh(); });

  const here = location.pathname.startsWith(`${base}/goals/`) ? decodeURIComponent(location.pathname.slice(base.length + 7).split("/")[0]) : "";
  let source = { close() {} };
  if (base !== undefined && document.getElementById("main")) {
    source = new EventSource(`${base}/events`);
    let first = true;
    source.onopen = () => { say("live", "live"); if (!first) refresh(); first = false; };
    source.onerror = () => say("not connected", "gone");
    source.onmessage = (event) => {
      const { goals } = JSON.parse(event.data);
      if (!here || goals.includes(here) || goals.includes("")) refresh();
    };
  }

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-since]")) {
      const seconds = Math.max(0, Date.now() / 1000 - Number(time.dataset.since));
      const [size, unit] = units.find(([one]) => seconds >= one) || [1, "s"];
      const text = `${Math.floor(seconds / size)} ${unit}`;
      if (time.textContent !== text) time.textContent = text;
    }
  }, 5000);

  // ---- changes: JSON to this server; a form that is posted in any other way is refused

  async function change(what, body, from) {
    say("…");
    const control = from.querySelector ? from.querySelector("button") || from : from;
    control.disabled = true;
    try {
      const answer = await fetch(`${base}/change/${what}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      const told = answer.headers.get("content-type")?.startsWith("application/json") ? await answer.json() : { error: `refused (${answer.status})` };
      const beside = from.querySelector && from.querySelector(".told");
      if (beside) { beside.textContent = told.error || ""; beside.hidden = !told.error; }
      say(told.error || told.said, told.error ? "gone" : "live");
      if (!told.error && from.reset) from.reset();
      refresh();
    } catch { say("not connected", "gone"); } finally { control.disabled = false; }
  }

  // Asked in the page, with No first: Enter alone is a no, and no answer is called like what it is about.
  function ask(question, then) {
    const dialog = document.body.appendChild(document.createElement("dialog"));
    dialog.append(`${question} `);
    for (const answer of ["No", "Yes"]) {
      const button = dialog.appendChild(document.createElement("button"));
      button.textContent = answer;
      button.addEventListener("click", () => { dialog.close(); if (answer === "Yes") then(); });
    }
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  }

  document.addEventListener("click", (event) => {
    const mark = event.target.closest("rect[data-seq]");
    if (mark && here) location.href = `${base}/goals/${encodeURIComponent(here)}/actions/${mark.dataset.seq}`;
    const button = event.target.closest("button[data-change]");
    if (!button) return;
    const body = JSON.parse(button.dataset.body);
    const perform = () => change(button.dataset.change, body, button);
    if (button.dataset.confirm) ask(`${button.textContent} ${button.dataset.confirm}?`, perform); else perform();
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.change) return;
    event.preventDefault();
    const body = Object.fromEntries(new FormData(form));
    if (form.dataset.goal) body.goal = form.dataset.goal;
    change(form.dataset.change, body, form);
  });

  // ---- keys

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName)) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "/") {
      const filter = document.querySelector("[data-filter]");
      event.preventDefault();
      if (filter) filter.focus(); else location.href = `${base}/log${here ? `?goal=${encodeURIComponent(here)}` : ""}`;
    } else if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("a.row")];
      const at = rows.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
      const row = rows[Math.min(Math.max(at, 0), rows.length - 1)];
      if (row) { row.focus(); row.scrollIntoView({ block: "nearest" }); }
    } else {
      const jump = document.querySelector(`[data-jump="${CSS.escape(event.key)}"]`);
      if (jump) location.href = jump.href;
    }
  });
})();
