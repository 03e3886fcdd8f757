// A canvas that takes ink from mouse, finger, pen and keyboard, and says when it has changed.
const PEN = 22;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function makePad(canvas, changed) {
  const paper = canvas.getContext("2d", { willReadFrequently: true });
  const side = canvas.width;
  const cursor = { x: side / 2, y: side / 2, down: false };
  let last = null;

  const stroke = (x, y) => {
    paper.strokeStyle = colour("ink");
    paper.lineWidth = PEN;
    paper.lineCap = paper.lineJoin = "round";
    paper.beginPath();
    paper.moveTo(...(last ?? [x, y]));
    paper.lineTo(x, y);
    paper.stroke();
    last = [x, y];
    changed();
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * side) / box.width, ((event.clientY - box.top) * side) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    last = null;
    stroke(...place(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (last && event.buttons) (event.getCoalescedEvents?.() ?? [event]).forEach((each) => stroke(...place(each)));
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Delete" || event.key === "Backspace") clear();
    else if (event.key === " ") cursor.down = !cursor.down;
    else if (KEYS[event.key]) [cursor.x, cursor.y] = KEYS[event.key].map((by, axis) => bounded((axis ? cursor.y : cursor.x) + 10 * by));
    else return;
    event.preventDefault();
    if (cursor.down) stroke(cursor.x, cursor.y);
    else last = null;
  });
  const bounded = (value) => Math.min(side, Math.max(0, value));
  const clear = () => {
    paper.clearRect(0, 0, side, side);
    [last, cursor.down] = [null, false];
    changed();
  };
  return {
    clear,
    side,
    ink() {
      return paper.getImageData(0, 0, side, side).data.filter((_, place) => place % 4 === 3);
    },
    show(image) {
      paper.clearRect(0, 0, side, side);
      paper.imageSmoothingEnabled = false;
      paper.drawImage(image, 0, 0, side, side);
    },
  };
}
