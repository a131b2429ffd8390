// The buttons of every page: a link that restores it, the command that gives the same answer, and the JSON.
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
