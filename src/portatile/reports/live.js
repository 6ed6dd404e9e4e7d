// A live page: it asks whether anything is new, and replaces its content where it stands. What was opened stays open.
(() => {
  const period = 2000;
  const folds = () => [...document.querySelectorAll("details")];
  const name = (fold) => { // its place among those of its kind: texts and numbers change
    const alike = [...fold.closest("section").querySelectorAll("details")].filter((one) => one.className === fold.className);
    return `${fold.closest("section").id} ${fold.className} ${alike.indexOf(fold)}`;
  };
  const values = () => [...(document.querySelector(".filter")?.elements ?? [])].filter((one) => one.name).map((one) => one.value);

  const replace = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const open = new Set(folds().filter((fold) => fold.open).map(name)), chosen = values();
    for (const at of ["nav.contents", "header", "main"]) {
      const old = document.querySelector(at), now = fresh.querySelector(at);
      if (old && now) old.replaceWith(document.adoptNode(now));
      else if (now) document.body.insertBefore(document.adoptNode(now), document.querySelector(".page"));
      else if (old) old.remove();
    }
    for (const fold of folds()) if (open.has(name(fold))) fold.open = true;
    document.dispatchEvent(new Event("portatile:replaced"));
    const form = document.querySelector(".filter");
    if (!form || !chosen.some(Boolean)) return;
    [...form.elements].filter((one) => one.name).forEach((one, place) => { one.value = chosen[place] ?? ""; });
    form.elements.text.dispatchEvent(new Event("input", { bubbles: true }));
  };

  const shown = () => document.querySelector("#live");
  const tell = (facts) => { // clocks change without a new trial
    const cells = (pair) => { const div = document.createElement("div"); div.append(...pair); return div; };
    const term = (kind, text) => { const one = document.createElement(kind); one.textContent = text; return one; };
    shown().querySelector("dl").replaceChildren(...facts.map(([name, value]) => cells([term("dt", name), term("dd", value)])));
  };
  const follow = async () => {
    try {
      const state = await (await fetch("state", { cache: "no-store" })).json();
      if (state.version !== shown().dataset.version) {
        const answer = await fetch("", { cache: "no-store" });
        if (answer.ok) replace(await answer.text());
      } else tell(state.facts);
      if (!shown().classList.contains("ended")) setTimeout(follow, period);
    } catch {
      shown().classList.add("ended");
      shown().querySelector("strong").textContent = "No longer followed: this is how it stood";
    }
  };
  setTimeout(follow, period);
})();
