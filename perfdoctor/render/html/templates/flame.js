"use strict";
for (const flame of document.querySelectorAll(".flame")) {
  const numbers = (element) => (element.dataset.n || "").split(" ").map(Number);
  const frames = [...flame.querySelectorAll(".frame")].map((shape) => ({
    shape,
    left: parseFloat(shape.getAttribute("x")),
    width: parseFloat(shape.getAttribute("width")),
    depth: Math.round(parseInt(shape.getAttribute("y"), 10) / 18),
    name: shape.querySelector("title").textContent.toLowerCase(),
  }));
  // What is searched is the name and place, not what the page tells of them: "waiting", "your code", percents.
  for (const one of frames) one.name = one.name.slice(0, one.name.lastIndexOf(": "));
  for (const one of frames) one.drawn = { left: one.left, width: one.width };
  // Frames come callers first: those below a frame follow it, until one that is no deeper.
  frames.forEach((one, place) => {
    one.place = place;
    one.after = place + 1;
    while (one.after < frames.length && frames[one.after].depth > one.depth) one.after += 1;
  });
  const isBelow = (one, caller) => one.place > caller.place && one.place < caller.after;
  const tools = flame.querySelector(".tools");
  const said = flame.querySelector(".found");
  const search = flame.querySelector("input");
  const state = flame.querySelector("select");
  const icicle = flame.querySelector(".icicle");
  // Samples of a state: 0 running, 1 waiting, 2 idle.
  const samples = (element, wanted) => {
    const [all, waiting = 0, idle = 0] = numbers(element);
    return [all - waiting - idle, waiting, idle][wanted];
  };
  // Frames come callers first, left to right: each begins where the one before it on its row ends.
  const only = (wanted) => {
    const whole = samples(icicle, wanted);
    const ends = [0];
    for (const one of frames) {
      one.left = ends[one.depth];
      one.width = whole ? (100 * samples(one.shape, wanted)) / whole : 0;
      ends[one.depth] = one.left + one.width;
      ends[one.depth + 1] = one.left;
    }
  };
  const choose = () => {
    const wanted = state ? state.value : "";
    if (wanted) only(Number(wanted));
    else for (const one of frames) Object.assign(one, one.drawn);
    zoom(null);
    mark();
  };
  let zoomed = null;
  const zoom = (frame) => {
    zoomed = frame;
    const left = frame ? frame.left : 0;
    const width = frame ? frame.width : 100;
    for (const one of frames) {
      const isAbove = frame && isBelow(frame, one);
      const isShown = one.width > 0 && (!frame || isAbove || one === frame || isBelow(one, frame));
      one.shape.setAttribute("display", isShown ? "inline" : "none");
      const shown = isAbove ? 100 : (100 * one.width) / width;
      one.shape.setAttribute("x", (isAbove ? 0 : (100 * (one.left - left)) / width) + "%");
      one.shape.setAttribute("width", shown + "%");
      one.shape.setAttribute("tabindex", isShown && shown >= 2 ? "0" : "-1");
    }
  };
  const mark = () => {
    const wanted = search.value.trim().toLowerCase();
    let edge = 0;
    let share = 0;
    const hits = frames.filter((one) => wanted && one.width > 0 && one.name.includes(wanted));
    for (const one of frames) one.shape.classList.toggle("hit", hits.includes(one));
    for (const one of hits.sort((a, b) => a.left - b.left || b.width - a.width)) {
      if (one.left + one.width > edge) {
        share += one.left + one.width - Math.max(edge, one.left);
        edge = one.left + one.width;
      }
    }
    said.textContent = wanted ? hits.length + (hits.length === 1 ? " frame, " : " frames, ") + share.toFixed(1) + "% " + flame.dataset.counted : "";
  };
  const reset = () => {
    search.value = "";
    if (state) state.value = "";
    choose();
  };
  for (const one of frames) {
    one.shape.setAttribute("role", "button");
    one.shape.setAttribute("aria-label", one.shape.querySelector("title").textContent);
    one.shape.addEventListener("click", () => zoom(zoomed === one ? null : one));
    one.shape.addEventListener("keydown", (event) => {
      if (event.key === "Enter") zoom(zoomed === one ? null : one);
    });
  }
  flame.addEventListener("keydown", (event) => {
    if (event.key === "Escape") reset();
  });
  search.addEventListener("input", mark);
  if (state) state.addEventListener("change", choose);
  flame.querySelector("button").addEventListener("click", reset);
  tools.hidden = false;
  zoom(null);
}
