// Builds the page.

class Report {
  constructor(data) {
    this.traces = data.map((trace, index) => unpackTrace(trace, index, data.length));
    this.lanes = this.traces.flatMap(makeLanes);
    this.palette = new Palette();
    this.view = new View(Math.max(...this.traces.map((trace) => trace.end), 1e-9));
    const element = (id) => document.getElementById(id);
    this.timeline = new Timeline(element("timeline"), element("frame"), element("spacer"), this.lanes, this.view, this.palette);
    this.overview = new Overview(element("overview"), element("axis"), this.traces, this.lanes, this.view, this.palette);
    this.charts = this.traces.map((trace) => new MemoryChart(element("memory"), trace, this.view, this.palette));
    this.tooltip = new Tooltip(element("tooltip"), element("announce"));
    this.drawTime = 0;
    this.makeLegends();
    this.makeStageChoice(element("stage"));
    this.handleButtons(element);
    this.handleTimeline();
    for (const chart of this.charts) this.handleChart(chart);
    handleOverview(this.overview, this.view);
    this.view.onChange(() => this.draw());
    new ResizeObserver(() => this.view.changed()).observe(document.body);
    this.draw();
  }

  draw() {
    const began = performance.now();
    this.timeline.draw();
    this.overview.draw();
    for (const chart of this.charts) chart.draw();
    const { start, end, span, total } = this.view;
    document.getElementById("range").textContent = span >= total
      ? `whole iteration, ${formatTime(total)}`
      : `${formatTime(start, 5, end)} to ${formatTime(end, 5, end)}, ${formatTime(span, 3)} of ${formatTime(total, 4)}`;
    this.drawTime = performance.now() - began;
  }

  makeLegends() {
    const used = new Set();
    let hasShare = false;
    for (const { main, side } of this.lanes) {
      for (const track of [main, side]) {
        for (let i = 0; i < track.category.length; i++) {
          used.add(track.category[i]);
          hasShare ||= track.share[i] > 0;
        }
      }
    }
    if (hasShare) used.add(RECOMPUTE);
    const entries = CATEGORIES.filter((name, i) => used.has(i)).map((name) => ({ name, title: CATEGORY_TITLES[name], colour: `c-${name}` }));
    makeLegend(document.getElementById("legend"), [...entries, { name: "waiting", title: CATEGORY_TITLES.waiting }], this.view);
    const held = this.traces[0].data.stack.filter((name) => this.lanes.some((lane) => lane.rank.peak[lane.trace.data.categories.indexOf(name)] > 0));
    makeLegend(document.getElementById("memory-legend"), held.map((name) => ({ name: `m-${name}`, title: name, colour: `m-${name}` })), this.view);
  }

  makeStageChoice(select) {
    const stages = [...new Set(this.lanes.map((lane) => lane.rank.stage))].sort((a, b) => a - b);
    for (const stage of stages) select.append(new Option(`stage ${stage}`, stage));
    this.stageSelect = select;
    select.addEventListener("change", () => {
      const lane = this.lanes.find((entry) => entry.rank.stage === Number(select.value));
      this.selectLane(lane);
    });
    const fullest = this.lanes.reduce((a, b) => (peakOf(b) > peakOf(a) && b.trace === a.trace ? b : a), this.lanes[0]);
    this.selectLane(fullest);
  }

  selectLane(lane) {
    this.timeline.selected = { lane, slice: -1 };
    this.stageSelect.value = lane.rank.stage;
    const chosen = this.charts.map((chart) =>
      lane.trace === chart.trace ? lane : this.lanes.find((other) => other.trace === chart.trace && other.rank.stage === lane.rank.stage));
    const peaks = chosen.map((entry) => (entry ? peakOf(entry) : 0));
    const capacities = this.charts.map((chart) => chart.capacityInSight(this.lanes) ?? 0);
    const most = Math.max(...peaks, ...capacities);
    this.charts.forEach((chart, i) => chart.choose(chosen[i] ?? null, most));
    this.view.changed();
  }

  stepLane(by) {
    const lanes = this.timeline.rows.filter((row) => row.lane);
    const place = lanes.findIndex((row) => row.lane === this.timeline.selected.lane);
    const row = lanes[Math.max(0, Math.min(lanes.length - 1, place + by))];
    this.selectLane(row.lane);
    const { frame } = this.timeline;
    if (row.y < frame.scrollTop) frame.scrollTop = row.y;
    if (row.y + row.height > frame.scrollTop + frame.clientHeight) frame.scrollTop = row.y + row.height - frame.clientHeight;
    this.tooltip.announcer.textContent = row.lane.rank.title;
  }

  /** Selects the next slice of the selected lane and brings it into view; or the first in view, if none is selected. */
  stepSlice(by) {
    const { selected } = this.timeline;
    const { main } = selected.lane;
    if (main.start.length === 0) return;
    const next = selected.slice >= 0 ? selected.slice + by : firstAbove(main.end, this.view.start);
    selected.slice = Math.max(0, Math.min(main.start.length - 1, next));
    const [start, end] = [main.start[selected.slice], main.end[selected.slice]];
    if (start < this.view.start || end > this.view.end) {
      const span = Math.max(this.view.span, (end - start) * 1.2);
      this.view.show((start + end) / 2 - span / 2, (start + end) / 2 + span / 2);
    }
    this.view.changed();
    const description = describeSlice(selected.lane, main, selected.slice);
    this.tooltip.say(description);
    const box = this.timeline.canvas.getBoundingClientRect();
    const row = this.timeline.rows.find((entry) => entry.lane === selected.lane);
    const x = GUTTER + (((start + end) / 2 - this.view.start) / this.view.span) * plotWidth(this.timeline.width);
    this.tooltip.show(description, box.left + x, box.top + row.y - this.timeline.frame.scrollTop + row.height);
  }

  focusTime() {
    const { lane, slice } = this.timeline.selected;
    if (slice < 0) return undefined;
    const time = (lane.main.start[slice] + lane.main.end[slice]) / 2;
    return time >= this.view.start && time <= this.view.end ? time : undefined;
  }

  microbatchOfSelection() {
    const { lane, slice } = this.timeline.selected;
    if (slice < 0) return null;
    const microbatch = lane.trace.ops.microbatch[lane.main.row[slice]];
    return microbatch >= 0 ? microbatch : null;
  }

  /** Dims all microbatches but one; null, or the same one again, shows all. */
  follow(microbatch) {
    this.timeline.followed = microbatch === this.timeline.followed ? null : microbatch;
    if (microbatch === null) { this.timeline.selected.slice = -1; this.tooltip.hide(); }
    this.view.changed();
  }

  handleTimeline() {
    const { canvas } = this.timeline;
    const isDragging = makeDraggable(canvas, this.view, (event) => {
      const found = this.timeline.at(pointOf(event, canvas).x, pointOf(event, canvas).y);
      if (!found) return;
      this.selectLane(found.lane);
      if (found.slice >= 0 && !found.isSide) this.timeline.selected.slice = found.slice;
      if (found.inside) {
        const row = found.slice >= 0 ? found.track.row[found.slice] : -1;
        const microbatch = row >= 0 ? found.lane.trace.ops.microbatch[row] : -1;
        this.follow(microbatch >= 0 ? microbatch : null);
      }
    });
    canvas.addEventListener("wheel", (event) => handleWheel(event, canvas, this.view), { passive: false });
    canvas.addEventListener("pointermove", (event) => {
      const { x, y } = pointOf(event, canvas);
      const found = this.timeline.at(x, y);
      this.view.time = found?.inside ? found.time : null;
      this.view.changed();
      if (!found?.inside || isDragging()) { this.tooltip.hide(); return; }
      const description = found.slice >= 0 ? describeSlice(found.lane, found.track, found.slice)
        : found.isSide ? null : describeWaiting(found.lane, found.time);
      this.tooltip.show(description, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("blur", () => this.tooltip.hide());
    canvas.addEventListener("keydown", (event) => { if (handleKey(event, this)) event.preventDefault(); });
  }

  handleChart(chart) {
    const { canvas } = chart;
    canvas.style.touchAction = "pan-y";
    const isDragging = makeDraggable(canvas, this.view, () => {});
    canvas.addEventListener("wheel", (event) => handleWheel(event, canvas, this.view), { passive: false });
    canvas.addEventListener("pointermove", (event) => {
      const { x } = pointOf(event, canvas);
      const inside = x >= GUTTER && x <= GUTTER + plotWidth(chart.width);
      this.view.time = inside ? this.view.start + ((x - GUTTER) / plotWidth(chart.width)) * this.view.span : null;
      this.view.changed();
      if (!inside || isDragging() || this.view.time > chart.trace.end) { this.tooltip.hide(); return; }
      this.tooltip.show(describeMemory(chart, this.view.time), event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => this.leave());
  }

  leave() {
    this.view.time = null;
    this.tooltip.hide();
    this.view.changed();
  }

  handleButtons(element) {
    element("zoom-in").addEventListener("click", () => this.view.zoom(2, this.focusTime()));
    element("zoom-out").addEventListener("click", () => this.view.zoom(0.5, this.focusTime()));
    element("zoom-reset").addEventListener("click", () => this.view.reset());
    const arrange = element("arrange");
    arrange.hidden = this.traces.length < 2;
    arrange.addEventListener("click", () => {
      this.timeline.byStage = !this.timeline.byStage;
      arrange.setAttribute("aria-pressed", String(this.timeline.byStage));
      this.timeline.arrange();
      this.view.changed();
    });
    this.handleThemes(element("theme"));
  }

  handleThemes(button) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = (isDark) => {
      document.documentElement.dataset.theme = isDark ? "dark" : "light";
      button.textContent = isDark ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
      this.palette.read();
      this.palette.isDark = isDark;
      this.overview.forget();
      this.view.changed();
    };
    let chosen = null;
    const current = () => chosen ?? dark.matches;
    apply(current());
    dark.addEventListener("change", () => apply(current()));
    button.addEventListener("click", () => { chosen = !current(); apply(chosen); });
    // On paper the page is light and shows every lane.
    addEventListener("beforeprint", () => {
      apply(false);
      document.documentElement.classList.add("printing");
      this.draw();
    });
    addEventListener("afterprint", () => {
      document.documentElement.classList.remove("printing");
      apply(current());
    });
  }
}

/** For tests: what the page has read and shows. */
const report = new Report(JSON.parse(document.getElementById("data").textContent));
window.stagecraft = report;
requestAnimationFrame(() => { window.stagecraftReady = performance.now(); });
