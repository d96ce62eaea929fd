"use strict";
(() => {
  // Colours that stay apart without colour vision (after Okabe and Ito), then the same dashed.
  const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b87d00", "#2b8cc4", "#8a6d3b", "#7f7f7f"];
  const COLORS_ON_DARK = ["#4aa3df", "#ff8a3d", "#2fc89a", "#e39ac4", "#eeb84a", "#8fd0f5", "#c9a66b", "#b0b0b0"];
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const VIRIDIS = [[253, 231, 37], [181, 222, 43], [110, 206, 88], [53, 183, 121], [31, 158, 137],
    [38, 130, 142], [49, 104, 142], [62, 73, 137], [72, 40, 120], [68, 1, 84]];
  const HEIGHT = 300;
  const root = document.documentElement;
  const css = name => getComputedStyle(root).getPropertyValue(name).trim();
  const isDark = () => css("--dark") === "1";
  const color = (one, at, onDark = false) => (onDark ? COLORS_ON_DARK : COLORS)[(one.look ? one.look[0] : at) % COLORS.length];
  const dash = (one, at) => DASHES[(one.look ? one.look[1] : Math.floor(at / COLORS.length)) % DASHES.length];

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name in made && typeof value !== "string") made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  async function inflate(id) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), letter => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  function save(name, type, ...parts) {
    const link = element("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  // Numbers with their unit, three digits.
  const digits = value => (value === 0 ? "0" : String(+value.toPrecision(3)));
  const scaled = (value, steps) => {
    const [factor, unit] = steps.find(([factor]) => Math.abs(value) >= factor) || steps[steps.length - 1];
    return digits(value / factor) + unit;
  };
  const share = value => {
    const percent = 100 * value;
    return (percent > 99 && percent < 100 ? String(+percent.toFixed(Math.min(8, 2 - Math.floor(Math.log10(100 - percent))))) : digits(percent)) + " %";
  };
  const FORMATS = {
    ns: value => scaled(value, [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]),
    seconds: value => String(+value.toFixed(3)) + " s",
    per_second: value => scaled(value, [[1e6, "M"], [1e3, "k"], [1, ""]]),
    bytes_per_second: value => scaled(value, [[1e9, " GB/s"], [1e6, " MB/s"], [1e3, " kB/s"], [1, " B/s"]]),
    bytes: value => scaled(value, [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]]),
    nines: value => share(1 - Math.pow(10, -value)),
    share,
    count: digits,
    number: digits,
    names: String,
    date: value => new Date(1000 * value).toISOString().slice(0, 16).replace("T", " "),
  };
  const format = (axis, value) => (value === null || value === undefined ? "" : FORMATS[axis.unit](value));

  // Where an axis has its grid lines.
  function ticks(axis, low, high, most) {
    const all = [];
    if (axis.unit === "nines") {
      for (const value of [0, -Math.log10(0.5), 1, 2, 3, 4, 5, 6, 7, 8, 9]) if (value >= low && value <= high) all.push(value);
      if (all.length > 1) return all;
    }
    if (axis.is_log && axis.unit === "count") {
      for (let value = 1; value <= high; value *= 2) if (value >= low) all.push(value);
      return all;
    }
    if (axis.is_log) {
      const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
      const within = last - first <= 2 ? [1, 2, 3, 5, 7] : last - first <= 4 ? [1, 2, 5] : [1];
      for (let decade = first; decade <= last; decade++) {
        for (const step of within) {
          const value = step * Math.pow(10, decade);
          if (value >= low && value <= high) all.push(value);
        }
      }
      if (all.length > 1) return all;
      all.length = 0;
    }
    const rough = (high - low) / most;
    const power = Math.pow(10, Math.floor(Math.log10(rough || 1)));
    const step = [1, 2, 5, 10].find(step => step * power >= rough) * power;
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) all.push(Math.abs(value) < step * 1e-6 ? 0 : value);
    return all;
  }

  // Names of ticks without those that would overlap the one before, or stick out at the right.
  function apart(plot, at, values, names) {
    if (at) return names;
    let end = -Infinity;
    return names.map((name, place) => {
      const middle = plot.valToPos(values[place], "x"), half = 3.6 * name.length;
      if (middle - half < end || middle + half > plot.bbox.width / devicePixelRatio + 18) return "";
      end = middle + half + 8;
      return name;
    });
  }

  const extent = (axis, low, high) => {
    if (!Number.isFinite(low) || !Number.isFinite(high)) return axis.is_log ? [1, 10] : [0, 1];
    if (axis.is_log) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
    if (axis.unit === "share") return [0, 1];
    if (["per_second", "bytes_per_second", "bytes", "number"].includes(axis.unit)) return [0, high * 1.08 || 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  };

  // Where the name of a bound goes: before its stretch, or above the end of its line; shorter where there is no room, and
  // clear of the names before it.
  function placed(bound, names, { left, right, y, from, to, unit, wide }) {
    const short = bound.text.split(" (")[0], gap = 5 * unit;
    const before = bound.x && [bound.text, short].find(text => left - gap - wide(text) > from);
    const after = bound.x && !before && right + gap + wide(short) < to;
    const text = before || (bound.x || wide(bound.text) > to - from ? short : bound.text);
    let at = before || after ? y + 4 * unit : y - 5 * unit;
    while (names.some(other => Math.abs(other - at) < 11 * unit)) at += 11 * unit;
    names.push(at);
    return { text, y: at, x: before ? left - gap : after ? right + gap : to - gap, align: after ? "start" : "end" };
  }

  const heatOf = most => value => Math.round(9 * Math.log(value) / (Math.log(most) || 1));
  const densest = heat => Math.max(1, ...heat.cells.flatMap(cells => cells.filter((_, at) => at % 2)));

  // The cells of a heat map as rectangles: begin, end, low, high, shade.
  function* rectangles(heat) {
    const shade = heatOf(densest(heat));
    for (let at = 0; at < heat.columns.length; at++) {
      const cells = heat.cells[at];
      for (let cell = 0; cell < cells.length; cell += 2) {
        yield [...heat.columns[at], heat.edges[cells[cell]], heat.edges[cells[cell] + 1], shade(cells[cell + 1])];
      }
    }
  }

  // All lines on common x values, as uPlot requires, and which columns are bands.
  function joined(series) {
    const tables = [], roles = [];
    series.forEach((one, at) => {
      tables.push([one.x, one.y]);
      roles.push({ at, role: "line" });
      if (one.band) {
        tables.push([one.band.x, one.band.low, one.band.high]);
        roles.push({ at, role: "low" }, { at, role: "high" });
      }
    });
    return { data: uPlot.join(tables.map(sorted)), roles };
  }

  // Points that no line would show, since there is a gap before and after.
  function alone(values) {
    const found = [];
    let before = null, last = -1;
    for (let at = 0; at <= values.length; at++) {
      const value = at < values.length ? values[at] : null;
      if (value === undefined) continue;
      if (value === null && last >= 0 && before === null) found.push(last);
      if (value === null) [before, last] = [null, -1];
      else [before, last] = [last < 0 ? null : values[last], at];
    }
    return found;
  }

  // x values have to rise; several lines of a step may have gaps at the same one.
  function sorted([x, ...columns]) {
    const order = x.map((_, at) => at).sort((a, b) => x[a] - x[b]).filter((at, place, all) => place === 0 || x[at] !== x[all[place - 1]]);
    return [x, ...columns].map(column => order.map(at => column[at]));
  }

  class Plot {
    constructor(figure, chart) {
      this.figure = figure;
      this.chart = chart;
      this.series = chart.series || [];
      this.marked = chart.time ? chart.time.marks : [];
      this.hidden = this.series.map(one => Boolean(one.is_hidden));
    }

    draw() {
      if (this.isDrawn) return;
      this.isDrawn = true;
      if (this.chart.kind === "grid") this.drawGrid();
      else this.drawLines();
      this.tools();
    }

    drawLines() {
      const { chart } = this;
      const place = element("div", {
        class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart", onkeydown: event => this.key(event),
        "aria-label": `${chart.title}: ${chart.y.label} against ${chart.x.label}. Arrow keys read the values, the Table button lists them.`,
      });
      this.reading = element("p", { class: "reading", "aria-live": "polite" });
      this.figure.append(place, this.legend(), this.reading);
      const { data, roles } = joined(this.series);
      this.roles = roles;
      const isHeat = chart.kind === "heat";
      const series = roles.map(({ at, role }) => ({
        show: !this.hidden[at],
        scale: "y",
        stroke: role === "line" ? () => (isHeat ? this.over(at) : color(this.series[at], at, isDark())) : "transparent",
        dash: dash(this.series[at], at),
        width: role === "line" ? (isHeat ? 1.5 : 2) : 0,
        points: role === "line" ? { size: 4, show: true, filter: (plot, column) => alone(plot.data[column]) } : { show: false },
      }));
      const bands = roles.flatMap(({ at, role }, column) =>
        role === "low" ? [{ series: [column + 2, column + 1], fill: () => color(this.series[at], at, isDark()) + (isDark() ? "50" : "30") }] : []);
      const axis = (axis, at) => ({
        stroke: () => css("--quiet"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 },
        font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", label: axis.label, labelSize: 18, size: at ? 72 : 34,
        splits: (plot, _, low, high) => ticks(axis, low, high, at ? 6 : Math.max(3, plot.bbox.width / devicePixelRatio / 90)),
        filter: (_, splits) => splits,
        values: (plot, values) => apart(plot, at, values, values.map(value => format(axis, value))),
      });
      const scale = axis => ({ time: false, distr: axis.is_log ? 3 : 1 });
      this.plot = new uPlot({
        width: place.clientWidth || 800, height: HEIGHT,
        scales: {
          x: { ...scale(chart.x), range: (_, low, high) => (this.zoomed && low !== null ? [low, high] : this.xExtents()) },
          y: { ...scale(chart.y), range: () => this.extents() },
        },
        axes: [axis(chart.x, 0), axis(chart.y, 1)],
        series: [{}, ...series], bands, legend: { show: false },
        cursor: {
          sync: chart.time ? { key: `time ${chart.time.step}`, scales: ["x", null] } : undefined,
          drag: { x: true, y: false, setScale: true },
          points: { size: 7 },
          // A line has no value where it has a gap.
          hover: { prox: 14 },
        },
        hooks: {
          drawAxes: isHeat ? [plot => this.heat(plot)] : [],
          draw: [plot => this.marks(plot), plot => this.bounds(plot)],
          setCursor: [plot => this.read(plot)],
          setSelect: [plot => { if (plot.select.width > 0) this.zoomed = true; }],
          setScale: [(plot, key) => { if (key === "x") this.show(plot); }],
        },
      }, data, place);
      place.addEventListener("mousemove", () => this.each(one => { one.isByKey = false; }), true);
      place.addEventListener("dblclick", () => this.all(), true);
      new ResizeObserver(() => {
        const width = place.clientWidth;
        if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
      }).observe(place);
    }

    // How much of the time or of the ranks is shown, for people who cannot see it.
    show(plot) {
      const [low, high] = this.xExtents(), { min, max } = plot.scales.x;
      plot.root.parentElement.dataset.shown = ((max - min) / (high - low || 1)).toFixed(3);
    }

    over(at) {
      return [css("--bad"), css("--middling"), css("--p50")][at % 3];
    }

    // The lines that decide how far the axes go: those shown, or all if none is.
    visible() {
      const shown = this.series.filter((_, at) => !this.hidden[at]);
      return shown.length ? shown : this.series;
    }

    extents() {
      const { chart } = this;
      let [low, high] = [Infinity, -Infinity];
      const take = value => {
        if (Number.isFinite(value) && !(chart.y.is_log && value <= 0)) [low, high] = [Math.min(low, value), Math.max(high, value)];
      };
      for (const one of this.visible()) {
        one.y.forEach(take);
        if (one.band) [...one.band.low, ...one.band.high].forEach(take);
      }
      (chart.bounds || []).forEach(bound => take(bound.y));
      if (chart.heat && chart.heat.edges.length) [Math.max(chart.heat.edges[0], 64), chart.heat.edges[chart.heat.edges.length - 1]].forEach(take);
      return extent(chart.y, low, high);
    }

    xExtents() {
      const all = this.visible().flatMap(one => one.x).concat((this.chart.heat || { columns: [] }).columns.flat())
        .concat((this.chart.bounds || []).flatMap(bound => (bound.x ? [bound.x[1]] : [])));
      const finite = all.filter(value => Number.isFinite(value) && !(this.chart.x.is_log && value <= 0));
      return extent(this.chart.x, finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity));
    }

    heat(plot) {
      const { ctx, bbox } = plot, isOnDark = isDark();
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const [begin, end, low, high, shade] of rectangles(this.chart.heat)) {
        const left = plot.valToPos(begin, "x", true), right = plot.valToPos(end, "x", true);
        if (right < bbox.left || left > bbox.left + bbox.width) continue;
        const top = plot.valToPos(high, "y", true), bottom = plot.valToPos(Math.max(low, 1), "y", true);
        ctx.fillStyle = `rgb(${VIRIDIS[isOnDark ? 9 - shade : shade]})`;
        ctx.fillRect(left, top, Math.max(1, right - left), Math.max(1, bottom - top));
      }
      ctx.restore();
    }

    marks(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = css("--bad");
      ctx.lineWidth = devicePixelRatio;
      for (const mark of this.marked) {
        const x = plot.valToPos(mark.x, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        if (mark.y === undefined) {
          ctx.setLineDash([5, 4]);
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
        } else {
          ctx.setLineDash([]);
          ctx.arc(x, plot.valToPos(mark.y, "y", true), 6 * devicePixelRatio, 0, 7);
        }
        ctx.stroke();
      }
      ctx.restore();
    }

    // The bounds of classes, each named at its right end.
    bounds(plot) {
      const { ctx, bbox } = plot, ratio = devicePixelRatio, names = [];
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      for (const bound of [...this.chart.bounds || []].sort((a, b) => b.y - a.y)) {
        const y = plot.valToPos(bound.y, "y", true);
        const [left, right] = bound.x ? bound.x.map(x => plot.valToPos(x, "x", true)) : [bbox.left, bbox.left + bbox.width];
        ctx.strokeStyle = ctx.fillStyle = css(bound.is_fail ? "--bad" : "--good");
        ctx.lineWidth = (bound.x ? 3 : 1.4) * ratio;
        ctx.setLineDash(bound.x ? [] : [8 * ratio, 4 * ratio]);
        ctx.beginPath();
        ctx.moveTo(left, y);
        ctx.lineTo(right, y);
        ctx.stroke();
        if (right < bbox.left || left > bbox.left + bbox.width) continue;
        const { text, x, y: at, align } = placed(bound, names, { left, right, y, from: bbox.left, to: bbox.left + bbox.width, unit: ratio, wide: text => ctx.measureText(text).width });
        ctx.textAlign = align;
        ctx.fillText(text, x, at);
      }
      ctx.restore();
    }

    // What is under the cursor.
    read(plot) {
      const at = plot.cursor.idx, { chart } = this;
      const x = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null;
      this.values.forEach(value => { value.textContent = ""; });
      if (x === null || at === null || at === undefined) {
        this.reading.textContent = "";
        return;
      }
      const values = [];
      this.roles.forEach(({ at: line, role }, column) => {
        if (role !== "line" || this.hidden[line]) return;
        const index = plot.cursor.idxs[column + 1];
        const value = index === null || index === undefined ? null : plot.data[column + 1][index];
        this.values[line].textContent = format(chart.y, value);
        if (value !== null && value !== undefined && values.length < 6) values.push(`${this.series[line].name || chart.y.label} ${format(chart.y, value)}`);
      });
      const near = (plot.scales.x.max - plot.scales.x.min) / 60;
      const marked = this.marked.filter(mark => Math.abs(mark.x - x) < near).map(mark => mark.text);
      let text = `${chart.x.label}: ${format(chart.x, x)}`;
      const visit = chart.time && chart.time.visits.findLast(([begin]) => begin <= x);
      if (visit) text += `, ${FORMATS.seconds(visit[1] + x - visit[0])} into the run`;
      if (this.isByKey) text += `; ${values.join(", ")}`;
      else if (chart.heat) text += this.cell(x, plot.posToVal(plot.cursor.top, "y"));
      this.reading.textContent = marked.length ? `${text}; ${marked.join("; ")}` : text;
    }

    cell(x, y) {
      const { columns, cells, edges } = this.chart.heat;
      const column = columns.findIndex(([begin, end]) => x >= begin && x < end);
      const row = edges.findIndex((edge, at) => at + 1 < edges.length && y >= edge && y < edges[at + 1]);
      if (column < 0 || row < 0) return "";
      const place = cells[column].findIndex((value, at) => at % 2 === 0 && value === row);
      const total = cells[column].reduce((sum, value, at) => sum + (at % 2 ? value : 0), 0);
      return `; ${place < 0 ? 0 : cells[column][place + 1]} of ${total} operations took ${FORMATS.ns(edges[row])} to ${FORMATS.ns(edges[row + 1])}`;
    }

    // Zooms in or out around the middle, no further than there are data.
    zoom(by) {
      this.each(one => {
        const { of, back } = one.way(), { min, max } = one.plot.scales.x, [low, high] = one.xExtents();
        const change = by * (of(max) - of(min));
        const next = { min: Math.max(low, back(of(min) + change)), max: Math.min(high, back(of(max) - change)) };
        one.zoomed = next.min > low || next.max < high;
        one.plot.setScale("x", next);
      });
    }

    way() {
      return this.chart.x.is_log ? { of: Math.log, back: Math.exp } : { of: value => value, back: value => value };
    }

    key(event) {
      const { plot } = this, step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const x = plot.data[0];
      if (step) {
        const lines = this.roles.map(({ at: line, role }, column) => ({ line, role, column })).filter(({ line, role }) => role === "line" && !this.hidden[line]);
        const hasValue = at => lines.some(({ column }) => Number.isFinite(plot.data[column + 1][at]));
        const shown = x.map((_, at) => at).filter(at => x[at] >= plot.scales.x.min && x[at] <= plot.scales.x.max && hasValue(at));
        const now = plot.cursor.idx;
        const isOn = now !== null && now !== undefined && plot.cursor.left >= 0;
        const next = !isOn ? shown.at(step > 0 ? 0 : -1) : step > 0 ? shown.find(at => at > now) : shown.findLast(at => at < now);
        if (next === undefined) return;
        this.each(one => { one.isByKey = true; });
        plot.setCursor({ left: plot.valToPos(x[next], "x"), top: plot.bbox.height / devicePixelRatio / 2 }, true, true);
      } else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.25 : -0.5);
      else if (event.key === "0" || event.key === "Home") this.all();
      else return;
      event.preventDefault();
    }

    each(act) {
      const step = one => one.chart.time && one.chart.time.step;
      for (const one of plots) if (one === this || one.plot && step(this) && step(one) === step(this)) act(one);
    }

    all() {
      this.each(one => {
        one.zoomed = false;
        const [min, max] = one.xExtents();
        one.plot.setScale("x", { min, max });
      });
    }

    legend() {
      this.values = [];
      const legend = element("div", { class: "legend" }), more = element("div", { class: "legend" });
      const hidden = this.hidden.filter(Boolean).length;
      this.series.forEach((one, at) => {
        const stroke = this.chart.kind === "heat" ? this.over(at) : color(one, at, isDark());
        const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        for (const [name, value] of [["width", 22], ["height", 8], ["aria-hidden", "true"]]) swatch.setAttribute(name, value);
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        for (const [name, value] of [["x1", 0], ["x2", 22], ["y1", 4], ["y2", 4], ["stroke", stroke], ["stroke-width", 3], ["stroke-dasharray", dash(one, at).join(" ")]]) line.setAttribute(name, value);
        line.dataset.line = at;
        swatch.append(line);
        const value = element("span", { class: "value" });
        this.values.push(value);
        const box = element("input", { type: "checkbox", checked: !this.hidden[at], onchange: () => this.toggle(at, box.checked) });
        (this.hidden[at] ? more : legend).append(element("label", {}, box, swatch, one.name || this.chart.y.label, value));
      });
      if (hidden) legend.append(element("details", { class: "more" }, element("summary", {}, `${hidden} more`), more));
      return legend;
    }

    recolor() {
      if (!this.plot) return;
      this.plot.redraw(false);
      this.figure.querySelectorAll(".legend line").forEach(line => {
        const at = Number(line.dataset.line);
        line.setAttribute("stroke", this.chart.kind === "heat" ? this.over(at) : color(this.series[at], at, isDark()));
      });
    }

    toggle(at, isShown) {
      this.hidden[at] = !isShown;
      this.roles.forEach((role, column) => { if (role.at === at) this.plot.setSeries(column + 1, { show: isShown }); });
      if (!this.zoomed) this.all();
    }

    drawGrid() {
      const { grid } = this.chart, axis = { unit: grid.unit };
      const values = grid.values.flat().filter(Number.isFinite);
      const [low, high] = [Math.min(...values), Math.max(...values)].map(value => Math.log(Math.max(value, 1e-9)));
      const shade = value => Math.round(9 * (Math.log(Math.max(value, 1e-9)) - low) / (high - low || 1));
      const isMarked = (row, column) => grid.marked.some(([r, c]) => r === row && c === column);
      const head = element("tr", {}, element("th", {}, `${this.chart.y.label} \\ ${this.chart.x.label}`), ...grid.columns.map(name => element("th", { scope: "col", class: "number" }, name)));
      const rows = grid.rows.map((name, row) => element("tr", {}, element("th", { scope: "row" }, name), ...grid.values[row].map((value, column) =>
        element("td", { class: (value === null ? "" : `c${shade(value)}`) + (isMarked(row, column) ? " marked" : "") }, value === null ? "-" : format(axis, value)))));
      this.figure.append(element("div", { class: "wide", tabindex: "0" }, element("table", { class: "grid" }, element("thead", {}, head), element("tbody", {}, ...rows))));
      if (grid.mark) this.figure.append(element("p", { class: "note" }, `Framed: ${grid.mark}.`));
    }

    tools() {
      const name = (this.chart.id.replace(/[^A-Za-z0-9.-]+/g, "_") || "chart").slice(0, 80);
      const bar = element("div", { class: "chart-tools" });
      const button = (label, what, act) => bar.append(element("button", { type: "button", "aria-label": `${what}: ${this.chart.title}`, onclick: act }, label));
      if (this.chart.kind !== "grid") {
        button("+", "Zoom into", () => this.zoom(0.25));
        button("-", "Zoom out of", () => this.zoom(-0.5));
        button("All", "Show all of", () => this.all());
        button("Table", "Show the figures of", event => this.table(event.target));
        bar.lastChild.setAttribute("aria-expanded", "false");
      }
      button("CSV", "Save as CSV", () => save(`${name}.csv`, "text/csv", this.rows().map(row => row.map(cell).join(",")).join("\r\n") + "\r\n"));
      button("SVG", "Save as SVG", () => save(`${name}.svg`, "image/svg+xml", drawing(this)));
      button("PNG", "Save as PNG", () => this.png(name));
      this.figure.append(bar);
    }

    table(opener) {
      const shown = this.figure.querySelector(".figures");
      opener.setAttribute("aria-expanded", String(!shown));
      if (shown) {
        shown.remove();
        return;
      }
      const [head, ...rows] = this.rows(true);
      const line = (tag, cells) => element("tr", {}, ...cells.map(text => element(tag, {}, String(text))));
      this.figure.append(element("div", { class: "figures", tabindex: "0", role: "region", "aria-label": this.chart.title }, element("table", {}, element("caption", {}, this.chart.title), element("thead", {}, line("th", head)), element("tbody", {}, ...rows.map(row => line("td", row))))));
    }

    // All figures in rows: with their units for people, otherwise as numbers.
    rows(isForPeople = false) {
      const { chart } = this, { x, y } = chart;
      const of = (axis, value) => (value === null || value === undefined ? "" : isForPeople ? format(axis, value) : value);
      const unit = axis => (isForPeople ? axis.label : { ns: `${axis.label}_ns`, seconds: `${axis.label}_s`, nines: "share" }[axis.unit] || axis.label).replaceAll(" ", isForPeople ? " " : "_");
      if (chart.kind === "grid") {
        const { grid } = chart;
        return [[`${y.label} \\ ${x.label}`, ...grid.columns], ...grid.rows.map((name, row) => [name, ...grid.values[row].map(value => of({ unit: grid.unit }, value))])];
      }
      const rows = [["series", unit(x), unit(y), "low", "high"]];
      const place = value => (x.unit === "nines" && !isForPeople ? +(1 - Math.pow(10, -value)).toPrecision(10) : of(x, value));
      for (const one of this.series) {
        one.x.forEach((value, at) => { if (one.y[at] !== null) rows.push([one.name, place(value), of(y, one.y[at]), "", ""]); });
        if (one.band) one.band.x.forEach((value, at) => rows.push([`${one.name} 95 % interval`, place(value), "", of(y, one.band.low[at]), of(y, one.band.high[at])]));
      }
      for (const mark of this.marked) rows.push([mark.text, of(x, mark.x), of(y, mark.y), "", ""]);
      for (const bound of chart.bounds || []) rows.push([bound.text, "", of(y, bound.y), "", ""]);
      if (chart.heat && !isForPeople) {
        rows.push([], ["count", "begin_s", "end_s", "low_ns", "high_ns"]);
        chart.heat.columns.forEach(([begin, end], at) => {
          const cells = chart.heat.cells[at];
          for (let cell = 0; cell < cells.length; cell += 2) rows.push([cells[cell + 1], begin, end, chart.heat.edges[cells[cell]], chart.heat.edges[cells[cell] + 1]]);
        });
      }
      return rows;
    }

    png(name) {
      const picture = new Image(), url = URL.createObjectURL(new Blob([drawing(this)], { type: "image/svg+xml" }));
      picture.onload = () => {
        const canvas = element("canvas", { width: 2 * picture.width, height: 2 * picture.height });
        canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
        canvas.toBlob(png => save(`${name}.png`, "image/png", png));
        URL.revokeObjectURL(url);
      };
      picture.src = url;
    }
  }

  // A CSV cell: quoted, and never a formula.
  function cell(value) {
    const text = String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll("\"", "\"\"")}"` : safe;
  }

  // The chart as an SVG of its own, as far as it is zoomed, on white.
  function drawing(plot) {
    const { chart } = plot;
    const text = value => String(value).replace(/[&<>"]/g, letter => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" })[letter]);
    const out = [], [width, left, right, top] = [900, 90, 20, 40];
    const say = (x, y, what, more = "") => out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${text(what)}</text>`);
    const begin = height => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#222"><rect width="100%" height="100%" fill="#fff"/>`;
    say(left, 22, chart.title, "font-size=\"15\" font-weight=\"bold\"");
    if (chart.kind === "grid") {
      const { grid } = chart, cellWidth = (width - left - right) / grid.columns.length;
      const values = grid.values.flat().filter(Number.isFinite).map(Math.log), [low, high] = [Math.min(...values), Math.max(...values)];
      grid.columns.forEach((name, at) => say(left + (at + 0.5) * cellWidth, top + 12, name, "text-anchor=\"middle\""));
      grid.rows.forEach((name, row) => {
        const y = top + 20 + row * 26;
        say(left - 8, y + 17, name, "text-anchor=\"end\"");
        grid.values[row].forEach((value, column) => {
          const shade = value === null ? null : Math.round(9 * (Math.log(value) - low) / (high - low || 1));
          const isMarked = grid.marked.some(([r, c]) => r === row && c === column);
          out.push(`<rect x="${(left + column * cellWidth).toFixed(1)}" y="${y}" width="${(cellWidth - 2).toFixed(1)}" height="24" fill="${shade === null ? "#eee" : `rgb(${VIRIDIS[shade]})`}"${isMarked ? " stroke=\"#000\" stroke-width=\"2\"" : ""}/>`);
          say(left + (column + 0.5) * cellWidth, y + 16, value === null ? "-" : format({ unit: grid.unit }, value), `text-anchor="middle" fill="${shade > 3 ? "#fff" : "#111"}"`);
        });
      });
      say(12, top + 42 + 26 * grid.rows.length, chart.made, "font-size=\"10\" fill=\"#5b6570\"");
      return begin(top + 50 + 26 * grid.rows.length) + out.join("") + "</svg>";
    }
    const bottom = 340, shown = plot.series.map((one, at) => ({ ...one, at })).filter(one => !plot.hidden[one.at]);
    const scale = (axis, [low, high], from, to) => {
      const of = axis.is_log ? Math.log : value => value;
      return value => from + (to - from) * (of(value) - of(low)) / (of(high) - of(low));
    };
    const { x: { min, max }, y: { min: yMin, max: yMax } } = plot.plot.scales;
    const x = scale(chart.x, [min, max], left, width - right), y = scale(chart.y, [yMin, yMax], bottom, top);
    for (const value of ticks(chart.x, min, max, 9)) {
      out.push(`<path d="M${x(value).toFixed(1)} ${top}V${bottom}" stroke="#ddd"/>`);
      say(x(value), bottom + 16, format(chart.x, value), "text-anchor=\"middle\"");
    }
    for (const value of ticks(chart.y, yMin, yMax, 6)) {
      out.push(`<path d="M${left} ${y(value).toFixed(1)}H${width - right}" stroke="#ddd"/>`);
      say(left - 6, y(value) + 4, format(chart.y, value), "text-anchor=\"end\"");
    }
    say((left + width - right) / 2, bottom + 34, chart.x.label, "text-anchor=\"middle\"");
    say(0, 0, chart.y.label, `text-anchor="middle" transform="translate(18 ${(top + bottom) / 2}) rotate(-90)"`);
    out.push(`<clipPath id="area"><rect x="${left}" y="${top}" width="${width - left - right}" height="${bottom - top}"/></clipPath><g clip-path="url(#area)" fill="none">`);
    if (chart.heat) {
      for (const [from, to, low, high, shade] of rectangles(chart.heat)) {
        if (to < min || from > max) continue;
        const [x1, x2, y1, y2] = [x(from), x(to), y(high), y(Math.max(low, 1))];
        out.push(`<rect x="${x1.toFixed(1)}" y="${y1.toFixed(1)}" width="${Math.max(0.7, x2 - x1).toFixed(1)}" height="${Math.max(0.7, y2 - y1).toFixed(1)}" fill="rgb(${VIRIDIS[shade]})"/>`);
      }
    }
    const overs = ["#b3261e", "#8a5a00", "#e0218a"];
    const stroke = one => (chart.kind === "heat" ? overs[one.at % 3] : color(one, one.at));
    for (const one of shown) {
      if (one.band) {
        const there = one.band.x.map((value, at) => `${x(value).toFixed(1)} ${y(one.band.high[at]).toFixed(1)}`);
        const back = one.band.x.map((value, at) => `${x(value).toFixed(1)} ${y(one.band.low[at]).toFixed(1)}`).reverse();
        out.push(`<path d="M${there.concat(back).join("L")}Z" fill="${stroke(one)}" fill-opacity="0.18"/>`);
      }
      let path = "", isOn = false;
      one.x.forEach((value, at) => {
        const isThere = one.y[at] !== null && !(chart.y.is_log && one.y[at] <= 0);
        // A single point needs a length to be seen.
        if (isThere) path += `${isOn ? "L" : "M"}${x(value).toFixed(1)} ${y(one.y[at]).toFixed(1)}${isOn ? "" : "h0.1"}`;
        isOn = isThere;
      });
      out.push(`<path d="${path}" stroke="${stroke(one)}" stroke-width="1.8" stroke-linecap="round" stroke-dasharray="${dash(one, one.at).join(" ")}"/>`);
    }
    for (const mark of plot.marked) {
      out.push(mark.y === undefined
        ? `<path d="M${x(mark.x).toFixed(1)} ${top}V${bottom}" stroke="#b3261e" stroke-dasharray="5 4"/>`
        : `<circle cx="${x(mark.x).toFixed(1)}" cy="${y(mark.y).toFixed(1)}" r="6" stroke="#b3261e"/>`);
    }
    const named = [];
    for (const bound of [...chart.bounds || []].sort((a, b) => b.y - a.y)) {
      const [from, to] = bound.x ? bound.x.map(x) : [left, width - right], height = y(bound.y), color = bound.is_fail ? "#b3261e" : "#0a6b3d";
      out.push(`<path d="M${from.toFixed(1)} ${height.toFixed(1)}H${to.toFixed(1)}" stroke="${color}" stroke-width="${bound.x ? 3 : 1.4}"${bound.x ? "" : " stroke-dasharray=\"8 4\""}/>`);
      const name = placed(bound, named, { left: from, right: to, y: height, from: left, to: width - right, unit: 1, wide: text => 5.6 * text.length });
      say(name.x, name.y, name.text, `font-size="10" fill="${color}" stroke="none" text-anchor="${name.align}"`);
    }
    out.push("</g>");
    let [at, line] = [left, bottom + 56];
    for (const one of shown) {
      const name = one.name || chart.y.label, wide = 40 + 7 * name.length;
      if (at + wide > width && at > left) [at, line] = [left, line + 18];
      out.push(`<path d="M${at} ${line - 4}h22" stroke="${stroke(one)}" stroke-width="3" stroke-dasharray="${dash(one, one.at).join(" ")}"/>`);
      say(at + 28, line, name);
      at += wide;
    }
    say(12, line + 22, chart.made, "font-size=\"10\" fill=\"#5b6570\"");
    return begin(line + 30) + out.join("") + "</svg>";
  }

  const plots = [];

  function drawOpen(scope) {
    for (const plot of plots) if (scope.contains(plot.figure) && !plot.figure.closest("details:not([open])")) plot.draw();
  }

  async function start() {
    const charts = JSON.parse(await inflate("chart-data"));
    for (const figure of document.querySelectorAll("figure.chart")) plots.push(new Plot(figure, charts[figure.dataset.chart]));
    drawOpen(document);
    for (const group of document.querySelectorAll("details")) group.addEventListener("toggle", () => drawOpen(group));
    document.getElementById("open-all").addEventListener("click", () => {
      document.querySelectorAll("details.group").forEach(group => { group.open = true; });
    });
    for (const button of document.querySelectorAll("button.save")) {
      button.addEventListener("click", async () => save(button.dataset.file, "application/json", await inflate(button.dataset.record)));
    }
    const themes = ["auto", "light", "dark"], theme = document.getElementById("theme");
    const redraw = () => plots.forEach(plot => plot.recolor());
    addEventListener("beforeprint", () => {
      for (const table of document.querySelectorAll("details.folded:not([open]), details.machine:not([open])")) {
        table.open = true;
        addEventListener("afterprint", () => { table.open = false; }, { once: true });
      }
    });
    theme.addEventListener("click", () => {
      const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      theme.textContent = `Theme: ${next}`;
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    matchMedia("print").addEventListener("change", redraw);
    document.querySelector(".tools").hidden = false;
    root.dataset.ready = "yes";
  }

  start();
})();
