// The buttons of every page: a link that restores it, the command that gives the same answer, the JSON, and a reload.
const byId = (id) => document.getElementById(id);

const copy = async (text, what) => {
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = `${what} copied`;
  } catch {
    byId("copied").textContent = `${what} not copied: the browser denies it`;
  }
};

byId("copy-link").addEventListener("click", () => {
  if (hasView()) store();
  copy(location.href, "link");
});
byId("copy-command").addEventListener("click", (event) => copy(event.target.dataset.command, "command"));
byId("copy-json").addEventListener("click", async (event) => {
  const own = event.target.json;
  copy(own ? await own() : await (await fetch(event.target.dataset.path + location.search)).text(), "JSON");
});
byId("reload")?.addEventListener("click", async (event) => {
  event.target.disabled = true;
  byId("copied").textContent = "reading the cluster …";
  try {
    const answer = await fetch("/api/reload", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
    if (answer.ok) return location.reload();
    byId("copied").textContent = (await answer.json()).error;
  } catch {
    byId("copied").textContent = "forewarn does not answer";
  }
  event.target.disabled = false;
});

// The search, filter, height and moment of the nodes stand in the address, too. The Predict page writes its own address.
document.querySelector(".ask")?.addEventListener("input", () => document.body.classList.add("changed"));

const VIEW = { search: "input", band: "change", moment: "input" };
const hasView = () => byId("nodes") && location.pathname !== "/predict";
const views = () => Object.entries(VIEW).filter(([id]) => byId(id));
const height = () => [...document.querySelectorAll("#tools input[type=radio]")];

const store = () => {
  const view = new URLSearchParams(views().map(([id]) => [id, byId(id).value]));
  view.set("height", height().findIndex((each) => each.checked));
  history.replaceState(null, "", `${location.pathname}${location.search}#${view}`);
};

const restore = () => {
  const view = new URLSearchParams(location.hash.slice(1));
  const chosen = height()[Number(view.get("height"))];
  if (view.has("height") && chosen && !chosen.checked) chosen.click();
  for (const [id, event] of views()) {
    if (!view.has(id) || byId(id).value === view.get(id)) continue;
    byId(id).value = view.get(id);
    byId(id).dispatchEvent(new Event(event, { bubbles: true }));
  }
};

if (hasView()) {
  addEventListener("load", () => {
    restore();
    for (const event of ["input", "change"]) byId("tools").addEventListener(event, store);
  });
}
