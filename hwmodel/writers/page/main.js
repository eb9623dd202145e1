"use strict";
// Puts the page together and listens to keys, wheel and pointer.

page.start = async function () {
  await page.load();
  const find = id => document.getElementById(id);
  const root = document.documentElement;
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  root.dataset.theme = prefers.matches ? "dark" : "light";
  const timeline = page.timeline = new page.Timeline(find("timeline"), find("overview"), find("scroll"), find("spacer"));
  const hover = page.hover = new page.Hover(timeline, find("tip"), find("pinned"), find("live"));
  page.shown = page.runs[0];
  page.titles();
  page.comparePanel(page.runs);

  const names = page.runs.map(run => run.result.name).join(" and ");
  timeline.canvas.setAttribute("aria-label", `Timeline of ${names}: arrow keys move, plus and minus zoom, 0 shows all, ` +
    "comma and full stop step through instructions, Enter goes to the cause");
  timeline.onDraw = () => {
    const unit = timeline.inMicroseconds ? "\u00b5s" : "cycles", digits = timeline.inMicroseconds ? 2 : 0;
    // The last cycle counts as a whole one, as in the header, however little of it is used.
    const whole = value => page.number(timeline.inMicroseconds ? value : value >= timeline.end ? Math.ceil(value) : Math.round(value), digits);
    const span = timeline.to - timeline.from;
    find("range").textContent = `${whole(timeline.from)} \u2013 ${whole(timeline.to)} ${unit} (${whole(span)} of ${whole(timeline.end)})`;
  };

  const panels = () => {
    const run = page.shown, {colours} = timeline;
    page.legend(colours);
    page.unitsPanel(run, colours);
    page.whatifPanel(run);
    page.stallsPanel(run, colours, timeline, hover);
    page.pathPanel(run, colours, timeline);
    page.phasesPanel(run, colours);
    page.rooflinePanel(run, colours);
  };
  const setTheme = dark => {
    root.dataset.theme = dark ? "dark" : "light";
    find("theme").setAttribute("aria-pressed", String(dark));
    timeline.setTheme();
    panels();
  };
  const setCritical = on => {
    timeline.critical = on;
    find("critical").setAttribute("aria-pressed", String(on));
    timeline.redraw();
  };
  const flipTheme = () => setTheme(root.dataset.theme !== "dark");
  const flipHelp = () => {
    find("help").hidden = !find("help").hidden;
    find("keys").setAttribute("aria-expanded", String(!find("help").hidden));
  };
  setTheme(prefers.matches);
  prefers.addEventListener("change", event => setTheme(event.matches));
  find("theme").addEventListener("click", flipTheme);
  find("keys").addEventListener("click", flipHelp);
  find("critical").addEventListener("click", () => setCritical(!timeline.critical));
  find("fit").addEventListener("click", () => timeline.fit());
  find("in").addEventListener("click", () => timeline.zoom(0.5));
  find("out").addEventListener("click", () => timeline.zoom(2));

  if (page.runs.length > 1) {
    find("runs").hidden = false;
    find("runs").replaceChildren(...page.runs.map(run => page.make("button", {
      type: "button", role: "tab", "aria-selected": String(run === page.shown), "aria-controls": "panels",
      onclick: event => {
        page.shown = run;
        for (const tab of find("runs").children) tab.setAttribute("aria-selected", String(tab === event.currentTarget));
        panels();
      },
    }, `${run.letter}  ${run.result.name}`)));
  }

  page.listen(timeline, hover, {flipTheme, flipHelp, setCritical});
  const {provenance} = page.runs[0].result;
  find("foot").textContent = `hwmodel ${provenance.hwmodel ?? ""}; ${page.number(page.runs.reduce((sum, run) => sum + run.spans, 0))} instructions drawn. ` +
    "Every figure comes from the simulated trace, or was simulated again for its answer. Charts by uPlot (MIT).";
  new ResizeObserver(() => timeline.redraw()).observe(timeline.scroll);
  let width = innerWidth;
  addEventListener("resize", () => {
    timeline.redraw();
    if (width !== innerWidth) page.rooflinePanel(page.shown, timeline.colours);
    width = innerWidth;
  });
  document.body.dataset.ready = "yes";
};

page.listen = function (timeline, hover, {flipTheme, flipHelp, setCritical}) {
  const {canvas, overview, scroll} = timeline;
  const place = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  // Wheel: over the names the page scrolls as usual, over the spans it zooms; sideways and with Shift it moves.
  canvas.addEventListener("wheel", event => {
    const [x] = place(event);
    if (x < page.sizes.gutter) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
    if (sideways) timeline.pan(sideways * lines / timeline.width);
    else timeline.zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY * lines)) * 0.0022), x);
  }, {passive: false});

  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    if (event.button) return;
    drag = {x: event.clientX, y: event.clientY, from: timeline.from, to: timeline.to, top: scroll.scrollTop, moved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag) return hover.point(...place(event), event.clientX, event.clientY);
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    canvas.classList.add("moving");
    hover.hide();
    const step = -dx / timeline.width * (drag.to - drag.from);
    timeline.show(drag.from + step, drag.to + step);
    scroll.scrollTop = drag.top - dy;
  });
  const drop = event => {
    if (drag && !drag.moved && event.type === "pointerup") hover.pin(timeline.hit(...place(event)));
    drag = null;
    canvas.classList.remove("moving");
  };
  canvas.addEventListener("pointerup", drop);
  canvas.addEventListener("pointercancel", drop);
  canvas.addEventListener("pointerleave", () => hover.leave());
  canvas.addEventListener("dblclick", event => {
    const hit = timeline.hit(...place(event));
    hover.pin(hit);
    hover.zoomTo();
  });
  scroll.addEventListener("scroll", () => timeline.redraw());

  let moving = false;
  const goTo = event => {
    const box = overview.getBoundingClientRect(), span = timeline.to - timeline.from;
    const middle = (event.clientX - box.left - page.sizes.gutter) / timeline.width * timeline.end;
    timeline.show(middle - span / 2, middle + span / 2);
  };
  overview.addEventListener("pointerdown", event => { moving = true; overview.setPointerCapture(event.pointerId); goTo(event); });
  overview.addEventListener("pointermove", event => { if (moving) goTo(event); });
  overview.addEventListener("pointerup", () => { moving = false; });

  const keys = {
    ArrowLeft: event => timeline.pan(event.shiftKey ? -1 : -0.15),
    ArrowRight: event => timeline.pan(event.shiftKey ? 1 : 0.15),
    "+": () => timeline.zoom(0.6), "=": () => timeline.zoom(0.6), "-": () => timeline.zoom(1 / 0.6), "_": () => timeline.zoom(1 / 0.6),
    "0": () => timeline.fit(), Home: () => timeline.show(0, timeline.to - timeline.from),
    End: () => timeline.show(timeline.end - timeline.to + timeline.from, timeline.end),
    ",": () => hover.step(-1), ".": () => hover.step(1),
    c: () => setCritical(!timeline.critical), t: flipTheme, "?": flipHelp,
    Escape: () => { hover.unpin(); hover.hide(); },
  };
  const focused = {
    ArrowUp: () => hover.stepLane(-1), ArrowDown: () => hover.stepLane(1), Enter: () => hover.follow(), z: () => hover.zoomTo(),
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const onCanvas = document.activeElement === canvas;
    const act = keys[event.key] ?? (onCanvas || (event.key === "Enter" && document.activeElement === document.body) ? focused[event.key] : undefined);
    if (!act) return;
    event.preventDefault();
    act(event);
  });
};

page.start().catch(error => {
  document.getElementById("foot").textContent = `The page could not be put together: ${error}`;
  throw error;
});
