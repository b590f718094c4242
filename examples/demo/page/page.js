"use strict";

const $ = (id) => document.getElementById(id);
const ways = new Map();

/** Does an action on the server of this page, and says what went wrong. */
async function act(path, form) {
  try {
    const answer = await fetch(path, { method: "POST", body: new URLSearchParams(form) });
    $("problem").textContent = answer.ok ? "" : await answer.text();
  } catch {
    $("problem").textContent = "The demo has ended. Start it with make demo OPEN=1 and load its page.";
  }
}

/** Returns the section of a subscriber, which is made when it is first needed. */
function section(name) {
  if (!ways.has(name)) {
    const made = $("way").content.firstElementChild.cloneNode(true);
    made.id = name;
    made.querySelector("h2").textContent = name;
    made.querySelector("button").addEventListener("click", (e) => act(e.target.dataset.action, { way: name }));
    $("ways").append(made);
    ways.set(name, made);
  }
  return ways.get(name);
}

function showWay(way, made) {
  const s = section(way.name);
  const state = s.querySelector(".state");
  state.textContent = way.paused ? "paused" : "subscribed";
  state.classList.toggle("paused", way.paused);
  s.querySelector("output").textContent = `${way.count} of ${made}`;
  const button = s.querySelector("button");
  button.textContent = `${way.paused ? "Resume" : "Pause"} ${way.name}`;
  button.dataset.action = way.paused ? "resume" : "pause";
  const list = s.querySelector("ol");
  const shown = new Set([...list.children].map((li) => li.dataset.id));
  list.replaceChildren(...(way.last ?? []).map((a) => {
    const li = document.createElement("li");
    li.dataset.id = a.id;
    li.classList.toggle("new", !shown.has(a.id));
    for (const text of [a.id, a.tookMs < 1000 ? `${a.tookMs} ms` : `${(a.tookMs / 1000).toFixed(1)} s`]) {
      li.append(Object.assign(document.createElement("span"), { textContent: text }));
    }
    return li;
  }));
}

function show(state) {
  $("made").textContent = state.made;
  $("accepted").textContent = state.accepted;
  $("kills").textContent = `${state.kills} kill${state.kills === 1 ? "" : "s"}`;
  $("up").textContent = state.up ? "up" : "away";
  $("up").classList.toggle("away", !state.up);
  $("kill").disabled = !state.up;
  if ($("verdict").textContent !== state.verdict) {
    $("verdict").textContent = state.verdict;
  }
  for (const way of state.ways) {
    showWay(way, state.made);
  }
}

$("send").addEventListener("click", () => act("send"));
$("kill").addEventListener("click", () => act("kill"));
new EventSource("state").addEventListener("message", (e) => show(JSON.parse(e.data)));
