// The page works without this. It adds: one tab stop a chart with arrow keys inside, values beside the pointer, folds open in print,
// the choice of problems, and where in the page one is.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // what is focused has the same text as its label
  document.body.append(tip);

  const said = new Map(); // point -> what it says
  const rows = new Map(); // mark -> the marks of its chart
  const readCharts = () => { for (const chart of document.querySelectorAll("svg.chart")) {
    for (const point of chart.querySelectorAll(".mark, .dot, .cross")) {
      const title = point.querySelector("title");
      if (!title) continue;
      said.set(point, title.textContent);
      if (point.matches(".mark")) point.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    const marks = [...chart.querySelectorAll(".mark")];
    marks.forEach((mark, place) => { mark.tabIndex = place ? -1 : 0; rows.set(mark, marks); });
  } };

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
    document.addEventListener(kind, (event) => {
      const point = event.target.closest?.(".mark, .dot, .cross");
      if (said.has(point)) act(point);
    });
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

  // Which problems are shown: their sections, rows and entries of the contents; the others' marks fade.
  const choose = (form) => {
    const wanted = Object.fromEntries(["text", "workload", "device", "status"].map((name) => [name, form.elements[name].value]));
    const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = [...document.querySelectorAll("section.problem")], shown = new Set();
    for (const section of sections) {
      const text = section.querySelector("h2").textContent.toLowerCase();
      const fits = ["workload", "device", "status"].every((name) => !wanted[name] || wanted[name] === section.dataset[name]);
      if (fits && words.every((word) => text.includes(word))) shown.add(section.id);
      section.hidden = !shown.has(section.id);
    }
    for (const one of document.querySelectorAll("[data-problem]")) one.hidden = !shown.has(one.dataset.problem);
    for (const list of document.querySelectorAll(".problems ul")) {
      list.hidden = list.previousElementSibling.hidden = !list.querySelector("li:not([hidden])");
    }
    for (const mark of document.querySelectorAll(".overview a.mark")) {
      mark.classList.toggle("faded", !shown.has(mark.getAttribute("href").slice(1)));
    }
    form.querySelector("output").textContent = `${shown.size} of ${sections.length}`;
  };

  const showFilter = () => {
    const form = document.querySelector(".filter");
    if (form) form.hidden = document.querySelectorAll("section.problem").length < 2;
  };
  document.addEventListener("input", (event) => { if (event.target.form?.matches(".filter")) choose(event.target.form); });
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("reset", (event) => setTimeout(() => choose(event.target)));

  // The entry of the contents for what is on the screen.
  const links = () => [...document.querySelectorAll(".contents a")];
  const follow = () => {
    const line = innerHeight / 3;
    let last = null;
    for (const section of document.querySelectorAll("main > section:not([hidden])")) {
      if (section.getBoundingClientRect().top <= line) last = section.id;
    }
    for (const link of links()) {
      if (link.getAttribute("href") === `#${last}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  let waiting = false;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; follow(); });
  }, { passive: true });

  const start = () => { readCharts(); showFilter(); follow(); };
  start();
  document.addEventListener("portatile:replaced", start); // a live page has new content

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details.plain:not([open])")];
    closed.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => { closed.forEach((fold) => { fold.open = false; }); });
})();
