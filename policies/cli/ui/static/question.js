// Shows the progress of the question in the address, and the answer when it is there. A closed page cancels it.
const byId = (id) => document.getElementById(id);
const events = new EventSource(`/events${location.pathname}${location.search}`);
const bar = document.querySelector("#progress progress");
const text = (seconds) => (seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`);
// The time that remains follows from the finished part; without one, from the time limit.
const clock = setInterval(() => {
  const seconds = performance.now() / 1000;
  const limit = Math.max(bar.dataset.limit - seconds, 0);
  const isKnown = bar.value > 0;
  const remaining = isKnown ? Math.min((seconds * (bar.max - bar.value)) / bar.value, limit) : limit;
  byId("seconds").textContent = `(${text(seconds)}; ${isKnown ? "about" : "at most"} ${text(remaining)} more)`;
}, 500);

const stop = (text) => {
  clearInterval(clock);
  events.close();
  byId("failed").textContent = text;
  byId("failed").hidden = false;
  bar.hidden = true;
  byId("step").hidden = byId("seconds").hidden = byId("cancel").hidden = true;
  const fields = [...document.querySelectorAll(".ask :is(input:not([type=hidden], [type=checkbox]), textarea)")];
  (fields.find(({ value }) => value && text.includes(value)) ?? fields[0])?.focus();
};

events.addEventListener("progress", (event) => {
  const step = JSON.parse(event.data);
  byId("step").textContent = step;
  const [, done, total] = step.match(/^(\d+) of (\d+) /) ?? [];
  if (Number(done)) [bar.max, bar.value] = [total, done];
});
events.addEventListener("failed", (event) => stop(JSON.parse(event.data)));
events.addEventListener("error", () => stop("forewarn does not answer. Fix: reload this page; if forewarn ui ended, start it again"));
events.addEventListener("done", () => {
  events.close();
  location.reload();
});
byId("cancel").addEventListener("click", () => stop("Cancelled. Reload this page to start again."));
