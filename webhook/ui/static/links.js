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

byId("copy-link").addEventListener("click", () => copy(location.href, "link"));
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
