// The console's own script. Every page works without it; it adds live news, keys, countdowns and answers in place.
"use strict";

const body = document.body;
const skewMs = Number(body.dataset.now) - Date.now();
const SOON_MS = 60_000;
const REST_MS = 600; // after an answer, keys rest: nobody answers a question that was not read
let restUntil = 0;
let turn = 0; // counts what the person does: an answer to something older is dropped
let busy = 0; // requests of the person that are under way
let missed = false; // news that came meanwhile

// Times

function span(ms) {
  const whole = Math.max(0, Math.floor(ms / 1000));
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  while (parts.length > 1 && parts[0][0] === 0) parts.shift();
  return parts.slice(0, 2).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

function tick() {
  for (const time of document.querySelectorAll("time[data-deadline]")) {
    const left = Number(time.dataset.deadline) - (Date.now() + skewMs);
    time.textContent = left > 0 ? span(left) : "expired";
    time.classList.toggle("soon", left < SOON_MS);
    if (left <= 0 && time.closest("#detail")) {
      for (const button of document.querySelectorAll("#answer button")) button.disabled = true;
    }
  }
}
tick();
setInterval(tick, 1000);

for (const time of document.querySelectorAll("time[datetime]:not([data-deadline])")) {
  const at = new Date(time.getAttribute("datetime"));
  if (!Number.isNaN(at.getTime())) time.title = at.toLocaleString();
}

// Pages are asked for as documents, never as text to be parsed: nothing here turns a text into markup.

function load(url, { method = "GET", data = null, automatic = false } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = "document";
    if (automatic) request.setRequestHeader("X-Console-Refresh", "automatic");
    request.onload = () => (request.response ? resolve({ page: request.response, url: request.responseURL, status: request.status }) : reject(new Error("no page")));
    request.onerror = () => reject(new Error("no connection"));
    request.send(data);
  });
}

function take(page, id) {
  const next = page.getElementById(id);
  const here = document.getElementById(id);
  if (next && here) here.replaceWith(document.adoptNode(next));
}

// A live region must stay the same element to be read out.
function takeWithin(page, id) {
  const next = page.getElementById(id);
  if (next) document.getElementById(id).replaceChildren(...[...next.childNodes].map((node) => document.adoptNode(node)));
}

function say(text) {
  const news = document.getElementById("news");
  if (news) news.textContent = text;
}

if (body.dataset.place === "inbox") {
  const rows = () => [...document.querySelectorAll("#queue a[data-call]")];
  const current = () => document.getElementById("detail").dataset.call;
  const known = new Set(rows().map((row) => row.dataset.call));

  function markRow(call) {
    for (const row of rows()) {
      if (row.dataset.call === call) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  // What is in view changes only when the person does something, or when the question itself has ended.
  function show({ page, url }, { keepDetail = false, automatic = false } = {}) {
    if (!page.getElementById("detail")) {
      location.assign("/console");
      return;
    }
    const focused = document.activeElement?.closest("#queue a[data-call]")?.dataset.call;
    for (const id of ["queue", "count", "switch", "banner"]) take(page, id);
    if (!keepDetail) take(page, "detail");
    if (!automatic) {
      takeWithin(page, "notices");
      document.getElementById("main").dataset.picked = page.getElementById("main").dataset.picked;
      if (new URL(url).pathname === "/console") history.replaceState(null, "", url);
      window.scrollTo(0, 0);
    }
    markRow(current());
    if (focused) rows().find((row) => row.dataset.call === focused)?.focus({ preventScroll: true });
    document.title = page.title;
    tick();
  }

  async function open(url, options = {}) {
    const mine = ++turn;
    busy += 1;
    try {
      const answer = await load(url, options);
      if (turn !== mine) return false;
      turn += 1;
      show(answer);
      return true;
    } catch {
      say("The gate cannot be reached.");
      return false;
    } finally {
      busy -= 1;
      if (!busy && missed) refresh();
    }
  }

  async function pick(row) {
    if (!row) return;
    markRow(row.dataset.call);
    if (await open(row.href)) document.querySelector("#queue a[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  async function refresh() {
    missed = busy > 0;
    if (missed) return;
    const before = turn;
    const detail = document.getElementById("detail");
    const inView = current();
    const url = inView ? `/console?call=${encodeURIComponent(inView)}` : "/console";
    let answer;
    try {
      answer = await load(url, { automatic: true });
    } catch {
      return;
    }
    if (answer.status === 401) return signedOut();
    const next = answer.page.getElementById("detail");
    if (!next || turn !== before) {
      if (next) refresh(); // the person was faster
      return;
    }
    const note = detail.querySelector("input[name=note]")?.value || "";
    const same = next.dataset.mark === detail.dataset.mark && inView;
    const focused = detail.contains(document.activeElement);
    show(answer, { keepDetail: Boolean(same), automatic: true });
    const fresh = rows().filter((row) => !known.has(row.dataset.call));
    for (const row of fresh) {
      known.add(row.dataset.call);
      row.classList.add("fresh");
    }
    if (!same) {
      const field = document.querySelector("#detail input[name=note]");
      if (field && inView === current()) field.value = note;
      if (focused) document.getElementById("detail").focus();
      restUntil = Date.now() + REST_MS;
      if (inView && inView === current() && !document.getElementById("answer")) say("The question in view has ended.");
    }
    if (fresh.length) {
      const asked = fresh[0].querySelector("strong").textContent;
      const from = fresh[0].querySelector(".from").textContent;
      const open = document.getElementById("count").textContent;
      say(`New question: ${from} wants to call ${asked}. ${open} open.`);
    }
  }

  function signedOut() {
    location.assign("/console/sign-in");
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !("swap" in form.dataset)) return;
    event.preventDefault();
    const data = new URLSearchParams(new FormData(form, event.submitter));
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    restUntil = Date.now() + REST_MS;
    open(form.action, { method: "POST", data }).then((done) => {
      restUntil = Date.now() + REST_MS;
      if (done) document.getElementById("detail").focus({ preventScroll: true });
      else for (const button of form.querySelectorAll("button:not([hidden])")) button.disabled = false;
    });
  });

  document.addEventListener("click", (event) => {
    const row = event.target instanceof Element ? event.target.closest("#queue a[data-call]") : null;
    if (!row || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    pick(row);
  });

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    Enter: () => document.getElementById("detail").focus(),
    a: () => press("allow"),
    d: () => press("deny"),
    "?": () => document.getElementById("keys").showModal(),
  };

  function step(by) {
    const all = rows();
    const place = all.findIndex((row) => row.hasAttribute("aria-current"));
    pick(all[Math.min(all.length - 1, Math.max(0, place + by))]);
  }

  function press(verb) {
    if (busy || Date.now() < restUntil) return;
    const button = document.querySelector(`#answer button[value=${verb}]`);
    if (button && !button.disabled) button.click();
  }

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === "Enter" && target instanceof Element && target.closest("a, button, summary")) return;
    const action = keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });

  // News: only that something changed; what, is asked for by the page's own address.
  let seen = null;
  const source = new EventSource("/console/events");
  source.addEventListener("inbox", (event) => {
    const news = JSON.parse(event.data);
    if (seen !== news.digest) refresh();
    seen = news.digest;
  });
  source.addEventListener("signed-out", () => {
    source.close();
    signedOut();
  });
  const live = document.getElementById("live");
  source.onopen = () => (live.hidden = true);
  source.onerror = () => (live.hidden = false);
}
