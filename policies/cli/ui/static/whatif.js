// Nodes of the cluster lead to their drain or loss: a click or Enter asks, Ctrl and a click or Space selects several.
const byId = (id) => document.getElementById(id);
const { change, name } = document.querySelector(".ask").elements;
const input = ["drain", "lose-node"].includes(change?.value) ? name : null;
const selected = new Set(input?.value.split(/\s+/).filter(Boolean));
const HINT = `Click a node to ${change?.value === "lose-node" ? "lose" : "drain"} it, or Ctrl-click to select several.`;

const choose = (node, isMore) => {
  if (!selected.delete(node) || !isMore) selected.add(node);
  const names = [...selected].join(" ");
  if (input) input.value = names;
  if (!isMore) location = `/whatif?${new URLSearchParams({ change: input ? change.value : "drain", name: names })}`;
};

byId("details").firstElementChild.textContent = HINT;
let touched;
byId("nodes").addEventListener("click", (event) => {
  const node = event.target.closest(".cell")?.dataset.name;
  const isFirst = event.pointerType === "touch" && touched !== node; // shows the Pods of the node, without a mouse
  touched = node;
  if (node && !isFirst) choose(node, event.ctrlKey || event.metaKey);
});
byId("nodes").addEventListener("keydown", (event) => {
  const node = event.target.closest(".cell")?.dataset.name;
  if (!node || !["Enter", " "].includes(event.key)) return;
  event.preventDefault();
  choose(node, event.key === " ");
});
