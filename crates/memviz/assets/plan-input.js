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
  // Which axes a gesture at this place is about: on an axis only that one.
  const zone = ({ x, y }) => {
    const { plot, strip } = view.box;
    if (x < plot.x) return y >= plot.y ? "y" : "none";
    if (y > plot.y + plot.h || y < strip.y + strip.h) return "x";
    return "both";
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
      pinch = { points: [...pointers.values()], view: view.view };
      return;
    }
    const isBand = (event.shiftKey || actions.isBoxMode()) && zone(at) === "both";
    drag = { from: at, view: view.view, zone: zone(at), isBand, moved: false };
    over.classList.toggle("dragging", !isBand);
  });

  over.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    if (pinch && pointers.size >= 2) {
      pinchTo([...pointers.values()]);
      return;
    }
    const { plot } = view.box;
    const isInside = at.x >= plot.x && at.x <= plot.x + plot.w && at.y >= 0 && at.y <= plot.y + plot.h;
    view.pointer = isInside ? at : null;
    if (drag) {
      const [dx, dy] = [at.x - drag.from.x, at.y - drag.from.y];
      if (Math.hypot(dx, dy) > 4) drag.moved = true;
      if (drag.moved && drag.isBand) {
        view.band = { x0: drag.from.x, y0: drag.from.y, x1: at.x, y1: at.y };
        view.requestOver();
      } else if (drag.moved) {
        const { x0, x1, y0, y1 } = drag.view;
        const shiftX = drag.zone === "y" ? 0 : (-dx / plot.w) * (x1 - x0);
        const shiftY = drag.zone === "x" ? 0 : (dy / plot.h) * (y1 - y0);
        view.setView({ x0: x0 + shiftX, x1: x1 + shiftX, y0: y0 + shiftY, y1: y1 + shiftY });
      }
      if (drag.moved) return actions.hover(-1, at);
    }
    over.style.cursor = { x: "ew-resize", y: "ns-resize" }[zone(at)] ?? "";
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
        const [a, b] = [view.at(Math.min(x0, x1), Math.max(y0, y1)), view.at(Math.max(x0, x1), Math.min(y0, y1))];
        view.glide({ x0: a.x, x1: b.x, y0: a.y, y1: b.y });
        actions.endBoxMode();
      }
      view.requestOver();
    } else if (event.type === "pointerup" && !done.moved) {
      actions.pin(view.pick(at.x, at.y));
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
    const { plot } = view.box;
    const before = Math.max(20, Math.hypot(a.x - b.x, a.y - b.y));
    const factor = before / Math.max(20, Math.hypot(c.x - d.x, c.y - d.y));
    const { x0, x1, y0, y1 } = pinch.view;
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    const moved = { x: (c.x + d.x) / 2 - plot.x, y: (c.y + d.y) / 2 - plot.y };
    const x = x0 + ((middle.x - plot.x) / plot.w) * (x1 - x0);
    const y = y1 - ((middle.y - plot.y) / plot.h) * (y1 - y0);
    const [w, h] = [(x1 - x0) * factor, (y1 - y0) * factor];
    const left = x - (moved.x / plot.w) * w;
    const top = y + (moved.y / plot.h) * h;
    view.setView({ x0: left, x1: left + w, y0: top - h, y1: top });
  }

  over.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      view.stop();
      const at = place(event);
      const where = zone(at);
      // Lines and pages come as small counts; a page of wheel is about one doubling.
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const delta = (event.deltaY || event.deltaX) * unit;
      const factor = 2 ** (Math.max(-400, Math.min(400, delta)) / 240);
      const onlyX = where === "x" || event.shiftKey;
      const onlyY = where === "y" || event.altKey;
      view.zoom(onlyY ? 1 : factor, onlyX ? 1 : factor, view.at(at.x, at.y), false);
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
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target instanceof HTMLInputElement || document.querySelector("dialog[open]")) return;
    const action = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!action) return;
    event.preventDefault();
    action();
  });
}
