// The page works without this. It adds: one tab stop a chart with arrow keys inside, values beside the pointer, folds open in print.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // what is focused has the same text as its label
  document.body.append(tip);

  const said = new Map(); // point -> what it says
  const rows = new Map(); // mark -> the marks of its chart
  for (const chart of document.querySelectorAll("svg.chart")) {
    for (const point of chart.querySelectorAll(".mark, .dot, .cross")) {
      const title = point.querySelector("title");
      if (!title) continue;
      said.set(point, title.textContent);
      if (point.matches(".mark")) point.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    const marks = [...chart.querySelectorAll(".mark")];
    marks.forEach((mark, place) => { mark.tabIndex = place ? -1 : 0; rows.set(mark, marks); });
  }

  let shown = null;
  const show = (point) => {
    shown = point;
    tip.textContent = said.get(point);
    tip.hidden = false;
    const at = point.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(at.left + at.width / 2 - own.width / 2, 8), document.documentElement.clientWidth - own.width - 8);
    tip.style.left = `${left}px`;
    tip.style.top = `${at.top - own.height - 8 < 0 ? at.bottom + 8 : at.top - own.height - 8}px`;
  };
  const hide = () => { shown = null; tip.hidden = true; };

  // On the document: an SVG that listens to focus becomes a tab stop itself in Chromium.
  for (const [kind, act] of [["pointerover", show], ["focusin", show], ["pointerout", hide], ["focusout", hide]]) {
    document.addEventListener(kind, (event) => { if (said.has(event.target)) act(event.target); });
  }
  addEventListener("scroll", () => { if (shown) show(shown); }, { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const marks = rows.get(event.target);
    if (!marks) return;
    const place = marks.indexOf(event.target), last = marks.length - 1;
    const steps = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const mark = marks[Math.min(Math.max(steps[event.key], 0), last)];
    marks.forEach((other) => { other.tabIndex = other === mark ? 0 : -1; });
    mark.focus();
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details.plain:not([open])")];
    closed.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => { closed.forEach((fold) => { fold.open = false; }); });
})();
