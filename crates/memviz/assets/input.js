// Pointer, wheel and keys on the picture.

function listen(view, actions) {
  const { over, stage } = view;
  const pointers = new Map();
  let drag = null;
  let pinch = null;

  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    view.stop();
    const at = place(event);
    pointers.set(event.pointerId, at);
    try {
      over.setPointerCapture(event.pointerId);
    } catch {
      // A pointer that is gone already can't be captured; its moves over the picture still count.
    }
    if (pointers.size === 2) {
      drag = null;
      view.band = null;
      const points = [...pointers.values()];
      pinch = { points, view: view.view, pane: view.zoneOf(points[0]).pane };
      return;
    }
    const zone = view.zoneOf(at);
    const isScrub = Boolean(view.isScrubbed?.(at));
    const isBand = !isScrub && (event.shiftKey || actions.isBoxMode()) && zone.axes === "both";
    drag = { from: at, view: view.view, zone, isBand, isScrub, moved: false };
    if (isScrub) actions.scrub(at);
    over.classList.toggle("dragging", !isBand && !isScrub);
  });

  over.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    if (pinch && pointers.size >= 2) {
      pinchTo([...pointers.values()]);
      return;
    }
    view.pointer = view.isInside(at) ? at : null;
    if (drag) {
      if (drag.isScrub) return actions.scrub(at);
      const { pane, axes } = drag.zone;
      const [low, high] = pane.keys;
      const [dx, dy] = [at.x - drag.from.x, at.y - drag.from.y];
      if (Math.hypot(dx, dy) > 4) drag.moved = true;
      if (drag.moved && drag.isBand) {
        view.band = { x0: drag.from.x, y0: drag.from.y, x1: at.x, y1: at.y };
        view.requestOver();
      } else if (drag.moved) {
        const { x0, x1, [low]: y0, [high]: y1 } = drag.view;
        const shiftX = axes === "y" ? 0 : (-dx / pane.w) * (x1 - x0);
        const shiftY = axes === "x" ? 0 : (dy / pane.h) * (y1 - y0);
        view.setView({ x0: x0 + shiftX, x1: x1 + shiftX, [low]: y0 + shiftY, [high]: y1 + shiftY });
      }
      if (drag.moved) return actions.hover(-1, at);
    }
    over.style.cursor = { x: "ew-resize", y: "ns-resize" }[view.zoneOf(at).axes] ?? "";
    actions.hover(event.pointerType === "touch" ? -1 : view.pick(at.x, at.y), at);
  });

  const release = (event) => {
    const at = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    over.classList.remove("dragging");
    if (pointers.size < 2) pinch = null;
    const done = drag;
    if (pointers.size === 0) drag = null;
    if (!done || !at) return;
    if (view.band) {
      const { x0, y0, x1, y1 } = view.band;
      view.band = null;
      if (event.type === "pointerup" && Math.abs(x1 - x0) > 4 && Math.abs(y1 - y0) > 4) {
        const { pane } = done.zone;
        const [low, high] = pane.keys;
        const a = view.at(Math.min(x0, x1), Math.max(y0, y1), pane);
        const b = view.at(Math.max(x0, x1), Math.min(y0, y1), pane);
        view.glide({ x0: a.x, x1: b.x, [low]: a.y, [high]: b.y });
        actions.endBoxMode();
      }
      view.requestOver();
    } else if (event.type === "pointerup" && !done.moved && !done.isScrub) {
      actions.pin(view.pick(at.x, at.y), true, at);
    }
  };
  over.addEventListener("pointerup", release);
  over.addEventListener("pointercancel", release);
  over.addEventListener("pointerleave", () => {
    if (drag) return;
    view.pointer = null;
    actions.hover(-1, null);
  });
  over.addEventListener("dblclick", (event) => {
    event.preventDefault();
    view.reset();
  });

  function pinchTo(points) {
    const [a, b] = pinch.points;
    const [c, d] = points;
    const { pane } = pinch;
    const [low, high] = pane.keys;
    const before = Math.max(20, Math.hypot(a.x - b.x, a.y - b.y));
    const factor = before / Math.max(20, Math.hypot(c.x - d.x, c.y - d.y));
    const { x0, x1, [low]: y0, [high]: y1 } = pinch.view;
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    const moved = { x: (c.x + d.x) / 2 - pane.x, y: (c.y + d.y) / 2 - pane.y };
    const x = x0 + ((middle.x - pane.x) / pane.w) * (x1 - x0);
    const y = y1 - ((middle.y - pane.y) / pane.h) * (y1 - y0);
    const [w, h] = [(x1 - x0) * factor, (y1 - y0) * factor];
    const left = x - (moved.x / pane.w) * w;
    const top = y + (moved.y / pane.h) * h;
    view.setView({ x0: left, x1: left + w, [low]: top - h, [high]: top });
  }

  over.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      view.stop();
      const at = place(event);
      const { pane, axes } = view.zoneOf(at);
      // Lines and pages come as small counts; a page of wheel is about one doubling.
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const delta = (event.deltaY || event.deltaX) * unit;
      const factor = 2 ** (Math.max(-400, Math.min(400, delta)) / 240);
      const onlyX = axes === "x" || event.shiftKey || (axes === "both" && pane.wheel === "x" && !event.altKey);
      const onlyY = axes === "y" || event.altKey;
      view.zoom(onlyY ? 1 : factor, onlyX ? 1 : factor, view.at(at.x, at.y, pane), false, pane);
      actions.hover(view.pick(at.x, at.y), at);
    },
    { passive: false },
  );

  const STEP = 0.12;
  const keys = {
    ArrowLeft: () => view.pan(-STEP, 0, true),
    ArrowRight: () => view.pan(STEP, 0, true),
    ArrowUp: () => view.pan(0, STEP, true),
    ArrowDown: () => view.pan(0, -STEP, true),
    "+": () => view.zoom(0.6, 0.6, null, true),
    "=": () => view.zoom(0.6, 0.6, null, true),
    "-": () => view.zoom(1 / 0.6, 1 / 0.6, null, true),
    0: () => view.reset(),
    Home: () => view.reset(),
    ".": () => actions.step(1),
    ",": () => actions.step(-1),
    f: () => view.pinned >= 0 && view.fit(view.pinned),
    n: () => actions.hit(1),
    N: () => actions.hit(-1),
    "/": () => actions.search(),
    b: () => actions.toggleBoxMode(),
    t: () => theme.toggle(),
    "?": () => actions.help(),
    Escape: () => actions.escape(),
    ...actions.keys,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || document.querySelector("dialog[open]")) return;
    const action = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!action) return;
    event.preventDefault();
    action();
  });
}
