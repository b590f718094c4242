// The live tail: rows of a table from server-sent events. Everything is set as text, never as markup.
"use strict";
(() => {
  const keep = 500; // rows
  const hold = 5000; // occurrences while paused
  const table = document.getElementById("tail");
  const body = table.tBodies[0];
  const payloads = table.tHead.rows[0].cells.length > 5;
  const state = document.getElementById("state");
  const pause = document.getElementById("pause");
  const clear = document.getElementById("clear");
  let waiting = []; // while paused
  let missed = 0; // that did not fit into waiting
  let paused = false;

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const cell = (row, text, className) => {
    const td = row.insertCell();
    td.textContent = text;
    if (className) td.className = className;
  };
  const add = (line) => {
    const row = body.insertRow(0);
    if (line.skipped) {
      const td = row.insertCell();
      td.colSpan = table.tHead.rows[0].cells.length;
      td.textContent = line.skipped + " events were skipped, because they came too fast";
    } else {
      cell(row, new Date(line.timestamp).toISOString().slice(0, 19).replace("T", " ") + "Z");
      cell(row, line.event);
      cell(row, line.eventId, "long");
      cell(row, line.position, "number");
      cell(row, line.bytes, "number");
      if (payloads) cell(row, line.data === undefined ? "" : JSON.stringify(line.data), "long");
    }
    while (body.rows.length > keep) body.deleteRow(-1);
  };
  const take = (line) => {
    if (!paused) return add(line);
    if (waiting.length < hold) waiting.push(line);
    else missed += line.skipped || 1;
  };

  pause.hidden = clear.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (paused) return;
    for (const line of waiting) add(line);
    if (missed) add({ skipped: missed });
    waiting = [];
    missed = 0;
  });
  clear.addEventListener("click", () => { body.replaceChildren(); waiting = []; missed = 0; });

  const source = new EventSource(table.dataset.source);
  say("Connecting.");
  source.addEventListener("open", () => say("Connected. New events appear here."));
  source.addEventListener("error", () => {
    say(source.readyState === EventSource.CLOSED ? "Not connected: the server refused the connection." : "Connection lost. Reconnecting.");
  });
  source.addEventListener("occurrence", (e) => take(JSON.parse(e.data)));
  source.addEventListener("skipped", (e) => take({ skipped: JSON.parse(e.data).count }));
  source.addEventListener("end", (e) => {
    const problem = JSON.parse(e.data);
    if (problem.code === "forbidden") source.close(); // else the browser connects again
    say("Ended: " + problem.detail + ".");
  });
})();
