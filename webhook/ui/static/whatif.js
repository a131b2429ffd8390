// The form of a question: the fields that its change has, and nodes by clicks on their cells.
const byId = (id) => document.getElementById(id);
const change = byId("change");
const name = byId("name");

change.addEventListener("change", () => {
  // A field is [key, label, field, option, kind, names, hint, least, most, default, required].
  const fields = new Map(JSON.parse(change.selectedOptions[0].dataset.fields).map((field) => [field[0], field]));
  for (const label of document.querySelectorAll(".input")) {
    const input = label.querySelector("input, select, textarea");
    const field = fields.get(input.name);
    label.hidden = input.disabled = !field;
    if (!field) continue;
    label.querySelector("span").textContent = field[1];
    if (input.type === "checkbox") continue;
    // A workload or a node stays for the next question about it.
    const list = `known-${field[5]}`;
    if (input.getAttribute("list") !== list || input.name === "number") input.value = "";
    input.required = field[10];
    input.placeholder = field[6] || field[9];
    input.setAttribute("list", list);
  }
});

const toggle = (node) => {
  if (change.value !== "drain" && change.value !== "lose-node") {
    change.value = "drain";
    change.dispatchEvent(new Event("change"));
  }
  const names = name.value.split(/\s+/).filter(Boolean);
  name.value = (names.includes(node) ? names.filter((each) => each !== node) : [...names, node]).join(" ");
};

byId("nodes")?.addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  if (cell) toggle(cell.dataset.name);
});
byId("nodes")?.addEventListener("keydown", (event) => {
  const cell = event.target.closest(".cell");
  if (!cell || (event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  toggle(cell.dataset.name);
});
