// Pointer, wheel, keys and buttons.

function pointOf(event, element) {
  const box = element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/** Zooms around the pointer; a horizontal wheel, or Shift, pans. */
function handleWheel(event, element, view) {
  const { x } = pointOf(event, element);
  if (x < GUTTER || event.ctrlKey) return;
  event.preventDefault();
  const size = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const across = event.deltaX * size, along = event.deltaY * size;
  if (event.shiftKey || Math.abs(across) > Math.abs(along)) {
    view.pan((event.shiftKey && across === 0 ? along : across) / plotWidth(element.clientWidth));
  } else {
    const time = view.start + ((x - GUTTER) / plotWidth(element.clientWidth)) * view.span;
    view.zoom(Math.exp(-along * 0.0022), Math.max(0, Math.min(view.total, time)));
  }
}

/** Lets `element` be dragged to pan; `clicked` is called if the pointer did not move. */
function makeDraggable(element, view, clicked) {
  let drag = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || pointOf(event, element).x < GUTTER) { drag = { moved: false, fixed: true }; return; }
    drag = { x: event.clientX, start: view.start, end: view.end, moved: false };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!drag || drag.fixed) return;
    if (Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
    if (!drag.moved) return;
    element.classList.add("dragging");
    const by = ((drag.x - event.clientX) / plotWidth(element.clientWidth)) * (drag.end - drag.start);
    view.show(drag.start + by, drag.end + by);
  });
  const finish = (event) => {
    element.classList.remove("dragging");
    if (drag && !drag.moved && event.type === "pointerup") clicked(event);
    drag = null;
  };
  element.addEventListener("pointerup", finish);
  element.addEventListener("pointercancel", finish);
  return () => drag !== null && drag.moved;
}

/** Moves the window of the overview. */
function handleOverview(overview, view) {
  const { canvas } = overview;
  let isDown = false;
  const centre = (event) => {
    const time = overview.timeAt(pointOf(event, canvas).x);
    view.show(time - view.span / 2, time + view.span / 2);
  };
  canvas.addEventListener("pointerdown", (event) => {
    isDown = true;
    canvas.setPointerCapture(event.pointerId);
    if (view.span === view.total) view.zoom(8, overview.timeAt(pointOf(event, canvas).x));
    else centre(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (isDown) centre(event); });
  canvas.addEventListener("pointerup", () => { isDown = false; });
  canvas.addEventListener("wheel", (event) => {
    const { x } = pointOf(event, canvas);
    if (x < GUTTER || event.ctrlKey) return;
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY * 0.0022), Math.max(0, Math.min(view.total, overview.timeAt(x))));
  }, { passive: false });
}

/** Makes the buttons that show and hide a category. */
function makeLegend(parent, entries, view) {
  for (const { name, title, colour } of entries) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "key";
    button.setAttribute("aria-pressed", "true");
    const swatch = document.createElement("i");
    swatch.className = name === "waiting" ? "swatch hatched" : "swatch";
    if (name !== "waiting") swatch.style.background = `var(--${colour})`;
    button.append(swatch, title);
    button.addEventListener("click", () => {
      view.toggle(name);
      button.setAttribute("aria-pressed", String(!view.hidden.has(name)));
    });
    parent.append(button);
  }
}

/** Handles the keys of the timeline; returns true if the key was one of them. */
function handleKey(event, report) {
  const { view } = report;
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const far = event.shiftKey ? 0.5 : 0.1;
  switch (event.key) {
    case "ArrowLeft": view.pan(-far); return true;
    case "ArrowRight": view.pan(far); return true;
    case "ArrowUp": report.stepLane(-1); return true;
    case "ArrowDown": report.stepLane(1); return true;
    case "+": case "=": view.zoom(1.5, report.focusTime()); return true;
    case "-": case "_": view.zoom(1 / 1.5, report.focusTime()); return true;
    case "0": view.reset(); return true;
    case "Home": view.show(0, view.span); return true;
    case "End": view.show(view.total - view.span, view.total); return true;
    case ",": case "<": report.stepSlice(-1); return true;
    case ".": case ">": report.stepSlice(1); return true;
    case "Enter": report.follow(report.microbatchOfSelection()); return true;
    case "Escape": report.follow(null); return true;
    default: return false;
  }
}
