// Paints masks from packed bits, and the first filters from their weights.
const TALL = 16; // rows of a picture at the least, so that ten outputs are more than a line

function rgbOf(name) {
  const spot = document.createElement("canvas").getContext("2d");
  spot.fillStyle = colour(name);
  spot.fillRect(0, 0, 1, 1);
  return spot.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

function paintMask(canvas, { rows, columns, shade, coarse }) {
  const bytes = fromBase64(shade);
  const room = canvas.parentElement.clientWidth * (window.devicePixelRatio || 1);
  const factor = Math.max(1, Math.ceil(columns / Math.max(1, room))); // weights on a side of a dot, where room is scarce
  const [wide, high] = [Math.ceil(columns / factor), Math.ceil(rows / factor)];
  const sums = new Float64Array(wide * high);
  for (let place = 0; place < rows * columns; place++) {
    const dot = Math.floor(Math.floor(place / columns) / factor) * wide + Math.floor((place % columns) / factor);
    sums[dot] += coarse ? bytes[place] / 255 : bitOf(bytes, place);
  }
  const image = new ImageData(wide, high);
  const open = rgbOf("open");
  sums.forEach((sum, dot) => sum && image.data.set([...open, 255 * Math.sqrt(sum) / factor], 4 * dot));
  [canvas.width, canvas.height] = [wide, high];
  canvas.style.aspectRatio = `${columns} / ${Math.max(rows, (columns * TALL) / 500)}`;
  if (columns < 60) canvas.style.maxWidth = `${10 * columns}px`;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function paintFilter(canvas, values, most) {
  const image = new ImageData(canvas.width, canvas.height);
  const [above, below] = [rgbOf("glow"), rgbOf("values")];
  values.forEach((value, place) => {
    const alpha = value === 0 ? 0 : 60 + (195 * Math.abs(value)) / most;
    image.data.set([...(value > 0 ? above : below), alpha], 4 * place);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const [masks, filters] = [data("masks"), data("filters")];
onRepaint(() => masks?.forEach((mask, place) => paintMask(document.querySelector(`[data-mask="${place}"]`), mask)));
onRepaint(() => {
  const most = Math.max(...(filters ?? []).flat().map(Math.abs), 1e-9);
  filters?.forEach((values, place) => paintFilter(document.querySelector(`[data-filter="${place}"]`), values, most));
});
