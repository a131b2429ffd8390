"use strict";
// A click on the head of a table's column sorts its rows.
(() => {
  document.querySelectorAll("table.sortable").forEach((table) => {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      head.classList.toggle("number", Boolean(body.rows.length) && body.rows[0].cells[place].classList.contains("number"));
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        [...table.tHead.rows[0].cells].forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const lines = [...body.rows];
        const number = lines.length > 0 && lines[0].cells[place].matches(".number");
        const value = (line) => line.cells[place].dataset.value ?? line.cells[place].textContent;
        const order = number ? (a, b) => value(a) - value(b) : (a, b) => value(a).localeCompare(value(b));
        lines.sort(down ? (a, b) => order(b, a) : order);
        body.append(...lines);
      });
    });
  });
})();
