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

  // A bar has a colour only.
  function swatch(trace) {
    const look = trace.line ?? { color: trace.marker.color, dash: "solid" };
    const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const attributes = { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": trace.line ? 2.5 : 9,
      "stroke-dasharray": dashes[look.dash] };
    for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
    line.style.stroke = `var(--${look.color})`;
    svg.setAttribute("width", 26);
    svg.setAttribute("height", 10);
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    return svg;
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
      const look = theme();
      // A finger scrolls the page; only a mouse has room for the buttons that undo a zoom.
      const zoomable = this.data.series && !coarse.matches && !narrow.matches;
      const traces = this.view.traces.map(
        (trace) => ({ ...resolved(trace, look.colour), visible: this.visible(trace) }));
      this.plot.style.height = `${this.view.height}px`;
      this.note.textContent = this.view.note;
      this.drawSeries();
      return Plotly.react(this.plot, traces, layoutOf(this.view, look, zoomable), {
        responsive: true, displaylogo: false, displayModeBar: zoomable,
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      });
    }

    // Plotly's own legend is out of the keyboard's reach and takes the plot's place on a phone.
    drawSeries() {
      if (!this.series) return;
      const focused = document.activeElement?.dataset?.label;
      const buttons = this.view.traces.map((trace) => this.button(
        trace.label, [swatch(trace), trace.label], this.visible(trace),
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
    note.textContent = "This chart could not be drawn; the tables hold the same numbers.";
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
