"use strict";
// What is typed into a field leaves the rows of its table that have it; without this there is no field.
(() => {
  document.querySelectorAll(".tools.of-rows").forEach((tools) => {
    const lines = [...tools.parentElement.querySelectorAll("tbody tr")];
    const rows = lines.map((line) => [line, line.textContent.toLowerCase()]);
    const found = tools.querySelector("[role=status]");
    tools.hidden = false;
    tools.querySelector("input").addEventListener("input", (event) => {
      const wanted = event.target.value.trim().toLowerCase();
      rows.forEach(([line, text]) => (line.hidden = !text.includes(wanted)));
      found.textContent = wanted ? `${lines.filter((line) => !line.hidden).length} of ${lines.length} rows` : "";
    });
  });
})();
