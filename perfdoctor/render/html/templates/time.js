"use strict";
// One time axis for all charts of the run: a cursor that reads them, and a zoom that only moves their view box.
for (const timed of document.querySelectorAll(".timed")) {
  const { end, charts } = JSON.parse(timed.querySelector("#over-time").textContent);
  const WIDE = 1000;
  const CLOSEST = Math.max(end / 10000, 1e-6);
  const scaled = (value, steps) => steps.find(([least]) => value >= least) || steps[steps.length - 1];
  const figures = (value) => Number(value.toPrecision(3)).toLocaleString("en");
  const bytes = (value) => {
    const [least, unit] = scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
    return figures(value / least) + " " + unit;
  };
  const seconds = (value) => {
    const [least, unit] = scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
    return figures(value / least) + " " + unit;
  };
  const SAID = {
    s: seconds,
    cores: figures,
    share: (value) => figures(100 * value) + "%",
    bytes,
    bytes_per_s: (value) => bytes(value) + "/s",
  };
  const ROUND = [1, 2, 5, 10, 15, 20, 30, ...[1, 2, 5, 10, 15, 20, 30].map((m) => 60 * m), ...[1, 2, 3, 6, 12, 24, 48, 168].map((h) => 3600 * h)];
  const tickStep = (least) => {
    if (least >= 1) return ROUND.find((step) => step >= least) || least;
    const decade = 10 ** Math.floor(Math.log10(least));
    return decade * [1, 2, 5, 10].find((digit) => decade * digit >= least * (1 - 1e-9));
  };
  const clock = (at, step) => {
    if (step >= 3600) return figures(at / 3600) + " h";
    if (step >= 60) return Math.round(at / 60) + " min";
    const digits = step >= 1 ? 0 : Math.ceil(-Math.log10(step));
    return at.toFixed(digits) + " s";
  };
  const SVG = "http://www.w3.org/2000/svg";
  const drawn = [...timed.querySelectorAll(".plot")].map((plot) => {
    const svg = plot.querySelector("svg");
    const cursor = document.createElementNS(SVG, "path");
    cursor.setAttribute("class", "cursor");
    const band = document.createElementNS(SVG, "path");
    band.setAttribute("class", "chosen");
    svg.append(band, cursor);
    plot.tabIndex = 0;
    const figure = plot.closest("figure");
    const outputs = [...figure.querySelectorAll("output.reading")];
    for (const output of outputs) output.hidden = false;
    const names = [...figure.querySelectorAll(".key:has(output)")].map((key) => key.textContent.trim());
    return { plot, names, svg, cursor, band, outputs, axis: figure.querySelector(".axis"), ticks: svg.querySelector(".ticks"), ...charts[plot.dataset.chart] };
  });
  const tools = timed.querySelector(".tools");
  const said = tools.querySelector(".span");
  const heard = tools.querySelector(".heard"); // by who does not see the charts: keys only, a mouse would flood it
  let begin = 0;
  let until = end;
  let at = null;
  const x = (seconds) => ((WIDE * seconds) / end).toFixed(3);
  // The bin that holds a moment, by halving: charts have hundreds of them.
  const place = (edges, moment) => {
    let low = 0;
    let high = edges.length - 1;
    if (moment < edges[0] || moment > edges[high]) return -1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (edges[middle] <= moment) low = middle;
      else high = middle;
    }
    return low;
  };
  const read = () => {
    for (const chart of drawn) {
      chart.cursor.setAttribute("d", at === null ? "" : "M" + x(at) + " 0V200");
      const bin = at === null ? -1 : place(chart.edges, at);
      chart.outputs.forEach((output, number) => {
        const value = bin < 0 ? null : chart.curves[number][bin];
        output.textContent = value === null ? "" : SAID[chart.unit](value);
      });
    }
    const span = begin > 0 || until < end ? clock(begin, (until - begin) / 100) + " to " + clock(until, (until - begin) / 100) : "the whole run";
    said.textContent = at === null ? span : "at " + clock(at, (until - begin) / 100) + ", " + span;
  };
  const zoom = (from, to) => {
    const wide = Math.min(end, Math.max(CLOSEST, to - from));
    begin = Math.min(Math.max(0, from), end - wide);
    until = begin + wide;
    const step = tickStep(wide / 6);
    const times = [];
    for (let number = Math.ceil(begin / step - 1e-9); number * step <= until; number += 1) times.push(number * step);
    for (const chart of drawn) {
      chart.svg.setAttribute("viewBox", x(begin) + " 0 " + x(wide) + " 200");
      chart.ticks.setAttribute("d", times.map((time) => "M" + x(time) + " 0V200").join(""));
      chart.axis.replaceChildren(
        ...times.map((time) => {
          const share = (time - begin) / wide;
          const label = document.createElementNS(SVG, "text");
          label.setAttribute("x", (100 * share).toFixed(2) + "%");
          label.setAttribute("y", "13");
          if (share > 0.97 || share < 0.02) label.setAttribute("class", share > 0.5 ? "last" : "first");
          label.textContent = clock(time, step);
          return label;
        }),
      );
    }
    if (at !== null && (at < begin || at > until)) at = null;
    read();
  };
  const around = (factor) => {
    const middle = at === null ? (begin + until) / 2 : at;
    const wide = (until - begin) * factor;
    zoom(middle - ((middle - begin) / (until - begin)) * wide, middle + ((until - middle) / (until - begin)) * wide);
  };
  const all = () => zoom(0, end);
  const go = (chart, bin) => {
    at = (chart.edges[bin] + chart.edges[bin + 1]) / 2;
    const wide = until - begin;
    if (at < begin || at > until) zoom(at - wide / 2, at + wide / 2);
    else read();
  };
  // By a number of bins; beside all of them the cursor only moves towards them.
  const move = (chart, bins) => {
    const moment = at === null ? (begin + until) / 2 : at;
    const count = chart.edges.length - 1;
    const bin = moment > chart.edges[count] ? count : place(chart.edges, moment);
    const next = Math.min(Math.max(0, bin + bins), count - 1);
    if (at === null || (next - bin) * bins >= 0) go(chart, next);
  };
  for (const chart of drawn) {
    let from = null;
    const moment = (event) => {
      const box = chart.svg.getBoundingClientRect();
      return begin + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * (until - begin);
    };
    const choose = (to) => {
      const far = from !== null && Math.abs(to - from) > (until - begin) / 100;
      chart.band.setAttribute("d", far ? "M" + x(from) + " 0H" + x(to) + "V200H" + x(from) + "Z" : "");
      return far;
    };
    chart.plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType !== "touch") from = moment(event);
      at = moment(event);
      read();
    });
    chart.plot.addEventListener("pointermove", (event) => {
      at = moment(event);
      choose(at);
      read();
    });
    const stop = (event) => {
      const to = moment(event);
      const first = from;
      const chosen = choose(to);
      from = null;
      chart.band.setAttribute("d", "");
      if (chosen) zoom(Math.min(first, to), Math.max(first, to));
    };
    chart.plot.addEventListener("pointerup", stop);
    chart.plot.addEventListener("pointerleave", (event) => {
      if (from !== null) stop(event);
      if (document.activeElement !== chart.plot) at = null;
      read();
    });
    chart.plot.addEventListener("dblclick", all);
    chart.plot.addEventListener("keydown", (event) => {
      const far = event.shiftKey ? 10 : 1;
      const acts = {
        ArrowLeft: () => move(chart, -far),
        ArrowRight: () => move(chart, far),
        Home: () => go(chart, 0),
        End: () => go(chart, chart.edges.length - 2),
        "+": () => around(0.5),
        "=": () => around(0.5),
        "-": () => around(2),
        Escape: () => {
          at = null;
          all();
        },
      };
      if (!(event.key in acts) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      acts[event.key]();
      const told = chart.outputs.map((output, number) => output.textContent && chart.names[number] + " " + output.textContent);
      heard.textContent = said.textContent + ": " + told.filter(Boolean).join(", ");
    });
  }
  tools.querySelector("[data-act=in]").addEventListener("click", () => around(0.5));
  tools.querySelector("[data-act=out]").addEventListener("click", () => around(2));
  tools.querySelector("[data-act=all]").addEventListener("click", all);
  for (const hidden of timed.querySelectorAll(".needs-script")) hidden.hidden = false;
  tools.hidden = false;
  zoom(0, end);
}
