"use strict";

// Draws the figures of many cells: a strip of SVG for each row, cells filled from the bottom by shares.
(() => {
  const grids = JSON.parse(document.getElementById("figures").textContent);
  const gapKey = -1;
  const leastHeight = 0.12; // What is there must be seen.

  function shape(name, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  class Grid {
    constructor(frame) {
      this.frame = frame;
      this.data = grids[frame.dataset.grid];
      if (!this.data) throw new Error(`no data for the figure ${frame.dataset.grid}`);
      const figure = frame.closest("figure");
      this.note = figure.querySelector("p.note");
      this.buttons = [...figure.querySelectorAll("button[data-key]")];
      this.chosen = null;
      this.at = null;
      for (const button of this.buttons)
        button.addEventListener("click", () => this.choose(Number(button.dataset.key)));
      frame.addEventListener("pointermove", (event) => this.point(event));
      frame.addEventListener("click", (event) => this.point(event));
      frame.addEventListener("keydown", (event) => this.key(event));
      frame.addEventListener("focus", () => this.go(...(this.at ?? [0, 0])));
      this.draw();
    }

    choose(key) {
      this.chosen = this.chosen === key ? null : key;
      for (const button of this.buttons)
        button.setAttribute("aria-pressed", String(Number(button.dataset.key) === this.chosen));
      this.draw();
      if (this.at) this.go(...this.at);
    }

    colour(key) {
      if (this.chosen === null) return this.data.colours[key];
      if (this.chosen !== key) return "rest";
      return this.data.colours[key] === "other" ? "accent" : this.data.colours[key];
    }

    draw() {
      this.strips = this.data.rows.map((row) => this.strip(row));
      this.frame.replaceChildren(...this.data.rows.flatMap((row, index) => {
        const label = document.createElement("span");
        label.className = "label";
        label.title = row.label;
        label.textContent = row.label;
        return [label, this.strips[index]];
      }));
    }

    strip(row) {
      const svg = shape("svg", { viewBox: `0 0 ${this.data.columns} 1`, preserveAspectRatio: "none",
        "aria-hidden": "true" });
      row.cells.forEach((cell, x) => {
        svg.append(shape("rect", { class: "cell", x, y: 0, width: 1, height: 1 }));
        const parts = [];
        for (let i = 1; i < cell.length; i += 2) parts.push([cell[i], Math.max(cell[i + 1], leastHeight)]);
        const sum = Math.max(1, parts.reduce((all, [, height]) => all + height, 0));
        let y = 1;
        for (const [key, height] of parts) {
          if (key === gapKey) {
            svg.append(shape("rect", { class: "gap", x, y: 0.4, width: 1, height: 0.2 }));
            break;
          }
          y -= height / sum;
          const colour = this.colour(key);
          svg.append(shape("rect", { class: `part ${colour}`, style: `--fill: var(--${colour})`, x: x + 0.06, y,
            width: 0.88, height: height / sum }));
        }
      });
      return svg;
    }

    point(event) {
      const svg = event.target.closest("svg");
      if (!svg) return;
      const box = svg.getBoundingClientRect();
      this.go(this.strips.indexOf(svg), Math.floor((event.clientX - box.left) / box.width * this.data.columns));
    }

    key(event) {
      const [row, column] = this.at ?? [0, 0];
      const last = this.data.rows.length - 1;
      const ends = (at) => this.data.rows[at].cells.length - 1;
      let next;
      switch (event.key) {
        case "ArrowRight": next = column < ends(row) ? [row, column + 1] : [Math.min(row + 1, last),
          row < last ? 0 : column]; break;
        case "ArrowLeft": next = column > 0 ? [row, column - 1] : [Math.max(row - 1, 0),
          row > 0 ? ends(row - 1) : 0]; break;
        case "ArrowDown": next = [Math.min(row + 1, last), column]; break;
        case "ArrowUp": next = [Math.max(row - 1, 0), column]; break;
        case "Home": next = [row, 0]; break;
        case "End": next = [row, ends(row)]; break;
        default: return;
      }
      event.preventDefault();
      this.go(...next);
    }

    // Marks a cell and says what it holds.
    go(row, column) {
      const cells = this.data.rows[row]?.cells;
      if (!cells?.length) return;
      const at = Math.min(Math.max(column, 0), cells.length - 1);
      this.at = [row, at];
      this.cursor?.remove();
      this.cursor = shape("rect", { class: "cursor", x: at, y: 0, width: 1, height: 1 });
      this.strips[row].append(this.cursor);
      const label = this.data.rows[row].label;
      const text = cells[at][0];
      this.note.textContent = text.startsWith("0x") ? text : `${label}, ${text}`;
    }
  }

  for (const frame of document.querySelectorAll("[data-grid]")) {
    try {
      new Grid(frame);
    } catch (error) {
      console.error(error);
      frame.textContent = "This figure could not be drawn; the tables hold the numbers.";
    }
  }
})();
