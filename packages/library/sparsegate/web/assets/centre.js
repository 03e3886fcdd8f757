// A drawing as the digits of MNIST were made: fitted into 20 of 28 pixels, its centre of mass in the middle.
const FITTED = 20 / 28;

function centred(ink, side, [, height, width]) {
  let [left, top, right, bottom, mass, sumX, sumY] = [side, side, -1, -1, 0, 0, 0];
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const value = ink[y * side + x];
      if (!value) continue;
      [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
      mass += value;
      sumX += value * (x + 0.5);
      sumY += value * (y + 0.5);
    }
  }
  const pixels = new Uint8Array(height * width);
  if (!mass) return pixels;
  const scale = Math.max((right - left + 1) / (FITTED * width), (bottom - top + 1) / (FITTED * height)); // ink per pixel
  const [originX, originY] = [sumX / mass - (scale * width) / 2, sumY / mass - (scale * height) / 2];
  for (let place = 0; place < pixels.length; place++) {
    const [x, y] = [originX + (place % width) * scale, originY + Math.floor(place / width) * scale];
    pixels[place] = Math.round(meanInk(ink, side, x, y, scale));
  }
  return pixels;
}

// The mean over a square, with edges that cut through pixels counted in part.
function meanInk(ink, side, left, top, size) {
  let sum = 0;
  for (let y = Math.max(0, Math.floor(top)); y < Math.min(side, top + size); y++) {
    const high = Math.min(y + 1, top + size) - Math.max(y, top);
    for (let x = Math.max(0, Math.floor(left)); x < Math.min(side, left + size); x++) {
      sum += ink[y * side + x] * high * (Math.min(x + 1, left + size) - Math.max(x, left));
    }
  }
  return sum / (size * size);
}
