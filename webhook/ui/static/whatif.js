// The form of a question: the fields that its change has, and nodes by clicks on their cells.
const byId = (id) => document.getElementById(id);
const [change, name, ofClass, inNamespace, withNumber] =
  ["change", "name", "class-change", "in-namespace", "with-number"].map(byId);

change.addEventListener("change", () => {
  const { hint, number } = change.selectedOptions[0].dataset;
  ofClass.hidden = ofClass.disabled = change.value !== "class";
  inNamespace.hidden = inNamespace.disabled = hint !== "KIND/NAME";
  withNumber.hidden = withNumber.disabled = number === undefined;
  name.placeholder = hint;
  name.value = "";
});

const toggle = (node) => {
  if (change.value !== "drain" && change.value !== "lose-node") {
    change.value = "lose-node";
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
