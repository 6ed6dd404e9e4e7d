// Headings of a table of the class "sortable" become buttons that sort its rows; a second press turns the order round.
// A cell counts as its data-value, else as what it says: times, shares and numbers by their size, anything else as text.
(() => {
  const seconds = { ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1 };
  const number = /^([+-]?\d[\d.]*(?:e[+-]?\d+)?)\s?(ns|µs|us|ms|s|%)?$/;
  const value = (cell) => {
    if (cell.dataset.value !== undefined) return cell.dataset.value;
    const text = cell.textContent.trim(), found = number.exec(text);
    if (found) return found[1] * (seconds[found[2]] ?? 1);
    return text === "–" || cell.matches(".unknown") ? "" : text;
  };

  const sortBy = (heading) => {
    const body = heading.closest("table").tBodies[0], place = heading.cellIndex, now = heading.getAttribute("aria-sort");
    const order = now === "ascending" || (!now && !heading.matches(".text")) ? "descending" : "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const lines = [...body.rows].map((row) => [row, value(row.cells[place])]).sort(([, a], [, b]) => {
      if (a === "" || b === "") return (a === "") - (b === ""); // what is not known is last in both orders
      const less = isNaN(a) || isNaN(b) ? `${a}`.localeCompare(`${b}`, undefined, { numeric: true }) : a - b;
      return order === "ascending" ? less : -less;
    });
    body.append(...lines.map(([row]) => row));
  };

  const addButtons = () => {
    for (const heading of document.querySelectorAll(".sortable thead th")) {
      if (heading.querySelector(".sort") || !heading.textContent) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".sort");
    if (button) sortBy(button.closest("th"));
  });
  addButtons();
  document.addEventListener("portatile:replaced", addButtons); // a live page has new content
})();
