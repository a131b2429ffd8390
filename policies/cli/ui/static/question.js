// Shows the progress of the question in the address, and the answer when it is there. A closed page cancels it.
const byId = (id) => document.getElementById(id);
const events = new EventSource(`/events${location.pathname}${location.search}`);
const clock = setInterval(() => (byId("seconds").textContent = `(${Math.round(performance.now() / 1000)} s)`), 500);

const stop = (text) => {
  clearInterval(clock);
  events.close();
  byId("failed").textContent = text;
  byId("failed").hidden = false;
  document.querySelector("#progress progress").hidden = true;
  byId("step").hidden = byId("seconds").hidden = byId("cancel").hidden = true;
  const fields = [...document.querySelectorAll(".ask :is(input:not([type=hidden], [type=checkbox]), textarea)")];
  (fields.find(({ value }) => value && text.includes(value)) ?? fields[0])?.focus();
};

events.addEventListener("progress", (event) => (byId("step").textContent = JSON.parse(event.data)));
events.addEventListener("failed", (event) => stop(JSON.parse(event.data)));
events.addEventListener("error", () => stop("forewarn does not answer. Fix: reload this page; if forewarn ui ended, start it again"));
events.addEventListener("done", () => {
  events.close();
  location.reload();
});
byId("cancel").addEventListener("click", () => stop("Cancelled. Reload this page to start again."));
