// The Predict page: what is typed is predicted at once, and stands in the address, which restores it.
const byId = (id) => document.getElementById(id);
const manifest = byId("manifest");
const PAUSE = 60;
const BUSY_AFTER = 400;
const LONGEST_ADDRESS = 30000;
const HEADERS = { "Content-Type": "application/json" };
const EXAMPLE = `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: example}
value: 5000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: example, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: example}}
  template:
    metadata: {labels: {app: example}}
    spec:
      priorityClassName: example
      containers:
      - name: app
        image: example
        resources: {requests: {cpu: "2", memory: 1Gi}}
`;
let asking = null;
let waiting = 0;
let stale = 0;

const show = (found) => {
  byId("headline").textContent = "";
  byId("answer").replaceChildren(...new DOMParser().parseFromString(found.markup, "text/html").body.childNodes);
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
  const body = JSON.stringify({ manifest: manifest.value });
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
  const body = JSON.stringify({ manifest: manifest.value, document: true });
  return (await fetch("/api/predict", { method: "POST", headers: HEADERS, body })).text();
};
manifest.addEventListener("input", later);
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
    predict();
  } catch {
    fail("the address has no manifest that can be read");
  }
};
restore();
