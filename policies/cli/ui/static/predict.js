// The Predict page: what is typed is predicted at once, and stands in the address, which restores it.
const byId = (id) => document.getElementById(id);
const fields = Object.fromEntries([...byId("edit").elements].map((field) => [field.id, field]));
const KEYS = Object.keys(fields).filter((key) => key !== "object");
const manifest = byId("manifest");
const PAUSE = 60;
const BUSY_AFTER = 400;
const LONGEST_ADDRESS = 30000;
const HEADERS = { "Content-Type": "application/json" };
const EXAMPLE = `apiVersion: apps/v1
kind: Deployment
metadata: {name: example, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: example}}
  template:
    metadata: {labels: {app: example}}
    spec:
      containers:
      - name: app
        image: example
        resources: {requests: {cpu: "1", memory: 1Gi}}
`;
let asking = null;
let waiting = 0;
let stale = 0;

const make = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
};

const valueOf = (field) => {
  if (field === fields.object) return Math.max(field.selectedIndex, 0);
  if (field.type === "number") return field.value === "" ? null : Number(field.value);
  return field.value.trim();
};

const edits = () => Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, valueOf(field)]));

const fill = (found) => {
  const place = fields.object.selectedIndex;
  fields.object.replaceChildren(...found.objects.map((each) => make("option", "", `${each.kind} ${each.namespace}/${each.name}`)));
  fields.object.selectedIndex = Math.min(Math.max(place, 0), found.objects.length - 1);
  const object = found.objects[fields.object.selectedIndex];
  fields.policy.disabled = fields.value.value === "";
  fields.replicas.disabled = !object || object.replicas === null;
  for (const key of KEYS) fields[key].placeholder = object?.[key] ?? "";
  byId("container").textContent = object
    ? `Empty fields: as in the manifest. Requests apply to container ${object.container || "(none)"}.`
    : "The manifest has no Pod or workload.";
};

const show = (found) => {
  byId("headline").textContent = "";
  byId("answer").replaceChildren(...new DOMParser().parseFromString(found.markup, "text/html").body.childNodes);
  fill(found);
  byId("fault").hidden = !found.faults.length;
  byId("fault").textContent = found.faults.join("\n");
  byId("picture").replaceChildren();
  if (found.nodes.names.length) {
    byId("picture").append(byId("nodes-of-a-prediction").content.cloneNode(true));
    drawNodes(found.nodes);
  }
  byId("copy-command").dataset.command = found.command;
  byId("copy-command").disabled = byId("copy-json").disabled = false;
  document.documentElement.dataset.predicted = Number(document.documentElement.dataset.predicted ?? 0) + 1;
};

// A page without an answer; `text`: why.
const clear = (headline, text = "") => {
  byId("headline").className = text ? "bad" : "";
  byId("headline").textContent = headline;
  byId("fault").hidden = !text;
  byId("fault").textContent = text;
  for (const id of ["answer", "picture"]) byId(id).replaceChildren();
  byId("copy-command").disabled = byId("copy-json").disabled = true;
};

const fail = (text) => clear("not predicted", text);

// The shown answer is about an earlier manifest until the next one arrives.
const markBusy = () => {
  clearTimeout(stale);
  stale = setTimeout(() => clear("Predicting … (other questions may run first)"), BUSY_AFTER);
  byId("copy-command").disabled = byId("copy-json").disabled = true;
};

const predict = async () => {
  asking?.abort();
  if (!manifest.value.trim()) {
    clearTimeout(stale);
    history.replaceState(null, "", location.pathname);
    clear("no manifest yet");
    return;
  }
  markBusy();
  const own = (asking = new AbortController());
  const body = JSON.stringify({ manifest: manifest.value, edits: edits() });
  const state = `#${encodeURIComponent(body)}`;
  history.replaceState(null, "", state.length <= LONGEST_ADDRESS ? state : location.pathname);
  try {
    const answer = await fetch("/api/predict", { method: "POST", headers: HEADERS, body, signal: own.signal });
    const found = await answer.json();
    clearTimeout(stale);
    answer.ok ? show(found) : fail(found.error);
  } catch (error) {
    if (error.name === "AbortError") return;
    clearTimeout(stale);
    fail("forewarn does not answer. Fix: reload this page; if forewarn ui ended, start it again");
  }
};

const later = () => {
  clearTimeout(waiting);
  waiting = setTimeout(predict, PAUSE);
};

const put = (text) => {
  manifest.value = text;
  predict();
};

// For the button that copies the JSON.
byId("copy-json").json = async () => {
  const body = JSON.stringify({ manifest: manifest.value, edits: edits(), document: true });
  return (await fetch("/api/predict", { method: "POST", headers: HEADERS, body })).text();
};
manifest.addEventListener("input", later);
byId("edit").addEventListener("input", (event) => {
  if (event.target === fields.object) KEYS.forEach((key) => (fields[key].value = ""));
  later();
});
byId("edit").addEventListener("submit", (event) => event.preventDefault());
byId("example").addEventListener("click", () => put(EXAMPLE));
byId("file").addEventListener("change", async (event) => event.target.files[0] && put(await event.target.files[0].text()));
manifest.addEventListener("dragover", (event) => {
  event.preventDefault();
  manifest.classList.add("over");
});
manifest.addEventListener("dragleave", () => manifest.classList.remove("over"));
manifest.addEventListener("drop", async (event) => {
  event.preventDefault();
  manifest.classList.remove("over");
  const file = event.dataTransfer.files[0];
  put(file ? await file.text() : event.dataTransfer.getData("text/plain"));
});

const restore = () => {
  if (location.hash.length < 2) return;
  try {
    const state = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    manifest.value = String(state.manifest);
    for (const key of KEYS) {
      fields[key].value = state.edits?.[key] ?? "";
    }
    const place = Number(state.edits?.object) || 0;
    fields.object.replaceChildren(...Array.from({ length: Math.min(place, 1000) + 1 }, () => make("option", "", "")));
    fields.object.selectedIndex = place;
    predict();
  } catch {
    fail("the address has no manifest that can be read");
  }
};
restore();
