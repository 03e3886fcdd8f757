// Faces out of the outputs of a detector with one anchor in each cell of a grid: for every cell 16 numbers (a box and six
// points, in pixels of the input) and one score.
const LIKELY = 0.6; // the least probability of a face
const SAME = 0.3; // the overlap from which two boxes are one face

const sigmoid = (x) => 1 / (1 + Math.exp(-Math.max(-80, Math.min(80, x))));

function overlap(one, other) {
  const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  const shared = Math.max(0, across) * Math.max(0, down);
  const area = (box) => (box.right - box.left) * (box.bottom - box.top);
  return shared / (area(one) + area(other) - shared || 1);
}

// Boxes and points as fractions of the input's side, the likeliest first.
function faces(boxes, scores, side) {
  const grid = Math.round(Math.sqrt(scores.length));
  const found = [];
  scores.forEach((score, cell) => {
    const likely = sigmoid(score);
    if (likely < LIKELY) return;
    const numbers = boxes.subarray(16 * cell, 16 * cell + 16);
    const [x, y] = [((cell % grid) + 0.5) / grid, (Math.floor(cell / grid) + 0.5) / grid];
    const [middleX, middleY] = [x + numbers[0] / side, y + numbers[1] / side];
    const [width, height] = [numbers[2] / side, numbers[3] / side];
    const points = [4, 6, 8, 10, 12, 14].map((at) => [x + numbers[at] / side, y + numbers[at + 1] / side]);
    found.push({
      likely, points, left: middleX - width / 2, right: middleX + width / 2, top: middleY - height / 2, bottom: middleY + height / 2,
    });
  });
  found.sort((one, other) => other.likely - one.likely);
  return found.filter((one, index) => !found.slice(0, index).some((other) => overlap(one, other) > SAME));
}
