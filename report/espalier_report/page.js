"use strict";

// Draws every figure of the data block; draws again when the colour scheme or the width changes.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const coarse = matchMedia("(pointer: coarse)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    return { colour, font: style.getPropertyValue("--font").trim() };
  }

  // Colours travel as names such as "ours" or "series3"; only keys called color are looked at.
  function resolved(value, colour, key) {
    if (Array.isArray(value)) return value.map((part) => resolved(part, colour));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([name, part]) => [name, resolved(part, colour, name)]));
    }
    return key === "color" ? colour(value) : value;
  }

  function axis(given, look, zoomable) {
    return {
      gridcolor: look.colour("grid"), zeroline: false, linecolor: look.colour("grid"),
      automargin: true, fixedrange: !zoomable, ...given,
      title: { standoff: 8, ...given.title },
    };
  }

  function layoutOf(view, look, zoomable) {
    const crowded = narrow.matches && view.layout.xaxis.ticktext?.length > 5;
    return {
      ...view.layout,
      autosize: true, height: view.height, showlegend: false,
      margin: { l: 8, r: 12, t: zoomable ? 36 : 8, b: 40, pad: 4 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look.font, size: narrow.matches ? 12 : 13, color: look.colour("text") },
      dragmode: zoomable ? "zoom" : false,
      hoverlabel: {
        bgcolor: look.colour("raised"), bordercolor: look.colour("grid"), align: "left",
        font: { color: look.colour("text"), family: look.font },
      },
      modebar: {
        bgcolor: "rgba(0,0,0,0)", color: look.colour("muted"), activecolor: look.colour("accent"),
      },
      xaxis: { tickangle: crowded ? -45 : "auto", ...axis(view.layout.xaxis, look, zoomable) },
      yaxis: axis(view.layout.yaxis, look, zoomable),
    };
  }

  function drawing(tag, attributes, ...parts) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...parts);
    return element;
  }

  function box(tag, name, ...parts) {
    const element = document.createElement(tag);
    element.className = name;
    element.append(...parts);
    return element;
  }

  // A bar has a colour only.
  function swatch(trace) {
    const look = trace.line ?? { color: trace.marker.color, dash: "solid" };
    const dashes = {
      solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "10 3 2 3",
    };
    return drawing("svg", { width: 26, height: 10, "aria-hidden": "true" }, drawing("line", {
      x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": trace.line ? 2.5 : 9, style: `stroke: var(--${look.color})`,
      "stroke-dasharray": dashes[look.dash] ?? look.dash.replace(/px,?/g, " ") }));
  }

  // Where a value lies on a logarithmic axis, from 0 to 1.
  function place(axis, value) {
    return (Math.log10(value) - axis.range[0]) / (axis.range[1] - axis.range[0]);
  }

  // Where the ticks within the axis lie, with their words.
  function ticks(axis) {
    return axis.tickvals.map((value, index) => [place(axis, value), axis.ticktext[index]])
      .filter(([at]) => at >= 0 && at <= 1);
  }

  // Along an axis every so-many-th tick keeps its label, so that no two overlap. Charts share their axes: what fits the
  // first fits all.
  function thin(charts, axis) {
    const labels = charts.map((chart) => [...chart.querySelectorAll(`.tick.${axis}`)]);
    for (const label of labels.flat()) label.hidden = false;
    const boxes = labels[0].map((label) => label.getBoundingClientRect());
    const apart = (box, index, kept) => index === 0 || box.left > kept[index - 1].right + 5 ||
      box.bottom < kept[index - 1].top - 5;
    let step = 1;
    while (!boxes.filter((_, index) => index % step === 0).every(apart)) ++step;
    for (const row of labels) row.forEach((label, index) => { label.hidden = index % step !== 0; });
  }

  // A small chart of one curve over all others, which are drawn once and used by every chart.
  class Panel {
    constructor(trace, axes, others) {
      this.trace = trace;
      this.axes = axes;
      this.said = box("p", "said");
      this.dot = box("i", "dot");
      const grid = [], labels = [];
      for (const [at, words] of ticks(axes.y)) {
        grid.push(drawing("path", { class: "line", d: `M0 ${1000 - 1000 * at}H1000` }));
        labels.push(box("span", "tick y", words));
        labels.at(-1).style.bottom = `${100 * at}%`;
      }
      for (const [at, words] of ticks(axes.x)) {
        grid.push(drawing("path", { class: "line", d: `M${1000 * at} 0V1000` }));
        // A label at the right edge ends there.
        labels.push(box("span", at > 0.9 ? "tick x last" : "tick x", words));
        labels.at(-1).style.left = `${100 * at}%`;
      }
      const curves = drawing(
        "svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none" }, ...grid,
        drawing("use", { href: `#${others}` }), drawing("path", { class: "own", d: Panel.path(trace, axes) }));
      this.frame = box("div", "frame", curves, this.dot, ...labels);
      const name = box("p", "name", trace.label, box("span", "mark", trace.mark));
      this.element = box("div", "panel", name, this.said, this.frame);
      this.element.style.setProperty("--curve", `var(--${trace.line.color})`);
      this.frame.addEventListener("pointermove", (event) => this.ask(event));
      this.frame.addEventListener("pointerleave", () => this.rest());
      this.rest();
    }

    static path(trace, axes) {
      const points = trace.x.map((x, index) =>
        `${(1000 * place(axes.x, x)).toFixed(1)} ${(1000 - 1000 * place(axes.y, trace.y[index])).toFixed(1)}`);
      return `M${points.join("L")}`;
    }

    rest() {
      this.said.textContent = this.trace.said;
      this.dot.hidden = true;
    }

    // Of the point next to the pointer.
    ask(event) {
      const frame = this.frame.getBoundingClientRect();
      const away = (x) => Math.abs(place(this.axes.x, x) - (event.clientX - frame.left) / frame.width);
      const x = this.trace.x.reduce((nearest, one) => (away(one) < away(nearest) ? one : nearest));
      const index = this.trace.x.indexOf(x);
      this.said.textContent = this.trace.text[index];
      this.dot.hidden = false;
      this.dot.style.left = `${100 * place(this.axes.x, x)}%`;
      this.dot.style.bottom = `${100 * place(this.axes.y, this.trace.y[index])}%`;
    }
  }

  class Figure {
    constructor(plot) {
      this.plot = plot;
      this.data = figures[plot.dataset.figure];
      if (!this.data) throw new Error(`no data for the figure ${plot.dataset.figure}`);
      const frame = plot.closest("figure");
      this.note = frame.querySelector("p.note");
      this.series = frame.querySelector(".series");
      this.shown = new Map();
      this.current = 0;
      this.inPanels = this.data.panels;
      new ResizeObserver(() => this.fit()).observe(plot);
      this.ways = [...frame.querySelectorAll("button[data-panels]")];
      for (const way of this.ways) {
        way.addEventListener("click", () => {
          this.inPanels = way.dataset.panels === "true";
          this.draw();
        });
      }
      frame.querySelector("select")?.addEventListener("change", (event) => {
        this.current = Number(event.target.value);
        this.draw();
      });
    }

    get view() {
      return this.data.views[this.current];
    }

    visible(trace) {
      return this.shown.get(trace.label) ?? trace.visible ?? true;
    }

    draw() {
      for (const way of this.ways) {
        way.setAttribute("aria-pressed", String(this.inPanels === (way.dataset.panels === "true")));
      }
      this.note.textContent = this.view.note;
      this.drawSeries();
      return this.inPanels ? this.drawPanels() : this.drawWhole();
    }

    async drawPanels() {
      const axes = { x: this.view.layout.xaxis, y: this.view.layout.yaxis };
      const shown = this.view.traces.filter((trace) => this.visible(trace));
      const others = `${this.plot.id}-curves`;
      Plotly.purge(this.plot);
      this.plot.style.height = "auto";
      this.plot.replaceChildren(
        drawing("svg", { class: "shared" }, drawing("path", {
          id: others, class: "others", d: shown.map((trace) => Panel.path(trace, axes)).join("") })),
        box("div", "panels", ...shown.map((trace) => new Panel(trace, axes, others).element)));
      this.fit();
    }

    fit() {
      const charts = [...this.plot.querySelectorAll(".panel")];
      if (charts.length > 0) for (const axis of ["x", "y"]) thin(charts, axis);
    }

    drawWhole() {
      const look = theme();
      // A finger scrolls the page; only a mouse has room for the buttons that undo a zoom.
      const zoomable = this.data.series && !coarse.matches && !narrow.matches;
      const traces = this.view.traces.map(
        (trace) => ({ ...resolved(trace, look.colour), visible: this.visible(trace) }));
      if (this.plot.querySelector(".panels")) this.plot.replaceChildren();
      this.plot.style.height = `${this.view.height}px`;
      return Plotly.react(this.plot, traces, layoutOf(this.view, look, zoomable), {
        responsive: true, displaylogo: false, displayModeBar: zoomable,
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      });
    }

    // Plotly's own legend is out of the keyboard's reach and takes the plot's place on a phone.
    drawSeries() {
      if (!this.series) return;
      // Panels name their curves; buttons are needed where some are hidden.
      this.series.hidden = this.inPanels && this.view.traces.every((trace) => trace.visible && this.visible(trace));
      const focused = document.activeElement?.dataset?.label;
      const buttons = this.view.traces.map((trace) => this.button(
        trace.label, [swatch(trace), trace.label + (trace.mark ?? "")], this.visible(trace),
        () => this.shown.set(trace.label, !this.visible(trace))));
      if (buttons.length > 6) {
        for (const [name, shown] of [["Show all", true], ["Hide all", false]]) {
          buttons.push(this.button(name, [name], null, () => {
            for (const trace of this.view.traces) this.shown.set(trace.label, shown);
          }));
        }
      }
      const hadFocus = this.series.contains(document.activeElement);
      this.series.replaceChildren(...buttons);
      if (hadFocus) buttons.find((button) => button.dataset.label === focused)?.focus();
    }

    button(label, content, pressed, act) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.label = label;
      if (pressed !== null) button.setAttribute("aria-pressed", String(pressed));
      button.append(...content);
      button.addEventListener("click", () => {
        act();
        this.draw();
      });
      return button;
    }
  }

  function failed(plot, error) {
    console.error(error);
    const note = document.createElement("p");
    note.className = "note";
    const beside = document.querySelector("script[src]")?.getAttribute("src");
    note.textContent = beside && typeof Plotly === "undefined"
      ? `This chart needs the file ${beside} beside the page; the tables hold the same numbers.`
      : "This chart could not be drawn; the tables hold the same numbers.";
    plot.replaceChildren(note);
    plot.style.height = "auto";
  }

  const drawn = [];
  for (const plot of document.querySelectorAll("[data-figure]")) {
    try {
      const figure = new Figure(plot);
      figure.draw().catch((error) => failed(plot, error));
      drawn.push(figure);
    } catch (error) {
      failed(plot, error);
    }
  }
  const redraw = () => drawn.forEach((figure) => figure.draw());
  for (const media of [dark, narrow, coarse]) media.addEventListener("change", redraw);
})();
